"""Cells of rows in balls."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import OUTSIDE, Balls, Cells, Floats, Ints, last_level, octaves
from isobag.backends.meter import report
from isobag.backends.threads import slices

_BLOCK_PAIRS = 1 << 22


def place(X: Floats) -> Floats:
    """The rows are where they are: (n, d)."""
    return X


def fetch(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values are NumPy arrays."""
    return values


def prepare(X: Floats, like: Floats | None = None) -> Floats:
    """The queries are the rows themselves: (n, d)."""
    return X


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
                radii[level, i, block] = least_positive(sq_distances(centers[block], centers))
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


def assign_cells(X: Floats, balls: Balls, rule: str, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning, of the last level: (n, t)."""
    return _assign_level(X, balls, -1, rule)


def count_cells(X: Floats, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    counts = np.zeros(balls.sq_radii.shape, dtype=np.int64)
    for level in range(len(balls.levels)):
        for i, cells in enumerate(_assign_level(X, balls, level, "nearest").T):
            counts[level, i] = np.bincount(cells[cells != OUTSIDE], minlength=balls.slots.shape[1])
    return counts


def sum_at_cells(
    X: Floats,
    balls: Balls,
    tables: Ints,
    rule: str = "nearest",
    limits: Ints | None = None,
    n_jobs: int | None = None,
) -> Ints:
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L).

    With ``limits``, one more column: that of ``sum_far``
    """
    sums = np.zeros((len(X), len(balls.levels)), dtype=np.int64)
    for level in range(len(balls.levels)):
        for table, cells in zip(tables[level], _assign_level(X, balls, level, rule).T, strict=True):
            sums[:, level] += np.where(cells == OUTSIDE, 0, table[cells])
    return sums if limits is None else np.column_stack([sums, sum_far(X, balls, limits)])


def sum_far(X: Floats, balls: Balls, limits: Ints, n_jobs: int | None = None) -> Ints:
    """How far out queries are: sum of octaves(sq_dist to the nearest center) - limit, where OUTSIDE and above 0: (n,).

    limits (L,), -1 for levels that do not count
    """
    total = np.zeros(len(X), dtype=np.int64)
    for level in np.flatnonzero(limits >= 0):
        n_cells = balls.levels[level]
        for i, chosen in enumerate(balls.slots[:, :n_cells]):
            for block in _blocks(len(X), n_cells):
                sq_dists = sq_distances(X[block], balls.points[chosen])
                nearest = sq_dists.argmin(axis=1)
                least = np.take_along_axis(sq_dists, nearest[:, None], axis=1)[:, 0]
                beyond = np.maximum(octaves(least) - limits[level], 0)
                total[block] += np.where(least > balls.sq_radii[level, i, nearest], beyond, 0)
    return total


def count_and_sum(
    X: Floats, balls: Balls, only_last: bool = False, limits: Ints | None = None, n_jobs: int | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries (L, t, psi), and what ``sum_at_cells`` makes of them, of all levels or the last."""
    counts = count_cells(X, balls)
    kept, tables = (last_level(balls), counts[-1:]) if only_last else (balls, counts)
    return counts, sum_at_cells(X, kept, tables, limits=limits)


def _assign_level(X: Floats, balls: Balls, level: int, rule: str) -> Cells:
    """Cell of every query in every partitioning of one level: (n, t)."""
    n_cells = balls.levels[level]
    cells = np.empty((len(X), len(balls.slots)), dtype=np.int32)
    for i, chosen in enumerate(balls.slots[:, :n_cells]):
        for block in _blocks(len(X), n_cells):
            sq_dists = sq_distances(X[block], balls.points[chosen])
            cells[block, i] = choose_cells(sq_dists, balls.sq_radii[level, i, :n_cells], rule)
        report(len(X))
    return cells


def least_positive(sq_dists: Floats) -> Floats:
    """Smallest positive number of each row, 0 if there is none."""
    nearest = np.where(sq_dists > 0, sq_dists, np.inf).min(axis=1)
    return np.where(np.isinf(nearest), 0.0, nearest)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the rows that keep a block under a few million pairs."""
    size = max(1, _BLOCK_PAIRS // max(1, n_columns))
    return slices(n_rows, size)
