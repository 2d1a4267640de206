"""Arrays shared by all rooms: their types, the balls of partitionings, and the one reserved cell index."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

OUTSIDE = -1
"""Cell index of a point that no ball of a partitioning covers."""


OCTAVE = 1 << 12
"""Octaves are counted in parts of a 2^12-th: fine enough for a rank, and coarse enough for float32 to be certain."""
OCTAVE_BITS = 40
MOST_ROWS = 1 << 40
"""Numbers of rows, cells and the like lie below, so that their sums over partitionings do not overflow."""
ONE = 1 + 1e-9
"""The most a share can be, rounded."""
FARTHEST = 1e150
"""Largest number of a row: beyond, squared distances overflow."""


def octaves(sq_dists: Floats) -> Ints:
    """Piecewise linear log2 of positive numbers, in whole 2^-12 parts: no order of summation changes a sum of it.

    The bits of a float64 are its exponent and then its fraction: as an integer they rise with the number, and are
    linear between powers of two. Shifted right by 40, 12 bits of the fraction are left.
    """
    return np.ascontiguousarray(sq_dists).view(np.int64) >> OCTAVE_BITS


@dataclass(frozen=True, eq=False)
class Balls:
    """t partitionings of psi balls: center j of partitioning i is ``points[slots[i, j]]``.

    Rows that several partitionings draw are held once. Level l is the nested partitioning by the first ``levels[l]``
    centers, with radii of its own; the last level is the whole.
    """

    points: Floats  # (m, d) distinct
    slots: Cells  # (t, psi)
    levels: tuple[int, ...]  # ascending, the last is psi
    sq_radii: Floats  # (L, t, psi)


class Knots(NamedTuple):
    """Piecewise linear functions of d features: feature j has the knots from starts[j] to starts[j + 1]."""

    starts: Ints  # (d + 1,)
    values: Floats  # (m,) of all knots, rising within a feature
    scores: Floats  # (m,) the function at the knots
    slopes: Floats  # (m + d,) before the first knot of a feature, after its first, after its second, ...


LINEAR, ASINH, BY_KNOTS = 0, 1, 2
"""Kinds of scales."""


class Scales(NamedTuple):
    """Scales of the same d features in V views, side by side."""

    kinds: Ints  # (V,)
    shifts: Floats  # (V, d) of LINEAR and ASINH
    spreads: Floats  # (V, d)
    starts: Ints  # (V, d + 1) as those of Knots, counted through all views; a view without knots has none
    values: Floats  # (m,)
    scores: Floats  # (m,)
    slopes: Floats  # (m + V d,)

    def knots(self, view: int) -> Knots:
        """Those of one view alone."""
        (first, last), before = self.starts[view, [0, -1]], view * self.shifts.shape[1]
        slopes = self.slopes[first + before : last + before + self.shifts.shape[1]]
        return Knots(self.starts[view] - first, self.values[first:last], self.scores[first:last], slopes)


class Weights(NamedTuple):
    """What makes one score of sums at C columns of V views; see ``isobag.models.averaging``."""

    largest: Floats  # (V, 1, C) what sums are divided by
    floors: Floats  # (V, 1, C) the least that counts
    weights: Floats  # (V, 1, C)
    order: Ints  # (V C,) in which terms are added, as numbers in (V, C): coarse ones first
    n_coarse: int  # 0 where they do not overrule the others
    slope: float
    offset: float
    overruled: float
    lowest: float  # the least mean


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


_CACHE_LINE = 64


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """Zeros from the beginning of a cache line on: vectors as wide as a line then do not lie across two."""
    kind = np.dtype(dtype)
    n_bytes = int(np.prod(shape)) * kind.itemsize
    room = np.zeros(n_bytes + _CACHE_LINE, dtype=np.uint8)
    start = -room.ctypes.data % _CACHE_LINE
    return room[start : start + n_bytes].view(kind).reshape(shape)


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


def one_level(balls: Balls, level: int) -> Balls:
    """The nested partitionings of one level alone."""
    psi = balls.levels[level]
    return Balls(balls.points, balls.slots[:, :psi], (psi,), balls.sq_radii[level][None, :, :psi])
