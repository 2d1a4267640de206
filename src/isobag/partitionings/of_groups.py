"""Partitionings of groups: the same balls, drawn around mean maps instead of points.

A group is the counts of its points in the cells of level 1 and its size; its mean map is their quotient. Distances
between mean maps come from integer dot products of the counts, so no dense mean map is ever needed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from isobag.arrays import Cells, Floats, Ints
from isobag.backends import get_backend
from isobag.backends._numpy import self_dots
from isobag.backends._threads import slices
from isobag.partitionings.base import Partitionings, draw_rows

_CHUNK_ROWS = 1 << 18
_KEPT_DOTS = 1 << 27


@dataclass(frozen=True)
class MeanMaps:
    """Groups at level 1: counts (g, columns) CSR of integers, sizes (g,); the mean maps are counts / sizes."""

    counts: csr_array
    sizes: Ints

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.sizes)

    def __getitem__(self, rows: Any) -> "MeanMaps":
        """Some of the groups."""
        return MeanMaps(self.counts[rows], self.sizes[rows])

    @property
    def shares(self) -> csr_array:
        """The mean maps: CSR (g, columns) float64."""
        return csr_array(self.counts.multiply(1 / self.sizes[:, None]))

    @property
    def self_dots(self) -> Floats:
        """Dot product of each group's counts with themselves: (g,)."""
        return self_dots(self.counts)


def count_groups(
    X: Floats,
    ids: Ints,
    sizes: Ints,
    partitionings: Partitionings,
    rule: str,
    outside: bool,
    backend: str,
    n_jobs: int | None,
) -> MeanMaps:
    """Level 1: count the points of each group in every cell, a chunk of groups at a time.

    X (n, d), ids (n,) group of each row, sizes (g,); ``outside`` counts OUTSIDE as one more cell of each partitioning
    """
    order = np.argsort(ids, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n_cells = partitionings.slots.shape[1]
    count = get_backend(backend).count_group_cells
    parts = []
    first = 0
    while first < len(sizes):
        # At least one group, however large, and as many more as fit.
        stop = max(first + 1, int(np.searchsorted(starts, starts[first] + _CHUNK_ROWS, side="right")) - 1)
        rows = order[starts[first] : starts[stop]]
        cells = partitionings.assign_cells(X[rows], rule, backend, n_jobs)
        parts.append(count(cells, starts[first : stop + 1] - starts[first], n_cells, n_cells + outside, n_jobs))
        first = stop
    return MeanMaps(vstack(parts, format="csr"), sizes)


@dataclass(frozen=True)
class GroupPartitionings:
    """t partitionings of psi groups: center j of partitioning i is ``centers[slots[i, j]]``; levels are nested."""

    centers: MeanMaps
    unit: int  # a divisor of all sizes of centers
    slots: Cells
    levels: tuple[int, ...]
    sq_radii: Floats

    def assign_groups(self, maps: MeanMaps, backend: str, n_jobs: int | None) -> Cells:
        """Cell of every group in every partitioning, for each level: (L, n, t), OUTSIDE if uncovered."""
        verbs = get_backend(backend)
        found = [
            self._assign(maps[rows], verbs.dot_counts(maps[rows].counts, self.centers.counts, n_jobs), backend, n_jobs)
            for rows in slices(len(maps), max(1, _KEPT_DOTS // len(self.centers)))
        ]
        return np.concatenate(found, axis=1)

    def _assign(self, maps: MeanMaps, dots: Ints, backend: str, n_jobs: int | None) -> Cells:
        own = (dots, maps.self_dots, maps.sizes)
        centers = (self.centers.self_dots, self.centers.sizes, self.unit)
        cells: Cells = get_backend(backend).assign_groups(
            *own, *centers, self.slots, self.levels, self.sq_radii, n_jobs
        )
        return cells


def draw_group_partitionings(
    maps: MeanMaps,
    n_estimators: int,
    levels: tuple[int, ...],
    mechanism: str,
    random_state: Any,
    backend: str,
    n_jobs: int | None,
) -> tuple[GroupPartitionings, Cells]:
    """Level 2: draw groups as centers and compute their radii; also the cells of the groups themselves: (L, g, t)."""
    rows = draw_rows(len(maps), n_estimators, levels[-1], random_state)
    chosen, where = np.unique(rows, return_inverse=True)
    slots = where.reshape(rows.shape).astype(np.int32)
    centers = maps[chosen]
    unit = int(np.gcd.reduce(centers.sizes))
    verbs = get_backend(backend)
    # Centers are groups too: where memory allows, one table of dot products serves radii and cells.
    shared = len(maps) * len(centers) <= _KEPT_DOTS
    dots = verbs.dot_counts((maps if shared else centers).counts, centers.counts, n_jobs)
    sq_radii = np.full((len(levels), *slots.shape), np.inf)
    if mechanism == "hypersphere":
        rows_of_centers = chosen if shared else np.arange(len(centers))
        sq_radii = verbs.group_sq_radii(
            dots, rows_of_centers, centers.self_dots, centers.sizes, unit, slots, levels, n_jobs
        )
    drawn = GroupPartitionings(centers, unit, slots, levels, sq_radii)
    cells = drawn._assign(maps, dots, backend, n_jobs) if shared else drawn.assign_groups(maps, backend, n_jobs)
    return drawn, cells
