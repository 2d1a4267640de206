"""Balls around rows: hyperspheres, which reach to the nearest other center, and Voronoi cells, unbounded balls."""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, Balls, Cells, Floats, Ints
from isobag.backends.learned import check, demand
from isobag.backends.protocol import Queries
from isobag.partitionings.base import Drawn, Partitionings, Prepared


class AnyBalls(Partitionings):
    """t partitionings of psi balls each, around rows or groups: a frozen data class with these fields."""

    slots: Cells
    levels: tuple[int, ...]
    sq_radii: Floats

    def __len__(self) -> int:
        """Number of partitionings."""
        return len(self.slots)

    def at(self, level: int) -> Self:
        """The nested partitionings of one level alone."""
        # For mypy this class is no data class; those that inherit from it are.
        psi, radii = self.levels[level], self.sq_radii[level % len(self.levels)]
        return replace(self, slots=self.slots[:, :psi], levels=(psi,), sq_radii=radii[None, :, :psi])  # type: ignore[type-var]

    def nearest_levels(self, queries: Prepared, compute: Compute) -> Cells:
        """The nearest center at each level, whether its ball covers the query or not: (L, t, n)."""
        # As in ``at``: a data class, but not for mypy.
        unbounded = replace(self, sq_radii=np.full_like(self.sq_radii, np.inf))  # type: ignore[type-var]
        return unbounded.assign_levels(queries, compute)

    def check_balls(self, n_centers: int) -> None:
        """Refuse levels, slots or radii that do not fit together, or with so many centers."""
        self.check_levels()
        check("slots", self.slots, (None, self.levels[-1]), 0, n_centers - 1)
        check("sq_radii", self.sq_radii, (len(self.levels), *self.slots.shape), 0, np.inf)
        demand(self.slots.size, "there are no partitionings")


def far_limits(sq_radii: Floats, levels: tuple[int, ...], compute: Compute) -> Ints | None:
    """What ``AnyBalls.far_limits`` says of squared radii (L, t, psi); None where some ball is unbounded."""
    if sq_radii.max() == np.inf:
        return None
    limits = np.full(len(levels), -1)
    near_root = max(level for level, psi in enumerate(levels) if level == 0 or psi**2 <= levels[-1])
    for level in (near_root, len(levels) - 1):
        limits[level] = compute.verbs.middle_octave(sq_radii[level, :, : levels[level]])
    return limits


@dataclass(frozen=True, eq=False)
class RowBalls(Balls, AnyBalls):
    """The balls of t partitionings of rows, and what can be asked of them."""

    @property
    def centers(self) -> Floats:
        """The centers, one by one: (t, psi, d)."""
        return self.points[self.slots]

    def prepare(self, X: Floats, compute: Compute) -> Queries:
        """Queries of the backend."""
        return compute.verbs.prepare(X)

    def assign(self, queries: Queries, compute: Compute, rule: str = "nearest") -> Cells:
        """Cell of every row in every partitioning: (n, t), OUTSIDE if uncovered."""
        return compute.fetch(compute.verbs.assign_cells(queries, self, rule, compute.n_jobs))

    def assign_levels(self, queries: Queries, compute: Compute) -> Cells:
        """Cell of every row in every partitioning of each level: (L, t, n)."""
        return compute.fetch(compute.verbs.assign_levels(queries, self, compute.n_jobs))

    def count(self, queries: Queries, compute: Compute) -> Ints:
        """Number of rows in each cell of each level: (L, t, psi)."""
        return compute.verbs.count_cells(queries, self, compute.n_jobs)

    def sum_at(
        self, queries: Queries, tables: Ints, compute: Compute, rule: str = "nearest", limits: Ints | None = None
    ) -> Ints:
        """Sum over partitionings of the table at each row's cell: tables (L, t, psi) -> (n, L), or (n, L + 1)."""
        return compute.verbs.sum_at_cells(queries, self, tables, rule, limits, compute.n_jobs)

    def count_and_sum(
        self, queries: Queries, compute: Compute, only_last: bool = False, limits: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Counts (L, t, psi), and what ``sum_at`` makes of them, of all levels or the last."""
        return compute.verbs.count_and_sum(queries, self, only_last, limits, compute.n_jobs)

    def far_limits(self) -> Ints | None:
        """Octaves of the typical squared radius, at the largest psi and at one near its square root: (L,)."""
        return far_limits(self.sq_radii, self.levels, Compute("numpy"))

    def count_groups(
        self, queries: Queries, starts: Ints, count_outside: bool, compute: Compute, rule: str = "nearest"
    ) -> csr_array:
        """Number of each group's queries in each cell: (g, columns), counted where the cells are."""
        cells = compute.verbs.assign_cells(queries, self, rule, compute.n_jobs)
        n_cells = self.levels[-1]
        return compute.verbs.count_group_cells(cells, starts, n_cells, n_cells + count_outside, compute.n_jobs)

    def anchors(self) -> tuple[Floats, Cells]:
        """The centers."""
        return self.points, self.slots

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.points.shape[1])

    def validate(self) -> None:
        """Slots are rows of the points."""
        check("points", self.points, (None, None), -FARTHEST, FARTHEST)
        demand(self.points.size, "there are no centers")
        self.check_balls(len(self.points))


def draw_hyperspheres(drawn: Drawn, levels: tuple[int, ...], compute: Compute) -> Partitionings:
    """The ball of a center reaches to the nearest different center of its partitioning; radius 0 if all are equal."""
    return balls_around(drawn.points, drawn.slots, levels, True, compute)


def draw_voronoi_cells(drawn: Drawn, levels: tuple[int, ...], compute: Compute) -> Partitionings:
    """Balls that reach everywhere, so that nothing is OUTSIDE."""
    return balls_around(drawn.points, drawn.slots, levels, False, compute)


@singledispatch
def balls_around(points: Any, slots: Cells, levels: tuple[int, ...], bounded: bool, compute: Compute) -> Partitionings:
    """Balls around what was drawn: of one kind around rows, of another around groups."""
    raise TypeError(f"no balls around {type(points).__name__}")


@balls_around.register
def _(points: np.ndarray, slots: Cells, levels: tuple[int, ...], bounded: bool, compute: Compute) -> RowBalls:
    radii = (
        compute.verbs.sq_radii(points, slots, levels, compute.n_jobs)
        if bounded
        else np.full((len(levels), *slots.shape), np.inf)
    )
    return RowBalls(points, slots, levels, radii)
