"""Tables larger than memory: a file is read once, in batches, and kept as plain numbers.

Up to KEPT_BYTES of them stay in memory; beyond, they go to a temporary file without a name, which vanishes with the
process however it ends. Fitting and scoring then pass over these numbers as often as they need to. All sums are taken
in the same blocks and the same order as over a table in memory, so the results are the same bit for bit.
"""

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.rows import BLOCK_ROWS, ArrayRows, Rows
from isobag.tables.encoding import (
    ColumnReader,
    Encoding,
    check_missing_option,
    choose_columns,
    columns_of_model,
    kept_rows,
)
from isobag.tables.table import Table

KEPT_BYTES = 1 << 26
CHUNK_BYTES = 1 << 22
Tick = Callable[[str, int, int | None], None]
"""Told what is going on, how many rows are done with, and of how many if known: for a progress bar."""


class SpooledNumbers:
    """The numbers of a table (n, c), written row after row, then read: in memory, or in a temporary file if many."""

    def __init__(self, n_columns: int, kept_bytes: int = KEPT_BYTES) -> None:
        self._n_columns = n_columns
        self._kept_bytes = kept_bytes
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
            if self._n_rows * self._n_columns * 8 <= self._kept_bytes:
                return
            self._file = tempfile.TemporaryFile(prefix="isobag-", buffering=0)  # noqa: SIM115, open while in use
            weakref.finalize(self, self._file.close)
            numbers, self._parts = np.concatenate(self._parts), []
        _write_all(self._file, np.ascontiguousarray(numbers))

    def read(self, start: int, n_rows: int) -> Floats:
        """Consecutive rows: (m, c)."""
        if self._file is None:
            return self.whole()[start : start + n_rows]
        n_rows = min(n_rows, self._n_rows - start)
        found = np.empty((n_rows, self._n_columns))
        self._file.seek(start * self._n_columns * 8)
        view = _bytes_of(found)
        while len(view):
            n_bytes = self._file.readinto(view)  # type: ignore[attr-defined]  # of a file without buffer
            if not n_bytes:
                raise OSError(errno.EIO, "the temporary file of the rows ends too early", tempfile.gettempdir())
            view = view[n_bytes:]
        return found

    def take(self, rows: Ints) -> Floats:
        """Some rows: (k,) -> (k, c)."""
        if self._file is None:
            return self.whole()[rows]
        width, handle = self._n_columns * 8, self._file.fileno()
        content = b"".join(os.pread(handle, width, row * width) for row in rows.tolist())
        return np.frombuffer(content).reshape(len(rows), self._n_columns).copy()

    def whole(self) -> Floats:
        """All rows, if they are in memory: (n, c)."""
        if len(self._parts) != 1:
            self._parts = [np.concatenate(self._parts) if self._parts else np.empty((0, self._n_columns))]
        return self._parts[0]

    def column(self, j: int) -> Floats:
        """One column: (n,)."""
        return np.concatenate(
            [np.empty(0), *(self.read(start, BLOCK_ROWS)[:, j] for start in self._starts(BLOCK_ROWS))]
        )

    def _starts(self, n_rows: int) -> range:
        return range(0, self._n_rows, n_rows)


class StreamedRows:
    """Features of the rows of spooled numbers: ``isobag.data.rows.Rows``, a chunk of about CHUNK_BYTES at a time."""

    def __init__(self, numbers: SpooledNumbers, encoding: Encoding, tick: Tick | None = None) -> None:
        self._numbers = numbers
        self._encoding = encoding
        self._tick = tick
        self._passes = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def chunks(self) -> Iterator[Floats]:
        """All rows in order, some blocks of BLOCK_ROWS at a time."""
        self._passes += 1
        n_rows = BLOCK_ROWS * max(1, CHUNK_BYTES // (BLOCK_ROWS * len(self._encoding.names) * 8))
        for start in range(0, len(self), n_rows):
            chunk = self._encoding.apply(self._numbers.read(start, n_rows))
            if self._tick is not None:
                self._tick(f"pass {self._passes}", start + len(chunk), len(self))
            yield chunk

    def take(self, rows: Ints) -> Floats:
        """Features of some rows: (k,) -> (k, d)."""
        return self._encoding.apply(self._numbers.take(rows))


def read_batches(
    batches: Callable[[list[Any]], Iterable[Any]],
    schema: dict[Any, Any],
    features: Iterable[Any] | str | None = None,
    missing: str = "error",
    apart: Any = None,
    model_names: list[str] | None = None,
    tick: Tick | None = None,
    kept_bytes: int = KEPT_BYTES,
) -> Table:
    """The table of frames that come one after another, each with the columns asked for: ``batches(names)``.

    With ``model_names``, the features of a model, these are made; else those chosen.
    """
    check_missing_option(missing)
    encoding: Encoding | None = None
    left_out: list[str] = []
    if model_names is None:
        reader, left_out = choose_columns(schema, features, apart)
    else:
        if missing == "median":
            raise ValueError(
                "missing='median'; a model does not keep the medians of its data: choose 'error' or 'drop'."
            )
        reader, encoding = columns_of_model(schema, model_names)
    numbers = SpooledNumbers(len(reader.columns), kept_bytes)
    kept: list[Bools] = []
    gaps: list[Ints] = []
    for batch in batches(reader.columns):
        part = reader.read(nw.from_native(batch, eager_only=True))
        if missing != "error":
            kept.append(kept_rows(part, missing))
            gaps.append(np.isnan(part).sum(axis=1).astype(np.uint16))
            part = part[kept[-1]] if missing == "drop" else part
        numbers.append(part)
        if tick is not None:
            tick("reading", reader.n_rows, None)
    reader.check_missing(missing)
    encoding = encoding or reader.encoding(_fills(reader, numbers) if missing == "median" else None)
    rows: Rows = StreamedRows(numbers, encoding, tick)
    if numbers.is_in_memory:
        rows = ArrayRows(encoding.apply(numbers.whole()))
    return Table(
        rows,
        encoding,
        reader.n_rows,
        np.concatenate(kept) if kept and missing == "drop" else None,
        np.concatenate(gaps) if gaps else None,
        left_out,
    )


def _fills(reader: ColumnReader, numbers: SpooledNumbers) -> Floats:
    return np.array([reader.fill_of(j, numbers.column(j)) for j in range(len(reader.columns))])


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
