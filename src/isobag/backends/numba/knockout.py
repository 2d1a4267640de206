"""The nearest center of every sample: WIDTH rows side by side, a row a lane.

Squared distances are summed in float32 in the order of features, never fused, so they are those of the NumPy backend.
A later slot must be strictly nearer, so the lowest slot wins a tie.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.numba.jit import jit, jit_inner
from isobag.backends.numba.llvm import HAS_AVX512, at, bits, in_llvm, loop, splat

WIDTH = 64
_SINGLES = ir.VectorType(ir.FloatType(), WIDTH)
_INTS = ir.VectorType(ir.IntType(32), WIDTH)
_TOGETHER = 4 if HAS_AVX512 else 1
"""Centers that are measured at once, as many as registers hold sums of."""
_STEP = 23 - 12  # bits of a float32 after its point that octaves do not keep


@in_llvm(types.void)
def measure(builder, lanes, pool, slots, first, last, sq_dists):
    """Squared distances to the centers of the slots first to last: sq_dists[j - first] = |lanes - pool[slots[j]]|^2.

    lanes (d, WIDTH), pool (M, d), sq_dists (last - first or more, WIDTH) float32, slots (S,) int32; all contiguous
    """
    d = cgutils.unpack_tuple(builder, pool.shape)[1]
    width, zero = ir.Constant(d.type, WIDTH), ir.Constant(d.type, 0)

    def measure_centers(j, step):
        """Some centers from j on, so that lanes are loaded once for all of them."""
        places = [builder.add(j, ir.Constant(d.type, s)) for s in range(step)]
        slots_here = [builder.zext(builder.load(builder.gep(slots.data, [place])), d.type) for place in places]
        centers = [builder.gep(pool.data, [builder.mul(slot, d)]) for slot in slots_here]

        def add(k, totals):
            x = builder.load(at(builder, lanes.data, builder.mul(k, width), _SINGLES), align=4)
            sums = []
            for center, total in zip(centers, totals, strict=True):
                gap = builder.fsub(x, splat(builder, builder.load(builder.gep(center, [k])), _SINGLES))
                sums.append(builder.fadd(total, builder.fmul(gap, gap)))
            return sums

        totals = loop(builder, zero, d, [ir.Constant(_SINGLES, [0.0] * WIDTH)] * step, add)
        for place, total in zip(places, totals, strict=True):
            row = builder.mul(builder.sub(place, first), width)
            builder.store(total, at(builder, sq_dists.data, row, _SINGLES), align=4)
        return []

    n_together = builder.sub(last, builder.urem(builder.sub(last, first), ir.Constant(d.type, _TOGETHER)))
    loop(builder, first, n_together, [], lambda j, _: measure_centers(j, _TOGETHER), _TOGETHER)
    loop(builder, n_together, last, [], lambda j, _: measure_centers(j, 1))


@in_llvm(types.void)
def scan(builder, sq_dists, places, first, last, near, winner, source, target):
    """Let the slots first to last compete with the nearest so far, in row ``source``; the winners go to ``target``.

    sq_dists[places[j]] are the distances of slot j; near float32, winner int32 (nodes, WIDTH)
    """
    width = ir.Constant(first.type, WIDTH)

    def row_of(array, number, kind):
        return at(builder, array.data, builder.mul(number, width), kind)

    def compare(j, state):
        place = builder.zext(builder.load(builder.gep(places.data, [j])), first.type)
        offered = builder.load(row_of(sq_dists, place, _SINGLES), align=4)
        least, names = state
        closer = builder.fcmp_ordered("<", offered, least)
        name = splat(builder, builder.trunc(j, ir.IntType(32)), _INTS)
        return [builder.select(closer, offered, least), builder.select(closer, name, names)]

    rows = (row_of(near, source, _SINGLES), row_of(winner, source, _INTS))
    state = [builder.load(row, align=4) for row in rows]
    least, names = loop(builder, first, last, state, compare)
    builder.store(least, row_of(near, target, _SINGLES), align=4)
    builder.store(names, row_of(winner, target, _INTS), align=4)


@in_llvm(types.void)
def merge(builder, near, winner, left, right, target):
    """The nearer of the winners in two rows, the left one if both are as near."""
    width = ir.Constant(left.type, WIDTH)

    def row_of(array, number, kind):
        return at(builder, array.data, builder.mul(number, width), kind)

    a, b = (builder.load(row_of(near, side, _SINGLES), align=4) for side in (left, right))
    x, y = (builder.load(row_of(winner, side, _INTS), align=4) for side in (left, right))
    closer = builder.fcmp_ordered("<", b, a)
    builder.store(builder.select(closer, b, a), row_of(near, target, _SINGLES), align=4)
    builder.store(builder.select(closer, y, x), row_of(winner, target, _INTS), align=4)


@jit_inner
def numbers_from(first, n):
    """First, first + 1, ...: (n,). NumPy's own takes a quarter of a second to compile."""
    numbers = np.empty(n, dtype=np.int32)
    for k in range(n):
        numbers[k] = first + k
    return numbers


