"""The readable definition: float64, one partitioning after the other, nothing clever.

The squared distance of x and c is the sum of (x_k - c_k)^2 in the order of the features, each operation rounded once.
Every other backend decides as if it had computed exactly that.
"""

from collections.abc import Iterator

import numpy as np

from isobag.arrays import OUTSIDE, Cells, Floats, Ints
from isobag.backends._threads import slices

_BLOCK_PAIRS = 1 << 22


def sq_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distances, features summed in order: (n, d), (m, d) -> (n, m)."""
    sq_dists = np.zeros((len(X), len(centers)))
    for x, c in zip(X.T, centers.T, strict=True):
        sq_dists += (x[:, None] - c[None, :]) ** 2
    return sq_dists


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Floats:
    """Squared distance from each center to the nearest *different* center; 0 if all are equal: (L, t, psi)."""
    radii = np.zeros((len(levels), *slots.shape))
    for i, chosen in enumerate(slots):
        for level, n_cells in enumerate(levels):
            centers = points[chosen[:n_cells]]
            for block in _blocks(n_cells, n_cells):
                sq_dists = sq_distances(centers[block], centers)
                sq_dists[sq_dists == 0] = np.inf
                nearest = sq_dists.min(axis=1)
                radii[level, i, block] = np.where(np.isinf(nearest), 0, nearest)
    return radii


def choose_cells(sq_dists: Floats, sq_radii: Floats, rule: str) -> Cells:
    """Cell of each query from its distances to the centers of one partitioning: (n, psi), (psi,) -> (n,)."""
    inside = sq_dists <= sq_radii
    if rule == "nearest":
        chosen = sq_dists.argmin(axis=1)
    elif rule == "covering":
        chosen = np.where(inside, sq_dists, np.inf).argmin(axis=1)
    else:
        chosen = np.where(inside, sq_radii, np.inf).argmin(axis=1)
        # A Voronoi cell has an infinite radius, which argmin cannot tell from "not covered".
        chosen = np.where(np.isinf(sq_radii[chosen]), inside.argmax(axis=1), chosen)
    covered = np.take_along_axis(inside, chosen[:, None], axis=1)[:, 0]
    return np.where(covered, chosen, OUTSIDE).astype(np.int32)


def assign_cells(
    X: Floats, points: Floats, slots: Cells, sq_radii: Floats, rule: str, n_jobs: int | None = None
) -> Cells:
    """Cell of every query in every partitioning: (n, t)."""
    cells = np.empty((len(X), len(slots)), dtype=np.int32)
    for i, chosen in enumerate(slots):
        for block in _blocks(len(X), len(chosen)):
            cells[block, i] = choose_cells(sq_distances(X[block], points[chosen]), sq_radii[i], rule)
    return cells


def count_cells(
    X: Floats, points: Floats, slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None
) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    t, psi = slots.shape
    counts = np.zeros((len(levels), t, psi), dtype=np.int64)
    for level, n_cells in enumerate(levels):
        cells = assign_cells(X, points, slots[:, :n_cells], sq_radii[level, :, :n_cells], "nearest")
        for i in range(t):
            covered = cells[:, i][cells[:, i] != OUTSIDE]
            counts[level, i] = np.bincount(covered, minlength=psi)
    return counts


def sum_at_cells(
    X: Floats,
    points: Floats,
    slots: Cells,
    levels: tuple[int, ...],
    sq_radii: Floats,
    tables: Ints,
    rule: str = "nearest",
    n_jobs: int | None = None,
) -> Ints:
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L)."""
    sums = np.zeros((len(X), len(levels)), dtype=np.int64)
    for level, n_cells in enumerate(levels):
        cells = assign_cells(X, points, slots[:, :n_cells], sq_radii[level, :, :n_cells], rule)
        for i, table in enumerate(tables[level]):
            sums[:, level] += np.where(cells[:, i] == OUTSIDE, 0, table[cells[:, i]])
    return sums


def count_and_sum(
    X: Floats, points: Floats, slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and each query's sum of those counts at its own cells: (L, t, psi), (n, L)."""
    counts = count_cells(X, points, slots, levels, sq_radii)
    return counts, sum_at_cells(X, points, slots, levels, sq_radii, counts)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the rows that keep a block under a few million pairs."""
    size = max(1, _BLOCK_PAIRS // max(1, n_columns))
    return slices(n_rows, size)
