"""Rows that each belong to a group, whatever they are and wherever."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from isobag.backends.arrays import Array, Floats, Ints
from isobag.data.rows import GroupedBlock, Rows, whole_groups

T = TypeVar("T")
_OWNED_ROWS = 1 << 16
UNSEEN = -1
"""Number of a group that ``fit`` has not seen."""


class OwnedBlock(NamedTuple):
    """Rows sorted by group: X (m, d), the number of the group of each (m,), and their places among all rows (m,)."""

    X: Floats
    owners: Ints
    places: Ints


class LabelledRows(Rows):
    """Other rows, and the number of the group that each belongs to: owners (n,), UNSEEN for groups not in ``fit``.

    n_groups : how many groups there are, some of which may have no row here.
    """

    def __init__(self, rows: Rows, owners: Ints, n_groups: int) -> None:
        self._rows, self.owners, self.n_groups = rows, owners, n_groups
        self.n_features, self.names, self.block_rows = rows.n_features, rows.names, rows.block_rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def sizes(self) -> Ints:
        """Number of rows of each group: (g,)."""
        return np.bincount(self.owners[self.owners != UNSEEN], minlength=self.n_groups)

    @property
    def plain(self) -> Rows:
        """The same rows without their groups."""
        return self._rows

    def blocks(self) -> Iterator[Floats]:
        """All rows in order."""
        return self._rows.blocks()

    def take(self, numbers: Ints) -> Floats:
        """Some rows: (k,) -> (k, d)."""
        return self._rows.take(numbers)

    def map_reduce(self, function: Callable[[Floats], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of all blocks, merged."""
        return self._rows.map_reduce(function, combine)

    def map(self, function: Callable[[Floats], Array]) -> Array:
        """What a function makes of each row, from blocks of rows."""
        return self._rows.map(function)

    def part(self, numbers: Ints) -> "LabelledRows":
        """Only the rows with the numbers given, which ascend."""
        return LabelledRows(self._rows.part(numbers), self.owners[numbers], self.n_groups)

    def as_unseen(self) -> "LabelledRows":
        """The same rows, as if their groups were not known."""
        return LabelledRows(self._rows, np.full_like(self.owners, UNSEEN), self.n_groups)

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature: (d,), (d,)."""
        return self._rows.extremes()

    @property
    def device(self) -> str | None:
        """Where the rows are, None for host memory."""
        return self._rows.device

    @property
    def on_host(self) -> "LabelledRows":
        """The same rows in host memory."""
        return LabelledRows(self._rows.on_host, self.owners, self.n_groups)

    def give(self, values: Array) -> Array:
        """What was found of the rows, as the kind of array they came as."""
        return self._rows.give(values)

    @property
    def whole(self) -> Floats | None:
        """All rows as one block, if they make one: (n, d)."""
        return self._rows.whole

    def grouped_blocks(self, ids: Ints, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group; ids (n,) is the group of each row."""
        return self._rows.grouped_blocks(ids, stops)

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
        return LabelledRows(MappedRows(self._rows, self.owners, function), self.owners, self.n_groups)

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


class MappedRows(Rows):
    """What a function makes of other rows (n, d) in host memory and of the numbers of their groups (n,): (n, d)."""

    def __init__(self, rows: Rows, owners: Ints, function: Callable[[Floats, Ints], Floats]) -> None:
        super().__init__(len(rows), rows.n_features, rows.names)
        self._rows, self._owners, self._function = rows, owners, function

    def blocks(self) -> Iterator[Floats]:
        """All rows in order."""
        start = 0
        for X in self._rows.blocks():
            yield self._function(X, self._owners[start : start + len(X)])
            start += len(X)

    def take(self, numbers: Ints) -> Floats:
        """Some of them: (k,) -> (k, d)."""
        return self._function(self._rows.take(numbers), self._owners[numbers])

    def part(self, numbers: Ints) -> Rows:
        """Only the rows with the numbers given, which ascend."""
        return MappedRows(self._rows.part(numbers), self._owners[numbers], self._function)

    @property
    def whole(self) -> Floats | None:
        """All rows as one block, if they make one: (n, d)."""
        whole = self._rows.whole
        return None if whole is None else self._function(whole, self._owners)
