"""Medians of values that are never in one place: three passes that count values by ever more of their leading bits.

Numbers are counted as 64-bit keys in the same order. The first pass counts the upper 24 bits of all keys, the others
the next 20 bits of those keys alone that agree with a middle one so far: few counts, which merge in any order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.data.partitions import Frames, Partitions
from isobag.models.thresholds import add_values

SHIFTS = (40, 20, 0)
"""Bits that each pass leaves aside."""
_SIGN = np.uint64(1 << 63)
Keys = npt.NDArray[np.uint64]
Entries = Callable[[int, Frames, Sequence[str]], Iterator[dict[str, Floats]]]
"""Entries of some columns of a partition, some rows at a time."""


class KeyCounts(NamedTuple):
    """Leading bits (k,), ascending, and how many values have them (k,)."""

    keys: Keys
    counts: Ints

    def merge(self, other: "KeyCounts") -> "KeyCounts":
        """Counts of both."""
        return KeyCounts(*add_values(self, other))


class Bracket(NamedTuple):
    """What is known of the two middle values: their leading bits, and how many values come before those bits.

    They are the same value if there is an odd number of values.
    """

    keys: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    turn: int = 0

    def count_keys(self, values: Floats) -> KeyCounts:
        """The next bits of those values, NaN aside, that agree with a middle one so far: (m,)."""
        keys = ordered_keys(values[~np.isnan(values)])
        if self.turn:
            keys = keys[np.isin(keys >> np.uint64(SHIFTS[self.turn - 1]), np.array(self.keys, dtype=np.uint64))]
        return KeyCounts(*np.unique(keys >> np.uint64(SHIFTS[self.turn]), return_counts=True))

    def narrow(self, counted: KeyCounts) -> "Bracket":
        """What is known after a pass over all values."""
        ranks = self.ranks
        if not self.turn:
            total = int(counted.counts.sum())
            ranks = ((total - 1) // 2, total // 2)
        middle, rests = [], []
        for i, rank in enumerate(ranks):
            own = counted
            if self.turn:
                width = SHIFTS[self.turn - 1] - SHIFTS[self.turn]
                is_own = counted.keys >> np.uint64(width) == np.uint64(self.keys[i])
                own = KeyCounts(counted.keys[is_own], counted.counts[is_own])
            place = int(np.searchsorted(np.cumsum(own.counts), rank, side="right"))
            middle.append(int(own.keys[place]))
            rests.append(rank - int(own.counts[:place].sum()))
        return Bracket(tuple(middle), tuple(rests), self.turn + 1)

    @property
    def median(self) -> float:
        """The mean of the two middle values, when all bits are known."""
        return float(np.median(values_of(np.array(self.keys, dtype=np.uint64))))


def medians_of(partitions: Partitions, entries: Entries, names: Sequence[str]) -> dict[str, float]:
    """Medians of some columns of a table in partitions, of which ``entries`` gives the values; NaN does not count."""
    brackets = {name: Bracket() for name in names}
    for _ in SHIFTS:
        counted = partitions.run(_CountKeys(entries, brackets), _merge)
        brackets = {name: own.narrow(counted[name]) for name, own in brackets.items()}
    return {name: own.median for name, own in brackets.items()}


@dataclass(frozen=True)
class _CountKeys:
    entries: Entries
    brackets: Mapping[str, Bracket]

    def __call__(self, number: int, frames: Frames) -> dict[str, KeyCounts]:
        counted = {name: own.count_keys(np.empty(0)) for name, own in self.brackets.items()}
        for values in self.entries(number, frames, list(self.brackets)):
            counted = {name: own.merge(self.brackets[name].count_keys(values[name])) for name, own in counted.items()}
        return counted


def _merge(first: dict[str, KeyCounts], later: dict[str, KeyCounts]) -> dict[str, KeyCounts]:
    return {name: own.merge(later[name]) for name, own in first.items()}


def ordered_keys(values: Floats) -> Keys:
    """Keys in the order of the values, none of which is NaN: (m,)."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Keys) -> Floats:
    """The values that have these keys."""
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