@jit_inner
def load_lanes(X, first, lanes):
    """Rows from one on as columns; the last row again where there are no more: X (n, d) -> lanes (d, WIDTH)."""
    last = len(X) - 1
    for q in range(WIDTH):
        row = first + q if first + q < last else last
        for k in range(X.shape[1]):
            lanes[k, q] = X[row, k]


@jit_inner
def knock_out(sq_dists, places, first, levels, ends, near, winner):
    """Nearest slot of every sample of the block that begins at slot ``first``.

    levels (L,), ends (L + 1,): where the samples of each psi begin among those of a block. The last row of near and
    winner is room for the slots behind the last run.
    """
    n_levels, block = len(levels), levels[-1]
    run = levels[0] if n_levels == 1 else (32 if block > 32 else block)
    n_runs, spare = block // run, len(near) - 1
    n_scanned = 0
    while n_scanned < n_levels and levels[n_scanned] <= run:
        n_scanned += 1
    for number in range(n_runs + (n_runs * run < block)):
        start, stop = first + number * run, first + min(number * run + run, block)
        target = ends[0] + number if number < n_runs else spare
        for q in range(WIDTH):
            near[target, q] = sq_dists[places[start], q]
            winner[target, q] = start
        if number == n_runs:
            scan(sq_dists, places, start + 1, stop, near, winner, spare, spare)
            break
        done = 1
        for level in range(n_scanned):
            source, target = target, ends[level] + number
            scan(sq_dists, places, start + done, start + levels[level], near, winner, source, target)
            done = levels[level]
    for level in range(n_scanned, n_levels):
        before, here = ends[level - 1], ends[level]
        if levels[level] == 2 * levels[level - 1]:
            for number in range(ends[level + 1] - here):
                merge(near, winner, before + 2 * number, before + 2 * number + 1, here + number)
        else:  # the largest psi is no power of two
            runs = ends[n_scanned - 1]
            merge(near, winner, runs, runs, here)
            for number in range(1, n_runs):
                merge(near, winner, here, runs + number, here)
            if n_runs * run < block:
                merge(near, winner, here, spare, here)


@jit
def sum_rows(X, pool, slots, places, levels, ends, tables, limits, sums):
    """For every row, the sum over samples of what the table says of the slot whose ball it is in.

    X (n, d), pool (M, d) float32; slots, places (S,) int32, see ``search``; tables (L, S) int64: bits of the squared
    radius above, what is added below; limits (L,), -1 where how far out a row is does not count -> sums (n, L + 1)
    """
    n, n_slots, block, n_levels = len(X), len(slots), levels[-1], len(levels)
    lanes = np.empty((X.shape[1], WIDTH), dtype=np.float32)
    whole = len(pool) < n_slots
    every = numbers_from(0, len(pool) if whole else 0)
    sq_dists = np.empty((len(pool) if whole else block, WIDTH), dtype=np.float32)
    near = np.empty((ends[-1] + 1, WIDTH), dtype=np.float32)
    winner = np.empty((ends[-1] + 1, WIDTH), dtype=np.int32)
    totals, cell = np.empty((n_levels + 1, WIDTH), dtype=np.int64), np.empty(WIDTH, dtype=np.int64)
    for row in range(0, n, WIDTH):
        load_lanes(X, row, lanes)
        if whole:
            measure(lanes, pool, every, 0, len(pool), sq_dists)
        totals[:] = 0
        for first in range(0, n_slots, block):
            if not whole:
                measure(lanes, pool, slots, first, first + block, sq_dists)
            knock_out(sq_dists, places, first, levels, ends, near, winner)
            for level in range(n_levels):
                table, total, far, limit = tables[level], totals[level], totals[n_levels], limits[level]
                weight = (ends[1] - ends[0]) // (ends[level + 1] - ends[level])
                for node in range(ends[level], ends[level + 1]):
                    for q in range(WIDTH):
                        cell[q] = table[np.uint32(winner[node, q])]
                    for q in range(WIDTH):  # apart from the look-ups, or they would be made by branches
                        outside = ((cell[q] >> 32) - np.int64(bits(near[node, q]))) >> 63
                        total[q] += (cell[q] & 0xFFFFFFFF) & ~outside
                    if limit >= 0:
                        for q in range(WIDTH):
                            sq_dist = np.int64(bits(near[node, q]))
                            beyond = (sq_dist >> _STEP) - limit
                            beyond = beyond if beyond > 0 else 0
                            far[q] += weight * beyond if (cell[q] >> 32) < sq_dist else 0
        for q in range(min(WIDTH, n - row)):
            for level in range(n_levels + 1):
                sums[row + q, level] = totals[level, q]


