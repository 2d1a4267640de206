"""Few features: boxes of nearby queries share a shrinking list of candidate centers; see ``compiled.box_tree``."""

from collections.abc import Iterator

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints, is_first
from isobag.backends.meter import report
from isobag.backends.numba.compiled import box_search
from isobag.backends.numba.compiled.box_tree import Boxes
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, slices

_ROWS = 1 << 15

Runs = tuple[Cells, Cells, Ints]
"""Starts (q,), cells (q,) and number of runs of queries with equal cells, of each level."""


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query at each level into cells (L, t, n)."""
    boxes = queries.boxes(n_jobs)

    def work(share: slice) -> None:
        for i, runs in _walk(boxes, balls, share, rule):
            for starts, names, n_runs, column in zip(*runs, cells[:, i], strict=True):
                box_search.expand_runs(starts, names, n_runs, boxes.order, boxes.firsts, column)

    map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs)


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    boxes = queries.boxes(n_jobs)
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)

    def work(share: slice) -> None:
        for i, runs in _walk(boxes, balls, share):
            _count(runs, boxes.firsts, counts[:, i])

    map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs)
    return counts


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    boxes = queries.boxes(n_jobs)
    parts = list(shares(len(balls.slots), n_jobs))
    sums = _room_for_sums(len(parts), len(balls.levels), limits, boxes)

    def work(number: int) -> None:
        steps, far = sums[number, : len(balls.levels)], sums[number, -1]
        for i, runs in _walk(boxes, balls, parts[number], rule, limits, far):
            _add_steps(runs, tables[:, i], steps)
        np.cumsum(steps, axis=1, out=steps)

    map_in_threads(work, range(len(parts)), n_jobs)
    return _in_order_of_rows(sums, boxes, n_jobs)


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether count_and_sum can be had: always, since a partitioning is done before the next begins."""
    return True


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of them, from one walk for each partitioning."""
    boxes = queries.boxes(n_jobs)
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)
    summed = slice(len(balls.levels) - 1 if only_last else 0, None)
    parts = list(shares(len(balls.slots), n_jobs))
    n_summed = len(counts[summed])
    sums = _room_for_sums(len(parts), n_summed, limits, boxes)

    def work(number: int) -> None:
        steps, far = sums[number, :n_summed], sums[number, -1]
        for i, runs in _walk(boxes, balls, parts[number], "nearest", limits, far):
            _count(runs, boxes.firsts, counts[:, i])
            starts, names, n_runs = runs
            _add_steps((starts[summed], names[summed], n_runs[summed]), counts[summed, i], steps)
        np.cumsum(steps, axis=1, out=steps)

    map_in_threads(work, range(len(parts)), n_jobs)
    return counts, _in_order_of_rows(sums, boxes, n_jobs)


def _room_for_sums(n_threads: int, n_levels: int, limits: Ints | None, boxes: Boxes) -> Ints:
    """Of each thread, in tree order: steps from run to run, which add up to sums; with limits, last, how far out."""
    return np.zeros((n_threads, n_levels + (limits is not None), boxes.n_queries), dtype=np.int64)


def _add_steps(runs: Runs, tables: Ints, steps: Ints) -> None:
    for starts, names, n_runs, table, own in zip(*runs, tables, steps, strict=True):
        box_search.add_run_steps(starts, names, n_runs, table, own)


def _walk(
    boxes: Boxes,
    balls: Balls,
    share: slice,
    rule: str = "nearest",
    limits: Ints | None = None,
    far: Ints | None = None,
) -> Iterator[tuple[int, Runs]]:
    """Partitioning and runs of equal cells, starts (L, q), cells (L, q), number (L,), until the next is asked for.

    With limits, octaves beyond them are added to far (q,), in tree order.
    """
    psi, n_levels, n_depths = balls.slots.shape[1], len(balls.levels), int(boxes.depth.max()) + 2
    own_limits = np.full(n_levels, -1) if limits is None else limits
    added = np.empty(0, dtype=np.int64) if limits is None or far is None else far
    starts, names = np.empty((2, n_levels, boxes.n_queries), dtype=np.int32)
    n_runs = np.zeros(n_levels, dtype=np.int64)
    room = box_search.make_room(psi, n_levels, n_depths)
    candidates = box_search.make_lists(balls.points.shape[1], psi, n_levels, n_depths)
    is_distinct = is_first(balls.slots[share])  # a later equal center never wins a tie
    for i, distinct in zip(range(share.start, share.stop), is_distinct, strict=True):
        radii = np.ascontiguousarray(balls.sq_radii[:, i])
        kept = np.flatnonzero(distinct)
        if rule == "smallest":
            kept = kept[np.argsort(radii[0, kept], kind="stable")]
        _list_candidates(balls, i, kept, *(part[0] for part in candidates))
        if rule == "nearest":
            n_runs[:] = 0
            box_search.search_nearest(boxes, candidates, radii, own_limits, room, starts, names, n_runs, added)
        else:
            runs = starts[0], names[0]
            n_runs[0] = box_search.search_covering(boxes, candidates, radii[0], room, rule == "smallest", *runs)
        yield i, (starts, names, n_runs)
        report(len(boxes.order))


def _list_candidates(balls: Balls, i: int, kept: Ints, coordinates: Floats, names: Ints, ends: Ints) -> None:
    """Write some centers of partitioning i: coordinates (d, m or more), names, how many of each level."""
    centers = balls.points[balls.slots[i, kept]]
    coordinates[:, : len(kept)] = centers.T
    names[: len(kept)] = kept
    ends[:] = [np.count_nonzero(kept < size) for size in balls.levels]


def _count(runs: Runs, firsts: Ints, counts: Ints) -> None:
    for starts, names, n_runs, level_counts in zip(*runs, counts, strict=True):
        box_search.count_runs(starts, names, n_runs, firsts, level_counts)


def _in_order_of_rows(sums: Ints, boxes: Boxes, n_jobs: int | None) -> Ints:
    """Sums of all threads, put back from tree order: (threads, C, q) -> (n, C)."""
    rows = np.empty((len(boxes.order), sums.shape[1]), dtype=np.int64)
    map_in_threads(
        lambda part: box_search.put_back(boxes.order, boxes.firsts, sums, part.start, part.stop, rows),
        slices(boxes.n_queries, _ROWS),
        n_jobs,
    )
    return rows
