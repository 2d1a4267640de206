"""Arrays shared by all packages: their types, the balls of partitionings, and the one reserved cell index."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.samples import Cut

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

OUTSIDE = -1
"""Cell index of a point that no ball of a partitioning covers."""


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


@dataclass(frozen=True, eq=False)
class Balls:
    """Samples of a pool, and a ball around each of their rows: slot s has the center ``pool[slots[s]]``.

    Slots are cut into samples of every psi as ``isobag.backends.samples`` says; a cell is a slot.
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


def is_first(values: Array) -> Bools:
    """Whether a whole number, 0 or more, is the first of its value in its row: (t, m)."""
    m = values.shape[1]
    bits = m.bit_length()
    keys = (values.astype(np.int64) << bits) | np.arange(m)  # rising with the value, then with the place
    keys.sort(axis=1)
    owners = keys >> bits
    is_new = np.ones(values.shape, dtype=bool)
    is_new[:, 1:] = owners[:, 1:] != owners[:, :-1]
    first = np.empty_like(is_new)
    np.put_along_axis(first, keys & ((1 << bits) - 1), is_new, axis=1)
    return first
