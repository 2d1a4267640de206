"""Rows that each belong to a group, whatever they are and wherever."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Array, Floats, Ints
from isobag.data.rows import DerivedRows, MappedRows, Rows, whole_groups

_OWNED_ROWS = 1 << 16
UNSEEN = -1
"""Number of a group that ``fit`` has not seen."""


class OwnedBlock(NamedTuple):
    """Rows sorted by group: X (m, d), the number of the group of each (m,), and their places among all rows (m,)."""

    X: Floats
    owners: Ints
    places: Ints


class LabelledRows(DerivedRows):
    """Other rows, and the number of the group that each belongs to: owners (n,), UNSEEN for groups not in ``fit``.

    n_groups : how many groups there are, some of which may have no row here.
    """

    def __init__(self, rows: Rows, owners: Ints, n_groups: int) -> None:
        super().__init__(rows)
        self.owners, self.n_groups = owners, n_groups

    def _with(self, rows: Rows, numbers: slice | Ints) -> Rows:
        return LabelledRows(rows, self.owners[numbers], self.n_groups)

    @property
    def sizes(self) -> Ints:
        """Number of rows of each group: (g,)."""
        return np.bincount(self.owners[self.owners != UNSEEN], minlength=self.n_groups)

    @property
    def plain(self) -> Rows:
        """The same rows without their groups."""
        return self._rows

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature: (d,), (d,)."""
        return self._rows.extremes()

    def as_unseen(self) -> "LabelledRows":
        """The same rows, as if their groups were not known."""
        return LabelledRows(self._rows, np.full_like(self.owners, UNSEEN), self.n_groups)

    def owned_blocks(self) -> Iterator[OwnedBlock]:
        """All rows sorted by the groups they belong to; only groups of more than GROUPED_ROWS are in several blocks."""
        numbers = self.owners - UNSEEN
        places = np.argsort(numbers, kind="stable")
        start = 0
        for block in self._rows.grouped_blocks(numbers):
            for part, _, _ in whole_groups(block.starts[1:], min(_OWNED_ROWS, self.block_rows)):
                positions = places[start + part.start : start + part.stop]
                yield OwnedBlock(block.X[part], self.owners[positions], positions)
            start += int(block.starts[-1])

    def mapped(self, function: Callable[[Floats, Ints], Floats]) -> "LabelledRows":
        """What a function makes of rows (n, d) and of the numbers of their groups (n,), when it is asked for."""
        return LabelledRows(MappedRows(self._rows, function, self.owners), self.owners, self.n_groups)

    def map_placed(self, function: Callable[[Floats, slice], Array]) -> Array:
        """What a function makes of each block of rows and of its place among all: (n, ...)."""
        parts, start = [], 0
        for X in self.blocks():
            parts.append(function(X, slice(start, start + len(X))))
            start += len(X)
        return np.concatenate(parts)

    def map_owned(self, function: Callable[[Floats, Ints], Array]) -> Array:
        """What a function makes of each row and the number of its group, in the order of rows: (n, ...)."""
        values = None
        for X, owners, places in self.owned_blocks():
            part = function(X, owners)
            if values is None:
                values = np.empty((len(self), *part.shape[1:]), part.dtype)
            values[places] = part
        if values is None:
            return function(np.empty((0, self.n_features)), np.empty(0, dtype=np.int64))
        return values
