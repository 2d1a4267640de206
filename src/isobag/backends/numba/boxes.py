"""Few features: the verbs of a backend by walks down a tree of boxes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints, with_nearest
from isobag.backends.meter import report
from isobag.backends.numba.compiled import lanes, walks
from isobag.backends.numba.compiled.boxes import Boxes
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares

Runs = tuple[Any, Any, Any]
"""Starts (n,), cells (n,) and number of runs of equal cells, of each level."""


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


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    boxes = queries.boxes
    wider, places, nearest = with_nearest(balls, limits)

    def work(share: slice) -> Ints:
        sums = _Sums(boxes, balls, range(len(balls.levels)), nearest, limits)
        for i, runs in _walk(boxes, wider, share, rule):
            sums.add(i, _at(runs, places), _at(runs, nearest), tables[:, i])
        return sums.total

    return _in_order_of_rows(map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs), boxes)


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether count_and_sum can be had: always, since a partitioning is done before the next begins."""
    return True


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of them, from one walk for each partitioning."""
    boxes = queries.boxes
    wider, places, nearest = with_nearest(balls, limits)
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)
    summed = range(len(balls.levels) - 1 if only_last else 0, len(balls.levels))

    def work(share: slice) -> Ints:
        sums = _Sums(boxes, balls, summed, nearest, limits)
        for i, runs in _walk(boxes, wider, share):
            own = _at(runs, places)
            _count(own, len(boxes.order), counts[:, i])
            sums.add(i, _at(own, list(summed)), _at(runs, nearest), counts[summed.start :, i])
        return sums.total

    return counts, _in_order_of_rows(map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs), boxes)


class _Sums:
    """Sums of one thread, in tree order: of tables by the steps from run to run, and how far out queries are."""

    def __init__(self, boxes: Boxes, balls: Balls, summed: range, nearest: list[int], limits: Ints | None) -> None:
        self._boxes, self._balls = boxes, balls
        self._steps = np.zeros((len(summed), len(boxes.order)), dtype=np.int64)
        self._far = np.zeros((1 if nearest else 0, len(boxes.order)), dtype=np.int64)
        self._limits = [] if limits is None else [(level, limits[level]) for level in np.flatnonzero(limits >= 0)]

    def add(self, i: int, runs: Runs, nearest: Runs, tables: Ints) -> None:
        """The runs of partitioning i, and those of nearest centers at the levels that count."""
        for starts, names, n_runs, table, steps in zip(*runs, tables, self._steps, strict=True):
            walks.add_run_steps(starts, names, n_runs, table, steps)
        slots = self._balls.slots[i]
        for starts, names, n_runs, (level, limit) in zip(*nearest, self._limits, strict=True):
            centers = self._balls.points, slots, self._balls.sq_radii[level, i]
            lanes.add_run_octaves(starts, names, n_runs, self._boxes.columns, *centers, limit, self._far[0])

    @property
    def total(self) -> Ints:
        """Sums of every query: (levels, or one more; n)."""
        return np.concatenate([self._steps.cumsum(axis=1), self._far])


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


def _at(runs: Runs, levels: list[int]) -> Runs:
    """The runs of some levels."""
    starts, names, n_runs = runs
    return [starts[level] for level in levels], [names[level] for level in levels], [n_runs[level] for level in levels]


def _in_order_of_rows(sums: list[Ints], boxes: Boxes) -> Ints:
    """Sums of all threads, put back from tree order: (L, n) each -> (n, L)."""
    total = sums[0]
    for others in sums[1:]:
        total += others
    found = np.empty_like(total)
    found[:, boxes.order] = total
    return found.T
