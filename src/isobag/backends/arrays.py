"""Arrays shared by all packages: their types, how a pool is cut into samples and their balls, what scores are made of.

S slots are cut into blocks of the largest psi. A block is cut into runs of 32 (or is one run, if it is shorter); the
first 2, 4, 8, 16 and all slots of a run are samples, and so are 64, 128, ... slots one behind the other from the start
of the block, and all of it. So a slot is in one sample of each psi at most, and its number is that of a cell.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

OUTSIDE = -1
"""Cell index of a point that no ball of a partitioning covers."""
RUN = 32
"""Slots that are scanned one after the other; smaller samples lie at the start of a run."""

OCTAVE = 1 << 12
"""Octaves are counted in parts of a 2^12-th."""
MOST_ROWS = 1 << 40
"""Numbers of rows, cells and the like lie below, so that their sums over partitionings do not overflow."""
ONE = 1 + 1e-9
"""The most a share can be, rounded."""
FARTHEST = 1e150
"""Largest number of a row: beyond, float64 would overflow where rows are scaled."""
FAR = np.float32(1e15)
"""Largest number of a scaled row: beyond, squared distances would overflow in float32."""


def octaves(sq_dists: Singles) -> Ints:
    """Piecewise linear log2 of positive numbers, in whole 2^-12 parts, so that no order of summation changes a sum.

    The bits of a float32 are its exponent and then its fraction: as an integer they rise with the number, and are
    linear between powers of two. Shifted right by 11, 12 bits of the fraction are left.
    """
    return (np.ascontiguousarray(sq_dists, dtype=np.float32).view(np.int32) >> 11).astype(np.int64)


class Cut(NamedTuple):
    """Slots cut into samples: psi of each level, ascending, and the number of slots, a multiple of the largest."""

    levels: tuple[int, ...]
    n_slots: int

    @property
    def run(self) -> int:
        """Slots that are scanned one after the other, the smaller samples on the way."""
        return self.levels[-1] if len(self.levels) == 1 else min(RUN, self.levels[-1])

    @property
    def starts(self) -> list[Ints]:
        """First slot of every sample of each psi, ascending: L arrays (t,)."""
        blocks = np.arange(0, self.n_slots, self.levels[-1])[:, None]
        steps = [max(psi, self.run) for psi in self.levels]
        starts: list[Ints] = [(blocks + np.arange(0, self.levels[-1] - step + 1, step)).ravel() for step in steps]
        return starts

    @property
    def counts(self) -> Ints:
        """Number of samples of each psi, t: (L,)."""
        n_blocks = self.n_slots // self.levels[-1]
        return np.array([n_blocks * (self.levels[-1] // max(psi, self.run)) for psi in self.levels])

    @property
    def n_cells(self) -> int:
        """Number of cells of all psi, those of slots that are in no sample included."""
        return len(self.levels) * self.n_slots

    @property
    def far_weights(self) -> Ints:
        """What a sample of each psi counts where all psi are to count alike, as whole numbers: (L,)."""
        weights: Ints = self.counts[0] // self.counts
        return weights

    @property
    def ends(self) -> Ints:
        """Where the samples of each psi begin among those of all, and their number last: (L + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def block(self) -> "Cut":
        """One block alone."""
        return Cut(self.levels, self.levels[-1])


@dataclass(frozen=True, eq=False)
class Balls:
    """Samples of a pool, and a ball around each of their rows: slot s has the center ``pool[slots[s]]``.

    Slots are cut into samples of every psi as said above; a cell is a slot.
    """

    pool: Singles  # (M, d)
    slots: Cells  # (S,)
    levels: tuple[int, ...]  # psi, ascending
    sq_radii: Singles  # (L, S), 0 where a slot is in no sample of that psi

    @property
    def cut(self) -> Cut:
        """How slots are cut into samples."""
        return Cut(self.levels, len(self.slots))

    def joined(self, tables: Ints) -> Ints:
        """Bits of the squared radius above, a table (L, S) of what is added below: one look-up for both."""
        if tables.min(initial=0) < 0 or tables.max(initial=0) >= 1 << 32:
            raise ValueError("tables: need whole numbers from 0 to 2^32 - 1")
        return (self.sq_radii.view(np.int32).astype(np.int64) << 32) | tables

    @cached_property
    def memory(self) -> dict[str, Any]:
        """What a backend derives from the balls and wants to have at hand, by its name."""
        return {}


class Knots(NamedTuple):
    """Piecewise linear functions of d features: feature j has the knots from starts[j] to starts[j + 1]."""

    starts: Ints  # (d + 1,)
    values: Floats  # (m,) of all knots, rising within a feature
    scores: Floats  # (m,) the function at the knots
    slopes: Floats  # (m + d,) before the first knot of a feature, after its first, after its second, ...


class Term(NamedTuple):
    """Part of a score: weight times the logarithm of a sum / divisor, at least floor; without a floor of no logarithm.

    The sum stands in a column of those of a view.
    """

    view: int
    column: int
    divisor: int
    weight: float
    floor: float | None


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms in the order in which they are added, and how many of them are a sum of their own."""

    terms: tuple[Term, ...]
    n_first: int

    @cached_property
    def side_by_side(self) -> tuple[Array, ...]:
        """View, column, divisor, weight and floor of all terms: five times (k,); a floor of nan where there is none."""
        return tuple(map(np.array, zip(*(own._replace(floor=own.floor or np.nan) for own in self.terms), strict=True)))


class Deviations(NamedTuple):
    """What distances between groups need, (g,) each; see ``isobag.models.neighbours``."""

    factors: Floats  # sqrt(n / (1 + q n))
    sq_norms: Floats  # |m - mu|^2
    along: Floats  # m . mu
    self_dots: Floats  # c . c
    sizes: Floats  # n

    def part(self, rows: slice) -> "Deviations":
        """Some of the groups."""
        return Deviations(*(each[rows] for each in self))
