"""A table, read: the features of its rows, and which rows could not be read."""

import warnings
from collections.abc import Iterable
from numbers import Number
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.rows import ArrayRows, Rows
from isobag.tables.encoding import Encoding, check_missing_option, choose_columns, kept_rows


class Table(NamedTuple):
    """Features of the rows that take part, and where these stand in the table.

    rows : the features, in memory or not.
    encoding : how columns became features.
    n_rows : number of rows of the table.
    kept : (n,), which rows take part; None if all do.
    gaps : (n,), number of missing values of each row; None if gaps are refused.
    left_out : names of the columns that are no features.
    """

    rows: Rows
    encoding: Encoding
    n_rows: int
    kept: Bools | None
    gaps: Ints | None
    left_out: list[str]

    def spread(self, values: Floats) -> Floats:
        """Values of the rows that take part, NaN for the others: (m,) -> (n,)."""
        if self.kept is None:
            return values
        found = np.full(self.n_rows, np.nan)
        found[self.kept] = values
        return found

    def positions(self, rows: Ints) -> Ints:
        """Where rows of the table stand among those that take part, which they do: (k,) -> (k,)."""
        return rows if self.kept is None else np.cumsum(self.kept)[rows] - 1


def read_frame(
    frame: nw.DataFrame[Any], features: Iterable[Any] | str | None, missing: str, apart: Any = None
) -> Table:
    """The table of a frame in memory."""
    check_missing_option(missing)
    reader, left_out = choose_columns(dict(frame.schema), features, apart)
    if features is None:
        _warn_of_numbers_left_out(frame, left_out)
    entries = reader.read(frame)
    reader.check_missing(missing)
    fills = None
    if missing == "median":
        fills = np.array([reader.fill_of(j, column) for j, column in enumerate(entries.T)])
    encoding = reader.encoding(fills)
    kept = kept_rows(entries, missing)
    gaps = None if missing == "error" else np.isnan(entries).sum(axis=1)
    rows = ArrayRows(encoding.apply(entries[kept] if missing == "drop" else entries))
    return Table(rows, encoding, len(frame), kept if missing == "drop" else None, gaps, left_out)


def _warn_of_numbers_left_out(frame: nw.DataFrame[Any], left_out: list[str]) -> None:
    """Text and dates are left out as a rule; but a column of Python objects or of a foreign type may hold numbers."""
    found = [name for name in frame.columns if str(name) in left_out and _may_hold_numbers(frame.get_column(name))]
    if found:
        names = ", ".join(map(repr, found))
        message = f"Left out, as their type is not one of numbers: {names}; if they hold numbers, convert them first."
        warnings.warn(message, stacklevel=4)  # the caller of detect_points or detect_groups


def _may_hold_numbers(column: nw.Series[Any]) -> bool:
    if not isinstance(column.dtype, nw.Object):
        return isinstance(column.dtype, nw.Unknown)
    return any(isinstance(value, Number) and not isinstance(value, bool) for value in column.to_list())
