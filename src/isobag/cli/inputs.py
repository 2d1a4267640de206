"""From what is typed to a table and a detector: files, a query over them, a model file."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import typer

from isobag.cli.options import WRITTEN, Typed, carried, number_or_auto, reading, split_names
from isobag.cli.progress import Bar
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import Source, names_of_files
from isobag.tables.detect import encoding_of
from isobag.tables.encode import Encoding
from isobag.tables.learn import Table, learn_table
from isobag.tables.model import Model
from isobag.tables.openers import STDIN
from isobag.tables.reading import ReadOptions
from isobag.tables.sources import FilesSource, matching_files

FEW_ROWS = 20_000
"""Below, starting threads takes longer than they save."""


@dataclass(frozen=True)
class Input:
    """Where a command reads from, and how.

    typed : names of files, globs, or "-" for standard input, a query over them, and how files are written.
    """

    typed: Typed
    options: ReadOptions

    @property
    def files(self) -> list[str]:
        """What is read, as typed."""
        return self.typed.files or []

    @property
    def name(self) -> str:
        """The input in few words."""
        return names_of_files(self.files) or str(self.typed.sql)

    @property
    def matching_files(self) -> list[str]:
        """Names of the files that will be read."""
        return [file for name in self.files for file in matching_files(name) if file != STDIN]

    @cached_property
    def source(self) -> Source:
        """The files or the query, opened for reading in this process."""
        if not self.files and self.typed.sql is None:
            raise typer.BadParameter("Neither a file nor a query is given; name a FILE or give --sql.")
        how = {name: getattr(self.typed, name) for name in WRITTEN if getattr(self.typed, name) is not None}
        how |= {"na": split_names(self.typed.na) or (), "decimal": self.options.decimal}
        if "format" in how:
            how["format"] = f".{how['format'].lstrip('.').lower()}"
        if "delimiter" in how:
            sign = how["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(how["delimiter"], how["delimiter"])
            if len(sign) != 1 or sign in '"\r\n':
                raise typer.BadParameter(f"--delimiter {sign}: need one character that divides cells, or tab.")
        if self.typed.sql is None:
            return FilesSource(self.files, **how)
        from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

        return QuerySource(self.typed.sql, self.files, self.options.notation, **how)

    def read(self, bar: Bar, *, model: Any = None, encoding: Encoding | None = None, **more: Any) -> Table:
        """The table: of the columns chosen, or of those of a model or an encoding."""
        if model is not None:
            encoding = encoding_of(model, self.source.columns, [*self.options.apart])
        self.source.tick = bar.tick
        return learn_table(self.source, self.options, encoding=encoding, **more)


def input_of(
    typed: Typed, files: Sequence[str] | None = None, sql: str | None = None, model: Model | None = None
) -> Input:
    """The input that the options of a command describe.

    files, sql : what stands in the place of theirs.
    model : says how the table is read where the options do not.
    """
    typed = Typed(**{**vars(typed), "files": files or typed.files, "sql": sql or typed.sql})
    if model is None:
        return Input(typed, reading(typed))
    how = {"missing": typed.missing, "bad_cells": typed.bad_cells, "id": typed.id_column, **carried(typed)}
    options = model.read_options(by=split_names(typed.by), **how)
    if hasattr(model.detector, "table_"):
        options = options.following(Encoding.of_model(model.detector))
    return Input(typed, options)


def new_detector(typed: Typed) -> Any:
    """A detector of groups if --by is given, else of rows, with parameters as they are typed."""
    kind: type[Any] = IDKPointDetector if typed.by is None else IDKGroupDetector
    return kind(
        typed.n_estimators,
        number_or_auto(typed.max_samples, "--max-samples", int),
        contamination=number_or_auto(typed.contamination, "--contamination", float),
        random_state=typed.seed,
    )


def open_model(typed: Typed) -> Model:
    """A model from a file, or a detector that was saved by itself."""
    content = load(typed.model)
    if isinstance(content, IDKPointDetector | IDKGroupDetector):
        content = Model(content)
    if not isinstance(content, Model):
        raise ValueError(f"{str(typed.model)!r} holds a {type(content).__name__}; need a file of `isobag fit`.")
    return content


def threads_for(jobs: int | None, n_rows: int) -> int:
    """The number of threads asked for, or what suits the number of rows."""
    return jobs if jobs is not None else 1 if n_rows < FEW_ROWS else -1
