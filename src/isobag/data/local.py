"""Partitions in this process: frames, and files that come in batches. They are looked at one after another."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeVar

import narwhals as nw
import pyarrow as pa

from isobag.backends.arrays import Ints
from isobag.data.partitions import Collection, Combine, Finish, Frames, Partitions, Split, Work

T = TypeVar("T")
U = TypeVar("U")


class LocalPartitions(Partitions):
    """Partitions whose frames are read in this process, whenever they are asked for."""

    @abstractmethod
    def frames(self, number: int) -> Frames:
        """The rows of a partition, from its start."""

    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the partitions, in order."""
        return reduce(combine, (work(number, self.frames(number)) for number in self._numbers(which)))

    def exchange(
        self, split: Split[T], combine: Combine[T], finish: Finish[T, U], join: Combine[U], which: Ints | None = None
    ) -> U:
        """The parts of each bucket merged, and what is made of the buckets."""
        buckets: dict[int, T] = {}
        for number in self._numbers(which):
            for bucket, part in split(number, self.frames(number)).items():
                buckets[bucket] = combine(buckets[bucket], part) if bucket in buckets else part
        return reduce(join, (finish(bucket, buckets[bucket]) for bucket in sorted(buckets)))

    def _numbers(self, which: Ints | None) -> Sequence[int]:
        return range(self.n_partitions) if which is None else which.tolist()


class FramePartitions(LocalPartitions, Collection):
    """Frames of pandas, polars or Arrow with the same columns, each of them a partition."""

    def __init__(self, frames: Sequence[Any]) -> None:
        self._frames = [nw.from_native(frame, eager_only=True) for frame in frames]
        self.n_partitions = len(frames)
        schema = self._frames[0].schema
        self.columns = [str(name) for name in schema]
        self.objects = [str(name) for name, kind in schema.items() if isinstance(kind, nw.Object | nw.Unknown)]

    def frames(self, number: int) -> Frames:
        """The frame of a partition."""
        return iter([self._frames[number].to_native()])

    def map(self, work: Callable[[int, Frames], Iterator[Any]], schema: Any) -> pa.Table:
        """The tables of all partitions as one."""
        tables = [table for number in range(self.n_partitions) for table in work(number, self.frames(number))]
        return pa.concat_tables([schema.empty_table(), *tables])

    def give(self, table: Any) -> pa.Table:
        """The table itself."""
        return table

    def types(self, names: Sequence[str]) -> list[Any]:
        """Types by the first frame."""
        first = self._frames[0]
        by_text = {str(name): name for name in first.columns}
        return [pa.string() if name in self.objects else first[by_text[name]].to_arrow().type for name in names]


class Source(LocalPartitions):
    """A table that is read in this process, whole: one partition, whose entries are kept once they are read."""

    n_partitions = 1

    def expected_rows(self, n_read: int) -> int | None:
        """About how many rows there will be in all, when so many are read; None if unknown."""
        return None
