"""The numbers of a table, row after row: in memory, or in a temporary file that is read as if it were memory.

Rows are made of them a block at a time when they are asked for; what is learned from rows does not depend on how they
are cut into blocks, so the results are those of a table in memory, bit for bit.
"""

import errno
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import IO

import numpy as np

from isobag.backends.arrays import Cells, Floats, Ints
from isobag.backends.threads import slices
from isobag.data.rows import ArrayRows, GroupedBlock, MappedRows

KEPT_BYTES = 1 << 26
BLOCK_BYTES = 1 << 22
Tick = Callable[[str, int, int | None], None]
"""Progress: the name of a pass, rows done, and rows in all if known."""


class Spool:
    """The numbers of a table (n, c), written row after row, then read: in memory, or in a temporary file if many."""

    def __init__(self, n_columns: int, kept_bytes: int | None = None) -> None:
        self._n_columns, self._kept_bytes = n_columns, KEPT_BYTES if kept_bytes is None else kept_bytes
        self._parts: list[Floats] = []
        self._file: IO[bytes] | None = None
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def is_in_memory(self) -> bool:
        """Whether no file was needed."""
        return self._file is None

    def append(self, numbers: Floats) -> None:
        """Add rows at the end: (m, c)."""
        self._n_rows += len(numbers)
        self._parts.append(numbers)
        if self._file is None and self._n_rows * self._n_columns * 8 > self._kept_bytes:
            self._file = tempfile.TemporaryFile(prefix="isobag-")  # noqa: SIM115, open while in use
            weakref.finalize(self, self._file.close)
        if self._file is not None:
            try:
                for part in self._parts:
                    self._file.write(np.ascontiguousarray(part).data)
                self._file.flush()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                message = "the disk is full; set TMPDIR to a folder with room for the numbers of the table"
                raise OSError(error.errno, message, tempfile.gettempdir()) from None
            self._parts = []

    @property
    def numbers(self) -> Floats:
        """All rows: (n, c)."""
        if self._file is not None:
            return np.asarray(np.memmap(self._file, np.float64, "c", shape=(self._n_rows, self._n_columns)))
        if len(self._parts) != 1:
            self._parts = [np.concatenate(self._parts) if self._parts else np.empty((0, self._n_columns))]
        return self._parts[0]

    def in_order(self, order: Cells | Ints) -> "Spool":
        """All rows in another order, by way of files with those that come to lie near one another: (n,)."""
        width, places = 8 * self._n_columns, np.empty(len(self), dtype=np.int32)
        places[order] = np.arange(len(self), dtype=np.int32)
        n_near = max(1, KEPT_BYTES // (4 * width))
        near = [Spool(self._n_columns + 1, kept_bytes=0) for _ in slices(len(self), n_near)]
        for rows in slices(len(self), max(1, BLOCK_BYTES // width)):
            numbers, files = np.column_stack([self.numbers[rows], places[rows]]), places[rows] // n_near
            for k in np.unique(files):
                near[k].append(numbers[files == k])
        ordered = Spool(self._n_columns, kept_bytes=0)
        while near:
            numbers = near.pop(0).numbers
            ordered.append(numbers[np.argsort(numbers[:, -1]), :-1])
        return ordered


class SpooledRows(MappedRows):
    """Rows made of the numbers of a spool, a block of about BLOCK_BYTES at a time."""

    def __init__(
        self, spool: Spool, names: Sequence[str], make: Callable[[Floats], Floats], block_rows: int | None = None
    ) -> None:
        size = max(1, BLOCK_BYTES // (8 * len(names))) if block_rows is None else block_rows
        super().__init__(ArrayRows(spool.numbers, block_rows=size), make)
        self.n_features, self.names = len(names), list(names)
        self._spool, self._by_group = spool, (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), spool)

    def grouped_blocks(self, ids: Ints, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group, in a file of their own: of a larger one, rows far apart would take a read each."""
        if self._spool.is_in_memory or (ids[1:] >= ids[:-1]).all():
            return super().grouped_blocks(ids, stops)
        if self._by_group[0] is not ids:
            order = np.argsort(ids, kind="stable").astype(np.int32)
            self._by_group = ids, ids[order], self._spool.in_order(order)
        _, rising, spool = self._by_group
        return SpooledRows(spool, self.names or (), self._function, self.block_rows).grouped_blocks(rising, stops)
