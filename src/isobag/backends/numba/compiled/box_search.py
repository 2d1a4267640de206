"""Walks down the tree of boxes, one partitioning at a time, and the runs of equal cells they find."""

from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE, Floats, Ints
from isobag.backends.numba.compiled.float64_distances import (
    AT_ONCE,
    WIDTH,
    measure_box,
    scan_candidates,
)
from isobag.backends.numba.compiled.jit import jit, jit_inner

_INFINITE_BITS = np.int64(0x7FF << 52)


class Room(NamedTuple):
    """What ``search_nearest`` keeps of a box and of the queries of a leaf, and the boxes that wait."""

    near: Floats  # (m,) least squared distance from each candidate to a query of the box
    near_bits: Ints  # the same memory
    reach: Floats  # (m,) greatest
    reach_bits: Ints
    survivors: Ints  # (m,)
    bounds: Ints  # (L,) bits of the least reach of the candidates of each level
    best: Floats  # (AT_ONCE,)
    best_bits: Ints
    winner: Ints  # (AT_ONCE,)
    waiting: Ints  # (depths, 2) box, and a bit for each level that is not done


def make_room(n_candidates: int, n_levels: int, n_depths: int) -> Room:
    """Room for one walk at a time."""
    near, reach = np.empty((2, n_candidates))
    best = np.empty(AT_ONCE)
    return Room(
        near,
        near.view(np.int64),
        reach,
        reach.view(np.int64),
        np.empty(n_candidates, dtype=np.int64),
        np.empty(n_levels, dtype=np.int64),
        best,
        best.view(np.int64),
        np.zeros(AT_ONCE, dtype=np.int64),
        np.empty((n_depths + 1, 2), dtype=np.int64),
    )


def make_lists(d: int, n_candidates: int, n_levels: int, n_depths: int) -> tuple[Floats, Ints, Ints]:
    """Coordinates (depths, d, m), names (depths, m) and ends (depths, L) of the candidates at each depth."""
    # Rows an odd number of cache lines long: a power of two apart they would evict each other.
    lines = n_candidates // 8 + 1
    lists = np.empty((n_depths, d, 8 * (lines + 1 - lines % 2)))
    names = np.empty((n_depths, n_candidates), dtype=np.int64)
    return lists, names, np.empty((n_depths, n_levels), dtype=np.int64)


