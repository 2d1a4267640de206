"""Whether a partition holds the same rows in the same order as in an earlier pass."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa


class Fingerprint:
    """Number of rows and a checksum of their values in order, whatever the batches they come in.

    Columns of numbers, texts, bytes, times, and true and false count; nested ones do not.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._sums: dict[tuple[int, str], int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the rows that follow."""
        for j, column in enumerate(batch.columns):
            for what, part in _parts(column, self.n_rows):
                self._sums[j, what] = zlib.crc32(part, self._sums.get((j, what), 0))
        self.n_rows += batch.num_rows

    @property
    def checksum(self) -> int:
        """One number for all columns."""
        return zlib.crc32(repr(sorted(self._sums.items())).encode())


def _parts(column: Any, first_row: int) -> Iterator[tuple[str, Any]]:
    """The values of a column as bytes, and where none is; what lies in memory there does not count."""
    if column.null_count:
        yield "nulls", np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) + first_row
        column = column.drop_null()
    kind = column.type
    if pa.types.is_boolean(kind):
        yield "values", column.to_numpy(zero_copy_only=False)
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        yield "values", memoryview(column.buffers()[1])[column.offset * width : (column.offset + len(column)) * width]
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        yield from _texts(column, np.dtype(np.int64))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from _texts(column, np.dtype(np.int32))


def _texts(column: Any, offset: np.dtype[Any]) -> Iterator[tuple[str, Any]]:
    if len(column):
        _, offsets, values = column.buffers()
        ends = np.frombuffer(offsets, offset, len(column) + 1, column.offset * offset.itemsize)
        yield "lengths", np.diff(ends.astype(np.int64))
        if ends[-1] > ends[0]:
            yield "values", memoryview(values)[ends[0] : ends[-1]]
