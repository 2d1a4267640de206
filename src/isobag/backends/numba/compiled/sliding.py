"""Nearest centers of rows that are kept as rows and centers change; see ``isobag.backends.numba.sliding``."""

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS
from isobag.backends.numba.compiled.float64_distances import sq_distance
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import flag_lanes, keep_nearer, lowest_bit, measure_singles, prefetch
from isobag.backends.numba.compiled.llvm import bits
from isobag.backends.numba.compiled.sliding_search import (
    LOST,
    ROUNDING,
    make_room,
    measure_centers,
    nearest_of,
    search_lanes,
    single,
)
from isobag.backends.numba.compiled.vectors import BLOCK

__all__ = [
    "NO_CELL", "count_rows", "offer_centers", "put_rows", "put_singles", "recount", "search_lost", "sum_levels",
    "update_radii",
]  # fmt: skip
NO_CELL = np.uint16(65535)
"""Of a place without a row."""
_AHEAD = 8
"""How many rows later memory that is asked for now is needed."""
_KEPT = 1 << 16
"""Rows in doubt that are written down before they are measured."""
NORMS_SHARE = 2200 * ROUNDING**2
"""Of the squared norms, what (1 + 1 / e) 2 u^2 is at most in ``offer_centers``."""
TINY = 1e-30
"""More than underflow takes from a squared distance."""


@jit
def sum_levels(begin, end, places, winners, sq_dists, sq_radii, counts, limits, sums):
    """Add the counts at the cells of the rows at places begin to end, at each level: sums (n, L), or (n, L + 1).

    winners, sq_dists (t, L, W) of shells; limits (L,), -1 for levels at which how far out a row is does not count, else
    the octaves by which rows are beyond them are the last sum
    """
    t, n_levels, _ = winners.shape
    for i in range(t):
        for row in range(begin, end):
            place = places[row]
            best = np.inf
            cell = np.uint16(0)
            for level in range(n_levels):
                offered, winner = sq_dists[i, level, place], winners[i, level, place]
                cell = winner if offered < best else cell
                best = offered if offered < best else best
                if best <= sq_radii[level, i, cell]:
                    sums[row, level] += counts[level, i, cell]
                elif limits[level] >= 0:
                    beyond = (bits(best) >> OCTAVE_BITS) - limits[level]
                    if beyond > 0:
                        sums[row, n_levels] += beyond


@jit_inner
def _shares(d, sq_unit):
    """What squared distances and squared norms are multiplied by in ``_bound``."""
    share = (1.0 - (d + 8) * ROUNDING) ** 2
    return (1.0 + 2.0**-9) / share / sq_unit, NORMS_SHARE / share


@jit_inner
def _bound(sq_dist, norm, shares):
    """A float32 that no ``measure_singles`` of a point is above which is as near as this: see ``offer_centers``."""
    return np.float32(sq_dist * shares[0] + norm * norm * shares[1] + TINY)


@jit
def put_rows(places, X, found, least, sq_unit, rows, norms, winners, sq_dists, bounds):
    """Write rows (n, d), and their nearest centers found (t, L, n), to places of the window.

    norms (blocks, BLOCK), as those of ``round_rows``, are there already.
    """
    d = X.shape[1]
    shares = _shares(d, sq_unit)
    for row in range(len(places)):
        for k in range(d):
            rows[places[row], k] = X[row, k]
    for i in range(found.shape[0]):
        for shell in range(found.shape[1]):
            for row in range(len(places)):
                block = places[row] // BLOCK
                lane = places[row] % BLOCK
                winners[i, shell, block, lane] = found[i, shell, row]
                sq_dists[i, shell, block, lane] = least[i, shell, row]
                bounds[i, shell, block, lane] = _bound(least[i, shell, row], norms[block, lane], shares)