@jit
def search_nearest(boxes, candidates, sq_radii, limits, room, starts, cells, n_runs, far):
    """Runs of equal cells under the rule "nearest", for all levels of one partitioning.

    candidates: lists (depths, d, m), names (depths, m) and ends (depths, L) of the candidates at each depth, in the
    order of drawing, of which ends[depth, l] are among the first levels[l] centers; those of the root are given
    sq_radii (L, psi); room: see ``Room``; written: starts, cells (L, n) and n_runs (L,), zeros before
    limits (L,) of octaves, -1 where none counts; far (n,) in tree order, to which those beyond are added where OUTSIDE
    """
    lists, names, ends = candidates
    near, near_bits, reach, reach_bits, survivors, bounds, best, best_bits, winner, waiting = room
    n_levels = len(limits)
    waiting[0, 0] = 0
    waiting[0, 1] = (1 << n_levels) - 1
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        box = waiting[n_waiting, 0]
        is_open = waiting[n_waiting, 1]
        depth = boxes.depth[box]
        source_ends = ends[depth]
        target = lists[depth + 1]
        target_names = names[depth + 1]
        target_ends = ends[depth + 1]
        lowest = 0
        while not (is_open >> lowest) & 1:
            lowest += 1
        highest = n_levels - 1
        while not (is_open >> highest) & 1:
            highest -= 1
        measure_box(lists[depth], source_ends[highest], boxes.low[box], boxes.high[box], near, reach)

        size = np.int64(0)  # a literal would be a type of its own, and what it is passed to compiled twice
        bound = _INFINITE_BITS  # floats that are not negative are ordered as their bits
        seen = 0
        for level in range(lowest, highest + 1):
            for c in range(seen, source_ends[level]):
                bound = reach_bits[c] if reach_bits[c] < bound else bound
            for c in range(seen, source_ends[level]):
                survivors[size] = c
                size += near_bits[c] <= bound
            bounds[level] = bound
            target_ends[level] = size
            seen = source_ends[level]
        _keep_survivors(survivors, size, lists[depth], names[depth], near, reach, target, target_names)

        first = boxes.start[box]
        last = boxes.stop[box]
        for level in range(lowest, highest + 1):
            if (is_open >> level) & 1:
                n_touching = 0
                n_possible = 0
                owner = 0
                only = 0
                for c in range(target_ends[level]):
                    if near_bits[c] <= bounds[level]:
                        n_possible += 1
                        only = c
                        if near[c] <= sq_radii[level, target_names[c]]:
                            n_touching += 1
                            owner = c
                        if n_possible > 1 and n_touching > 0:
                            break
                cell = target_names[owner]
                if n_touching == 0:
                    cell = OUTSIDE
                    if limits[level] >= 0 and bounds[level] >> OCTAVE_BITS > limits[level]:
                        if n_possible > 1:  # how far out the queries are is found in smaller boxes
                            continue
                        _add_octaves(
                            boxes.columns, first, last, target, only, limits[level], best, best_bits, winner, far
                        )
                elif n_possible > 1 or reach[owner] > sq_radii[level, cell]:
                    continue
                n_runs[level] = _append_run(starts[level], cells[level], n_runs[level], first, cell)
                is_open ^= 1 << level

        if is_open == 0:
            continue
        if boxes.right[box] >= 0:
            waiting[n_waiting, 0] = boxes.right[box]
            waiting[n_waiting, 1] = is_open
            waiting[n_waiting + 1, 0] = box + 1
            waiting[n_waiting + 1, 1] = is_open
            n_waiting += 2
            continue
        n_queries = _count_lanes(boxes, box)
        for q in range(AT_ONCE):
            best[q] = np.inf
            winner[q] = 0
        seen = 0
        for level in range(lowest, highest + 1):
            for lane in range(0, n_queries, WIDTH):
                scan_candidates(boxes.columns, first + lane, target, seen, target_ends[level], best, winner, lane)
            seen = target_ends[level]
            if (is_open >> level) & 1:
                n = n_runs[level]
                for q in range(n_queries):
                    cell = target_names[winner[q]]
                    if best[q] > sq_radii[level, cell]:
                        cell = OUTSIDE
                    n = _append_run(starts[level], cells[level], n, first + q, cell)
                n_runs[level] = n
                if limits[level] >= 0:
                    for q in range(last - first):
                        lane = q if q < n_queries else n_queries - 1  # a leaf of equal queries has one lane
                        beyond = (best_bits[lane] >> OCTAVE_BITS) - limits[level]
                        if beyond > 0 and best[lane] > sq_radii[level, target_names[winner[lane]]]:
                            far[first + q] += beyond


@jit_inner
def _add_octaves(columns, first, last, candidates, c, limit, best, best_bits, winner, far):
    """Add to far[first:last] the octaves beyond the limit from these queries to candidate c."""
    for start in range(first, last, WIDTH):
        for q in range(WIDTH):
            best[q] = np.inf
        scan_candidates(columns, start, candidates, c, c + 1, best, winner, 0)
        size = last - start if last - start < WIDTH else WIDTH
        for q in range(size):
            beyond = (best_bits[q] >> OCTAVE_BITS) - limit
            far[start + q] += beyond if beyond > 0 else 0


@jit_inner
def _keep_survivors(survivors, size, source, source_names, near, far, target, target_names):
    """Copy the candidates that survive a box to the list for its children; near and far are packed in place."""
    for k in range(len(source)):
        for s in range(size):
            target[k, s] = source[k, survivors[s]]
    for s in range(size):
        target_names[s] = source_names[survivors[s]]
        near[s] = near[survivors[s]]
        far[s] = far[survivors[s]]


@jit_inner
def _count_lanes(boxes, box):
    """Lanes of a leaf: one for each query, or a single one where all are equal."""
    for k in range(boxes.low.shape[1]):
        if boxes.low[box, k] != boxes.high[box, k]:
            return boxes.stop[box] - boxes.start[box]
    return 1


