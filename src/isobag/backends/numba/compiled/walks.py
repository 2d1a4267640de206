"""Walks down the tree of boxes, one partitioning at a time, and the runs of equal cells they find."""

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import (
    LANES,
    distinct_slots,
    measure_box,
    measure_lanes,
    padded,
    row_stride,
)


@jit
def search_nearest(boxes, points, slots, levels, sq_radii, limits, starts, cells, n_runs, far):
    """Runs of equal cells under the rule "nearest", for all levels of one partitioning.

    slots (psi,), levels (L,) ascending, sq_radii (L, psi); written: starts, cells (L, n) and n_runs (L,)
    limits (L,) of octaves, -1 where none counts; far (n,) in tree order, to which those beyond are added where OUTSIDE
    """
    d = points.shape[1]
    n_levels = len(levels)
    kept = distinct_slots(slots, len(points))
    n_depths = boxes.depth.max() + 2
    names = np.empty((n_depths, len(kept)), np.int64)
    lists = np.zeros((n_depths, padded(d), row_stride(len(kept))))
    ends = np.zeros((n_depths, n_levels), np.int64)  # ends[depth, l]: candidates among the first levels[l] centers
    for a in range(len(kept)):
        names[0, a] = kept[a]
        for k in range(d):
            lists[0, k, a] = points[slots[kept[a]], k]
        for level in range(n_levels):
            ends[0, level] += kept[a] < levels[level]
    near = np.empty(len(kept))
    reach = np.empty(len(kept))
    survivors = np.empty(len(kept), np.int64)
    reach_bits = reach.view(np.int64)  # floats that are not negative are ordered as their bits
    bound = np.empty(1)
    bound_bits = bound.view(np.int64)
    bounds = np.empty(n_levels)
    level_bits = bounds.view(np.int64)
    lanes = np.zeros((padded(d), LANES))
    best = np.empty(LANES)
    best_bits = best.view(np.int64)
    winner = np.empty(LANES, np.int64)
    sq_dists = np.empty(LANES)
    n_runs[:] = 0
    waiting = np.empty(n_depths + 1, np.int64)
    waiting_open = np.empty(n_depths + 1, np.int64)
    waiting[0] = 0
    waiting_open[0] = (1 << n_levels) - 1
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        box = waiting[n_waiting]
        is_open = waiting_open[n_waiting]
        depth = boxes.depth[box]
        source = lists[depth]
        target = lists[depth + 1]
        source_names = names[depth]
        target_names = names[depth + 1]
        source_ends = ends[depth]
        target_ends = ends[depth + 1]
        lowest = 0
        while not (is_open >> lowest) & 1:
            lowest += 1
        highest = n_levels - 1
        while not (is_open >> highest) & 1:
            highest -= 1
        measure_box(source, source_ends[highest], boxes.low[box], boxes.high[box], near, reach)

        size = 0
        bound[0] = np.inf
        a = 0
        for level in range(lowest, highest + 1):
            b = source_ends[level]
            for c in range(a, b):
                bound_bits[0] = min(bound_bits[0], reach_bits[c])
            for c in range(a, b):
                survivors[size] = c
                size += near[c] <= bound[0]
            bounds[level] = bound[0]
            target_ends[level] = size
            a = b
        _keep_survivors(survivors[:size], source, source_names, near, reach, target, target_names)

        first = boxes.start[box]
        for level in range(lowest, highest + 1):
            if (is_open >> level) & 1:
                radii = sq_radii[level]
                n_touching = 0
                n_possible = 0
                owner = 0
                only = 0
                for c in range(target_ends[level]):
                    if near[c] <= bounds[level]:
                        n_possible += 1
                        only = c
                        if near[c] <= radii[target_names[c]]:
                            n_touching += 1
                            owner = c
                        if n_possible > 1 and n_touching > 0:
                            break
                cell = target_names[owner]
                if n_touching == 0:
                    cell = OUTSIDE
                    if limits[level] >= 0 and level_bits[level] >> OCTAVE_BITS > limits[level]:
                        if n_possible > 1:  # how far out the queries are is found in smaller boxes
                            continue
                        _add_octaves(boxes.columns, first, boxes.stop[box], target, only, limits[level], far)
                elif n_possible > 1 or reach[owner] > radii[cell]:
                    continue
                n_runs[level] = _append_run(starts[level], cells[level], n_runs[level], first, cell)
                is_open ^= 1 << level

        if is_open == 0:
            continue
        if boxes.right[box] >= 0:
            waiting[n_waiting] = boxes.right[box]
            waiting[n_waiting + 1] = box + 1
            waiting_open[n_waiting : n_waiting + 2] = is_open
            n_waiting += 2
            continue
        n_queries = _load_lanes(boxes, box, lanes)
        best[:] = np.inf
        winner[:] = 0
        a = np.int64(0)  # a literal would be a type of its own, and what it is passed to compiled twice
        for level in range(lowest, highest + 1):
            b = target_ends[level]
            _scan_nearest(lanes, d, target, a, b, best, winner, sq_dists)
            a = b
            if (is_open >> level) & 1:
                radii = sq_radii[level]
                level_starts = starts[level]
                level_cells = cells[level]
                n = n_runs[level]
                for q in range(n_queries):
                    cell = target_names[winner[q]]
                    if best[q] > radii[cell]:
                        cell = OUTSIDE
                    n = _append_run(level_starts, level_cells, n, first + q, cell)
                n_runs[level] = n
                if limits[level] >= 0:
                    for q in range(boxes.stop[box] - first):
                        one = min(q, n_queries - 1)  # a leaf of equal queries has one lane
                        beyond = (best_bits[one] >> OCTAVE_BITS) - limits[level]
                        if best[one] > radii[target_names[winner[one]]] and beyond > 0:
                            far[first + q] += beyond


