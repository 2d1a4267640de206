"""Tables larger than memory: their numbers are written once, row after row, and read as often as needed.

Up to KEPT_BYTES of them stay in memory; beyond, they go to a temporary file without a name, which vanishes with the
process however it ends. Rows that are learned from and make one block stay up to twice of it: they are counted and
scored in one search, and others in two. What is learned from rows does not depend on how they are cut into blocks, so
the results are those of a table in memory, bit for bit.
"""

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import IO

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.data.order import is_rising, stable_order
from isobag.data.rows import BLOCK_ROWS, GroupedBlock, Rows

KEPT_BYTES = 1 << 26
BLOCK_BYTES = 1 << 22
Tick = Callable[[str, int, int | None], None]
"""Progress: the name of a pass, rows done, and rows in all if known."""


class Spool:
    """The numbers of a table (n, c), written row after row, then read: in memory, or in a temporary file if many."""

    def __init__(self, n_columns: int, kept_bytes: int | None = None, is_learned: bool = False) -> None:
        self._n_columns = n_columns
        self._is_learned = is_learned
        self._kept_bytes = KEPT_BYTES if kept_bytes is None else kept_bytes
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
        if self._file is None:
            self._parts.append(numbers)
            if self._n_rows * self._n_columns * 8 <= self._most_bytes:
                return
            self._file = tempfile.TemporaryFile(prefix="isobag-", buffering=0)  # noqa: SIM115, open while in use
            weakref.finalize(self, self._file.close)
            parts, self._parts = self._parts, []
        else:
            parts = [numbers]
        for part in parts:
            _write_all(self._file, np.ascontiguousarray(part))

    @property
    def _most_bytes(self) -> int:
        """Up to which rows stay in memory."""
        return self._kept_bytes << int(self._is_learned and self._n_rows <= BLOCK_ROWS)

    def read(self, start: int, n_rows: int) -> Floats:
        """Consecutive rows: (m, c)."""
        if self._file is None:
            return self._whole()[start : start + n_rows]
        n_rows = min(n_rows, self._n_rows - start)
        numbers = np.empty((n_rows, self._n_columns))
        self._file.seek(start * self._n_columns * 8)
        view = _bytes_of(numbers)
        while len(view):
            n_bytes = self._file.readinto(view)  # type: ignore[attr-defined]  # of a file without buffer
            if not n_bytes:
                raise OSError(errno.EIO, "the temporary file of the rows ends too early", tempfile.gettempdir())
            view = view[n_bytes:]
        return numbers

    def take(self, rows: Ints) -> Floats:
        """Some rows: (k,) -> (k, c)."""
        if self._file is None:
            return self._whole()[rows]
        width, handle = self._n_columns * 8, self._file.fileno()
        order = np.argsort(rows, kind="stable")  # from the start of the file to its end
        rows = rows[order]
        heads = np.flatnonzero(np.diff(rows, prepend=-2) != 1)  # of runs of rows that follow one another
        runs = zip(rows[heads].tolist(), np.diff(heads, append=len(rows)).tolist(), strict=True)
        content = b"".join(os.pread(handle, width * n_rows, row * width) for row, n_rows in runs)
        numbers = np.empty((len(rows), self._n_columns))
        numbers[order] = np.frombuffer(content).reshape(numbers.shape)
        return numbers

    def in_order(self, order: npt.NDArray[np.int32] | Ints) -> "Spool":
        """All rows in another order, by way of files with those that come to lie near one another: (n,)."""
        n_near = max(1, KEPT_BYTES // (8 * self._n_columns))
        near = [Spool(self._n_columns + 1, kept_bytes=0) for _ in slices(len(self), n_near)]
        places = np.empty(len(self), dtype=order.dtype)
        places[order] = np.arange(len(self), dtype=order.dtype)
        for rows in slices(len(self), max(1, BLOCK_BYTES // (8 * self._n_columns))):
            numbers = np.column_stack([self.read(rows.start, rows.stop - rows.start), places[rows]])
            for k in np.unique(places[rows] // n_near):
                near[k].append(numbers[places[rows] // n_near == k])
        ordered = Spool(self._n_columns, kept_bytes=0)
        while near:
            numbers = near.pop(0).read(0, n_near)
            ordered.append(numbers[np.argsort(numbers[:, -1]), :-1])
        return ordered

    def column(self, j: int) -> Floats:
        """One column: (n,)."""
        size = max(1, BLOCK_BYTES // (8 * self._n_columns))
        return np.concatenate([np.empty(0), *(self.read(s.start, size)[:, j] for s in slices(self._n_rows, size))])

    def _whole(self) -> Floats:
        if len(self._parts) != 1:
            self._parts = [np.concatenate(self._parts) if self._parts else np.empty((0, self._n_columns))]
        return self._parts[0]


class SpooledRows(Rows):
    """Rows made of the numbers of a spool, a block of about BLOCK_BYTES at a time."""

    def __init__(
        self, spool: Spool, names: Sequence[str], make: Callable[[Floats], Floats], block_rows: int | None = None
    ) -> None:
        super().__init__(len(spool), len(names), list(names))
        self._spool, self._make = spool, make
        self._block_rows = max(1, BLOCK_BYTES // (8 * self.n_features)) if block_rows is None else block_rows
        self._by_group: tuple[Ints, Ints, Spool] | None = None

    def blocks(self) -> Iterator[Floats]:
        """All rows in order."""
        for part in slices(len(self), self._block_rows):
            yield self._make(self._spool.read(part.start, part.stop - part.start))

    def take(self, numbers: Ints) -> Floats:
        """Some rows: (k,) -> (k, d)."""
        return self._make(self._spool.take(numbers))

    def grouped_blocks(self, ids: Ints, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group, in a file of their own, as rows far apart take a read each."""
        if self._spool.is_in_memory or is_rising(ids):
            return super().grouped_blocks(ids, stops)
        if self._by_group is None or self._by_group[0] is not ids:
            order = stable_order(ids)
            self._by_group = ids, ids[order], self._spool.in_order(order)
        _, rising, spool = self._by_group
        return SpooledRows(spool, self.names or (), self._make, self._block_rows).grouped_blocks(rising, stops)


def _bytes_of(numbers: Floats) -> memoryview:
    return memoryview(numbers.reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer


def _write_all(file: IO[bytes], numbers: Floats) -> None:
    view = _bytes_of(numbers)
    try:
        while len(view):
            view = view[file.write(view) :]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = "the disk is full; set TMPDIR to a folder with room for the numbers of the table"
            raise OSError(error.errno, message, tempfile.gettempdir()) from None
        raise