@jit
def search_covering(boxes, candidates, sq_radii, room, smallest, starts, cells):
    """Runs of equal cells under the rules "covering" and "smallest", for one partitioning; how many there are.

    As ``search_nearest``, of one level; the candidates of the root are in the order in which they win
    """
    lists, names, ends = candidates
    near, _, far, _, survivors, _, best, _, winner, waiting = room
    reach = np.empty(names.shape)
    for c in range(ends[0, 0]):
        reach[0, c] = sq_radii[names[0, c]]
    sq_dists = np.empty(AT_ONCE)
    nobody = np.zeros(AT_ONCE, np.int64)
    waiting[0, 0] = 0
    n_waiting = 1
    n_runs = 0
    while n_waiting > 0:
        n_waiting -= 1
        box = waiting[n_waiting, 0]
        depth = boxes.depth[box]
        source = lists[depth]
        target = lists[depth + 1]
        source_names = names[depth]
        target_names = names[depth + 1]
        source_reach = reach[depth]
        target_reach = reach[depth + 1]
        first = boxes.start[box]
        measure_box(source, ends[depth, 0], boxes.low[box], boxes.high[box], near, far)
        bound = np.inf
        if not smallest:
            for c in range(ends[depth, 0]):
                if far[c] <= source_reach[c] and far[c] < bound:
                    bound = far[c]
        size = 0
        for c in range(ends[depth, 0]):
            if near[c] <= source_reach[c] and near[c] <= bound:
                survivors[size] = c
                target_reach[size] = source_reach[c]
                size += 1
                if smallest and far[c] <= source_reach[c]:
                    break
        ends[depth + 1, 0] = size
        _keep_survivors(survivors, size, source, source_names, near, far, target, target_names)
        if size == 0:
            n_runs = _append_run(starts, cells, n_runs, first, OUTSIDE)
            continue
        if size == 1 and far[0] <= target_reach[0]:
            n_runs = _append_run(starts, cells, n_runs, first, target_names[0])
            continue
        if boxes.right[box] >= 0:
            waiting[n_waiting, 0] = boxes.right[box]
            waiting[n_waiting + 1, 0] = box + 1
            n_waiting += 2
            continue
        n_queries = _count_lanes(boxes, box)
        best[:] = np.inf
        winner[:] = -1
        for c in range(size):  # balls that cover a lane compete for it, by distance or by their order
            sq_dists[:] = np.inf
            for lane in range(0, n_queries, WIDTH):
                scan_candidates(boxes.columns, first + lane, target, c, c + 1, sq_dists, nobody, lane)
            for q in range(n_queries):
                key = float(c) if smallest else sq_dists[q]
                if sq_dists[q] <= target_reach[c] and key < best[q]:
                    best[q] = key
                    winner[q] = c
        for q in range(n_queries):
            cell = target_names[winner[q]] if winner[q] >= 0 else OUTSIDE
            n_runs = _append_run(starts, cells, n_runs, first + q, cell)
    return n_runs


@jit_inner
def _append_run(starts, cells, n_runs, position, cell):
    if n_runs == 0 or cells[n_runs - 1] != cell:
        starts[n_runs] = position
        cells[n_runs] = cell
        return n_runs + 1
    return n_runs


@jit
def expand_runs(starts, cells, n_runs, order, firsts, column):
    """Write the cell of each row, in the order of X, into a column of the answer."""
    for r in range(n_runs):
        stop = starts[r + 1] if r + 1 < n_runs else len(firsts) - 1
        for place in range(firsts[starts[r]], firsts[stop]):
            column[order[place]] = cells[r]


@jit
def count_runs(starts, cells, n_runs, firsts, counts):
    """Add the number of rows of each run to the count of its cell."""
    for r in range(n_runs):
        stop = starts[r + 1] if r + 1 < n_runs else len(firsts) - 1
        if cells[r] != OUTSIDE:
            counts[cells[r]] += firsts[stop] - firsts[starts[r]]


@jit
def add_run_steps(starts, cells, n_runs, table, steps):
    """Add to ``steps`` the differences, in tree order, of the table at the cells: their running sum is the table."""
    before = 0
    for r in range(n_runs):
        value = table[cells[r]] if cells[r] != OUTSIDE else 0
        steps[starts[r]] += value - before
        before = value


@jit
def put_back(order, firsts, parts, first, last, rows):
    """Sums of the threads, (threads, C, q), added up and put in the order of rows: rows (n, C) is written.

    order (n,), firsts (q + 1,): rows of each query, in tree order; of the queries first to last
    """
    for position in range(first, last):
        for column in range(rows.shape[1]):
            total = parts[0, column, position]
            for part in range(1, len(parts)):
                total += parts[part, column, position]
            for place in range(firsts[position], firsts[position + 1]):
                rows[order[place], column] = total