@jit
def sum_row(X, row, centers, levels, ends, tables, limits, sums):
    """The same sums for one row alone, side by side with which there are centers: (d, S) float32, slot by slot."""
    n_levels, block = len(levels), levels[-1]
    run = levels[0] if n_levels == 1 else (32 if block > 32 else block)
    sq_dists = np.zeros(centers.shape[1], dtype=np.float32)
    for k in range(len(centers)):
        x, of_feature = X[row, k], centers[k]
        for j in range(len(sq_dists)):
            gap = x - of_feature[j]
            sq_dists[j] += gap * gap
    winner = np.empty(ends[-1], dtype=np.int64)
    sums[row] = 0
    for first in range(0, len(sq_dists), block):
        knock_out_one(sq_dists, first, run, levels, ends, winner)
        for level in range(n_levels):
            weight = (ends[1] - ends[0]) // (ends[level + 1] - ends[level])
            for node in range(ends[level], ends[level + 1]):
                cell, sq_dist = tables[level, winner[node]], np.int64(bits(sq_dists[winner[node]]))
                if sq_dist <= cell >> 32:
                    sums[row, level] += cell & 0xFFFFFFFF
                elif limits[level] >= 0:
                    sums[row, n_levels] += weight * max((sq_dist >> _STEP) - limits[level], 0)


