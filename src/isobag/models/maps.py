"""Mean maps of more groups than memory holds: counted when they are asked for, used, and dropped.

Groups are cut into buckets by their numbers, and one bucket is counted after another, so that memory stays bounded.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import groupby
from operator import add
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.backends.counts import stack_counts
from isobag.data.groups import Groups
from isobag.models.counted import Count, CountedGroups
from isobag.models.tally import GroupTally, merge_tallies
from isobag.partitionings.counts import MeanMaps

T = TypeVar("T")
KEPT_BYTES = 1 << 28
BUCKET_BYTES = 1 << 27
LOCAL_BUCKET_BYTES, _ROW_BYTES = 1 << 26, 1 << 9
"""Of a bucket in this process, and of a row of it while it is looked up."""
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
        result, self._total = self._maps.map_reduce(
            lambda maps: (function(maps), part(maps)), lambda a, b: (combine(a[0], b[0]), a[1] + b[1])
        )
        return result

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
        counted = LocalMaps(self._groups.part(chosen), self._count, *self._sizing).in_memory()
        return counted if np.array_equal(chosen, numbers) else counted[places]

    def in_memory(self) -> MeanMaps:
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
        for _, bucket in groupby(blocks, lambda block: int(np.searchsorted(ends, block.numbers[0], side="right"))):
            yield merge_tallies(list(map(self._count, bucket)))


def maps_of(
    groups: Groups, key: Any, count: Count, n_partitionings: int, n_columns: int, kept_bytes: int | None = None
) -> MeanMaps | LazyMaps:
    """The mean maps of any number of groups: kept if they are few, else counted when asked for.

    key : of counts that were made before, see ``CountedGroups``.
    """
    if isinstance(groups, CountedGroups):
        return groups.maps_by(key)
    maps = LocalMaps(groups, count, n_partitionings, n_columns)
    return maps.in_memory() if maps.n_bytes <= (KEPT_BYTES if kept_bytes is None else kept_bytes) else maps


def _bytes_of(sizes: Ints, n_partitionings: int, n_columns: int) -> Floats:
    """Most bytes of the counts of each group and those before it: (g,)."""
    return np.cumsum(np.minimum(sizes * n_partitionings, n_columns), dtype=np.float64) * _ENTRY_BYTES


def _ends_of_buckets(n_bytes: Floats, first: int, last: int, most: int) -> Ints:
    """Where buckets of the groups from ``first`` to before ``last`` end."""
    start = n_bytes[first - 1] if first else 0.0
    ends = np.searchsorted(n_bytes, np.arange(start + most, n_bytes[last - 1], most), "right")
    return np.unique([*np.maximum(ends, first + 1), last])
