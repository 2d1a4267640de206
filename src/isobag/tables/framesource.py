"""Frames of pandas, polars and Arrow as a source of rows, with the types that they declare."""

from collections.abc import Iterator
from math import isnan
from typing import Any

import narwhals as nw
import pyarrow as pa

from isobag.tables.batch import Batch, Source

BATCH_ROWS = 1 << 16
"""Rows of a batch: the different texts of a batch are looked up once."""


class FrameSource(Source):
    """The rows of a frame in memory. Columns of Python objects count as text, to be parsed cell by cell.

    file, first_row : if the frame is a part of something, its name, and the number of the frame's first row there.
    """

    def __init__(self, frame: nw.DataFrame[Any], file: str = "", first_row: int = 0) -> None:
        self.files, self.is_part = (file,) if file else (), bool(file)
        self.columns = tuple(map(str, frame.columns))
        kinds = frame.schema.items()
        self._free = frozenset(str(name) for name, kind in kinds if isinstance(kind, nw.Object | nw.Unknown))
        self._arrays = {str(name): _as_arrow(frame.get_column(name), str(name) in self._free) for name in frame.columns}
        self._n_rows, self._file, self.first_row = len(frame), file, first_row

    def frames(self) -> Iterator[Batch]:
        """The rows in order."""
        for start in range(0, self._n_rows, BATCH_ROWS):
            columns = {name: _one_piece(column.slice(start, BATCH_ROWS)) for name, column in self._arrays.items()}
            n_rows, row = min(BATCH_ROWS, self._n_rows - start), self.first_row + start
            yield Batch(self._file, row, None, columns, n_rows, is_typed=True, free=self._free)


def _as_arrow(column: nw.Series[Any], is_free: bool) -> Any:
    if not is_free:
        return column.to_arrow()
    return pa.array([None if _is_gap(value) else _text(value) for value in column.to_list()], pa.string())


def _one_piece(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_gap(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value))


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
