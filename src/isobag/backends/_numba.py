"""The fast backend: compiled loops in threads, the same integers as the NumPy backend.

One rule chooses the engine: up to BOX_FEATURES features, walks down a tree of boxes of queries; above, matrix
products. docs/performance.md has the measurements behind it.
"""

from collections.abc import Iterator
from types import ModuleType

import numpy as np

from isobag.arrays import Balls, Cells, Floats, Ints, last_level, one_level
from isobag.backends import _boxes, _products
from isobag.backends._groups import assign_groups, count_group_cells, dot_counts, group_sq_radii
from isobag.backends._threads import slices

__all__ = [
    "assign_cells",
    "assign_groups",
    "count_and_sum",
    "count_cells",
    "count_group_cells",
    "dot_counts",
    "group_sq_radii",
    "sq_radii",
    "sum_at_cells",
]

BOX_FEATURES = 10
CHUNK_ROWS = 1 << 20
"""Rows worked on at a time, so that memory beside the input and the answer stays bounded."""


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Floats:
    """Squared distance from each center to the nearest different center: (L, t, psi)."""
    # Products pay when partitionings share their centers: the distinct points squared against t times psi squared.
    shared = len(points) ** 2 < 4 * slots.size * slots.shape[1]
    engine = _products if shared and points.shape[1] > BOX_FEATURES else _boxes
    radii: Floats = engine.sq_radii(points, slots, levels, n_jobs)
    return radii


def assign_cells(X: Floats, balls: Balls, rule: str, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning: (n, t)."""
    cells = np.empty((len(balls.slots), len(X)), dtype=np.int32)
    for rows, engine in _chunks(X):
        engine.assign_cells(X[rows], last_level(balls), rule, n_jobs, cells[:, rows])
    return cells.T


def count_cells(X: Floats, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)
    for rows, engine in _chunks(X):
        counts += engine.count_cells(X[rows], balls, n_jobs)
    return counts


def sum_at_cells(X: Floats, balls: Balls, tables: Ints, rule: str = "nearest", n_jobs: int | None = None) -> Ints:
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L)."""
    sums = np.empty((len(X), len(balls.levels)), dtype=np.int64)
    # The nearest center at one psi leads to that at the next; under the other rules every psi is looked up for itself.
    parts = [(slice(None), balls)]
    if rule != "nearest":
        parts = [(slice(level, level + 1), one_level(balls, level)) for level in range(len(balls.levels))]
    for rows, engine in _chunks(X):
        for levels, part in parts:
            own = np.ascontiguousarray(tables[levels, :, : part.levels[-1]])
            sums[rows, levels] = engine.sum_at_cells(X[rows], part, own, rule, n_jobs)
    return sums


def count_and_sum(X: Floats, balls: Balls, n_jobs: int | None = None) -> tuple[Ints, Ints]:
    """Counts of all queries, and each query's sum of the last level's counts at its own cells: (L, t, psi), (n,)."""
    chunks = list(_chunks(X))
    if len(chunks) == 1 and chunks[0][1].fits_one_pass(len(X), balls):
        found: tuple[Ints, Ints] = chunks[0][1].count_and_sum(X, balls, n_jobs)
        return found
    counts = count_cells(X, balls, n_jobs)
    return counts, sum_at_cells(X, last_level(balls), counts[-1:], n_jobs=n_jobs)[:, 0]


def _chunks(X: Floats) -> Iterator[tuple[slice, ModuleType]]:
    """Chunks of rows, and the engine for them."""
    engine = _boxes if X.shape[1] <= BOX_FEATURES else _products
    return ((rows, engine) for rows in slices(len(X), CHUNK_ROWS))
