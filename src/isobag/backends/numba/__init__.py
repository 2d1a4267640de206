"""The fast backend: compiled loops in threads, the same integers as the NumPy backend.

One rule chooses the engine. Small tables: every pair is compared, by code that is quickly compiled. Larger ones by the
number of features: few, walks down a tree of boxes of queries; some, fused loops over blocks of queries; many, bounds
from rows of few bits. docs/performance.md has the measurements behind it.
"""

from types import ModuleType

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints, last_level, one_level
from isobag.backends.numba import boxes, fused, many, pairs
from isobag.backends.numba.dots import dot_counts
from isobag.backends.numba.groups import assign_groups, count_group_cells, group_sq_radii
from isobag.backends.numba.queries import Queries

__all__ = [
    "assign_cells",
    "assign_groups",
    "count_and_sum",
    "count_cells",
    "count_group_cells",
    "dot_counts",
    "group_sq_radii",
    "prepare",
    "sq_radii",
    "sum_at_cells",
    "sum_far",
]

BOX_FEATURES = 10
FUSED_FEATURES = range(4, many.LEAST_FEATURES)
"""Of larger tables: where the fused engine is used if it can be; else boxes up to BOX_FEATURES, many above."""


def prepare(X: Floats, like: Queries | None = None) -> Queries:
    """Queries of all verbs; what an engine makes of them is made once, when it is first needed."""
    return Queries(X, like)


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Floats:
    """Squared distance from each center to the nearest different center: (L, t, psi)."""
    return pairs.sq_radii(points, slots, levels, n_jobs)


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning: (n, t)."""
    cells = np.empty((len(balls.slots), len(queries.X)), dtype=np.int32)
    last = last_level(balls)
    _engine(queries, last, rule).assign_cells(queries, last, rule, n_jobs, cells)
    return cells.T


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    counts: Ints = _engine(queries, balls).count_cells(queries, balls, n_jobs)
    return counts


def sum_at_cells(
    queries: Queries,
    balls: Balls,
    tables: Ints,
    rule: str = "nearest",
    limits: Ints | None = None,
    n_jobs: int | None = None,
) -> Ints:
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L).

    With ``limits``, one more column: what ``sum_far`` says
    """
    engine = _engine(queries, balls, rule)
    if rule == "nearest":  # the nearest center at one psi leads to that at the next
        found: Ints = engine.sum_at_cells(queries, balls, tables, rule, n_jobs, limits)
        return found
    sums = np.empty((len(queries.X), len(balls.levels)), dtype=np.int64)
    for level in range(len(balls.levels)):  # under the other rules every psi is looked up for itself
        own = one_level(balls, level)
        table = np.ascontiguousarray(tables[level : level + 1, :, : own.levels[-1]])
        sums[:, level : level + 1] = engine.sum_at_cells(queries, own, table, rule, n_jobs)
    return sums


def sum_far(queries: Queries, balls: Balls, limits: Ints, n_jobs: int | None = None) -> Ints:
    """Sum over partitionings and levels of the octaves beyond the limit, where OUTSIDE: (n,)."""
    no_tables = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)
    return sum_at_cells(queries, balls, no_tables, limits=limits, n_jobs=n_jobs)[:, -1]


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool = False, limits: Ints | None = None, n_jobs: int | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries (L, t, psi), and what ``sum_at_cells`` makes of them, of all levels or the last."""
    engine = _engine(queries, balls)
    if engine.fits_one_pass(len(queries.X), balls, only_last):
        found: tuple[Ints, Ints] = engine.count_and_sum(queries, balls, only_last, n_jobs, limits)
        return found
    counts = count_cells(queries, balls, n_jobs)
    kept, table = (last_level(balls), counts[-1:]) if only_last else (balls, counts)
    return counts, sum_at_cells(queries, kept, table, limits=limits, n_jobs=n_jobs)


def _engine(queries: Queries, balls: Balls, rule: str = "nearest") -> ModuleType:
    d = queries.X.shape[1]
    if pairs.fits(queries, balls, rule):
        return pairs
    if d in FUSED_FEATURES and fused.fits(balls, rule):
        return fused
    return boxes if d <= BOX_FEATURES else many
