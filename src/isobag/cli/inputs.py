"""From what is typed to a table and a detector: files, a query over them, a model file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import typer

from isobag.cli.options import WRITTEN, Typed, number_or_auto, reading, split_names
from isobag.cli.progress import Silent
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import Source, names_of_files
from isobag.tables.detect import encoding_of
from isobag.tables.encode import Encoding
from isobag.tables.learn import Table, learn_table
from isobag.tables.openers import STDIN
from isobag.tables.reading import ReadOptions
from isobag.tables.sources import FilesSource, matching_files

FEW_ROWS = 20_000
"""Below, starting threads takes longer than they save."""


@dataclass(frozen=True)
class Input:
    """Where a command reads from, and how.

    files : names of files, globs, or "-" for standard input.
    sql : a query over them.
    written : how files are written, as typed: options of WRITTEN and --format that are given.
    """

    files: Sequence[str]
    sql: str | None
    written: dict[str, Any]
    options: ReadOptions

    @property
    def name(self) -> str:
        """The input in few words."""
        return names_of_files(self.files) or str(self.sql)

    @property
    def matching_files(self) -> list[str]:
        """Names of the files that will be read."""
        return [file for name in self.files for file in matching_files(name) if file != STDIN]

    @cached_property
    def source(self) -> Source:
        """The files or the query, opened for reading in this process."""
        if not self.files and self.sql is None:
            raise typer.BadParameter("Neither a file nor a query is given; name a FILE or give --sql.")
        how = {**self.written, "na": split_names(self.written.get("na")) or (), "decimal": self.options.decimal}
        if "format" in how:
            how["format"] = f".{how['format'].lstrip('.').lower()}"
        if "delimiter" in how:
            sign = how["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(how["delimiter"], how["delimiter"])
            if len(sign) != 1 or sign in '"\r\n':
                raise typer.BadParameter(f"--delimiter {sign}: need one character that divides cells, or tab.")
        if self.sql is None:
            return FilesSource(self.files, **how)
        from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

        return QuerySource(self.sql, self.files, self.options.notation, **how)

    def following(self, model: Any) -> "Input":
        """The same in the notation of numbers that a model has learned."""
        if not hasattr(model, "table_"):
            return self
        return replace(self, options=self.options.following(Encoding.of_model(model)))

    def read(self, bar: Silent, *, model: Any = None, encoding: Encoding | None = None, **more: Any) -> Table:
        """The table: of the columns chosen, or of those of a model or an encoding."""
        if model is not None:
            encoding = encoding_of(model, self.source.columns, [*self.options.apart])
        self.source.tick = bar.tick
        return learn_table(self.source, self.options, encoding=encoding, **more)


def input_of(typed: Typed, files: Sequence[str] | None = None, sql: str | None = None) -> Input:
    """The input that the options of a command describe; ``files``, ``sql``: what stands in the place of theirs."""
    own = vars(typed)
    written = {name: own[name] for name in (*WRITTEN.split(), "format") if own.get(name) is not None}
    return Input(files or own.get("files") or [], sql or own.get("sql"), written, reading(typed))


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


def threads_for(jobs: int | None, n_rows: int) -> int:
    """The number of threads asked for, or what suits the number of rows."""
    return jobs if jobs is not None else 1 if n_rows < FEW_ROWS else -1
