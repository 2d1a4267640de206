"""Mean maps of more groups than memory holds: counted when they are asked for, used, and dropped.

Groups are cut into buckets by their numbers. In memory, one bucket is counted after another. In partitions, rows are
counted where they are; the counts of a bucket come together on one machine, and only results computed from them travel
further. Very many groups are processed some buckets at a time, so that memory stays bounded.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import add
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.backends.counts import stack_counts
from isobag.data.groups import Grouped, Groups
from isobag.data.partitioned_groups import Numbers, PartitionedGroups, grouped_blocks
from isobag.data.partitions import Frames, Read
from isobag.data.rows import GroupedBlock
from isobag.models.tally import GroupTally, merge_tallies
from isobag.partitionings import Partitionings
from isobag.partitionings.counts import GroupQueries, MeanMaps

T = TypeVar("T")
Count = Callable[[GroupedBlock], GroupTally]
KEPT_BYTES = 1 << 28
BUCKET_BYTES = 1 << 27
LOCAL_BUCKET_BYTES, _ROW_BYTES = 1 << 24, 128
"""Of a bucket in this process, and of a row of it while it is looked up."""
ROUND_BYTES = 1 << 30
_ENTRY_BYTES = 8


class LazyMaps(ABC):
    """The mean maps of groups, never all in one place; sizes (g,): number of points of each group."""

    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    @abstractmethod
    def __getitem__(self, numbers: Ints) -> MeanMaps:
        """Some of the groups, kept."""

    @abstractmethod
    def map_reduce(self, function: Callable[[MeanMaps], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of buckets of groups, merged in order."""

    def map(self, function: Callable[[MeanMaps], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """What a function makes of each group, made where its counts are: (g, ...)."""
        values: npt.NDArray[Any] = np.concatenate(self.map_reduce(lambda maps: [function(maps)], add))
        return values

    def prepare(self) -> Self:
        """To be partitioned, and assigned to cells."""
        return self

    def part(self, numbers: Ints) -> GroupQueries:
        """Some of the groups, prepared here."""
        return GroupQueries(self[numbers])

    def count_and_sum(self, drawn: Partitionings, compute: Compute) -> tuple[Ints, Ints]:
        """Counts of these groups in the cells of each level (L, t, psi), and their sums at the cells: (g, L)."""
        counts = self.map_reduce(lambda maps: drawn.count(drawn.prepare(maps, compute), compute), np.add)
        sums = self.map(lambda maps: drawn.sum_at(drawn.prepare(maps, compute), counts, compute))
        return counts, sums


class TotalledMaps(LazyMaps):
    """Other mean maps, and a total over all groups, found by the first pass over them, whatever that is for."""

    def __init__(self, maps: LazyMaps, part: Callable[[MeanMaps], Ints]) -> None:
        self.sizes = maps.sizes
        self._maps, self._part = maps, part
        self._total: Ints | None = None

    def __getitem__(self, numbers: Ints) -> MeanMaps:
        """Some of the groups, kept."""
        return self._maps[numbers]

    def map_reduce(self, function: Callable[[MeanMaps], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of buckets of groups, merged in order."""
        if self._total is not None:
            return self._maps.map_reduce(function, combine)
        part = self._part
        found, self._total = self._maps.map_reduce(
            lambda maps: (function(maps), part(maps)), lambda a, b: (combine(a[0], b[0]), a[1] + b[1])
        )
        return found

    @property
    def total(self) -> Ints:
        """The sum of the parts."""
        if self._total is None:
            self._total = self._maps.map_reduce(self._part, np.add)
        return self._total


class LocalMaps(LazyMaps):
    """The mean maps of groups in this process, one bucket at a time.

    count : counts the points of a block of rows sorted by group.
    n_partitionings, n_columns : t, in each of which a point has at most one cell, and the number of all cells.
    """

    def __init__(self, groups: Groups, count: Count, n_partitionings: int, n_columns: int) -> None:
        self.sizes = groups.sizes
        self._groups, self._count = groups, count
        self._sizing = n_partitionings, n_columns
        self._n_bytes = _bytes_of(groups.sizes, n_partitionings, n_columns)

    @property
    def n_bytes(self) -> float:
        """Most bytes of the counts of all groups."""
        return float(self._n_bytes[-1])

    def __getitem__(self, numbers: Ints) -> MeanMaps:
        """Some of the groups, kept."""
        chosen, places = np.unique(numbers, return_inverse=True)
        found = LocalMaps(self._groups.part(chosen), self._count, *self._sizing).kept()
        return found if np.array_equal(chosen, numbers) else found[places]

    def kept(self) -> MeanMaps:
        """All groups, kept."""
        most = int(self._n_bytes[-1]) // _ENTRY_BYTES
        return MeanMaps(stack_counts((tally.counts for tally in self._tallies()), most), self.sizes)

    def map_reduce(self, function: Callable[[MeanMaps], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of buckets of groups, merged in order."""
        return reduce(combine, map(lambda tally: function(tally.maps), self._tallies()))

    def _tallies(self) -> Iterator[GroupTally]:
        """The groups of each bucket, counted; nothing here holds on to them."""
        n_bytes, most = self._n_bytes, BUCKET_BYTES
        if self._groups.rows.device is None:  # a bucket is one block of rows, unless a group is larger
            n_bytes = np.cumsum(np.maximum(np.diff(n_bytes, prepend=0.0), self.sizes * _ROW_BYTES))
            most = LOCAL_BUCKET_BYTES
        ends = _ends_of_buckets(n_bytes, 0, len(self), most)
        blocks = self._groups.blocks(ends)
        for _, own in groupby(blocks, lambda block: int(np.searchsorted(ends, block.numbers[0], side="right"))):
            yield merge_tallies(list(map(self._count, own)))


class PartitionedMaps(LazyMaps):
    """The mean maps of groups in partitions; for the parameters see ``LocalMaps``."""

    def __init__(self, groups: PartitionedGroups, count: Count, n_partitionings: int, n_columns: int) -> None:
        self.sizes = groups.sizes
        self._groups, self._count = groups, count
        self._n_bytes = _bytes_of(groups.sizes, n_partitionings, n_columns)

    def __getitem__(self, numbers: Ints) -> MeanMaps:
        """Some of the groups, in this process."""
        chosen, places = np.unique(numbers, return_inverse=True)
        groups = self._groups
        split = _Counted(groups.read, groups.numbers_of(chosen), self._count, np.array([len(chosen)]), 0)
        return groups.partitions.run(split, _merge_buckets, self._which())[0].maps[places]

    def map_reduce(self, function: Callable[[MeanMaps], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of buckets of groups, merged in order."""
        groups = self._groups
        partial: list[T] = []
        for first, ends in self._rounds():
            split = _Counted(groups.read, groups.numbers, self._count, ends, first)
            partial.append(
                groups.partitions.exchange(
                    split, add, lambda bucket, tally: function(tally.maps), combine, self._which()
                )
            )
        return reduce(combine, partial)

    def _which(self) -> Ints:
        return np.flatnonzero(self._groups.lengths)

    def _rounds(self) -> Iterator[tuple[int, Ints]]:
        """Rounds of buckets: the number of the first group of a round, and where each of its buckets ends."""
        first = 0
        while first < len(self):
            start = self._n_bytes[first - 1] if first else 0.0
            last = max(first + 1, int(np.searchsorted(self._n_bytes, start + ROUND_BYTES, side="right")))
            yield first, _ends_of_buckets(self._n_bytes, first, last, BUCKET_BYTES)
            first = last


def maps_of(
    groups: Grouped, count: Count, n_partitionings: int, n_columns: int, kept_bytes: int | None = None
) -> MeanMaps | LazyMaps:
    """The mean maps of any number of groups, wherever they are: kept if they are few, else counted when asked for."""
    if isinstance(groups, PartitionedGroups):
        return PartitionedMaps(groups, count, n_partitionings, n_columns)
    assert isinstance(groups, Groups)
    maps = LocalMaps(groups, count, n_partitionings, n_columns)
    return maps.kept() if maps.n_bytes <= (KEPT_BYTES if kept_bytes is None else kept_bytes) else maps


def _bytes_of(sizes: Ints, n_partitionings: int, n_columns: int) -> Floats:
    """Most bytes of the counts of each group and those before it: (g,)."""
    return np.cumsum(np.minimum(sizes * n_partitionings, n_columns), dtype=np.float64) * _ENTRY_BYTES


def _ends_of_buckets(n_bytes: Floats, first: int, last: int, most: int) -> Ints:
    """Where buckets of the groups from ``first`` to before ``last`` end."""
    start = n_bytes[first - 1] if first else 0.0
    ends = np.searchsorted(n_bytes, np.arange(start + most, n_bytes[last - 1], most), "right")
    return np.unique([*np.maximum(ends, first + 1), last])


@dataclass(frozen=True)
class _Counted:
    """Counts of a partition's rows by bucket: groups from ``first`` on, bucket b up to ends[b]."""

    read: Read
    numbers: Numbers
    count: Count
    ends: Ints
    first: int

    def __call__(self, number: int, frames: Frames) -> dict[int, GroupTally]:
        tallies: dict[int, GroupTally] = {}
        for block in grouped_blocks(self.read, self._numbers_in_round(), number, frames):
            if len(block.numbers):
                counted = self.count(block)
                buckets = np.searchsorted(self.ends, counted.numbers, side="right")
                for bucket in np.unique(buckets).tolist():
                    part = counted.part(np.flatnonzero(buckets == bucket))
                    tallies[bucket] = tallies[bucket] + part if bucket in tallies else part
        return tallies

    def _numbers_in_round(self) -> Numbers:
        if self.first == 0 and self.ends[-1] == len(self.numbers):
            return self.numbers
        return {label: number for label, number in self.numbers.items() if self.first <= number < self.ends[-1]}


def _merge_buckets(a: dict[int, GroupTally], b: dict[int, GroupTally]) -> dict[int, GroupTally]:
    both = {bucket: a[bucket] + b[bucket] for bucket in a.keys() & b.keys()}
    return a | b | both