@jit_inner
def knock_out_one(sq_dists, first, run, levels, ends, winner):
    """Nearest slot of every sample of the block that begins at slot ``first``, of one row: see ``knock_out``."""
    block = levels[-1]
    for number in range(block // run):
        start = first + number * run
        best, level = start, 0
        for j in range(start, start + run):
            best = j if sq_dists[j] < sq_dists[best] else best
            if level < len(levels) and j - start + 1 == levels[level]:
                winner[ends[level] + number] = best
                level += 1
    for level in range(1, len(levels)):
        before, here = ends[level - 1], ends[level]
        if levels[level] <= run:
            continue
        if levels[level] == 2 * levels[level - 1]:
            for number in range(ends[level + 1] - here):
                a, b = winner[before + 2 * number], winner[before + 2 * number + 1]
                winner[here + number] = b if sq_dists[b] < sq_dists[a] else a
        else:  # the largest psi is no power of two, and this the last
            best = first
            for j in range(first, first + block):
                best = j if sq_dists[j] < sq_dists[best] else best
            winner[here] = best


@jit
def count_rows(X, pool, slots, places, levels, ends, radii, counts):
    """Rows in the ball of each slot, added to counts (L, S): radii (L, S) float32, the rest as for ``sum_rows``."""
    n, n_slots, block = len(X), len(slots), levels[-1]
    lanes = np.empty((X.shape[1], WIDTH), dtype=np.float32)
    whole = len(pool) < n_slots
    every = numbers_from(0, len(pool) if whole else 0)
    sq_dists = np.empty((len(pool) if whole else block, WIDTH), dtype=np.float32)
    near = np.empty((ends[-1] + 1, WIDTH), dtype=np.float32)
    winner = np.empty((ends[-1] + 1, WIDTH), dtype=np.int32)
    for row in range(0, n, WIDTH):
        load_lanes(X, row, lanes)
        if whole:
            measure(lanes, pool, every, 0, len(pool), sq_dists)
        for first in range(0, n_slots, block):
            if not whole:
                measure(lanes, pool, slots, first, first + block, sq_dists)
            knock_out(sq_dists, places, first, levels, ends, near, winner)
            for level in range(len(levels)):
                reach, counted = radii[level], counts[level]
                for node in range(ends[level], ends[level + 1]):
                    for q in range(min(WIDTH, n - row)):
                        slot = np.uint32(winner[node, q])
                        counted[slot] += near[node, q] <= reach[slot]


@jit
def assign_rows(X, pool, slots, places, levels, ends, firsts, sq_radii, limits, begin, cells, far):
    """The slot whose ball each row is in, -1 for none, for every sample, and how far out rows are.

    firsts (L + 1,): where the samples of each psi begin among those of all blocks; sq_radii (L, S) float32; rows begin
    at column ``begin`` of cells (T, .) int32, far (.,) int64; the rest as for ``sum_rows``
    """
    n, n_slots, block, n_levels = len(X), len(slots), levels[-1], len(levels)
    lanes = np.empty((X.shape[1], WIDTH), dtype=np.float32)
    whole = len(pool) < n_slots
    every = numbers_from(0, len(pool) if whole else 0)
    sq_dists = np.empty((len(pool) if whole else block, WIDTH), dtype=np.float32)
    near = np.empty((ends[-1] + 1, WIDTH), dtype=np.float32)
    winner = np.empty((ends[-1] + 1, WIDTH), dtype=np.int32)
    reach, cell = np.empty(WIDTH, dtype=np.float32), np.empty(WIDTH, dtype=np.int32)
    beyond_all = np.empty(WIDTH, dtype=np.int64)
    for row in range(0, n, WIDTH):
        width = min(WIDTH, n - row)
        load_lanes(X, row, lanes)
        beyond_all[:] = 0
        if whole:
            measure(lanes, pool, every, 0, len(pool), sq_dists)
        for first in range(0, n_slots, block):
            if not whole:
                measure(lanes, pool, slots, first, first + block, sq_dists)
            knock_out(sq_dists, places, first, levels, ends, near, winner)
            for level in range(n_levels):
                radii, limit = sq_radii[level], limits[level]
                weight = (ends[1] - ends[0]) // (ends[level + 1] - ends[level])
                number = firsts[level] + first // block * (ends[level + 1] - ends[level])
                for node in range(ends[level], ends[level + 1]):
                    for q in range(WIDTH):
                        reach[q] = radii[np.uint32(winner[node, q])]
                    for q in range(WIDTH):
                        cell[q] = winner[node, q] if near[node, q] <= reach[q] else -1
                    for q in range(width):  # assigning a slice would compile texts of errors, for a second
                        cells[number, begin + row + q] = cell[q]
                    if limit >= 0:
                        for q in range(WIDTH):
                            beyond = (np.int64(bits(near[node, q])) >> _STEP) - limit
                            beyond = beyond if beyond > 0 else 0
                            beyond_all[q] += weight * beyond if near[node, q] > reach[q] else 0
                    number += 1
        for q in range(width):
            far[begin + row + q] = beyond_all[q]


@jit
def reach_of_slots(pool, slots, block, levels, ends, sq_radii):
    """Squared distance from every slot of a block to the nearest different center of its sample, 0 if there is none.

    block: the first slot of it; sq_radii (L, S) float32, 0 where a slot is in no sample
    """
    size, n_levels = levels[-1], len(levels)
    run = levels[0] if n_levels == 1 else (32 if size > 32 else size)
    places = numbers_from(-block, len(slots))
    lanes = np.empty((pool.shape[1], WIDTH), dtype=np.float32)
    sq_dists = np.empty((size, WIDTH), dtype=np.float32)
    near = np.empty((ends[-1] + 1, WIDTH), dtype=np.float32)
    winner = np.empty((ends[-1] + 1, WIDTH), dtype=np.int32)
    for first in range(0, size, WIDTH):
        width = min(WIDTH, size - first)
        for q in range(WIDTH):
            center = slots[block + first + min(q, width - 1)]
            for k in range(pool.shape[1]):
                lanes[k, q] = pool[center, k]
        measure(lanes, pool, slots, block, block + size, sq_dists)
        for j in range(size):
            for q in range(WIDTH):
                sq_dists[j, q] = sq_dists[j, q] if sq_dists[j, q] > 0 else np.inf
        knock_out(sq_dists, places, block, levels, ends, near, winner)
        for level in range(n_levels):
            psi = levels[level]
            step = psi if psi > run else run
            for q in range(width):
                place = first + q
                if place % step < psi and place // step < ends[level + 1] - ends[level]:
                    sq_dist = near[ends[level] + place // step, q]
                    sq_radii[level, block + place] = sq_dist if sq_dist < np.inf else 0


@jit
def count_cells(cells, counts):
    """Number of rows in each cell: cells (t, n) of the samples of one psi -> counts (1 + S,).

    The first counts rows that are OUTSIDE, which is -1, so that no branch is needed.
    """
    for number in range(len(cells)):
        for slot in cells[number]:
            counts[np.uint32(slot + 1)] += 1


@jit
def sum_cells(cells, firsts, tables, sums):
    """Sum over samples of what the table says of each row's cells: tables (L, 1 + S) -> sums (n, L).

    The first column of tables is what OUTSIDE adds.
    """
    n = cells.shape[1]
    total = np.empty(n, dtype=np.int64)
    for level in range(len(tables)):
        table = tables[level]
        total[:] = 0
        for number in range(firsts[level], firsts[level + 1]):
            for row in range(n):
                total[row] += table[np.uint32(cells[number, row] + 1)]
        for row in range(n):
            sums[row, level] = total[row]