@jit_inner
def _add_octaves(columns, first, last, candidates, c, limit, far):
    """Add to far[first:last] the octaves beyond the limit from these queries to candidate c."""
    sq_dists = np.empty(LANES)
    bits = sq_dists.view(np.int64)
    for start in range(first, last, LANES):
        size = min(LANES, last - start)
        sq_dists[:] = 0.0
        for k in range(len(columns)):
            column = columns[k, start : start + size]
            for q in range(size):
                step = column[q] - candidates[k, c]
                sq_dists[q] += step * step
        own = far[start : start + size]
        for q in range(size):
            own[q] += max(0, (bits[q] >> OCTAVE_BITS) - limit)


@jit_inner
def _keep_survivors(survivors, source, source_names, near, far, target, target_names):
    """Copy the candidates that survive a box to the list for its children; near and far are packed in place."""
    for k in range(len(source)):
        source_column = source[k]
        target_column = target[k]
        for s in range(len(survivors)):
            target_column[s] = source_column[survivors[s]]
    for s in range(len(survivors)):
        target_names[s] = source_names[survivors[s]]
        near[s] = near[survivors[s]]
        far[s] = far[survivors[s]]


@jit_inner
def _load_lanes(boxes, box, lanes):
    """Copy the queries of a leaf into the lanes; how many: one where all are equal."""
    first = boxes.start[box]
    n_queries = 1
    d = len(boxes.columns)
    for k in range(d):
        if boxes.low[box, k] != boxes.high[box, k]:
            n_queries = boxes.stop[box] - first
    for k in range(d):
        column = boxes.columns[k, first : first + n_queries]
        for q in range(n_queries):
            lanes[k, q] = column[q]
    return n_queries


