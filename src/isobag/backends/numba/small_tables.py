"""Small tables: every query is compared with every center, which needs little to be compiled. The rule "nearest"."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.meter import report
from isobag.backends.numba.compiled import block_sums, small_tables
from isobag.backends.numba.compiled.vectors import BLOCK
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, slices

_MOST_SHARED = 1 << 12
"""Points that are measured once for all partitionings: their squared distances stay in the cache of a core."""
_KEPT_CELLS = 1 << 23
_MEASURED_NUMBERS = 1 << 16

Shorts = npt.NDArray[np.int16]


def fits(balls: Balls, rule: str) -> bool:
    """Whether this engine can be used: cells fit into 16 bits."""
    return rule == "nearest" and balls.slots.shape[1] < 1 << 15


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Floats:
    """Squared distance from each center to the nearest different center: (L, t, psi)."""
    (t, psi), d = slots.shape, points.shape[1]
    radii = np.zeros((len(levels), t, psi))
    own, sizes = np.arange(psi, dtype=np.int32)[None], np.array(levels)

    def work(part: slice) -> None:
        centers = np.ascontiguousarray(points[slots[part]], dtype=np.float64)
        lanes = _in_lanes(centers)
        own_radii = np.empty((len(levels), len(lanes), BLOCK))
        small_tables.nearest_other(lanes, centers.reshape(-1, d), own, sizes, _room(psi), own_radii)
        for level, size in enumerate(levels):
            radii[level, part, :size] = own_radii[level].reshape(len(centers), -1)[:, :size]

    map_in_threads(work, slices(t, max(1, _MEASURED_NUMBERS // (psi * d))), n_jobs)
    return radii


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query at each level into cells (L, t, n)."""
    for part, part_cells in _find(queries, balls, n_jobs):
        for level, own in enumerate(cells):
            own[part] = part_cells[:, :, level].reshape(len(part_cells), -1)[:, : own.shape[1]]


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    sums, far = _room_for_sums(queries, len(tables))
    for part, cells in _find(queries, balls, n_jobs, limits, far):
        block_sums.add_blocks(cells, 0, block_sums.padded_tables(tables[:, part]), sums)
    return _in_rows(sums, far, limits, len(queries.X))


def count_and_sum(
    queries: Queries, balls: Balls, first: int, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of those from a level on, from one search."""
    n_levels = len(balls.levels)
    counts = np.zeros((n_levels, *balls.slots.shape), dtype=np.int64)
    sums, far = _room_for_sums(queries, n_levels - first)
    weights = (np.arange(far.size) < len(queries.X)).astype(np.int64).reshape(far.shape)
    for part, cells in _find(queries, balls, n_jobs, limits, far):
        for i, own in enumerate(cells, part.start):
            tally = block_sums.make_tally(n_levels, counts.shape[2])
            block_sums.count_blocks(own, weights, tally)
            counts[:, i] = block_sums.counted(tally)
        block_sums.add_blocks(cells, first, block_sums.padded_tables(counts[first:, part]), sums)
    return counts, _in_rows(sums, far, limits, len(queries.X))


def _find(
    queries: Queries, balls: Balls, n_jobs: int | None, limits: Ints | None = None, far: Ints | None = None
) -> Iterator[tuple[slice, Shorts]]:
    """Some partitionings, and their cells (some, blocks, L, BLOCK); with limits, octaves are added to far."""
    (t, psi), n_levels = balls.slots.shape, len(balls.levels)
    lanes = _in_lanes(queries.X[None])
    points, slots = np.ascontiguousarray(balls.points, dtype=np.float64), balls.slots.astype(np.int32, copy=False)
    own_limits = np.full(n_levels, -1) if limits is None else limits
    added = np.empty((0, BLOCK), dtype=np.int64) if far is None else far
    levels = np.array(balls.levels)
    at_once = max(1, _KEPT_CELLS // (lanes.shape[0] * n_levels * BLOCK))
    are_shared = len(points) <= _MOST_SHARED
    for part in slices(t, at_once if are_shared else max(1, min(at_once, _MOST_SHARED // psi))):
        centers, names = points, np.ascontiguousarray(slots[part])
        if not are_shared:
            centers = points[names.ravel()]
            names = np.arange(len(centers), dtype=np.int32).reshape(names.shape)
        cells = np.empty((len(names), len(lanes), n_levels, BLOCK), dtype=np.int16)
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
    """``compiled.small_tables.find_cells``, the blocks shared out to threads."""

    def work(share: slice) -> None:
        span = share.start, share.stop
        small_tables.find_cells(span, lanes, points, slots, levels, sq_radii, limits, _room(len(points)), cells, far)

    map_in_threads(work, shares(len(lanes), n_jobs), n_jobs)


def _room(n_points: int) -> tuple[Floats, Floats, Cells]:
    """Where the kernels keep squared distances, the least of them and the winner, of a few queries."""
    return (
        np.empty((n_points, small_tables.WIDTH)),
        np.empty(small_tables.WIDTH),
        np.zeros(small_tables.WIDTH, dtype=np.int32),
    )


def _room_for_sums(queries: Queries, n_levels: int) -> tuple[Ints, Ints]:
    """Sums (blocks, L, BLOCK) and octaves (blocks, BLOCK)."""
    n_blocks = -(-len(queries.X) // BLOCK)
    return np.zeros((n_blocks, n_levels, BLOCK), dtype=np.int64), np.zeros((n_blocks, BLOCK), dtype=np.int64)


def _in_lanes(X: Floats) -> Floats:
    """Rows in blocks of BLOCK, the last one of each table filled up: (tables, n, d) -> (tables * blocks, d, BLOCK)."""
    n_tables, n, d = X.shape
    filled = np.zeros((n_tables, -(-n // BLOCK) * BLOCK, d))
    filled[:, :n] = X
    return np.ascontiguousarray(filled.reshape(-1, BLOCK, d).transpose(0, 2, 1))


def _in_rows(sums: Ints, far: Ints, limits: Ints | None, n: int) -> Ints:
    """Blocks (blocks, L, BLOCK), and (blocks, BLOCK) as one more column if there are limits: (n, L)."""
    columns = sums if limits is None else np.concatenate([sums, far[:, None]], axis=1)
    return columns.transpose(0, 2, 1).reshape(far.size, columns.shape[1])[:n]
