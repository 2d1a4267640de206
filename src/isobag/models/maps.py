"""Mean maps of groups whose rows are in partitions: counted where the rows are, merged by group, used where merged.

Groups are cut into buckets by their numbers. The counts of a bucket come together on one machine, and only results
computed from them travel further. Very many groups are processed some buckets at a time, so that memory stays bounded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from isobag.backends import Compute
from isobag.backends.arrays import Ints
from isobag.data.partitioned_groups import Numbers, PartitionedGroups, grouped_blocks
from isobag.data.partitions import Frames, Read
from isobag.data.rows import GroupedBlock
from isobag.models.tally import GroupTally
from isobag.partitionings import Partitionings
from isobag.partitionings.counts import GroupQueries, MeanMaps

T = TypeVar("T")
Count = Callable[[GroupedBlock], GroupTally]
BUCKET_BYTES = 1 << 26
ROUND_BYTES = 1 << 30
_ENTRY_BYTES = 8


class PartitionedMaps:
    """The mean maps of groups whose rows are in partitions, never all in one place.

    count : counts the points of a block of rows sorted by group.
    n_partitionings, n_columns : t, in each of which a point has at most one cell, and the number of all cells.
    """

    def __init__(self, groups: PartitionedGroups, count: Count, n_partitionings: int, n_columns: int) -> None:
        self.sizes = groups.sizes
        self._groups, self._count = groups, count
        self._most_entries = np.minimum(groups.sizes * n_partitionings, n_columns)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, numbers: Ints) -> MeanMaps:
        """Some of the groups, in this process."""
        chosen, places = np.unique(numbers, return_inverse=True)
        groups = self._groups
        split = _Counted(groups.read, groups.numbers_of(chosen), self._count, np.array([len(chosen)]), 0)
        return groups.partitions.run(split, _merge_buckets, self._which())[0].maps[places]

    def map(self, function: Callable[[MeanMaps], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The function applied to each group, where its counts are: (g, ...)."""
        values: npt.NDArray[Any] = np.concatenate(self.map_reduce(lambda maps: [function(maps)], add))
        return values

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

    def prepare(self) -> "PartitionedMaps":
        """To be partitioned, and assigned to cells."""
        return self

    def part(self, numbers: Ints) -> GroupQueries:
        """Some of the groups, prepared in this process."""
        return GroupQueries(self[numbers])

    def count_and_sum(self, drawn: Partitionings, compute: Compute) -> tuple[Ints, Ints]:
        """Counts of these groups in the cells of each level (L, t, psi), and their sums at the cells: (g, L)."""
        counts = self.map_reduce(lambda maps: drawn.count(drawn.prepare(maps, compute), compute), np.add)
        sums = self.map(lambda maps: drawn.sum_at(drawn.prepare(maps, compute), counts, compute))
        return counts, sums

    def _which(self) -> Ints:
        return np.flatnonzero(self._groups.lengths)

    def _rounds(self) -> Iterator[tuple[int, Ints]]:
        """Rounds of buckets: the number of the first group of a round, and where each of its buckets ends."""
        n_bytes = np.cumsum(self._most_entries, dtype=np.float64) * _ENTRY_BYTES
        first = 0
        while first < len(self):
            start = n_bytes[first - 1] if first else 0.0
            last = max(first + 1, int(np.searchsorted(n_bytes, start + ROUND_BYTES, side="right")))
            ends = np.searchsorted(n_bytes, np.arange(start + BUCKET_BYTES, n_bytes[last - 1], BUCKET_BYTES), "right")
            yield first, np.unique([*np.maximum(ends, first + 1), last])
            first = last


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
