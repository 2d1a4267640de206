"""Rows cut into partitions that stay where they are: what an engine must implement, and rows in partitions.

An engine brings work to the partitions and merges the results, neighbours first, in order. All else is built on that: a
pass over rows, rows picked by number, counts of groups. What travels is the work, once to each machine, and partial
results, which do not grow with the number of rows. A frame in memory is one partition, a file is one partition that
comes in batches (``data/local.py``); Dask and Spark are further engines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.data.rows import BLOCK_NUMBERS, BLOCK_ROWS, ArrayRows, Rows

T = TypeVar("T")
U = TypeVar("U")
Frames = Iterator[Any]
"""The rows of a partition in order, as frames of pandas or Arrow, or batches of a file; a partition may have none."""
Work = Callable[[int, Frames], T]
"""What is made of a partition, from its number and its rows; may be sent to another process."""
Combine = Callable[[T, T], T]
Split = Callable[[int, Frames], dict[int, T]]
Finish = Callable[[int, T], U]
Labels = npt.NDArray[Any]
Read = Callable[[int, Frames], Iterator[tuple[Floats, Labels | None]]]
"""From a partition to its rows that take part: features (m, d) and, of grouped rows, the label of each (m,)."""


class Partitions(ABC):
    """A table cut into partitions, in order.

    n_partitions : how many there are.
    columns : names of the columns, in order; None if every row names its own.
    objects : columns of Python objects, whose cells are text to be parsed wherever one of them is.
    files, notes : names of the files that the rows come from, and remarks about them.
    file_sizes : rows of each of several files, known after a pass over all; nothing where rows come from one place.
    """

    n_partitions: int
    columns: Sequence[str] | None
    objects: Sequence[str] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    file_sizes: Sequence[int] = ()

    @abstractmethod
    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the partitions, merged: combine(... combine(work(0), work(1)) ..., work(p - 1)).

        ``combine`` is associative and always gets neighbours in order, the earlier first; it may run anywhere.
        ``which``: the numbers of the partitions to look at, ascending, at least one; None for all.
        """

    @abstractmethod
    def exchange(
        self, split: Split[T], combine: Combine[T], finish: Finish[T, U], join: Combine[U], which: Ints | None = None
    ) -> U:
        """Parts of all partitions brought together by bucket, and what is made of each bucket, merged.

        ``split`` makes parts of a partition, each for the bucket with its number. The parts of a bucket are merged by
        ``combine``, ``finish`` makes something of the bucket where it is, and ``join`` merges that in order of the
        buckets, like ``combine`` in ``run``.
        """


class Collection(Partitions):
    """Partitions of an engine that can also make collections of its own kind."""

    @abstractmethod
    def map(self, work: Callable[[int, Frames], Iterator[Any]], schema: Any) -> Any:
        """The Arrow tables that ``work`` makes of each partition, as a collection; lazy if the engine is."""

    @abstractmethod
    def give(self, table: Any) -> Any:
        """A small Arrow table as a collection."""

    @abstractmethod
    def types(self, names: Sequence[str]) -> list[Any]:
        """Arrow types of some columns."""


class _Found(NamedTuple):
    """Rows taken of partitions that follow one another, and the range of each feature over all of their rows."""

    parts: list[Floats]
    low: Floats
    high: Floats

    def merge(self, later: "_Found") -> "_Found":
        return _Found(self.parts + later.parts, np.minimum(self.low, later.low), np.maximum(self.high, later.high))


