"""Rows cut into partitions that stay where they are: what an engine for many machines must offer, and rows made of it.

An engine brings work to the partitions and merges what it makes of them, neighbours first, in order. All else is built
on that: a pass over rows, rows picked by number, counts of groups. What travels is the work, once to each machine, and
partial results, which do not grow with the number of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from isobag.backends.arrays import Ints

T = TypeVar("T")
Frames = Iterator[Any]
"""The rows of a partition in order, as frames of pandas or Arrow; a partition may have none."""
Work = Callable[[int, Frames], T]
"""What is made of a partition, from its number and its rows; may be sent to another process."""


class Partitions(ABC):
    """A table cut into partitions, in order.

    n_partitions : how many there are.
    columns : names of the columns, in order.
    """

    n_partitions: int
    columns: Sequence[str]

    @abstractmethod
    def run(self, work: Work[T], combine: Callable[[T, T], T], which: Ints | None = None) -> T:
        """What ``work`` makes of the partitions, merged: combine(... combine(work(0), work(1)) ..., work(p - 1)).

        ``combine`` is associative and always gets neighbours in order, the earlier first; it may run anywhere.
        ``which``: the numbers of the partitions to look at, ascending, at least one; None for all.
        """
