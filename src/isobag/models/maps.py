"""Mean maps of more groups than memory holds: counted when they are asked for, used, and dropped.

Groups are cut into buckets by their numbers, and one bucket is counted after another, so that memory stays bounded.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Ints
from isobag.data.groups import Groups
from isobag.data.rows import GroupedBlock
from isobag.models.counted import CountedGroups, Counter
from isobag.partitionings.counts import MeanMaps, merge_counts, stack_counts

T = TypeVar("T")
KEPT_BYTES = 1 << 28
BUCKET_BYTES = 1 << 27
LOCAL_BUCKET_BYTES, _ROW_BYTES = 1 << 26, 1 << 9
"""Of a bucket in this process, and of a row of it while it is looked up."""
_ENTRY_BYTES = 8


class LazyMaps:
    """The mean maps of groups, one bucket at a time; sizes (g,): number of points of each group."""

    def __init__(self, groups: Groups, counter: Counter) -> None:
        self.sizes = groups.sizes
        self._groups, self._counter = groups, counter
        most_entries = np.minimum(groups.sizes * counter.most_of_point, counter.n_columns)
        self._n_bytes = np.cumsum(most_entries, dtype=np.float64) * _ENTRY_BYTES

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_bytes(self) -> float:
        """Most bytes of the counts of all groups."""
        return float(self._n_bytes[-1])

    def __getitem__(self, numbers: Ints) -> MeanMaps:
        """Some of the groups, kept."""
        chosen, places = np.unique(numbers, return_inverse=True)
        counted = LazyMaps(self._groups.part(chosen), self._counter).in_memory()
        return counted if np.array_equal(chosen, numbers) else counted[places]

    def in_memory(self) -> MeanMaps:
        """All groups, kept."""
        most = int(self._n_bytes[-1]) // _ENTRY_BYTES
        return MeanMaps(stack_counts((maps.counts for maps in self._buckets()), most), self.sizes)

    def map_reduce(self, function: Callable[[MeanMaps], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of buckets of groups, merged in order."""
        return reduce(combine, map(function, self._buckets()))

    def map(self, function: Callable[[MeanMaps], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """What a function makes of each group: (g, ...)."""
        return np.concatenate(list(map(function, self._buckets())))

    def _buckets(self) -> Iterator[MeanMaps]:
        """The groups of each bucket, counted; nothing here holds on to them."""
        n_bytes, most = self._n_bytes, BUCKET_BYTES
        if self._groups.rows.device is None:  # a bucket is one block of rows, unless a group is larger
            n_bytes = np.cumsum(np.maximum(np.diff(n_bytes, prepend=0.0), self.sizes * _ROW_BYTES))
            most = LOCAL_BUCKET_BYTES
        ends = np.searchsorted(n_bytes, np.arange(most, n_bytes[-1], most), "right")
        ends = np.unique([*np.maximum(ends, 1), len(self)])
        blocks = self._groups.blocks(ends)
        for _, bucket in groupby(blocks, lambda block: int(np.searchsorted(ends, block.numbers[0], side="right"))):
            yield self._count(bucket)

    def _count(self, blocks: Iterator[GroupedBlock]) -> MeanMaps:
        """The groups of one bucket."""
        counts, numbers = zip(*((self._counter.count(block), block.numbers) for block in blocks), strict=True)
        first, stop = int(numbers[0][0]), int(numbers[-1][-1]) + 1
        return MeanMaps(merge_counts(counts, np.concatenate(numbers) - first, stop - first), self.sizes[first:stop])


AnyMaps = MeanMaps | LazyMaps


def maps_of(groups: Groups, counter: Counter, kept_bytes: int = KEPT_BYTES) -> AnyMaps:
    """The mean maps of any number of groups: counted before, or now and kept if they are few, or when asked for."""
    if isinstance(groups, CountedGroups):
        return groups.maps_by(counter.key)
    maps = LazyMaps(groups, counter)
    return maps.in_memory() if maps.n_bytes <= kept_bytes else maps
