"""Partitionings of groups: the same balls, drawn around mean maps instead of points.

A group is the counts of its points in the cells of level 1 and its size; its mean map is their quotient. Distances
between mean maps come from integer dot products of the counts, so no dense mean map is ever needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, OUTSIDE, Array, Cells, Floats, Ints
from isobag.backends.counts import dot_vector, self_dots, total_counts
from isobag.backends.learned import Learned, check, demand
from isobag.backends.numpy import group_sq_radii
from isobag.backends.threads import slices
from isobag.partitionings.base import draw_rows, draw_seeds

_KEPT_DOTS = 1 << 27


@dataclass(frozen=True)
class MeanMaps(Learned):
    """Groups at level 1: counts (g, columns) CSR of integers, sizes (g,); the mean maps are counts / sizes."""

    counts: csr_array  # or counts on a device, see isobag.backends.counts
    sizes: Ints

    def validate(self) -> None:
        """A size for each group, and counts that are not negative."""
        check("sizes", self.sizes, (self.counts.shape[0],), 1, MOST_ROWS)
        check("counts", self.counts.data, (None,), 0, 1 << 31)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.sizes)

    def __getitem__(self, rows: slice | Ints) -> "MeanMaps":
        """Some of the groups."""
        return MeanMaps(self.counts[rows], self.sizes[rows])

    @property
    def shares(self) -> csr_array:
        """The mean maps: CSR (g, columns) float64."""
        return csr_array(self.counts.multiply(1 / self.sizes[:, None]))

    @cached_property
    def self_dots(self) -> Floats:
        """Dot product of each group's counts with themselves: (g,)."""
        return self_dots(self.counts)

    def map(self, function: Callable[["MeanMaps"], Array]) -> Array:
        """What a function makes of each group, from blocks of groups: (g, ...)."""
        return function(self)

    def total(self, weights: Ints) -> Ints:
        """Sum of the counts times whole weights, one for each group: (g,) -> (columns,)."""
        return total_counts(self.counts, weights)

    def dot(self, vector: Ints) -> Ints:
        """Dot product of each group's counts with a vector of whole numbers: (columns,) -> (g,)."""
        return dot_vector(self.counts, vector)


@dataclass(frozen=True, eq=False)
class GroupBalls(Learned):
    """t partitionings of psi groups: center j of partitioning i is ``centers[slots[i, j]]``.

    levels: the nested partitionings by the first groups drawn; sq_radii (L, t, psi).
    """

    centers: MeanMaps
    unit: int  # a divisor of all sizes of centers
    slots: Cells
    levels: tuple[int, ...]
    sq_radii: Floats

    def __len__(self) -> int:
        """Number of partitionings."""
        return len(self.slots)

    @property
    def width(self) -> int:
        """Number of columns of the mean maps."""
        return int(self.centers.counts.shape[1])

    def validate(self) -> None:
        """Slots are numbers of centers, whose sizes the unit divides."""
        check("unit", self.unit, (), 1, MOST_ROWS)
        demand(not np.any(self.centers.sizes % self.unit), "the unit does not divide the sizes")
        rising = [1, *self.levels, MOST_ROWS]
        demand(len(rising) > 2 and all(a < b for a, b in pairwise(rising)), "levels are not in rising order from 2 on")
        check("slots", self.slots, (None, self.levels[-1]), 0, len(self.centers) - 1)
        check("sq_radii", self.sq_radii, (len(self.levels), *self.slots.shape), 0, np.inf)
        demand(self.slots.size, "there are no partitionings")

    def assign(self, maps: MeanMaps, compute: Compute, dots: Ints | None = None) -> Cells:
        """Cell of every group in every partitioning, for each level: (L, t, g); ``dots`` with centers, if at hand."""
        centers = self.centers

        def assign_part(rows: slice) -> Cells:
            part, of_part = maps if rows.stop - rows.start >= len(maps) else maps[rows], dots
            if of_part is None:
                of_part = compute.backend.dot_counts(part.counts, centers.counts, compute.n_jobs)
            measured = (of_part, part.self_dots, part.sizes, centers.self_dots, centers.sizes, self.unit)
            return compute.backend.assign_groups(*measured, self.slots, self.levels, self.sq_radii, compute.n_jobs)

        parts = slices(max(1, len(maps)), max(1, _KEPT_DOTS // len(centers)))
        return np.concatenate([assign_part(rows) for rows in parts], axis=2)

    def count(self, cells: Cells) -> Ints:
        """Number of groups in each cell: (L, t, g) -> (L, t, psi)."""
        psi = self.levels[-1]
        return np.array([[np.bincount(own[own != OUTSIDE], minlength=psi) for own in level] for level in cells])

    def sum_at(self, cells: Cells, tables: Ints) -> Ints:
        """Sum over partitionings of the table at each group's cell: (L, t, g), (L, t, psi) -> (g, L)."""
        sums = np.zeros((cells.shape[2], len(cells)), dtype=np.int64)
        for level, i in np.ndindex(*cells.shape[:2]):
            sums[:, level] += np.where(cells[level, i] == OUTSIDE, 0, tables[level, i][cells[level, i]])
        return sums


def draw_from_groups(
    maps: Any, n_estimators: int, levels: tuple[int, ...], random_state: Any, compute: Compute
) -> tuple[GroupBalls, Ints | None]:
    """Level 2: draw some of the groups for each partitioning; balls around them, for all nested levels.

    Also the dot products of all groups with the centers (g, centers), if the groups are kept and these are not too
    many.
    """
    drawn = draw_rows(len(maps), draw_seeds(n_estimators, random_state), levels[-1])
    chosen, where = np.unique(drawn, return_inverse=True)
    slots = where.reshape(drawn.shape).astype(np.int32)
    centers = maps if isinstance(maps, MeanMaps) and len(chosen) == len(maps) else maps[chosen]
    unit = int(np.gcd.reduce(centers.sizes))
    has_all = isinstance(maps, MeanMaps) and len(maps) * len(centers) <= _KEPT_DOTS
    dots = compute.backend.dot_counts((maps if has_all else centers).counts, centers.counts, compute.n_jobs)
    among = dots[chosen] if has_all else dots
    radii = group_sq_radii(compute.fetch(among), centers.self_dots, centers.sizes, unit, slots, levels)
    return GroupBalls(centers, unit, slots, levels, radii), dots if has_all else None
