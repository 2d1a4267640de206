"""Medians of values that are never in one place: three passes that count values by ever more of their leading bits.

Numbers are counted as 64-bit keys in the same order. The first pass counts the upper 24 bits of all keys, the others
the next 20 bits of those keys alone that agree with a middle one so far: few counts, which merge in any order.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
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
KeyCounts = tuple[Keys, Ints]
"""Leading bits (k,), ascending, and how many values have them (k,)."""
Entries = Callable[[int, Frames, Sequence[str]], Iterator[dict[str, Floats]]]
"""Entries of some columns of a partition, some rows at a time."""


class Bracket(NamedTuple):
    """What is known of the two middle values: their leading bits, and how many values come before those bits.

    Of an odd number of values there is one.
    """

    keys: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    turn: int = 0

    def count_keys(self, values: Floats) -> KeyCounts:
        """The next bits of those values, NaN aside, that agree with a middle one so far: (m,)."""
        keys = ordered_keys(values[~np.isnan(values)])
        if self.turn:
            keys = keys[np.isin(keys >> np.uint64(SHIFTS[self.turn - 1]), np.array(self.keys, dtype=np.uint64))]
        return np.unique(keys >> np.uint64(SHIFTS[self.turn]), return_counts=True)

    def narrow(self, counted: KeyCounts) -> "Bracket":
        """What is known after a pass over all values."""
        keys, counts = counted
        total = int(counts.sum())
        middle, rests = [], []
        for i, rank in enumerate(self.ranks if self.turn else sorted({(total - 1) // 2, total // 2})):
            own, numbers = keys, counts
            if self.turn:
                is_own = keys >> np.uint64(SHIFTS[self.turn - 1] - SHIFTS[self.turn]) == np.uint64(self.keys[i])
                own, numbers = keys[is_own], counts[is_own]
            place = int(np.searchsorted(np.cumsum(numbers), rank, side="right"))
            middle.append(int(own[place]))
            rests.append(rank - int(numbers[:place].sum()))
        return Bracket(tuple(middle), tuple(rests), self.turn + 1)

    @property
    def median(self) -> float:
        """The mean of the two middle values, when all bits are known."""
        return float(np.median(values_of(np.array(self.keys, dtype=np.uint64))))


def medians_of(partitions: Partitions, entries: Entries, names: Sequence[str]) -> dict[str, float]:
    """Medians of some columns of a table in partitions, of which ``entries`` gives the values; NaN does not count."""
    brackets = {name: Bracket() for name in names}
    for _ in SHIFTS:
        counted = partitions.run(partial(_count_keys, entries, brackets), _merge)
        brackets = {name: own.narrow(counted[name]) for name, own in brackets.items()}
    return {name: own.median for name, own in brackets.items()}


def _count_keys(entries: Entries, brackets: dict[str, Bracket], number: int, frames: Frames) -> dict[str, KeyCounts]:
    parts = entries(number, frames, list(brackets))
    none = {name: own.count_keys(np.empty(0)) for name, own in brackets.items()}
    counted = ({name: own.count_keys(values[name]) for name, own in brackets.items()} for values in parts)
    return reduce(_merge, counted, none)


def _merge(first: dict[str, KeyCounts], later: dict[str, KeyCounts]) -> dict[str, KeyCounts]:
    return {name: add_values(own, later[name]) for name, own in first.items()}


def ordered_keys(values: Floats) -> Keys:
    """Keys in the order of the values, none of which is NaN: (m,)."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Keys) -> Floats:
    """The values that have these keys."""
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
