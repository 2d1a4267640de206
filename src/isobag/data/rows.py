"""Rows of numbers that need not be in memory: what learning and scoring need of data.

Everything learned from data is a partial result of each block, and partial results merge in any order to the same bits:
counts, ranges, rows picked by number. So it does not matter how rows are cut into blocks, or who looks at which.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from isobag.backends.arrays import Array, Floats, Ints
from isobag.backends.threads import slices

T = TypeVar("T")

BLOCK_ROWS = 1 << 20
"""Most rows of a block, so that memory beside the input and the answer stays bounded."""
BLOCK_NUMBERS = 1 << 23
"""Most numbers of a block that is made for the purpose."""
GROUPED_ROWS = 1 << 18
SAMPLE_ROWS, SAMPLE_NUMBERS = 1 << 16, 1 << 24
MOST_LEARNED = 1 << 15
"""Rows that a model is learned from by default."""


class GroupedBlock(NamedTuple):
    """Rows sorted by group: X (m, d); group numbers[k] has the rows from starts[k] to starts[k + 1]."""

    X: Floats
    starts: Ints
    numbers: Ints


class Rows(ABC):
    """Rows of d numbers each, which can be looked at as often as needed.

    ``names`` of the features, None where they came without; ``block_rows``: most rows of a block; ``of_rows``: more
    rows, of which these are a part.
    """

    n_features: int
    of_rows: "Rows | None" = None
    names: Sequence[str] | None = None
    block_rows: int = BLOCK_ROWS

    def __init__(self, n_rows: int, n_features: int, names: Sequence[str] | None = None) -> None:
        self._n_rows, self.n_features, self.names = int(n_rows), int(n_features), names

    def __len__(self) -> int:
        return self._n_rows

    def blocks(self) -> Iterator[Floats]:
        """All rows in order, (m, d) at a time."""
        return map(self.take, slices(len(self), self.block_rows))

    @abstractmethod
    def take(self, numbers: slice | Ints) -> Floats:
        """The rows with the numbers given, in that order, or some that follow one another: (k,) -> (k, d)."""

    def map_reduce(self, function: Callable[[Floats], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of all blocks, merged; ``combine`` must be associative and commutative."""
        return reduce(combine, map(function, self.blocks()))

    def map(self, function: Callable[[Floats], Array]) -> Array:
        """What a function makes of each row, from blocks of rows: (m, d) -> (m, ...) makes (n, ...)."""
        values = None
        start = 0
        for block in self.blocks():
            part = function(block)
            if len(block) == len(self):
                return part
            if values is None:
                values = np.empty((len(self), *part.shape[1:]), part.dtype)
            values[start : start + len(block)] = part
            start += len(block)
        return function(np.empty((0, self.n_features))) if values is None else values

    def part(self, numbers: Ints) -> "Rows":
        """Only the rows with the numbers given, which ascend."""
        return PartOfRows(self, numbers)

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature: (d,), (d,)."""
        return self.map_reduce(
            lambda block: (block.min(axis=0), block.max(axis=0)),
            lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
        )

    @property
    def device(self) -> str | None:
        """Where the rows are, None for host memory."""
        return None

    @property
    def on_host(self) -> "Rows":
        """The same rows in host memory."""
        return self

    def give(self, values: Array) -> Array:
        """What was found of the rows, as the kind of array they came as."""
        return values

    @property
    def whole(self) -> Floats | None:
        """All rows as one block, if they make one: (n, d)."""
        return None

    def grouped_blocks(self, ids: Ints, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group; ids (n,) is the group of each row.

        ``stops``: the groups before which a block must end, the number of all groups last. Groups that are too large
        for one block are cut into several, one after the other.
        """
        order = None if (ids[1:] >= ids[:-1]).all() else np.argsort(ids, kind="stable")
        ends = np.cumsum(np.bincount(ids))
        most = max(1, min(GROUPED_ROWS, self.block_rows, BLOCK_NUMBERS // self.n_features))
        for rows, starts, numbers in whole_groups(ends, most, stops):
            for part in slices(rows.stop - rows.start, most):
                piece = slice(rows.start + part.start, rows.start + part.stop)
                taken = np.arange(piece.start, piece.stop) if order is None else order[piece]
                X = self.take(taken)
                yield GroupedBlock(X, starts, numbers) if piece == rows else group_rows(X, ids[taken])


class ArrayRows(Rows):
    """The rows of an array (n, d)."""

    def __init__(self, X: Floats, names: Sequence[str] | None = None, block_rows: int = BLOCK_ROWS) -> None:
        super().__init__(X.shape[0], X.shape[1], names)
        self.X, self.block_rows = X, block_rows

    def take(self, numbers: slice | Ints) -> Floats:
        """Some rows of the array: (k, d)."""
        return self.X[numbers]

    def part(self, numbers: Ints) -> Rows:
        """Some rows of the array."""
        if len(numbers) > self.block_rows:  # perhaps on disk
            return PartOfRows(self, numbers)
        return ArrayRows(self.X[numbers], self.names, self.block_rows)

    @property
    def whole(self) -> Floats | None:
        """The array, unless it is larger than a block."""
        return self.X if len(self.X) <= self.block_rows else None


class SparseRows(Rows):
    """The rows of a sparse matrix, CSR (n, d), made dense a block at a time."""

    def __init__(self, X: csr_array, names: Sequence[str] | None = None, block_rows: int = BLOCK_ROWS) -> None:
        super().__init__(X.shape[0], X.shape[1], names)
        self.X, self.block_rows = X, max(1, min(block_rows, BLOCK_NUMBERS // self.n_features))

    def take(self, numbers: slice | Ints) -> Floats:
        """Some rows of the matrix: (k, d)."""
        dense: Floats = self.X[numbers].toarray()
        return dense


class PartOfRows(Rows):
    """Some of the rows of others, by ascending numbers."""

    def __init__(self, rows: Rows, numbers: Ints) -> None:
        super().__init__(len(numbers), rows.n_features, rows.names)
        self._rows, self._numbers, self.block_rows = rows, numbers, rows.block_rows

    def take(self, numbers: slice | Ints) -> Floats:
        """Some of them: (k,) -> (k, d)."""
        return self._rows.take(self._numbers[numbers])


class DerivedRows(Rows):
    """Other rows as they are, for whoever adds something to them."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(len(rows), rows.n_features, rows.names)
        self._rows, self.block_rows = rows, rows.block_rows

    def _with(self, rows: Rows, numbers: slice | Ints) -> Any:
        """The same of other rows, which are some of these."""
        raise NotImplementedError

    def _make(self, X: Floats, numbers: slice | Ints) -> Floats:
        """What becomes of some of the rows: (k, d)."""
        return X

    def blocks(self) -> Iterator[Floats]:
        """All rows in order."""
        start = 0
        for X in self._rows.blocks():
            yield self._make(X, slice(start, start + len(X)))
            start += len(X)

    def take(self, numbers: slice | Ints) -> Floats:
        """Some of them: (k,) -> (k, d)."""
        return self._make(self._rows.take(numbers), numbers)

    def part(self, numbers: Ints) -> Self:
        """Only the rows with the numbers given, which ascend."""
        part: Self = self._with(self._rows.part(numbers), numbers)
        return part

    @property
    def device(self) -> str | None:
        """Where the rows are, None for host memory."""
        return self._rows.device

    @property
    def on_host(self) -> Self:
        """The same rows in host memory."""
        same: Self = self if self.device is None else self._with(self._rows.on_host, slice(None))
        return same

    def give(self, values: Array) -> Array:
        """Values of the rows, as the kind of array they came as."""
        return self._rows.give(values)

    @property
    def whole(self) -> Floats | None:
        """All rows as one block, if they make one: (n, d)."""
        whole = self._rows.whole
        return None if whole is None else self._make(whole, slice(None))


class RangedRows(DerivedRows):
    """Other rows, with the ranges (d,) of more rows, and these if they are there."""

    def __init__(self, rows: Rows, low: Floats, high: Floats, of_rows: Rows | None = None) -> None:
        super().__init__(rows)
        self._extremes, self.of_rows = (low, high), of_rows

    def _with(self, rows: Rows, numbers: slice | Ints) -> Rows:
        return RangedRows(rows, *self._extremes, self.of_rows)

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and greatest value of each feature in all rows: (d,), (d,)."""
        return self._extremes


class MappedRows(DerivedRows):
    """What a function makes of other rows (n, d) in host memory, and of the group of each if ``owners`` (n,) is set."""

    def __init__(self, rows: Rows, function: Callable[..., Floats], owners: Ints | None = None) -> None:
        super().__init__(rows)
        self._function, self._owners = function, owners

    def _with(self, rows: Rows, numbers: slice | Ints) -> Rows:
        mapped = MappedRows(rows, self._function, None if self._owners is None else self._owners[numbers])
        mapped.n_features, mapped.names = self.n_features, self.names
        return mapped

    def _make(self, X: Floats, numbers: slice | Ints) -> Floats:
        return self._function(X) if self._owners is None else self._function(X, self._owners[numbers])


def sample_of(n_rows: int, most: int, random_state: Any) -> Ints:
    """Numbers of rows drawn at random, ascending: (most,)."""
    rng = np.random.default_rng(check_random_state(random_state).randint(2**32, size=4, dtype=np.uint64))
    return np.sort(rng.choice(n_rows, most, replace=False))


def whole_groups(ends: Ints, most: int, stops: Ints | None = None) -> Iterator[tuple[slice, Ints, Ints]]:
    """Rows sorted by group, cut between groups: the rows of some groups, where each group starts in them, the groups.

    ends (g,): the row behind the last of each group; most: rows at a time, but at least one group, unless ``stops``
    says before which groups to cut, the number of all groups last
    """
    for first, stop in spans(ends, most) if stops is None else pairwise((0, *stops.tolist())):
        begin = int(ends[first - 1]) if first else 0
        starts = np.concatenate([[begin], ends[first:stop]]) - begin
        yield slice(begin, int(ends[stop - 1])), starts, np.arange(first, stop)


def spans(ends: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Groups from the first to before the second number, as many as fit, at least one."""
    first = 0
    while first < len(ends):
        begin = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, begin + most, side="right")))
        yield first, stop
        first = stop


def group_rows(block: Floats, ids: Ints) -> GroupedBlock:
    """Rows sorted by group, from the group of each: (m, d), (m,)."""
    order = np.argsort(ids, kind="stable")
    numbers, starts = np.unique(ids[order], return_index=True)
    return GroupedBlock(block[order], np.append(starts, len(ids)), numbers)


def spread_rows(n_rows: int, most: int) -> Ints:
    """Numbers of at most ``most`` rows, evenly spread over all: ascending."""
    return np.linspace(0, n_rows - 1, min(most, n_rows)).astype(np.int64)


def sample_numbers(rows: Rows) -> Ints:
    """Numbers of rows that stand for all: the same for the same number of rows, ascending, (m,)."""
    most = int(np.clip(SAMPLE_NUMBERS // rows.n_features, 1 << 12, SAMPLE_ROWS))
    if len(rows) <= most:
        return np.arange(len(rows))
    return np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))


def sample_rows(rows: Rows) -> Floats:
    """Rows that stand for all where no pass over all is needed: (m, d)."""
    return rows.take(sample_numbers(rows))
