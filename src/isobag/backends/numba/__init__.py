"""The fast backend: compiled loops in threads, the same integers as the NumPy backend; ``choose`` has the engines."""

from collections.abc import Sequence

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints, one_level
from isobag.backends.numba.averages import floor_shares, middle_octave, weigh_terms
from isobag.backends.numba.choose import engine_for
from isobag.backends.numba.dots import dot_counts
from isobag.backends.numba.groups import assign_groups, count_group_cells, dot_pairs, group_sq_radii
from isobag.backends.numba.queries import Queries
from isobag.backends.numba.scales import scale_by_asinh, scale_by_knots, scale_linearly, scale_views
from isobag.backends.numba.small_tables import sq_radii
from isobag.backends.numba.trees import descend, grow_tree
from isobag.backends.numpy import count_assigned, fetch, join_cells, near_and_far, place, sum_assigned
from isobag.backends.sliding import Sliding

__all__ = [
    "assign_cells", "assign_groups", "assign_levels", "count_and_sum", "count_assigned", "count_cells",
    "count_group_cells", "descend", "dot_counts", "dot_pairs", "fetch", "floor_shares", "group_sq_radii",
    "grow_tree", "join_cells", "middle_octave", "near_and_far", "place", "prepare",
    "scale_by_asinh", "scale_by_knots", "scale_linearly", "scale_views", "slide_window", "sq_radii", "sum_assigned",
    "sum_at_cells", "weigh_terms",
]  # fmt: skip


def prepare(X: Floats) -> Queries:
    """Queries for the functions below; what an engine makes of them is made once, when it is first needed."""
    return Queries(X)


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning: (n, t)."""
    cells = np.empty((1, len(balls.slots), len(queries.X)), dtype=np.int32)
    last = one_level(balls, -1)
    engine_for(queries, last, rule).assign_cells(queries, last, rule, n_jobs, cells)
    (last_cells,) = cells
    return last_cells.T


def assign_levels(queries: Queries, balls: Balls, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning of each level under the rule "nearest", from one search: (L, t, n)."""
    cells = np.empty((len(balls.levels), len(balls.slots), len(queries.X)), dtype=np.int32)
    engine_for(queries, balls).assign_cells(queries, balls, "nearest", n_jobs, cells)
    return cells


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    return engine_for(queries, balls).count_and_sum(queries, balls, len(balls.levels), n_jobs, None)[0]


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str = "nearest", limits: Ints | None = None,
    n_jobs: int | None = None,
) -> Ints:  # fmt: skip
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L).

    With ``limits``, one more column: that of ``isobag.backends.numpy.sum_far``
    """
    engine = engine_for(queries, balls, rule)
    if rule == "nearest":  # the nearest center at one psi leads to that at the next
        return engine.sum_at_cells(queries, balls, tables, rule, n_jobs, limits)
    sums = np.empty((len(queries.X), len(balls.levels)), dtype=np.int64)
    for level in range(len(balls.levels)):  # under the other rules every psi is looked up for itself
        own = one_level(balls, level)
        table = np.ascontiguousarray(tables[level : level + 1, :, : own.levels[-1]])
        sums[:, level : level + 1] = engine.sum_at_cells(queries, own, table, rule, n_jobs, None)
    return sums


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool = False, limits: Ints | None = None, n_jobs: int | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries (L, t, psi), and what ``sum_at_cells`` makes of them, of all levels or the last."""
    first = len(balls.levels) - 1 if only_last else 0
    return engine_for(queries, balls).count_and_sum(queries, balls, first, n_jobs, limits)


def slide_window(
    X: Sequence[Floats], size: int, slots: Cells, owners: Ints, levels: tuple[int, ...], n_jobs: int | None = None
) -> Sliding:
    """A window of ``size`` places with rows, and balls around those at ``slots``: nearest centers are kept."""
    from isobag.backends.numba.sliding import SlidingCells  # noqa: PLC0415

    return SlidingCells(X, size, slots, owners, levels, n_jobs)
