"""Workbooks of Excel (.xlsx), read by openpyxl: one sheet, with the values that its cells show or last had.

Cells are text, to be understood one by one as in CSV: numbers with all their digits, dates as ISO 8601 writes them.
Rows without a value are no rows and are counted, but in a sheet of one column one that a row follows is a row without a
value.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa

from isobag.tables.batch import Batch
from isobag.tables.tablefile import FileFormat, TableFile, name_columns

Cells = Sequence[Any]


class ExcelFile(TableFile):
    """One sheet of a workbook, which is read whole."""

    names: tuple[str, ...]

    def __init__(self, opened: Callable[[], Any], file: str, how: FileFormat) -> None:
        super().__init__(opened, file, how)
        skip = how.skip
        name, rows, self.notes = self._read(how.sheet)
        lines = [i for i, row in enumerate(rows) if i >= skip and any(cell is not None for cell in row)]
        if not lines:
            if skip and rows:
                raise ValueError(f"skip={skip}: nothing follows in sheet {name!r} of {file}.")
            raise ValueError(f"Sheet {name!r} of {file} is empty; need a first row with the names of the columns.")
        n_columns = max(j + 1 for i in lines for j, cell in enumerate(rows[i]) if cell is not None)
        first = [_text(cell, ".") or "" for cell in _padded(rows[lines[0]], n_columns)]
        self.names, is_data, notes = name_columns(first, how.header, file)
        self.notes += tuple(notes)
        data_lines = lines if is_data else lines[1:]
        if n_columns == 1 and data_lines:
            data_lines = list(range(data_lines[0], data_lines[-1] + 1))
        self.n_rows = len(data_lines)
        self.n_empty_lines = data_lines[-1] + 1 - data_lines[0] - len(data_lines) if data_lines else 0
        self._lines = np.array(data_lines, dtype=np.int64) + 1
        padded = [_padded(rows[i], n_columns) for i in data_lines]
        columns = zip(*padded, strict=True) if padded else [()] * n_columns
        texts = ([_text(cell, how.decimal) for cell in cells] for cells in columns)
        self._columns = {one: pa.array(cells, pa.string()) for one, cells in zip(self.names, texts, strict=True)}
        self._note_formulas(name, data_lines)

    def batches(self) -> Iterator[Batch]:
        """All rows at once."""
        if self.n_rows:
            yield Batch(self._file, 0, self._lines, self._columns, self.n_rows)

    def _read(self, sheet: str | None) -> tuple[str, list[Cells], tuple[str, ...]]:
        """Name and rows of the sheet, and notes on it."""
        with self._opened() as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it does not keep, such as rules for entering data
            book = self._open(stream, values=True)
            names = [one.title for one in book.worksheets]
            listed = ", ".join(map(repr, names))
            if sheet is not None and sheet not in names:
                raise ValueError(f"sheet={sheet!r}; {self._file} has no such sheet (sheets: {listed}).")
            if not names:
                raise ValueError(f"{self._file} has no sheet with cells.")
            name = names[0] if sheet is None else sheet
            rows = _rows_of(book[name])
        is_guessed = sheet is None and len(names) > 1
        return name, rows, ((f"Sheet {name!r} of {self._file} is read, of {listed}.",) if is_guessed else ())

    def _open(self, stream: Any, values: bool) -> Any:
        """The workbook: ``values`` of formulas, as they were last computed, or the formulas themselves."""
        from openpyxl import load_workbook  # noqa: PLC0415, not always installed

        try:
            return load_workbook(stream, read_only=True, data_only=values)
        except (BadZipFile, KeyError, ValueError, OSError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ValueError(f"{self._file} cannot be read as a workbook: {reason}.") from None

    def _note_formulas(self, sheet: str, data_lines: Sequence[int]) -> None:
        """Note formulas that were never computed, whose cells look empty."""
        lacking = [name for name, column in self._columns.items() if column.null_count]
        if not lacking:
            return
        with self._opened() as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            formulas = _rows_of(self._open(stream, values=False)[sheet])
        for name in lacking:
            j, gaps = self.names.index(name), self._columns[name].is_null().to_pylist()
            written = [i for i, is_gap in zip(data_lines, gaps, strict=True) if is_gap and len(formulas[i]) > j]
            n = sum(formulas[i][j] is not None for i in written)
            if n:
                self.notes += (
                    f"{n:,} formulas in column {name!r} of {self._file} have no value and count as missing; open and "
                    "save the workbook in a program that computes them.",
                )


def _rows_of(sheet: Any) -> list[Cells]:
    """Values of the cells, row by row, without trailing rows that have none; empty text is none."""
    sheet.reset_dimensions()  # which some programs write wrong
    rows: list[Cells] = [[None if cell == "" else cell for cell in row] for row in sheet.iter_rows(values_only=True)]
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    return rows


def _padded(row: Cells, n: int) -> Cells:
    return [*row[:n], *[None] * (n - len(row))]


def _text(cell: Any, decimal: str) -> str | None:
    """The text of a cell; a moment at midnight is a date."""
    if cell is None:
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int | float):
        return repr(cell).replace(".", decimal)
    if isinstance(cell, datetime):
        is_date = not (cell.hour or cell.minute or cell.second or cell.microsecond)
        return (cell.date() if is_date else cell).isoformat()
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
