"""Partitionings of groups: the same balls, drawn around mean maps instead of points.

A group is the counts of its points in the cells of level 1 and its size; its mean map is their quotient. Distances
between mean maps come from integer dot products of the counts, so no dense mean map is ever needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Array, Cells, Floats, Ints
from isobag.backends.counts import dot_vector, self_dots, total_counts
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import slices
from isobag.partitionings.base import draw_rows, draw_seeds

_KEPT_DOTS = 1 << 27
T = TypeVar("T")


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

    def map_reduce(self, function: Callable[["MeanMaps"], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of blocks of groups, merged."""
        return function(self)

    def prepare(self) -> "GroupQueries":
        """To be partitioned, and assigned to cells."""
        return GroupQueries(self)

    def total(self, weights: Ints) -> Ints:
        """Sum of the counts times whole weights, one for each group: (g,) -> (columns,)."""
        return total_counts(self.counts, weights)

    def dot(self, vector: Ints) -> Ints:
        """Dot product of each group's counts with a vector of whole numbers: (columns,) -> (g,)."""
        return dot_vector(self.counts, vector)


class GroupQueries:
    """Groups to be assigned to cells, and their dot products with the centers of cells, where there is room for them.

    Centers are groups too: those drawn from these queries, by ``part``, share one table of dot products with them.
    """

    def __init__(self, maps: MeanMaps, source: "GroupQueries | None" = None, rows: Ints | None = None) -> None:
        self.maps = maps
        self._source, self._rows = source, rows
        self._dots: tuple[MeanMaps, Ints] | None = None
        self._cells: tuple[GroupBalls, Cells] | None = None

    def __len__(self) -> int:
        return len(self.maps)

    def part(self, rows: Ints) -> "GroupQueries":
        """Some of the groups."""
        return GroupQueries(self.maps[rows], self, rows)

    def dots_with(self, centers: MeanMaps, compute: Compute, rows: Ints | None = None) -> Ints | None:
        """Dot products with all centers (g, centers), or None if they are too many to keep.

        ``rows``: those of the groups that are the centers, if known
        """
        if len(self) * len(centers) > _KEPT_DOTS:
            return None
        if self._dots is None or self._dots[0] is not centers:
            dots = compute.backend.dot_counts(self.maps.counts, centers.counts, compute.n_jobs, rows)
            self._dots, self._cells = (centers, dots), None
        return self._dots[1]

    def count_and_sum(self, drawn: "GroupBalls", compute: Compute) -> tuple[Ints, Ints]:
        """Counts of these groups in the cells of each level (L, t, psi), and their sums at the cells: (g, L)."""
        counts = drawn.count(self, compute)
        return counts, drawn.sum_at(self, counts, compute)

    def own_dots(self, compute: Compute) -> tuple[Ints, Ints]:
        """Dot products of these groups among each other, and the rows in which they stand."""
        shared = None if self._source is None else self._source.dots_with(self.maps, compute, self._rows)
        if shared is not None and self._rows is not None:
            return shared, self._rows
        every = np.arange(len(self))
        return compute.backend.dot_counts(self.maps.counts, self.maps.counts, compute.n_jobs, every), every

    def cells_in(self, balls: "GroupBalls", compute: Compute) -> Cells:
        """Cell of every group in every partitioning of each level, kept for the next who asks: see ``find_cells``."""
        if self._cells is None or self._cells[0] is not balls:
            self._cells = balls, balls.find_cells(self, compute)
        return self._cells[1]


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

    def prepare(self, maps: MeanMaps, compute: Compute) -> GroupQueries:
        """Queries from mean maps."""
        return GroupQueries(maps)

    def __len__(self) -> int:
        """Number of partitionings."""
        return len(self.slots)

    def count(self, queries: GroupQueries, compute: Compute) -> Ints:
        """Number of groups in each cell of each level: (L, t, psi)."""
        return compute.backend.count_assigned(queries.cells_in(self, compute), self.levels[-1])

    def sum_at(self, queries: GroupQueries, tables: Ints, compute: Compute) -> Ints:
        """Sum over partitionings of the table at each group's cell: tables (L, t, psi) -> (g, L)."""
        return compute.backend.sum_assigned(queries.cells_in(self, compute), tables)

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

    def find_cells(self, queries: GroupQueries, compute: Compute) -> Cells:
        """Cell of every group in every partitioning, for each level, where the backend works: (L, t, g)."""
        centers = (self.centers.self_dots, self.centers.sizes, self.unit)

        def find_part(part: GroupQueries) -> Cells:
            dots = part.dots_with(self.centers, compute)
            assert dots is not None
            queries = (dots, part.maps.self_dots, part.maps.sizes)
            return compute.backend.assign_groups(
                *queries, *centers, self.slots, self.levels, self.sq_radii, compute.n_jobs
            )

        rows = list(slices(len(queries), max(1, _KEPT_DOTS // len(self.centers))))
        if len(rows) <= 1:
            return find_part(queries)
        return compute.backend.join_cells([find_part(GroupQueries(queries.maps[own])) for own in rows])


def draw_from_groups(
    groups: Any, n_estimators: int, levels: tuple[int, ...], random_state: Any, compute: Compute
) -> GroupBalls:
    """Level 2: draw some of the groups for each partitioning; balls around them, for all nested levels."""
    rows = draw_rows(len(groups), draw_seeds(n_estimators, random_state), levels[-1])
    chosen, where = np.unique(rows, return_inverse=True)
    slots = where.reshape(rows.shape).astype(np.int32)
    drawn = groups.part(chosen)
    centers = drawn.maps
    unit = int(np.gcd.reduce(centers.sizes))
    dots, places = drawn.own_dots(compute)
    of_centers = centers.self_dots, centers.sizes, unit
    radii = compute.backend.group_sq_radii(dots, places, *of_centers, slots, levels, compute.n_jobs)
    return GroupBalls(centers, unit, slots, levels, radii)
