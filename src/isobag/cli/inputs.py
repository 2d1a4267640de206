"""From what is typed to a table and a detector: files, a query over them, columns, a model file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from isobag.cli.options import names_of, number_or_auto
from isobag.data.local import Source
from isobag.data.spool import Tick
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import names_of_files
from isobag.tables.choose import ReadOptions
from isobag.tables.detect import encoding_of
from isobag.tables.encode import Encoding
from isobag.tables.learn import Table, learn_table
from isobag.tables.sources import FilesSource


@dataclass(frozen=True, kw_only=True)
class Input:
    """Where a command reads from, and how.

    files : names of files, globs, or "-" for standard input.
    sql : a query over them.
    header, format, delimiter, na : of text; see ``FilesSource``.
    """

    files: Sequence[str] | None
    sql: str | None = None
    header: bool | None = None
    format: str | None = None
    delimiter: str | None = None
    na: str | None = None
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
        reading: dict[str, Any] = {
            "header": self.header,
            "divider": divider,
            "na": names_of(self.na) or (),
            "form": None if self.format is None else f".{self.format.lstrip('.')}",
        }
        if self.sql is None:
            return FilesSource(paths, **reading)
        from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

        return QuerySource(self.sql, paths, self.options.notation, **reading)

    def following(self, model: Any) -> "Input":
        """The same in the notation of numbers that a model has learned."""
        if not hasattr(model, "table_"):
            return self
        learned = Encoding.of_model(model)
        options = replace(self.options, decimal=learned.decimal, thousands=learned.thousands, numbers=learned.numbers)
        return replace(self, options=options)

    def read(self, tick: Tick | None, *, model: Any = None, encoding: Encoding | None = None, **more: Any) -> Table:
        """The table, read in this process: of the columns chosen, or of those of a model or an encoding."""
        if model is not None:
            encoding = encoding_of(model, self.source.columns, [*self.options.apart])
        return learn_table(self.source, self.options, encoding=encoding, tick=tick, **more)


def new_detector(
    by: str | None, *, max_samples: str, contamination: str, group_max_samples: str = "auto", **params: Any
) -> Any:
    """A detector of groups if ``by`` is given, else of rows, with parameters as they are typed."""
    if by is not None:
        params["group_max_samples"] = number_or_auto(group_max_samples, "--group-max-samples", int)
    kind: type[Any] = IDKPointDetector if by is None else IDKGroupDetector
    return kind(
        max_samples=number_or_auto(max_samples, "--max-samples", int),
        contamination=number_or_auto(contamination, "--contamination", float),
        **params,
    )


def open_model(path: Path, by: str | None) -> Any:
    """A fitted detector from a file: of groups if ``by`` is given, else of points."""
    model = load(path)
    wanted, hint = (IDKPointDetector, "leave --by out") if by is not None else (IDKGroupDetector, "give --by COLUMN")
    if isinstance(model, wanted):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}; {hint}.")
    if not isinstance(model, IDKPointDetector | IDKGroupDetector):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}; need a detector of points or groups.")
    return model
