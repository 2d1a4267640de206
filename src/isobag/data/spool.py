"""The numbers of a table, row after row: in memory, or in a temporary file that is read as if it were memory.

Rows are made of them a block at a time when they are asked for; what is learned from rows does not depend on how they
are cut into blocks, so the results are those of a table in memory, bit for bit.
"""

import errno
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import IO

import numpy as np

from isobag.backends.arrays import Floats
from isobag.data.rows import ArrayRows, MappedRows

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


class SpooledRows(MappedRows):
    """Rows made of the numbers of a spool, a block of about BLOCK_BYTES at a time."""

    def __init__(
        self, spool: Spool, names: Sequence[str], make: Callable[[Floats], Floats], block_rows: int | None = None
    ) -> None:
        size = max(1, BLOCK_BYTES // (8 * len(names))) if block_rows is None else block_rows
        super().__init__(ArrayRows(spool.numbers, block_rows=size), make)
        self.n_features, self.names = len(names), list(names)
