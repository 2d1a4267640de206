"""Few features: the verbs of a backend by walks down a tree of boxes."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.meter import report
from isobag.backends.numba.compiled import lanes, walks
from isobag.backends.numba.compiled.boxes import Boxes
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares

Runs = tuple[Cells, Cells, Ints]


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None) -> Floats:
    """Squared distance from each center to the nearest different center: (L, t, psi)."""
    radii = np.zeros((len(levels), *slots.shape))
    sizes = np.array(levels)
    map_in_threads(lambda i: lanes.nearest_other(points, slots[i], sizes, radii[:, i]), range(len(slots)), n_jobs)
    return radii


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""
    boxes = queries.boxes

    def work(share: slice) -> None:
        for i, runs in _walk(boxes, balls, share, rule):
            starts, names, n_runs = (part[-1] for part in runs)
            walks.expand_runs(starts, names, n_runs, boxes.order, cells[i])

    map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs)


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    boxes = queries.boxes
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)

    def work(share: slice) -> None:
        for i, runs in _walk(boxes, balls, share):
            _count(runs, len(boxes.order), counts[:, i])

    map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs)
    return counts


def sum_at_cells(queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L)."""
    boxes = queries.boxes

    def work(share: slice) -> Ints:
        steps = np.zeros((len(balls.levels), len(boxes.order)), dtype=np.int64)
        for i, runs in _walk(boxes, balls, share, rule):
            _add_steps(runs, tables[:, i], steps)
        return steps

    return _in_order_of_rows(map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs), boxes)


def sum_far(queries: Queries, balls: Balls, limit: int, n_jobs: int | None) -> Ints:
    """Sum over partitionings of the octaves beyond the limit, where OUTSIDE: (n,)."""
    boxes, nearest = queries.boxes, replace(balls, sq_radii=np.full_like(balls.sq_radii, np.inf))

    def work(share: slice) -> Ints:
        total = np.zeros(len(boxes.order), dtype=np.int64)
        cells = np.empty(len(boxes.order), dtype=np.int32)
        for i, (starts, names, n_runs) in _walk(boxes, nearest, share):
            walks.expand_runs(starts[-1], names[-1], n_runs[-1], boxes.order, cells)
            lanes.add_octaves(queries.X, balls.points, balls.slots[i], balls.sq_radii[-1, i], cells, limit, total)
        return total

    return np.add.reduce(map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs))


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether count_and_sum can be had: always, since a partitioning is done before the next begins."""
    return True


def count_and_sum(queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None) -> tuple[Ints, Ints]:
    """Counts of all queries, and each query's sums of the counts at its own cells, from one walk for each."""
    boxes = queries.boxes
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)
    first = len(balls.levels) - 1 if only_last else 0

    def work(share: slice) -> Ints:
        steps = np.zeros((len(balls.levels) - first, len(boxes.order)), dtype=np.int64)
        for i, runs in _walk(boxes, balls, share):
            _count(runs, len(boxes.order), counts[:, i])
            starts, names, n_runs = (part[first:] for part in runs)
            _add_steps((starts, names, n_runs), counts[first:, i], steps)
        return steps

    return counts, _in_order_of_rows(map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs), boxes)


def _walk(boxes: Boxes, balls: Balls, share: slice, rule: str = "nearest") -> Iterator[tuple[int, Runs]]:
    """Partitioning and runs of equal cells, starts (L, n), cells (L, n), number (L,), until the next is asked for."""
    starts, names = np.empty((2, len(balls.levels), len(boxes.order)), dtype=np.int32)
    n_runs = np.zeros(len(balls.levels), dtype=np.int64)
    sizes = np.array(balls.levels)
    for i in range(share.start, share.stop):
        centers = balls.points, balls.slots[i]
        if rule == "nearest":
            walks.search_nearest(boxes, *centers, sizes, balls.sq_radii[:, i], starts, names, n_runs)
        else:
            smallest = rule == "smallest"
            n_runs[0] = walks.search_covering(boxes, *centers, balls.sq_radii[0, i], smallest, starts[0], names[0])
        yield i, (starts, names, n_runs)
        report(len(boxes.order))


def _count(runs: Runs, n: int, counts: Ints) -> None:
    for starts, names, n_runs, level_counts in zip(*runs, counts, strict=True):
        walks.count_runs(starts, names, n_runs, n, level_counts)


def _add_steps(runs: Runs, tables: Ints, steps: Ints) -> None:
    for starts, names, n_runs, table, level_steps in zip(*runs, tables, steps, strict=True):
        walks.add_run_steps(starts, names, n_runs, table, level_steps)


def _in_order_of_rows(steps: list[Ints], boxes: Boxes) -> Ints:
    """Running sums of the steps of all threads, put back from tree order: (L, n) each -> (n, L)."""
    total = steps[0]
    for others in steps[1:]:
        total += others
    sums = np.empty_like(total)
    sums[:, boxes.order] = total.cumsum(axis=1)
    return sums.T
