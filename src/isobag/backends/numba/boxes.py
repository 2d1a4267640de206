"""Few features: the verbs of a backend by walks down a tree of boxes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from isobag.backends.arrays import Balls, Cells, Ints
from isobag.backends.meter import report
from isobag.backends.numba.compiled import walks
from isobag.backends.numba.compiled.boxes import Boxes
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, slices

_ROWS = 1 << 15

Runs = tuple[Any, Any, Any]
"""Starts (q,), cells (q,) and number of runs of queries with equal cells, of each level."""


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""
    boxes = queries.boxes(n_jobs)

    def work(share: slice) -> None:
        for i, runs in _walk(boxes, balls, share, rule):
            starts, names, n_runs = (part[-1] for part in runs)
            walks.expand_runs(starts, names, n_runs, boxes.order, boxes.firsts, cells[i])

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
    steps, far = _room_for_sums(len(parts), len(balls.levels), boxes.columns.shape[1])

    def work(number: int) -> None:
        for i, runs in _walk(boxes, balls, parts[number], rule, limits, far[number]):
            _add_steps(runs, tables[:, i], steps[number])
        np.cumsum(steps[number], axis=1, out=steps[number])

    map_in_threads(work, range(len(parts)), n_jobs)
    return _in_order_of_rows(steps, far, limits, boxes, n_jobs)


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
    steps, far = _room_for_sums(len(parts), len(counts[summed]), boxes.columns.shape[1])

    def work(number: int) -> None:
        for i, runs in _walk(boxes, balls, parts[number], "nearest", limits, far[number]):
            _count(runs, boxes.firsts, counts[:, i])
            starts, names, n_runs = runs
            _add_steps((starts[summed], names[summed], n_runs[summed]), counts[summed, i], steps[number])
        np.cumsum(steps[number], axis=1, out=steps[number])

    map_in_threads(work, range(len(parts)), n_jobs)
    return counts, _in_order_of_rows(steps, far, limits, boxes, n_jobs)


def _room_for_sums(n_threads: int, n_levels: int, n_queries: int) -> tuple[Ints, Ints]:
    """Of each thread, in tree order: steps from run to run, whose running sums count, and how far out queries are."""
    return np.zeros((n_threads, n_levels, n_queries), dtype=np.int64), np.zeros((n_threads, n_queries), dtype=np.int64)


def _add_steps(runs: Runs, tables: Ints, steps: Ints) -> None:
    for starts, names, n_runs, table, own in zip(*runs, tables, steps, strict=True):
        walks.add_run_steps(starts, names, n_runs, table, own)


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
    own_limits = np.full(len(balls.levels), -1) if limits is None else limits
    added = np.empty(0, dtype=np.int64) if far is None else far
    starts, names = np.empty((2, len(balls.levels), boxes.columns.shape[1]), dtype=np.int32)
    n_runs = np.zeros(len(balls.levels), dtype=np.int64)
    sizes = np.array(balls.levels)
    for i in range(share.start, share.stop):
        centers = balls.points, balls.slots[i]
        if rule == "nearest":
            walks.search_nearest(boxes, *centers, sizes, balls.sq_radii[:, i], own_limits, starts, names, n_runs, added)
        else:
            smallest = rule == "smallest"
            n_runs[0] = walks.search_covering(boxes, *centers, balls.sq_radii[0, i], smallest, starts[0], names[0])
        yield i, (starts, names, n_runs)
        report(len(boxes.order))


def _count(runs: Runs, firsts: Ints, counts: Ints) -> None:
    for starts, names, n_runs, level_counts in zip(*runs, counts, strict=True):
        walks.count_runs(starts, names, n_runs, firsts, level_counts)


def _in_order_of_rows(steps: Ints, far: Ints, limits: Ints | None, boxes: Boxes, n_jobs: int | None) -> Ints:
    """Sums of all threads, put back from tree order: (threads, L, q) -> (n, L), with limits one more column."""
    rows = np.empty((len(boxes.order), steps.shape[1] + (limits is not None)), dtype=np.int64)
    map_in_threads(
        lambda part: walks.put_back(boxes.order, boxes.firsts, steps, far, part.start, part.stop, rows),
        slices(len(boxes.firsts) - 1, _ROWS),
        n_jobs,
    )
    return rows
