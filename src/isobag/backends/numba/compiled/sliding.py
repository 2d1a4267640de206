"""Nearest centers of rows, shell by shell, as rows and centers change; see ``isobag.backends.numba.sliding``."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.arrays import OCTAVE_BITS
from isobag.backends.numba.compiled.float64_distances import AT_ONCE
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.llvm import bits, in_llvm, loop
from isobag.backends.numba.compiled.small_tables import WIDTH, measure
from isobag.backends.numba.compiled.vectors import BLOCK, at, splat

__all__ = [
    "AT_ONCE", "LOST", "NO_CELL", "offer_centers", "put_rows", "recount", "search_columns", "search_lost",
    "search_rows", "sum_levels", "update_radii",
]  # fmt: skip
NO_CELL = np.uint16(65535)
"""Of a row that is OUTSIDE, or of a place without a row."""
LOST = -1.0
"""Squared distance of a row whose center is gone: nothing is nearer."""
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_LONGS = ir.VectorType(ir.IntType(64), WIDTH)


@in_llvm(types.void)
def scan_candidates(builder, columns, query, candidates, first, last, best, winner, lane):
    """Let the candidates first to last compete for WIDTH queries from one on; best, winner from a lane on.

    columns (d, queries) with AT_ONCE columns to spare, candidates (d, m) float64; best (AT_ONCE,) float64, winner
    (AT_ONCE,) int64. Squares are summed in the order of features. A later candidate must be strictly nearer.
    """
    d, n_queries = cgutils.unpack_tuple(builder, columns.shape)
    stride = cgutils.unpack_tuple(builder, candidates.shape)[1]
    zero = ir.Constant(d.type, 0)
    queries = builder.gep(columns.data, [query])
    places = [at(builder, best.data, lane, _DOUBLES), at(builder, winner.data, lane, _LONGS)]

    def compare(j, state):
        own = builder.gep(candidates.data, [j])

        def add(k, totals):
            x = builder.load(at(builder, queries, builder.mul(k, n_queries), _DOUBLES), align=8)
            coordinate = builder.load(builder.gep(own, [builder.mul(k, stride)]))
            gap = builder.fsub(x, splat(builder, coordinate, _DOUBLES))
            return [builder.fadd(totals[0], builder.fmul(gap, gap))]

        total = loop(builder, zero, d, [ir.Constant(_DOUBLES, [0.0] * WIDTH)], add)[0]
        least, names = state
        closer = builder.fcmp_ordered("<", total, least)
        return [builder.select(closer, total, least), builder.select(closer, splat(builder, j, _LONGS), names)]

    ends = loop(builder, first, last, [builder.load(place, align=8) for place in places], compare)
    for value, place in zip(ends, places, strict=True):
        builder.store(value, place, align=8)


@jit_inner
def _measure_centers(x, centers, first, last, room):
    """Squared distances of x (d,) to the centers first to last: centers (d, psi), room (psi,)."""
    own = room[first:last]
    for j in range(len(own)):
        own[j] = 0.0
    for k in range(len(x)):
        value = x[k]
        column = centers[k, first:last]
        for j in range(len(own)):
            gap = value - column[j]
            own[j] += gap * gap


@jit_inner
def _nearest(room, first, last, floor):
    """The first of the least numbers above the floor, and that number; -1 if there is none."""
    own = room[first:last]
    best = np.inf
    winner = -1 - first
    for j in range(len(own)):
        if own[j] < best and own[j] > floor:
            best = own[j]
            winner = j
    return first + winner, best


@jit
def search_rows(X, centers, shells, winners, sq_dists):
    """Nearest center of each shell, one row after the other: X (n, d), centers (t, d, psi) -> (t, L, n)."""
    room = np.empty(centers.shape[2])
    for i in range(len(centers)):
        for row in range(len(X)):
            _measure_centers(X[row], centers[i], 0, centers.shape[2], room)
            for shell in range(len(shells) - 1):
                winner, best = _nearest(room, shells[shell], shells[shell + 1], -1.0)
                winners[i, shell, row] = winner
                sq_dists[i, shell, row] = best


@jit
def search_columns(columns, centers, shells, winners, sq_dists):
    """The same for many rows, WIDTH together: columns (d, n + AT_ONCE)."""
    best, winner = np.empty(AT_ONCE), np.empty(AT_ONCE, dtype=np.int64)
    n = winners.shape[2]
    for i in range(len(centers)):
        for start in range(0, n, WIDTH):
            for shell in range(len(shells) - 1):
                for lane in range(WIDTH):
                    best[lane] = np.inf
                    winner[lane] = shells[shell]
                scan_candidates(columns, start, centers[i], shells[shell], shells[shell + 1], best, winner, 0)
                for lane in range(min(WIDTH, n - start)):
                    winners[i, shell, start + lane] = winner[lane]
                    sq_dists[i, shell, start + lane] = best[lane]


@jit
def sum_levels(begin, end, winners, sq_dists, sq_radii, counts, limits, sums):
    """Add the counts at the cells of rows begin to end, at each level: sums (n, L), or (n, L + 1) with octaves.

    winners, sq_dists (t, L, n) of shells; limits (L,), -1 for levels at which how far out a row is does not count
    """
    t, n_levels, _ = winners.shape
    for i in range(t):
        for row in range(begin, end):
            best = np.inf
            cell = 0
            for level in range(n_levels):
                if sq_dists[i, level, row] < best:
                    best = sq_dists[i, level, row]
                    cell = winners[i, level, row]
                if best <= sq_radii[level, i, cell]:
                    sums[row, level] += counts[level, i, cell]
                elif limits[level] >= 0:
                    beyond = (bits(best) >> OCTAVE_BITS) - limits[level]
                    if beyond > 0:
                        sums[row, n_levels] += beyond


@jit
def put_rows(places, X, found, least, rows, lanes, winners, sq_dists):
    """Write rows (n, d), and their nearest centers found (t, L, n), to places of the window."""
    for row in range(len(places)):
        for k in range(X.shape[1]):
            rows[places[row], k] = X[row, k]
            lanes[places[row] // BLOCK, k, places[row] % BLOCK] = X[row, k]
    for i in range(found.shape[0]):
        for shell in range(found.shape[1]):
            for row in range(len(places)):
                block = places[row] // BLOCK
                lane = places[row] % BLOCK
                winners[block, i, shell, lane] = found[i, shell, row]
                sq_dists[block, i, shell, lane] = least[i, shell, row]


@jit
def update_radii(begin, end, changed, centers, shells, others, to_others, sq_radii):
    """Nearest different centers of each shell after some centers changed (t, psi), and the radii that follow.

    Of the partitionings begin to end.

    others, to_others (t, L, psi): the nearest different center of each shell, and how far; sq_radii (L, t, psi)
    """
    _, d, psi = centers.shape
    n_shells = len(shells) - 1
    room, x = np.empty(psi), np.empty(d)
    for i in range(begin, end):
        n_changed = 0
        for shell in range(n_shells):  # rows whose nearest is gone search after all offers
            for c in range(psi):
                other = others[i, shell, c]
                if other >= 0 and changed[i, other]:
                    to_others[i, shell, c] = LOST
        for shell in range(n_shells):
            for j in range(shells[shell], shells[shell + 1]):
                if not changed[i, j]:
                    continue
                n_changed += 1
                for k in range(d):
                    x[k] = centers[i, k, j]
                _measure_centers(x, centers[i], 0, psi, room)
                for c in range(psi):
                    if room[c] > 0.0 and room[c] < to_others[i, shell, c]:
                        to_others[i, shell, c] = room[c]
                        others[i, shell, c] = j
                for own in range(n_shells):
                    winner, best = _nearest(room, shells[own], shells[own + 1], 0.0)
                    others[i, own, j] = winner
                    to_others[i, own, j] = best
        if not n_changed:
            continue
        for shell in range(n_shells):
            for c in range(psi):
                if to_others[i, shell, c] < 0.0:
                    for k in range(d):
                        x[k] = centers[i, k, c]
                    _measure_centers(x, centers[i], shells[shell], shells[shell + 1], room)
                    winner, best = _nearest(room, shells[shell], shells[shell + 1], 0.0)
                    others[i, shell, c] = winner
                    to_others[i, shell, c] = best
        for c in range(psi):
            best = np.inf
            for level in range(n_shells):
                best = min(best, to_others[i, level, c])
                if c < shells[level + 1]:
                    sq_radii[level, i, c] = best if best < np.inf else 0.0


@jit
def offer_centers(begin, end, points, entries, lanes, winners, sq_dists):
    """Let new centers compete for the rows of the blocks begin to end; rows whose center is gone have LOST instead.

    points (m, d): rows that became centers; entries (e, 4): partitioning, cell, shell and point of every new center
    """
    measured = np.empty((len(points), WIDTH))
    for block in range(begin, end):
        for start in range(0, BLOCK, WIDTH):
            measure(lanes, block, start, points, 0, len(points), -1.0, measured)
            for e in range(len(entries)):
                i, slot, shell, point = entries[e, 0], np.uint16(entries[e, 1]), entries[e, 2], entries[e, 3]
                own = winners[block, i, shell, start : start + WIDTH]
                least = sq_dists[block, i, shell, start : start + WIDTH]
                offered = measured[point]
                for q in range(WIDTH):
                    is_gone = own[q] == slot
                    is_first = (slot < own[q]) & (own[q] != NO_CELL)
                    is_nearer = (offered[q] < least[q]) | ((offered[q] == least[q]) & is_first)
                    least[q] = LOST if is_gone else offered[q] if is_nearer else least[q]
                    own[q] = slot if is_nearer else own[q]


@jit
def search_lost(begin, end, rows, is_changed, centers, shells, winners, sq_dists):
    """Search shells again for the rows that lost their center, in the partitionings begin to end.

    rows (W, d) of the window; is_changed (t, L): whether a shell has a new center
    """
    d = centers.shape[1]
    n_blocks = -(-len(rows) // BLOCK)
    columns = np.zeros((d, AT_ONCE))
    blocks, places = np.empty(WIDTH, dtype=np.int64), np.empty(WIDTH, dtype=np.int64)
    best, winner = np.empty(AT_ONCE), np.empty(AT_ONCE, dtype=np.int64)
    for i in range(begin, end):
        for shell in range(len(shells) - 1):
            if not is_changed[i, shell]:
                continue
            n_waiting = 0
            for block in range(n_blocks + 1):
                if block < n_blocks:
                    least = sq_dists[block, i, shell]
                    n_lost = 0
                    for q in range(BLOCK):
                        n_lost += least[q] < 0.0
                    if not n_lost:
                        continue
                for q in range(BLOCK):
                    is_lost = block < n_blocks and sq_dists[block, i, shell, q] < 0.0
                    if is_lost:
                        blocks[n_waiting] = block
                        places[n_waiting] = q
                        for k in range(d):
                            columns[k, n_waiting] = rows[block * BLOCK + q, k]
                        n_waiting += 1
                    if n_waiting == WIDTH or (n_waiting and block == n_blocks):
                        for lane in range(WIDTH):
                            best[lane] = np.inf
                            winner[lane] = shells[shell]
                        scan_candidates(columns, 0, centers[i], shells[shell], shells[shell + 1], best, winner, 0)
                        for lane in range(n_waiting):
                            winners[blocks[lane], i, shell, places[lane]] = winner[lane]
                            sq_dists[blocks[lane], i, shell, places[lane]] = best[lane]
                        n_waiting = 0


@jit
def recount(begin, end, is_stale, fresh, shells, sq_radii, winners, sq_dists, cells, added):
    """Cells of the rows of the blocks begin to end, and what is to be added to the counts: added (L, t, psi).

    is_stale (t, L): whether a level has a new center; fresh (blocks, BLOCK): new rows
    """
    n_levels = len(shells) - 1
    best, radii = np.empty(BLOCK), np.empty(BLOCK)
    nearest, now = np.empty(BLOCK, dtype=np.uint16), np.empty(BLOCK, dtype=np.uint16)
    for block in range(begin, end):
        n_fresh = 0
        for q in range(BLOCK):
            n_fresh += fresh[block, q]
        for i in range(len(is_stale)):
            if not (n_fresh or is_stale[i, n_levels - 1]):
                continue
            for q in range(BLOCK):
                best[q] = np.inf
                nearest[q] = 0
            for level in range(n_levels):
                own = winners[block, i, level]
                least = sq_dists[block, i, level]
                for q in range(BLOCK):
                    is_nearer = least[q] < best[q]
                    best[q] = least[q] if is_nearer else best[q]
                    nearest[q] = own[q] if is_nearer else nearest[q]
                if not (n_fresh or is_stale[i, level]):
                    continue
                table = sq_radii[level, i]
                before = cells[block, i, level]
                for q in range(BLOCK):
                    radii[q] = table[nearest[q]]
                n_moved = 0
                for q in range(BLOCK):
                    now[q] = nearest[q] if best[q] <= radii[q] else NO_CELL
                    n_moved += now[q] != before[q]
                if n_moved:
                    for q in range(BLOCK):
                        if now[q] != before[q]:
                            if before[q] != NO_CELL:
                                added[level, i, before[q]] -= 1
                            if now[q] != NO_CELL:
                                added[level, i, now[q]] += 1
                            before[q] = now[q]
