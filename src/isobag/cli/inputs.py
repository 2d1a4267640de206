"""From files, or a query over them, to a table; from a model file to a detector."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from isobag.backends.arrays import Ints
from isobag.cli.options import names_of
from isobag.data.spool import Tick
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import names_of_files
from isobag.tables.encode import Encoding, encoding_by_names
from isobag.tables.read import ReadTable, TableSource, read_table
from isobag.tables.sources import FilesSource
from isobag.tables.summary import on_command_line


class Source:
    """Where a command reads from: files, a query, and how text is to be understood."""

    def __init__(
        self,
        files: Sequence[str] | None,
        sql: str | None = None,
        header: bool | None = None,
        form: str | None = None,
    ) -> None:
        paths = list(files or [])
        if not paths and sql is None:
            raise typer.BadParameter("Neither a file nor a query is given; name a FILE or give --sql.")
        self.name = names_of_files(paths) if paths else str(sql)
        reading: dict[str, Any] = {"header": header, "form": None if form is None else f".{form.lstrip('.')}"}
        self.table: TableSource
        if sql is None:
            self.table = FilesSource(paths, **reading)
        else:
            from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

            self.table = QuerySource(sql, paths, **reading)

    def read(self, tick: Tick | None = None, **wishes: Any) -> ReadTable:
        """The table, with the options of ``read_table``; errors spell them as they are typed."""
        return read_table(self.table, spelling=on_command_line, tick=tick, **wishes)


def open_model(path: Path, by: str | None) -> Any:
    """A fitted detector from a file: of groups if ``by`` is given, else of points."""
    model = load(path)
    wanted, hint = (IDKPointDetector, "leave --by out") if by is not None else (IDKGroupDetector, "give --by COLUMN")
    if isinstance(model, wanted):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}; {hint}.")
    if not isinstance(model, IDKPointDetector | IDKGroupDetector):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}; need a detector of points or groups.")
    return model


def encoding_of(model: Any, source: Source, apart: Sequence[str]) -> Encoding:
    """How the tables of a model become its features: as it was learned, or by the names of its features."""
    if hasattr(model, "table_"):
        return Encoding.of_model(model)
    return encoding_by_names(getattr(model, "feature_names_in_", None), model.n_features_in_, source.table.names, apart)


def find_label(labels: dict[str, Any], label: str) -> Ints:
    """Numbers of the rows with a label, ascending; a label of several columns is divided by commas."""
    columns = [[str(one) for one in column.to_pylist()] for column in labels.values()]
    wanted = names_of(label) if len(columns) > 1 else [label]
    rows = np.flatnonzero([list(row) == wanted for row in zip(*columns, strict=True)])
    if not len(rows):
        raise ValueError(f"--id {label!r} is not among the {len(columns[0]):,} labels of the table.")
    return rows


def row_number(text: str) -> int:
    """The number of a row, from 0."""
    if not text.isdecimal():
        raise ValueError(f"--id {text!r} is no row; need a number from 0.")
    return int(text)
