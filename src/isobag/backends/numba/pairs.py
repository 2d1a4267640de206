"""Small tables: the verbs of a backend by comparing every query with every center, which needs little to be compiled.

Only the rule "nearest"; ``fits`` says for which tables.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.meter import report
from isobag.backends.numba.compiled import pairs, tallies
from isobag.backends.numba.compiled.vectors import LANES
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, slices

MOST_ROWS = 1 << 12
_MOST_NUMBERS = 1 << 17
_MOST_SHARED = 1 << 12
"""Points that are measured once for all partitionings: their squared distances stay in the cache of a core."""
_KEPT_CELLS = 1 << 23
_MEASURED_NUMBERS = 1 << 16

Shorts = npt.NDArray[np.int16]


def fits(queries: Queries, balls: Balls, rule: str) -> bool:
    """Whether this engine is to be used: the table is small, and cells fit into 16 bits."""
    X = queries.X
    is_small = len(X) <= MOST_ROWS and X.size <= _MOST_NUMBERS
    return is_small and rule == "nearest" and balls.slots.shape[1] < 1 << 15


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None) -> Floats:
    """Squared distance from each center to the nearest different center: (L, t, psi)."""
    (t, psi), d = slots.shape, points.shape[1]
    radii = np.zeros((len(levels), t, psi))
    own, sizes = np.arange(psi, dtype=np.int32)[None], np.array(levels)

    def work(part: slice) -> None:
        centers = np.ascontiguousarray(points[slots[part]], dtype=np.float64)
        lanes = _in_lanes(centers)
        found = np.empty((len(levels), len(lanes), LANES))
        pairs.nearest_other(lanes, centers.reshape(-1, d), own, sizes, _room(psi), found)
        for level, size in enumerate(levels):
            radii[level, part, :size] = found[level].reshape(len(centers), -1)[:, :size]

    map_in_threads(work, slices(t, max(1, _MEASURED_NUMBERS // (psi * d))), n_jobs)
    return radii


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""
    for part, found in _find(queries, balls, n_jobs):
        cells[part] = found[:, :, -1].reshape(len(found), -1)[:, : cells.shape[1]]


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)
    for part, cells in _find(queries, balls, n_jobs):
        _count(cells, len(queries.X), counts[:, part])
    return counts


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    sums, far = _room_for_sums(queries, len(tables))
    for part, cells in _find(queries, balls, n_jobs, limits, far):
        tallies.add_blocks(cells, 0, tallies.padded_tables(tables[:, part]), sums)
    return _in_rows(sums, far, limits, len(queries.X))


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether count_and_sum can be had: always, since a partitioning is done before the next begins."""
    return True


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of them, from one search."""
    n_levels = len(balls.levels)
    first = n_levels - 1 if only_last else 0
    counts = np.zeros((n_levels, *balls.slots.shape), dtype=np.int64)
    sums, far = _room_for_sums(queries, n_levels - first)
    for part, cells in _find(queries, balls, n_jobs, limits, far):
        _count(cells, len(queries.X), counts[:, part])
        tallies.add_blocks(cells, first, tallies.padded_tables(counts[first:, part]), sums)
    return counts, _in_rows(sums, far, limits, len(queries.X))


def _find(
    queries: Queries, balls: Balls, n_jobs: int | None, limits: Ints | None = None, far: Ints | None = None
) -> Iterator[tuple[slice, Shorts]]:
    """Some partitionings, and their cells (some, blocks, L, LANES); with limits, octaves are added to far."""
    (t, psi), n_levels = balls.slots.shape, len(balls.levels)
    lanes = _in_lanes(queries.X[None])
    points, slots = np.ascontiguousarray(balls.points, dtype=np.float64), balls.slots.astype(np.int32, copy=False)
    own_limits = np.full(n_levels, -1) if limits is None else limits
    added = np.empty((0, LANES), dtype=np.int64) if far is None else far
    levels = np.array(balls.levels)
    at_once = max(1, _KEPT_CELLS // (lanes.shape[0] * n_levels * LANES))
    are_shared = len(points) <= _MOST_SHARED
    for part in slices(t, at_once if are_shared else max(1, min(at_once, _MOST_SHARED // psi))):
        centers, names = points, np.ascontiguousarray(slots[part])
        if not are_shared:
            centers = points[names.ravel()]
            names = np.arange(len(centers), dtype=np.int32).reshape(names.shape)
        cells = np.empty((len(names), len(lanes), n_levels, LANES), dtype=np.int16)
        radii = np.ascontiguousarray(balls.sq_radii[:, part])
        _search(lanes, centers, names, levels, radii, own_limits, cells, added, n_jobs)
        report(len(queries.X) * len(names))
        yield part, cells


def _search(
    lanes: Floats,
    points: Floats,
    slots: Cells,
    levels: Ints,
    sq_radii: Floats,
    limits: Ints,
    cells: Shorts,
    far: Ints,
    n_jobs: int | None,
) -> None:
    """``pairs.find_cells``, the blocks shared out to threads."""

    def work(share: slice) -> None:
        span = share.start, share.stop
        pairs.find_cells(span, lanes, points, slots, levels, sq_radii, limits, _room(len(points)), cells, far)

    map_in_threads(work, shares(len(lanes), n_jobs), n_jobs)


def _room(n_points: int) -> tuple[Floats, Floats, Cells]:
    """Where the kernels keep squared distances, the least of them and the winner, of a few lanes."""
    return np.empty((n_points, pairs.WIDTH)), np.empty(pairs.WIDTH), np.zeros(pairs.WIDTH, dtype=np.int32)


def _room_for_sums(queries: Queries, n_levels: int) -> tuple[Ints, Ints]:
    """Sums (blocks, L, LANES) and octaves (blocks, LANES)."""
    n_blocks = -(-len(queries.X) // LANES)
    return np.zeros((n_blocks, n_levels, LANES), dtype=np.int64), np.zeros((n_blocks, LANES), dtype=np.int64)


def _in_lanes(X: Floats) -> Floats:
    """Rows in blocks of LANES, the last one of each table filled up: (tables, n, d) -> (tables * blocks, d, LANES)."""
    n_tables, n, d = X.shape
    filled = np.zeros((n_tables, -(-n // LANES) * LANES, d))
    filled[:, :n] = X
    return np.ascontiguousarray(filled.reshape(-1, LANES, d).transpose(0, 2, 1))


def _in_rows(sums: Ints, far: Ints, limits: Ints | None, n: int) -> Ints:
    """Blocks (blocks, L, LANES), and (blocks, LANES) as one more column if there are limits: (n, L)."""
    columns = sums if limits is None else np.concatenate([sums, far[:, None]], axis=1)
    return columns.transpose(0, 2, 1).reshape(-1, columns.shape[1])[:n]


def _count(cells: Shorts, n: int, counts: Ints) -> None:
    """Add the counts of the cells of each partitioning: counts (L, t, psi)."""
    for i, own in enumerate(cells):
        tally = tallies.make_tally(len(counts), counts.shape[2])
        tallies.count_blocks(own, n, tally)
        counts[:, i] += tallies.counted(tally)
