"""Partitionings of rows: balls that reach to the nearest other center, and Voronoi cells, which are unbounded."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute, numpy
from isobag.backends.arrays import FAR, MOST_ROWS, RUN, Balls, Cells, Ints, Singles, octaves
from isobag.backends.learned import Learned, check, demand


@dataclass(frozen=True, eq=False)
class RowBalls(Balls, Learned):
    """The balls of all samples of a pool, and what can be asked of them; rows (n, d) are scaled as the pool was."""

    def validate(self) -> None:
        """Slots are rows of the pool, and whole blocks of the largest psi."""
        check("pool", self.pool, (None, None), -float(FAR), float(FAR))
        demand(self.pool.size, "there are no centers")
        rising = [1, *self.levels, MOST_ROWS]
        demand(len(rising) > 2 and all(a < b for a, b in pairwise(rising)), "levels are not in rising order from 2 on")
        *smaller, last = self.levels
        doubles = all(b == 2 * a for a, b in pairwise(smaller)) and not any(psi & (psi - 1) for psi in smaller)
        demand(doubles and (not smaller or last <= 2 * smaller[-1]), "levels are not powers of two and a last one")
        demand(not smaller or smaller[0] <= RUN, f"the first level is above {RUN}")
        check("slots", self.slots, (None,), 0, len(self.pool) - 1)
        demand(len(self.slots) and len(self.slots) % self.levels[-1] == 0, "slots are not whole blocks")
        check("sq_radii", self.sq_radii, (len(self.levels), len(self.slots)), 0, np.inf)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.pool.shape[1])

    @property
    def counts(self) -> Ints:
        """Number of samples of each psi, t: (L,)."""
        return self.cut.counts

    @property
    def largest(self) -> Self:
        """The samples of the largest psi alone, which are whole blocks."""
        return replace(self, levels=self.levels[-1:], sq_radii=self.sq_radii[-1:])

    def assign(
        self, X: Singles, compute: Compute, limits: Ints | None = None, rule: str = "nearest"
    ) -> tuple[Cells, Ints]:
        """The slot whose ball each row is in for every sample (T, n), OUTSIDE for none; how far out rows are (n,)."""
        if rule != "nearest":  # of the paper's rivals
            return numpy.assign_cells(compute.fetch(X), self, limits, rule=rule)
        return compute.backend.assign_cells(X, self, limits, compute.n_jobs)

    def nearest(self, X: Singles, compute: Compute) -> Cells:
        """The slot whose center is the nearest of every sample, whether its ball covers the row or not: (T, n)."""
        unbounded = replace(self, sq_radii=np.full_like(self.sq_radii, np.inf))
        return compute.fetch(unbounded.assign(X, compute)[0])

    def count(self, X: Singles, compute: Compute) -> Ints:
        """Number of rows in each cell: (L, S)."""
        return compute.backend.count_at_cells(X, self, compute.n_jobs)

    def sum_at(self, X: Singles, tables: Ints, compute: Compute, limits: Ints | None = None) -> Ints:
        """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""
        return compute.backend.sum_at_cells(X, self, tables, limits, compute.n_jobs)

    def count_groups(self, X: Singles, starts: Ints, compute: Compute, rule: str = "nearest") -> csr_array:
        """Number of each group's rows in each cell, those of group k from starts[k] to starts[k + 1]: (g, L S)."""
        cells, _ = self.assign(X, compute, rule=rule)
        return compute.backend.count_groups(cells, self.cut, starts, compute.n_jobs)

    def far_limits(self) -> Ints | None:
        """Octaves of the typical squared radius, at the largest psi and at one near its square root, else -1: (L,).

        None where nothing is OUTSIDE.
        """
        if self.sq_radii.max() == np.inf:
            return None
        limits = np.full(len(self.levels), -1)
        near_root = max(level for level, psi in enumerate(self.levels) if level == 0 or psi**2 <= self.levels[-1])
        for level in (near_root, len(self.levels) - 1):
            limits[level] = middle_octave(self.sq_radii[level])
        return limits


def balls_around(pool: Singles, slots: Cells, levels: tuple[int, ...], mechanism: str, compute: Compute) -> RowBalls:
    """Balls around the rows of a pool, which reach to the nearest different one of their sample, or everywhere."""
    if mechanism == "voronoi":
        return RowBalls(pool, slots, levels, np.full((len(levels), len(slots)), np.inf, dtype=np.float32))
    return RowBalls(pool, slots, levels, compute.backend.sq_radii(pool, slots, levels, compute.n_jobs))


def middle_octave(sq_radii: Singles) -> int:
    """Octaves of the lower median of those above 0, and of 1 if there are none: (m,)."""
    radii = sq_radii[sq_radii > 0]
    middle = (len(radii) - 1) // 2
    typical = np.partition(radii, middle)[middle] if len(radii) else np.float32(1)
    return int(octaves(np.array([typical]))[0])
