"""Rows of numbers that need not be in memory: what fitting asks of its data.

Fitting counts, gathers some rows and sums, in passes from the first row to the last. Sums of floats are taken block by
block, always the same BLOCK_ROWS rows together, so that data read in chunks give the very sums of an array.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from isobag.arrays import Floats, Ints

BLOCK_ROWS = 1 << 16


class Rows(Protocol):
    """Rows of d numbers each, to be read as often as needed."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def chunks(self) -> Iterator[Floats]:
        """All rows in order, (m, d) at a time; m is a multiple of BLOCK_ROWS in every chunk but the last."""
        ...

    def take(self, rows: Ints) -> Floats:
        """The rows with the numbers given, which ascend: (k,) -> (k, d)."""
        ...


class ArrayRows:
    """The rows of an array (n, d): one chunk."""

    def __init__(self, X: Floats) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    def chunks(self) -> Iterator[Floats]:
        """The array."""
        yield self.X

    def take(self, rows: Ints) -> Floats:
        """Some rows of the array: (k, d)."""
        return self.X[rows]


def sum_rows(rows: Rows, of: Callable[[Floats], Floats] = lambda block: block) -> Floats:
    """Sum over all rows of what ``of`` makes of each: (n, d) -> (d,)."""
    blocks = (
        chunk[start : start + BLOCK_ROWS] for chunk in rows.chunks() for start in range(0, len(chunk), BLOCK_ROWS)
    )
    total: Floats = sum((of(block).sum(axis=0) for block in blocks), start=np.zeros(1))
    return total


def map_rows(rows: Rows, of: Callable[[Floats], Floats]) -> Floats:
    """A number for every row, chunk by chunk, from a function of a chunk: (m, d) -> (m,) makes (n,)."""
    found = np.empty(len(rows))
    start = 0
    for chunk in rows.chunks():
        found[start : start + len(chunk)] = of(chunk)
        start += len(chunk)
    return found


def take_in_order(rows: Rows, wanted: Ints) -> Floats:
    """The rows with the numbers given, in any order: (k,) -> (k, d)."""
    order = np.argsort(wanted, kind="stable")
    return rows.take(wanted[order])[np.argsort(order, kind="stable")]


def all_rows(rows: Rows) -> Floats:
    """All rows, in memory: (n, d)."""
    chunks = list(rows.chunks())
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def spread_rows(n_rows: int, most: int) -> Ints:
    """Numbers of at most ``most`` rows, evenly spread over all: ascending."""
    return np.linspace(0, n_rows - 1, min(most, n_rows)).astype(np.int64)