@jit
def put_singles(places, singles, norms, all_singles, all_norms):
    """Write rows as ``round_rows`` made them to places of the window."""
    for row in range(len(places)):
        block, lane = places[row] // BLOCK, places[row] % BLOCK
        for k in range(singles.shape[1]):
            all_singles[block, k, lane] = singles[row // BLOCK, k, row % BLOCK]
        all_norms[block, lane] = norms[row // BLOCK, row % BLOCK]


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
                measure_centers(x, centers[i], 0, psi, room)
                for c in range(psi):
                    if room[c] > 0.0 and room[c] < to_others[i, shell, c]:
                        to_others[i, shell, c] = room[c]
                        others[i, shell, c] = j
                for own in range(n_shells):
                    winner, best = nearest_of(room, shells[own], shells[own + 1], 0.0)
                    others[i, own, j] = winner
                    to_others[i, own, j] = best
        if not n_changed:
            continue
        for shell in range(n_shells):
            for c in range(psi):
                if to_others[i, shell, c] < 0.0:
                    for k in range(d):
                        x[k] = centers[i, k, c]
                    measure_centers(x, centers[i], shells[shell], shells[shell + 1], room)
                    winner, best = nearest_of(room, shells[shell], shells[shell + 1], 0.0)
                    others[i, shell, c] = winner
                    to_others[i, shell, c] = best
        for c in range(psi):
            room[c] = np.inf
        for level in range(n_shells):
            own, least = sq_radii[level, i], to_others[i, level]
            for c in range(shells[level + 1]):
                room[c] = least[c] if least[c] < room[c] else room[c]
                own[c] = room[c] if room[c] < np.inf else 0.0
            for c in range(shells[level + 1], psi):
                room[c] = least[c] if least[c] < room[c] else room[c]


@jit_inner
def _settle(doubtful, ordered, own, entries, shares, rows, norms, winners, sq_dists, bounds):
    """Measure new centers in float64 for the rows in doubt: (n, 2) numbers of entries and places.

    One entry after the other: what is known of the rows in one partitioning is close together in memory.
    """
    d = rows.shape[1]
    begins = np.zeros(len(entries) + 1, dtype=np.int64)
    for number in range(len(doubtful)):
        begins[doubtful[number, 0] + 1] += 1
    begins = np.cumsum(begins)
    ends = begins.copy()
    for number in range(len(doubtful)):
        e = doubtful[number, 0]
        ordered[ends[e]] = doubtful[number, 1]
        ends[e] += 1
    for e in range(len(entries)):
        i, slot, shell, center = entries[e, 0], entries[e, 1], entries[e, 2], own[entries[e, 3]]
        first = (i * winners.shape[1] + shell) * winners.shape[2] * BLOCK
        for number in range(begins[e], begins[e + 1]):
            place = ordered[number]
            if number + _AHEAD < len(doubtful):
                soon = ordered[number + _AHEAD]
                prefetch(rows, soon * d)
                prefetch(rows, soon * d + d - 1)
                prefetch(winners, first + soon)
                prefetch(sq_dists, first + soon)
            block, lane = place // BLOCK, place % BLOCK
            holder, least = winners[i, shell, block, lane], sq_dists[i, shell, block, lane]
            if holder == NO_CELL:
                continue
            offered = sq_distance(rows, place, rows, center)
            if offered < least or (offered == least and slot < holder):
                winners[i, shell, block, lane] = slot
                sq_dists[i, shell, block, lane] = offered
                bounds[i, shell, block, lane] = _bound(offered, norms[block, lane], shares)


@jit
def offer_centers(begin, end, own, entries, sq_unit, rows, singles, norms, winners, sq_dists, bounds):
    """Let new centers compete for the rows of the blocks begin to end, none of whose nearest centers is gone.

    own (m,): places of the rows that became centers; entries (e, 4): partitioning, cell, shell and number of every new
    center. Distances are measured in float32 first: let r be that of x and c, made of their float32 values in units
    of ``unit``, and D the distance in units. Rounding moves both by u = 2^-24 of their norms, and the sum of squares by
    a share g, so r (1 - g) <= D + u (|x| + |c|), and for every e > 0

        r^2 (1 - g)^2 <= (1 + e) D^2 + (1 + 1 / e) u^2 2 (|x|^2 + |c|^2).

    With e = 2^-9 less some for the rounding of all this, ``_bound`` is the right side for the squared distance of the
    nearest center and |x|, and what |c| adds is subtracted from r^2: a center is measured in float64 where what is left
    is not above the bound.
    """
    d = rows.shape[1]
    points, terms = np.empty((len(own), d), dtype=np.float32), np.empty(len(own), dtype=np.float32)
    shares = _shares(d, sq_unit)
    for point in range(len(own)):
        block, lane = own[point] // BLOCK, own[point] % BLOCK
        for k in range(d):
            points[point, k] = singles[block, k, lane]
        terms[point] = norms[block, lane] ** 2 * shares[1]
    measured = np.empty((len(own), BLOCK), dtype=np.float32)
    most = max(2 * len(entries) * BLOCK, _KEPT)
    doubtful, ordered = np.empty((most, 2), dtype=np.int32), np.empty(most, dtype=np.int32)
    n_doubtful = 0
    for block in range(begin, end):
        measure_singles(singles, block, points, terms, measured)
        for e in range(len(entries)):
            row = (entries[e, 0] * winners.shape[1] + entries[e, 2]) * winners.shape[2] + block
            flags = flag_lanes(measured, entries[e, 3], bounds, row)
            while flags:
                doubtful[n_doubtful, 0] = e
                doubtful[n_doubtful, 1] = block * BLOCK + lowest_bit(flags)
                flags &= flags - 1
                n_doubtful += 1
        if block == end - 1 or n_doubtful + len(entries) * BLOCK > most:
            _settle(doubtful[:n_doubtful], ordered, own, entries, shares, rows, norms, winners, sq_dists, bounds)
            n_doubtful = 0


@jit
def search_lost(
    begin, end, rows, changed, is_changed, centers, own_singles, reaches, shells, middle, unit, norms, winners,
    sq_dists, bounds,
):  # fmt: skip
    """Search shells again for the rows whose center has changed, in the partitionings begin to end.

    rows (W, d) of the window; changed (t, psi), is_changed (t, L): which centers are new, and which shells have one
    """
    d = centers.shape[1]
    room = make_room()
    best, winner = room[3], room[4]
    names = np.arange(centers.shape[2]).astype(np.int32)
    columns, which = np.zeros((d, BLOCK)), np.zeros(BLOCK, dtype=np.int64)
    own, lengths = np.zeros((d, BLOCK), dtype=np.float32), np.zeros(BLOCK)
    lost = np.empty(len(rows), dtype=np.int64)
    shares, per_unit = _shares(d, unit * unit), 1.0 / unit
    hard = np.zeros(1, dtype=np.bool_)
    for i in range(begin, end):
        for shell in range(len(shells) - 1):
            if not is_changed[i, shell]:
                continue
            holders = winners[i, shell].reshape(-1)
            n_lost = 0
            for place in range(len(rows)):
                lost[n_lost] = place
                n_lost += changed[i, holders[place]]
            hard[0] = False
            for start in range(0, n_lost, BLOCK):
                size = min(BLOCK, n_lost - start)
                for q in range(size):
                    prefetch(rows, lost[min(start + q + _AHEAD, n_lost - 1)] * d)
                    place = lost[start + q]
                    which[q] = place
                    lengths[q] = norms[place // BLOCK, place % BLOCK]
                    for k in range(d):
                        columns[k, q] = rows[place, k]
                        own[k, q] = single(rows[place, k], middle[k], per_unit)
                search_lanes(
                    rows, which, size, columns, own, lengths, centers[i], own_singles[i], reaches[i], shells[shell],
                    shells[shell + 1], names, room, hard,
                )  # fmt: skip
                for q in range(size):
                    block, lane = which[q] // BLOCK, which[q] % BLOCK
                    winners[i, shell, block, lane] = winner[q]
                    sq_dists[i, shell, block, lane] = best[q]
                    bounds[i, shell, block, lane] = _bound(best[q], lengths[q], shares)


@jit
def count_rows(begin, end, places, step, is_stale, sq_radii, winners, sq_dists, counts):
    """Add a step to the counts (L, t, psi) of the cells of the rows at some places, in the partitionings begin to end.

    At the levels that are not stale: is_stale (t, L) says which have a new center, and are counted by ``recount``.
    """
    n_levels = is_stale.shape[1]
    for i in range(begin, end):
        for number in range(len(places)):
            block, lane = places[number] // BLOCK, places[number] % BLOCK
            best = np.inf
            cell = 0
            for level in range(n_levels):
                if is_stale[i, level]:
                    break  # and so are all after it
                if sq_dists[i, level, block, lane] < best:
                    best = sq_dists[i, level, block, lane]
                    cell = winners[i, level, block, lane]
                if best <= sq_radii[level, i, cell]:
                    counts[level, i, cell] += step


@jit
def recount(begin, end, n_rows, is_stale, sq_radii, winners, sq_dists, counts):
    """Count the first rows of the window at all stale levels (t, L) of the partitionings begin to end: (L, t, psi)."""
    n_levels, n_blocks = is_stale.shape[1], winners.shape[2]
    best, nearest = np.empty(BLOCK), np.empty(BLOCK, dtype=np.uint16)
    for i in range(begin, end):
        if not is_stale[i, n_levels - 1]:
            continue
        for level in range(n_levels):
            if is_stale[i, level]:
                counts[level, i] = 0
        for block in range(-(-n_rows // BLOCK)):
            size = min(BLOCK, n_rows - block * BLOCK)
            for q in range(BLOCK):
                best[q] = np.inf
                nearest[q] = 0
            for level in range(n_levels):
                keep_nearer(winners, sq_dists, (i * n_levels + level) * n_blocks + block, nearest, best)
                if is_stale[i, level]:
                    own, table = counts[level, i], sq_radii[level, i]
                    for q in range(size):
                        own[nearest[q]] += best[q] <= table[nearest[q]]