@jit
def search_covering(boxes, points, slots, sq_radii, smallest, starts, cells):
    """Runs of equal cells under the rules "covering" and "smallest", for one partitioning; how many there are."""
    d = points.shape[1]
    kept = distinct_slots(slots, len(points))
    if smallest:
        kept = kept[np.argsort(sq_radii[kept], kind="mergesort")]
    n_depths = boxes.depth.max() + 2
    names = np.empty((n_depths, len(kept)), np.int64)
    lists = np.zeros((n_depths, padded(d), row_stride(len(kept))))
    reach = np.empty((n_depths, len(kept)))
    sizes = np.zeros(n_depths, np.int64)
    for a in range(len(kept)):
        names[0, a] = kept[a]
        reach[0, a] = sq_radii[kept[a]]
        for k in range(d):
            lists[0, k, a] = points[slots[kept[a]], k]
    sizes[0] = len(kept)
    near = np.empty(len(kept))
    far = np.empty(len(kept))
    survivors = np.empty(len(kept), np.int64)
    lanes = np.zeros((padded(d), LANES))
    best = np.empty(LANES)
    winner = np.empty(LANES, np.int64)
    sq_dists = np.empty(LANES)
    waiting = np.empty(n_depths + 1, np.int64)
    waiting[0] = 0
    n_waiting = 1
    n_runs = 0
    while n_waiting > 0:
        n_waiting -= 1
        box = waiting[n_waiting]
        depth = boxes.depth[box]
        source = lists[depth]
        target = lists[depth + 1]
        source_names = names[depth]
        target_names = names[depth + 1]
        source_reach = reach[depth]
        target_reach = reach[depth + 1]
        first = boxes.start[box]
        measure_box(source, sizes[depth], boxes.low[box], boxes.high[box], near, far)
        bound = np.inf
        if not smallest:
            for c in range(sizes[depth]):
                if far[c] <= source_reach[c] and far[c] < bound:
                    bound = far[c]
        size = 0
        for c in range(sizes[depth]):
            if near[c] <= source_reach[c] and near[c] <= bound:
                survivors[size] = c
                target_reach[size] = source_reach[c]
                size += 1
                if smallest and far[c] <= source_reach[c]:
                    break
        sizes[depth + 1] = size
        _keep_survivors(survivors[:size], source, source_names, near, far, target, target_names)
        if size == 0:
            n_runs = _append_run(starts, cells, n_runs, first, OUTSIDE)
            continue
        if size == 1 and far[0] <= target_reach[0]:
            n_runs = _append_run(starts, cells, n_runs, first, target_names[0])
            continue
        if boxes.right[box] >= 0:
            waiting[n_waiting] = boxes.right[box]
            waiting[n_waiting + 1] = box + 1
            n_waiting += 2
            continue
        n_queries = _load_lanes(boxes, box, lanes)
        best[:] = np.inf
        winner[:] = -1
        _scan_covering(lanes, target, size, target_reach, smallest, best, winner, sq_dists)
        for q in range(n_queries):
            cell = target_names[winner[q]] if winner[q] >= 0 else OUTSIDE
            n_runs = _append_run(starts, cells, n_runs, first + q, cell)
    return n_runs


@jit_inner
def _scan_nearest(lanes, d, candidates, a, b, best, winner, sq_dists):
    """Let candidates a to b compete for each lane of d features; the first of equals stays."""
    if d <= 3:
        _scan_nearest_of_three(lanes, candidates, a, b, best, winner)
        return
    for c in range(a, b):
        measure_lanes(lanes, candidates, c, sq_dists)
        for q in range(LANES):
            closer = sq_dists[q] < best[q]
            best[q] = sq_dists[q] if closer else best[q]
            winner[q] = c if closer else winner[q]


@jit_inner
def _scan_nearest_of_three(lanes, candidates, a, b, best, winner):
    """_scan_nearest for three features or fewer, without a round trip of the distances through memory."""
    for c in range(a, b):
        c0 = candidates[0, c]
        c1 = candidates[1, c]
        c2 = candidates[2, c]
        for q in range(LANES):
            x0 = lanes[0, q] - c0
            x1 = lanes[1, q] - c1
            x2 = lanes[2, q] - c2
            sq_dist = (x0 * x0 + x1 * x1) + x2 * x2
            closer = sq_dist < best[q]
            best[q] = sq_dist if closer else best[q]
            winner[q] = c if closer else winner[q]


@jit
def _scan_covering(lanes, candidates, size, sq_radii, first_wins, best, winner, sq_dists):
    """As _scan_nearest, but only balls that cover the lane compete, by distance or by their order."""
    for c in range(size):
        measure_lanes(lanes, candidates, c, sq_dists)
        sq_radius = sq_radii[c]
        for q in range(LANES):
            key = float(c) if first_wins else sq_dists[q]
            closer = sq_dists[q] <= sq_radius and key < best[q]
            best[q] = key if closer else best[q]
            winner[q] = c if closer else winner[q]


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
def put_back(order, firsts, parts, far_parts, first, last, rows):
    """Sums of the threads, (threads, L, q) and, if any, (threads, q), added up and put in the order of rows.

    order (n,), firsts (q + 1,): rows of each query, in tree order; of the queries first to last; written: rows (n, L)
    or (n, L + 1)
    """
    n_levels = parts.shape[1]
    n_columns = rows.shape[1]
    total = np.empty(n_columns, np.int64)
    for position in range(first, last):
        for level in range(n_levels):
            total[level] = parts[0, level, position]
        for part in range(1, len(parts)):
            for level in range(n_levels):
                total[level] += parts[part, level, position]
        if n_columns > n_levels:
            total[n_levels] = 0
            for part in range(len(far_parts)):
                total[n_levels] += far_parts[part, position]
        for place in range(firsts[position], firsts[position + 1]):
            row = rows[order[place]]
            for column in range(n_columns):
                row[column] = total[column]
