"""Cells of rows: the loops of ``knockout.knockout`` in threads."""

from functools import cached_property

import numpy as np

from isobag.backends.arrays import Balls, Cells, Ints, Singles
from isobag.backends.numba import knockout
from isobag.backends.samples import Cut
from isobag.backends.threads import map_in_threads, shares, slices

_BLOCK_ROWS = 1 << 12
_FEW_ROWS = 8
"""So many rows are looked up one by one sooner than side by side."""


class _SearchPlan:
    """What the loops need of balls."""

    tables: Ints | None = None
    joined: Ints

    def __init__(self, balls: Balls) -> None:
        n_slots, block = len(balls.slots), balls.levels[-1]
        self.levels = np.array(balls.levels, dtype=np.int64)
        self.ends, self.firsts = balls.cut.block.ends, balls.cut.ends
        # A pool with fewer rows than slots is measured as a whole; another one block after the other.
        is_whole = len(balls.pool) < n_slots
        self.places = balls.slots if is_whole else (np.arange(n_slots) % block).astype(np.int32)
        self.search = balls.pool, balls.slots, self.places, self.levels, self.ends
        self.sq_radii = balls.sq_radii.view(np.int32).astype(np.int64) << 32

    def join(self, tables: Ints) -> Ints:
        """Bits of the squared radius above, what is added below: (L, S); that of the last tables is at hand."""
        if self.tables is not tables:
            if tables.min(initial=0) < 0 or tables.max(initial=0) >= 1 << 32:
                raise ValueError("tables: need whole numbers from 0 to 2^32 - 1")
            self.tables, self.joined = tables, self.sq_radii | tables
        return self.joined

    @cached_property
    def centers(self) -> Singles:
        """The center of each slot, feature by feature: (d, S)."""
        return np.ascontiguousarray(self.search[0][self.search[1]].T)


def _plan(balls: Balls) -> _SearchPlan:
    """The plan of balls, made once: for single rows it would take most of the time."""
    plan: _SearchPlan | None = balls.memory.get("numba")
    if plan is None:
        plan = balls.memory["numba"] = _SearchPlan(balls)
    return plan


def _limits(balls: Balls, limits: Ints | None) -> Ints:
    return np.full(len(balls.levels), -1, dtype=np.int64) if limits is None else limits.astype(np.int64)


def sq_radii(pool: Singles, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Singles:
    """Squared distance from each center to the nearest different one of its sample, 0 if there is none: (L, S)."""
    radii = np.zeros((len(levels), len(slots)), dtype=np.float32)
    sizes, ends = np.array(levels, dtype=np.int64), Cut(levels, levels[-1]).ends

    def work(blocks: slice) -> None:
        for block in range(blocks.start, blocks.stop):
            knockout.reach_of_slots(pool, slots, block * levels[-1], sizes, ends, radii)

    map_in_threads(work, shares(len(slots) // levels[-1], n_jobs), n_jobs)
    return radii


def assign_cells(X: Singles, balls: Balls, limits: Ints | None = None, n_jobs: int | None = None) -> tuple[Cells, Ints]:
    """The slot whose ball each row is in for every sample (T, n), OUTSIDE for none, and how far out rows are (n,)."""
    plan = _plan(balls)
    small = np.int16 if len(balls.slots) <= np.iinfo(np.int16).max else np.int32
    cells = np.empty((plan.firsts[-1], len(X)), dtype=small)
    far, limits = np.zeros(len(X), dtype=np.int64), _limits(balls, limits)

    def work(rows: slice) -> None:
        rest = plan.firsts, balls.sq_radii, limits, rows.start
        knockout.assign_rows(np.ascontiguousarray(X[rows]), *plan.search, *rest, cells, far)

    map_in_threads(work, slices(len(X), _BLOCK_ROWS), n_jobs)
    return cells, far


def sum_at_cells(X: Singles, balls: Balls, tables: Ints, limits: Ints | None = None, n_jobs: int | None = None) -> Ints:
    """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""
    plan = _plan(balls)
    joined = plan.join(tables)
    sums = np.empty((len(X), len(balls.levels) + 1), dtype=np.int64)
    limits = _limits(balls, limits)
    if len(X) <= _FEW_ROWS:
        for row in range(len(X)):
            knockout.sum_row(X, row, plan.centers, plan.levels, plan.ends, joined, limits, sums)
        return sums

    def work(rows: slice) -> None:
        knockout.sum_rows(np.ascontiguousarray(X[rows]), *plan.search, joined, limits, sums[rows])

    map_in_threads(work, slices(len(X), _BLOCK_ROWS), n_jobs)
    return sums


def count_at_cells(X: Singles, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of rows in each cell: (n, d) -> (L, S)."""
    plan = _plan(balls)

    def work(rows: slice) -> Ints:
        counts = np.zeros(balls.sq_radii.shape, dtype=np.int64)
        knockout.count_rows(np.ascontiguousarray(X[rows]), *plan.search, balls.sq_radii, counts)
        return counts

    parts = map_in_threads(work, slices(len(X), _BLOCK_ROWS), n_jobs)
    return sum(parts[1:], parts[0]) if parts else np.zeros(balls.sq_radii.shape, dtype=np.int64)


def count_cells(cells: Cells, cut: Cut, n_jobs: int | None = None) -> Ints:
    """Number of rows in each cell: (T, n) -> (L, S)."""
    counts = np.zeros((len(cut.levels), 1 + cut.n_slots), dtype=np.int64)
    ends = cut.ends

    def work(level: int) -> None:
        of_level = slice(ends[level], ends[level + 1])
        knockout.count_cells(np.ascontiguousarray(cells[of_level]), counts[level])

    map_in_threads(work, range(len(counts)), n_jobs)
    return counts[:, 1:]


def sum_cells(cells: Cells, cut: Cut, tables: Ints, n_jobs: int | None = None) -> Ints:
    """Sum over samples of the table (L, S) at each row's cell, OUTSIDE adding nothing: (T, n) -> (n, L)."""
    sums = np.empty((cells.shape[1], len(cut.levels)), dtype=np.int64)
    padded = np.pad(tables, ((0, 0), (1, 0)))

    def work(rows: slice) -> None:
        knockout.sum_cells(cells[:, rows], cut.ends, padded, sums[rows])

    map_in_threads(work, slices(len(sums), _BLOCK_ROWS), n_jobs)
    return sums
