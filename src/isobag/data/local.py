"""A table that is read in this process: a frame, or files that come in batches. It is one partition."""

from abc import abstractmethod
from functools import reduce
from typing import TypeVar

from isobag.backends.arrays import Ints
from isobag.data.partitions import Combine, Finish, Frames, Partitions, Split, Work
from isobag.data.spool import Tick

T = TypeVar("T")
U = TypeVar("U")


class Source(Partitions):
    """One partition, whose entries are kept once they are read.

    tick : called with the number of rows that are looked at, for a progress bar.
    """

    n_partitions = 1
    tick: Tick | None = None

    @abstractmethod
    def frames(self, number: int = 0) -> Frames:
        """The rows, from the start."""

    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the table."""
        return work(0, self.frames() if self.tick is None else self._counted(self.tick))

    def _counted(self, tick: Tick) -> Frames:
        n_rows = 0
        for batch in self.frames():
            yield batch
            n_rows += batch.n_rows
            tick("reading", n_rows, self.expected_rows(n_rows))

    def exchange(
        self, split: Split[T], combine: Combine[T], finish: Finish[T, U], join: Combine[U], which: Ints | None = None
    ) -> U:
        """What is made of the buckets of the table."""
        buckets = split(0, self.frames())
        return reduce(join, (finish(bucket, buckets[bucket]) for bucket in sorted(buckets)))

    def expected_rows(self, n_read: int) -> int | None:
        """About how many rows there will be in all, when so many are read; None if unknown."""
        return None
