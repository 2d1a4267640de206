"""From what is typed to a table and a detector: files, a query over them, columns, a model file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import typer

from isobag.cli.options import Typed, names_of, number_or_auto, reading
from isobag.data.local import Source
from isobag.data.spool import Tick
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import names_of_files
from isobag.tables.detect import encoding_of
from isobag.tables.encode import Encoding
from isobag.tables.learn import Table, learn_table
from isobag.tables.reading import ReadOptions
from isobag.tables.sources import FilesSource


@dataclass(frozen=True, kw_only=True)
class Input:
    """Where a command reads from, and how.

    files : names of files, globs, or "-" for standard input.
    sql : a query over them.
    header, format, delimiter, na, skip, encoding, sheet : how files are written; see ``Written``.
    """

    files: Sequence[str] | None
    sql: str | None
    header: bool | None
    format: str | None
    delimiter: str | None
    na: str | None
    skip: int | None
    encoding: str | None
    sheet: str | None
    options: ReadOptions

    @property
    def name(self) -> str:
        """The input in few words."""
        return names_of_files(list(self.files)) if self.files else str(self.sql)

    @cached_property
    def source(self) -> Source:
        """The files or the query, opened for reading in this process."""
        paths = list(self.files or [])
        if not paths and self.sql is None:
            raise typer.BadParameter("Neither a file nor a query is given; name a FILE or give --sql.")
        divider = {"tab": "\t", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
        if divider is not None and (len(divider) != 1 or divider in '"\r\n'):
            raise typer.BadParameter(f"--delimiter {self.delimiter}: need one character that divides cells, or tab.")
        written: dict[str, Any] = {
            "header": self.header,
            "divider": divider,
            "na": names_of(self.na) or (),
            "form": None if self.format is None else f".{self.format.lstrip('.').lower()}",
            "skip": self.skip or 0,
            "encoding": self.encoding,
            "sheet": self.sheet,
            "decimal": self.options.decimal,
        }
        if self.sql is None:
            return FilesSource(paths, **written)
        from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

        return QuerySource(self.sql, paths, self.options.notation, **written)

    def following(self, model: Any) -> "Input":
        """The same in the notation of numbers that a model has learned."""
        if not hasattr(model, "table_"):
            return self
        return replace(self, options=self.options.following(Encoding.of_model(model)))

    def read(self, tick: Tick | None, *, model: Any = None, encoding: Encoding | None = None, **more: Any) -> Table:
        """The table, read in this process: of the columns chosen, or of those of a model or an encoding."""
        if model is not None:
            encoding = encoding_of(model, self.source.columns, [*self.options.apart])
        return learn_table(self.source, self.options, encoding=encoding, tick=tick, **more)


def input_of(typed: Typed, **own: Any) -> Input:
    """The input that the options of a command describe; ``own``: what stands in their place."""
    names = ("files", "sql", "header", "format", "delimiter", "na", "skip", "encoding", "sheet")
    return Input(**{**{name: vars(typed).get(name) for name in names}, **own}, options=reading(typed))


def new_detector(typed: Typed, **params: Any) -> Any:
    """A detector of groups if --by is given, else of rows, with parameters as they are typed."""
    by = vars(typed).get("by")
    kinds: dict[str, Any] = {"max_samples": int, "contamination": float}
    if by is not None:
        kinds["group_max_samples"] = int
    for name, kind in kinds.items():
        params[name] = number_or_auto(vars(typed)[name], f"--{name.replace('_', '-')}", kind)
    detector: type[Any] = IDKPointDetector if by is None else IDKGroupDetector
    return detector(n_estimators=typed.n_estimators, random_state=typed.seed, **params)


def open_model(typed: Typed) -> Any:
    """A fitted detector from a file: of groups if --by is given, else of points."""
    model, path = load(typed.model), str(typed.model)
    is_group = typed.by is not None
    wanted, hint = (IDKPointDetector, "leave --by out") if is_group else (IDKGroupDetector, "give --by COLUMN")
    if isinstance(model, wanted):
        raise ValueError(f"{path!r} holds a {type(model).__name__}; {hint}.")
    if not isinstance(model, IDKPointDetector | IDKGroupDetector):
        raise ValueError(f"{path!r} holds a {type(model).__name__}; need a detector of points or groups.")
    return model
