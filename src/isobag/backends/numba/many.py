"""Many features: the verbs of a backend by a certified search, for every rule and all data.

Bounds of the distances to all distinct centers come from rows rounded to few bits; few distances are left to be
measured in float32, and very few in float64.
"""

from collections.abc import Callable
from threading import Lock

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS, Balls, Cells, Floats, Ints, is_first
from isobag.backends.meter import report
from isobag.backends.numba.compiled import certified
from isobag.backends.numba.compiled.block_sums import add_tables
from isobag.backends.numba.compiled.block_sums import count_cells as add_counts
from isobag.backends.numba.compiled.tiles import LANES
from isobag.backends.numba.queries import Queries
from isobag.backends.numba.rounding import SINGLES, Rounding, cheapest, finest
from isobag.backends.threads import map_in_threads, shares, single_threaded_blas, slices

LEAST_FEATURES = 97
"""From here on this engine is the fastest."""
_BLOCK = 512
_CELLS = 1 << 22
"""Most cells of a block of queries."""
_PAIRS = 1 << 17
"""Room for distances that are measured together, center by center."""
_KEPT_CELLS = 1 << 26


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query at each level into cells (L, t, n)."""

    def keep(block: slice, block_cells: Cells) -> None:
        cells[:, :, block] = block_cells.transpose(1, 0, 2)

    _search(queries.X, balls, rule, None, n_jobs, keep)


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    sums = np.zeros((len(balls.levels), len(queries.X)), dtype=np.int64)
    far = _search(
        queries.X, balls, rule, limits, n_jobs, lambda block, cells: add_tables(cells, tables, sums[:, block])
    )
    return (sums if limits is None else np.vstack([sums, far])).T


def count_and_sum(
    queries: Queries, balls: Balls, first: int, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of those from a level on, if possible from one search."""
    n, t, n_summed = len(queries.X), len(balls.slots), len(balls.levels) - first
    in_one_pass = n * t * n_summed <= _KEPT_CELLS
    kept = np.empty((t, n_summed if in_one_pass else 0, n), dtype=np.min_scalar_type(-balls.slots.shape[1] - 1))
    counts, sums = np.zeros(balls.sq_radii.shape, dtype=np.int64), np.zeros((n_summed, n), dtype=np.int64)
    counting = Lock()

    def count(block: slice, cells: Cells) -> None:
        kept[:, :, block] = cells[:, len(balls.levels) - kept.shape[1] :]
        with counting:
            add_counts(cells, counts)

    def add(part: slice, cells: Cells) -> None:
        add_tables(cells[:, -n_summed:], counts[first:], sums[:, part])

    far = _search(queries.X, balls, "nearest", limits, n_jobs, count)
    if in_one_pass:
        map_in_threads(lambda part: add(part, kept[:, :, part]), shares(n, n_jobs), n_jobs)
    else:
        _search(queries.X, balls, "nearest", None, n_jobs, add)
    return counts, (sums if limits is None else np.vstack([sums, far])).T


def _search(
    X: Floats,
    balls: Balls,
    rule: str,
    limits: Ints | None,
    n_jobs: int | None,
    visit: Callable[[slice, Cells], None],
) -> Ints:
    """Show the cells of all queries to a visitor, block by block: (t, L, block). Returned: octaves beyond limits."""
    far = np.zeros(len(X), dtype=np.int64)
    (t, psi), n_levels = balls.slots.shape, len(balls.levels)
    size = int(np.clip(_CELLS // (t * n_levels) // LANES * LANES, LANES, _BLOCK))
    with single_threaded_blas():
        rounding = cheapest(balls, X) if rule == "nearest" else finest(SINGLES, balls.points)
        rounded = rounding.round_in_threads(balls.points, n_jobs)
        centers = rounding.centers(balls.points, rounded)
    lists = _lists(balls, limits, rounding)

    def work(share: slice) -> None:
        bounds = np.empty((len(balls.points) + 1, LANES), dtype=np.float32)
        questions = _questions(t, psi, n_levels, len(balls.points))
        for part in slices(share.stop - share.start, size):
            block = slice(share.start + part.start, share.start + part.stop)
            rows = rounding.rows(X[block], rounding.round(X[block]))
            cells = np.empty((t, n_levels, len(rows.lanes) * LANES), dtype=np.int32)
            if rule == "nearest":
                certified.find_cells(rows, centers, lists, bounds, questions, cells, far[block])
            else:
                certified.find_covering(rows, centers, lists, rule == "smallest", bounds, cells)
            visit(block, cells[:, :, : len(rows.X)])
            report(len(rows.X) * t)

    map_in_threads(work, shares(len(X), n_jobs), n_jobs)
    return far


def _lists(balls: Balls, limits: Ints | None, rounding: Rounding) -> certified.Lists:
    """The distinct centers of each partitioning: a later equal center never wins a tie."""
    (t, psi), n_levels = balls.slots.shape, len(balls.levels)
    chosen, cells = np.zeros((2, t, psi), dtype=np.int32)
    ends = np.empty((t, n_levels), dtype=np.int64)
    for i, (slots, is_distinct) in enumerate(zip(balls.slots, is_first(balls.slots), strict=True)):
        own = np.flatnonzero(is_distinct)
        cells[i, : len(own)] = own
        chosen[i, : len(own)] = slots[own]
        ends[i] = np.searchsorted(own, balls.levels)
    own_limits = np.full(n_levels, -1) if limits is None else limits
    beyond = ((own_limits + 1) << OCTAVE_BITS).view(np.float64)
    with np.errstate(over="ignore"):
        roots = np.sqrt(balls.sq_radii.transpose(1, 0, 2)) / rounding.unit
        roots = np.take_along_axis(roots, cells[:, None].astype(np.int64), axis=2).astype(np.float32)
        far_roots = np.where(own_limits < 0, np.inf, np.sqrt(beyond) / rounding.unit).astype(np.float32)
    stretch = np.float32(1 + 2.1 * np.sqrt(2 * rounding.share))
    sq_radii = np.ascontiguousarray(balls.sq_radii)
    return certified.Lists(chosen, cells, ends, sq_radii, roots, own_limits, far_roots, stretch, rounding.unit)


def _questions(t: int, psi: int, n_levels: int, m: int) -> certified.Questions:
    """Room for questions."""
    n_pairs = max(_PAIRS, 2 * LANES * (psi + n_levels))
    runs = np.empty((_BLOCK // LANES * t + 1, 3), dtype=np.int64)
    integers, sq_dists = np.empty((7, n_pairs), dtype=np.int32), np.empty(n_pairs, dtype=np.float32)
    rows, places, levels, query_rows, winners, numbers, order = integers
    begins = np.empty(m + 1, dtype=np.int64)
    return certified.Questions(runs, levels, query_rows, winners, numbers, rows, places, sq_dists, order, begins)