class PartitionedRows(Rows):
    """The rows of all partitions, in order. What is made of each row stays where the row is.

    read : from a partition to its rows.
    lengths : (p,), number of rows of each partition.
    """

    def __init__(self, partitions: Partitions, read: Read, lengths: Ints, names: Sequence[str]) -> None:
        super().__init__(lengths.sum(), len(names), list(names))
        self.partitions, self.read, self.lengths = partitions, read, lengths
        self._held: list[tuple[Ints, Floats]] = []
        self._extremes: tuple[Floats, Floats] | None = None

    def blocks(self) -> Iterator[Floats]:
        """All rows, those of one partition brought here at a time."""
        ends = np.cumsum(self.lengths)
        return (self.take(np.arange(end - n, end)) for n, end in zip(self.lengths, ends, strict=True) if n)

    def take(self, numbers: Ints) -> Floats:
        """Some rows, brought here: (k,) -> (k, d)."""
        for known, X in self._held:
            places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            if np.array_equal(known[places], numbers):
                return X[places]
        chosen, places = np.unique(numbers, return_inverse=True)
        if not len(chosen):
            return np.empty((0, self.n_features))
        which = np.unique(np.searchsorted(np.cumsum(self.lengths), chosen, side="right"))
        return np.concatenate(self._find(chosen, which).parts)[places]

    def prefetch(self, numbers: Ints) -> None:
        """Bring the rows here that will be taken, and find the extremes of all, in one pass."""
        chosen = np.unique(numbers)
        taken = self._find(chosen, np.flatnonzero(self.lengths))
        self._held.append((chosen, np.concatenate(taken.parts)))
        self._extremes = taken.low, taken.high

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature: (d,), (d,)."""
        return super().extremes() if self._extremes is None else self._extremes

    def _find(self, numbers: Ints, which: Ints) -> _Found:
        """The rows with these numbers, ascending, of some partitions."""
        read, starts = self.read, np.cumsum(self.lengths) - self.lengths

        def take(number: int, frames: Frames) -> _Found:
            first, parts = int(starts[number]), []
            low, high = np.array(np.inf), np.array(-np.inf)
            for X, _ in read(number, frames):
                begin, end = np.searchsorted(numbers, (first, first + len(X)))
                parts.append(X[numbers[begin:end] - first])
                if len(X):
                    low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
                first += len(X)
            return _Found(parts, low, high)

        return self.partitions.run(take, _Found.merge, which)

    def part(self, numbers: Ints) -> Rows:
        """Some rows, brought here."""
        return ArrayRows(self.take(numbers), self.names)

    def map_reduce(self, function: Callable[[Floats], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of all partitions, merged where they are; a partition without rows has none."""
        read, size = self.read, max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // max(1, self.n_features)))

        def work(number: int, frames: Frames) -> list[T]:
            parts = (function(X[rows]) for X, _ in read(number, frames) for rows in slices(len(X), size))
            return [reduce(combine, parts, first) for first in islice(parts, 1)]

        def merge(a: list[T], b: list[T]) -> list[T]:
            return [combine(a[0], b[0])] if a and b else a or b

        return self.partitions.run(work, merge, np.flatnonzero(self.lengths))[0]

    def map(self, function: Callable[[Floats], npt.NDArray[Any]]) -> Any:
        """What a function makes of each row, whenever it is asked for."""
        return MappedRows(self, function)


@dataclass(frozen=True)
class MappedRows:
    """What a function makes of each row of others: not kept, but made anew by every pass."""

    rows: Rows
    function: Callable[[Floats], npt.NDArray[Any]]
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def map_reduce(self, function: Callable[[npt.NDArray[Any]], T], combine: Combine[T]) -> T:
        """Partial results, merged; of the same function once."""
        if function not in self._known:
            own = self.function
            self._known[function] = self.rows.map_reduce(lambda X: function(own(X)), combine)
        known: T = self._known[function]
        return known

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All of them, brought here."""
        own = self.function
        parts = self.rows.map_reduce(lambda X: [own(X)], add)
        return np.concatenate(parts).astype(dtype, copy=False)


def count_rows(partitions: Partitions, read: Read) -> Ints:
    """Number of rows of each partition that take part: (p,)."""

    def count(number: int, frames: Frames) -> list[int]:
        return [sum(len(X) for X, _ in read(number, frames))]

    return np.array(partitions.run(count, add), dtype=np.int64)
