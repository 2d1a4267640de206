"""A period of an entity is a bag of rows: its counts in the cells of views, and what was found when it was judged.

All that a monitor has learned of entities is a sequence of periods. Each has a line for every entity that had rows in
it, or was expected to. Nothing else is kept, so a period that is taken away leaves no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import MOST_ROWS, Bools, Cells, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.backends.pairs import PackedCounts

ORDINARY, FLAGGED, CONFIRMED, DISMISSED = range(4)
"""What is thought of a line. Flagged and confirmed ones are not part of the past."""
MISSING = -np.inf
"""In place of a score that a line does not have."""
Hashes = npt.NDArray[np.uint64]


class Bags(NamedTuple):
    """Bags of some entities: their numbers (b,), sizes (b,), packed counts, and dot products with themselves (b,)."""

    entities: Ints
    sizes: Ints
    packed: PackedCounts
    self_dots: Ints

    def part(self, rows: Ints) -> "Bags":
        """Some of the bags, with only their counts."""
        return Bags(self.entities[rows], self.sizes[rows], self.packed.part(rows), self.self_dots[rows])


def join_bags(parts: Sequence[Bags]) -> Bags:
    """Bags of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    packed = [one.packed for one in parts]
    lengths = np.concatenate([np.diff(one.starts) for one in packed])
    columns, counts = (np.concatenate([getattr(one, name) for one in packed]) for name in ("columns", "counts"))
    entities, sizes, dots = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("entities", "sizes", "self_dots")
    )
    return Bags(entities, sizes, PackedCounts(np.append(0, np.cumsum(lengths)), columns, counts), dots)


@dataclass(frozen=True, eq=False)
class PeriodLines(Learned):
    """One period: a line for each entity, in rising order of the entities' numbers.

    number : of the period.
    entities, sizes : (lines,) of ints; a size of 0 is a silent entity.
    bags : counts of the rows in the cells of all partitionings, side by side.
    self_dots : (lines,), dot product of the counts with themselves.
    ages : (lines,), number of own past bags that were there to compare with.
    distance : (lines,), mean distance to the nearest own past bags.
    shift : (lines,), how far column means are from the usual ones: see ``shifts``.
    cycle : length of the cycle that expected numbers of rows and usual means are from, 0 if none.
    changed : number of lines that changed together, 0 where this is no common change; nothing is measured by the scores
        of a period with such a change.
    past, first, peers, volume : (lines,), scores, higher = odder; MISSING where there is nothing to compare with.
    expected : (lines,), number of rows that was expected, -1 if unknown.
    status : (lines,), see ORDINARY.
    digests : (lines,), sum of the hashes of the rows.
    hashes : the hashes of all rows, line by line, rising; none in periods that can no longer change.
    means, spreads : (lines, d), mean and standard deviation of each feature.
    """

    number: int
    cycle: int
    changed: int
    entities: Ints
    sizes: Ints
    bags: PackedCounts
    self_dots: Ints
    ages: Cells
    distance: Floats
    shift: Floats
    past: Floats
    first: Floats
    peers: Floats
    volume: Floats
    expected: Floats
    status: npt.NDArray[np.int8]
    digests: Hashes
    hashes: Hashes
    means: npt.NDArray[np.float32]
    spreads: npt.NDArray[np.float32]

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.entities)

    @property
    def as_bags(self) -> Bags:
        """The lines without what was found when they were judged."""
        return Bags(self.entities, self.sizes, self.bags, self.self_dots)

    @cached_property
    def joined(self) -> Bools:
        """Lines that are part of the past."""
        joined: Bools = (self.status == ORDINARY) | (self.status == DISMISSED)
        return joined

    @cached_property
    def least_age(self) -> int:
        """The least of the ages of lines with rows; a large number where there are none."""
        return int(self.ages[self.sizes > 0].min(initial=np.iinfo(self.ages.dtype).max))

    @cached_property
    def usable(self) -> Bools:
        """Lines that others are compared with."""
        usable: Bools = self.joined & (self.sizes > 0)
        return usable

    @property
    def flagged(self) -> Bools:
        """Lines that were flagged, and not dismissed."""
        flagged: Bools = (self.status == FLAGGED) | (self.status == CONFIRMED)
        return flagged

    def places(self, wanted: Ints) -> Ints:
        """The line of each entity, -1 if it has none: (k,) -> (k,)."""
        return places_among(self.entities, wanted)

    def settled(self) -> "PeriodLines":
        """The same, without what only late rows need."""
        return self if not len(self.hashes) else replace(self, hashes=np.empty(0, dtype=np.uint64))

    def validate(self) -> None:
        """A number of each kind for each line, and rising entities."""
        lines = (len(self.entities),)
        for name in ("number", "cycle", "changed"):
            check(name, getattr(self, name), (), -MOST_ROWS if name == "number" else 0, MOST_ROWS)
        check("entities", self.entities, lines, 0, MOST_ROWS)
        demand(np.all(np.diff(self.entities) > 0), "entities are not in rising order")
        check("sizes", self.sizes, lines, 0, MOST_ROWS)
        demand(len(self.bags) == lines[0], "bags are not one for each line")
        check("self_dots", self.self_dots, lines, 0)
        check("ages", self.ages, lines, 0)
        for name in ("distance", "shift", "past", "first", "peers", "volume"):
            check(name, getattr(self, name), lines, -np.inf, np.inf)
        check("expected", self.expected, lines, -1)
        check("status", self.status, lines, ORDINARY, DISMISSED)
        check("digests", self.digests, lines)
        check("means", self.means, (*lines, None), -np.inf, np.inf)
        check("spreads", self.spreads, self.means.shape, -np.inf, np.inf)
        demand(self.hashes.shape in ((0,), (self.sizes.sum(),)), "hashes are not one for each row")


def places_among(entities: Ints, wanted: Ints) -> Ints:
    """Where each entity stands among others in rising order, -1 if it does not: (k,) -> (k,)."""
    if not len(entities):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(entities, wanted), len(entities) - 1)
    return np.where(entities[places] == wanted, places, -1)
