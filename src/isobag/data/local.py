"""A table that is read in this process: a frame, or files that come in batches. It is one partition."""

from abc import abstractmethod
from functools import reduce
from typing import TypeVar

from isobag.backends.arrays import Ints
from isobag.data.partitions import Combine, Finish, Frames, Partitions, Split, Work

T = TypeVar("T")
U = TypeVar("U")


class Source(Partitions):
    """One partition, whose entries are kept once they are read."""

    n_partitions = 1

    @abstractmethod
    def frames(self, number: int = 0) -> Frames:
        """The rows, from the start."""

    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the table."""
        return work(0, self.frames())

    def exchange(
        self, split: Split[T], combine: Combine[T], finish: Finish[T, U], join: Combine[U], which: Ints | None = None
    ) -> U:
        """What is made of the buckets of the table."""
        buckets = split(0, self.frames())
        return reduce(join, (finish(bucket, buckets[bucket]) for bucket in sorted(buckets)))

    def expected_rows(self, n_read: int) -> int | None:
        """About how many rows there will be in all, when so many are read; None if unknown."""
        return None
