"""Nearest centers of rows that are kept as rows and centers change; see ``isobag.backends.numba.sliding``."""

from typing import Any, NamedTuple

import numpy as np

from isobag.backends.numba.compiled.float64_distances import sq_distance
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import flag_nearer, keep_nearer, lowest_bit, measure_centers, prefetch
from isobag.backends.numba.compiled.sliding_search import (
    ROUNDING,
    SMALL,
    make_room,
    nearest_of,
    scan_block,
    search_lanes,
    single,
)
from isobag.backends.numba.compiled.vectors import BLOCK

__all__ = ["Kept", "slide"]
_AHEAD = 8
"""How many rows later memory that is asked for now is needed."""
_TABLES = 2
"""In which rows are counted by turns, so that one addition does not wait for another."""
_LOST = -1.0
"""Squared distance that is to be found again."""
_ANEW = 4
"""A shell of so many centers is searched for all rows when one of them changes."""
NORMS_SHARE = 2200 * ROUNDING**2
"""Of the squared norms, what (1 + 1 / e) 2 u^2 is at most in ``_offer``."""
TINY = 1e-30
"""More than underflow takes from a squared distance."""


class Kept(NamedTuple):
    """What is remembered of each row of the window, and counts.

    winners, sq_dists (T, L, blocks, BLOCK): the nearest center of each shell, and its squared distance
    bounds (T, L, blocks, BLOCK) float32: of shells of more than _ANEW centers, see ``_offer``
    counts (T, L, psi)
    """

    winners: Any
    sq_dists: Any
    bounds: Any
    counts: Any


@jit
def slide(begin, end, places, n_before, n_rows, changed, slots, found, least, window, centers, kept):
    """Follow a change of rows and centers in the partitionings begin to end.

    places (n,): of rows that have come, which are in the window already, those before ``n_before`` instead of others;
    found, least (T, L, n): their nearest centers before any changed, none where all do
    changed (T, psi): the centers that are no longer the row at their slot, slots (T, psi)
    """
    psi, shells, sq_radii = slots.shape[1], centers[1], centers[-1]
    names, starts = np.empty(psi + 1, dtype=np.int64), np.zeros(len(shells), dtype=np.int64)
    for i in range(begin, end):
        n_changed, stale = 0, len(shells) - 1  # levels from the first shell with a new center on are counted anew
        for shell in range(len(shells) - 1):
            for j in range(shells[shell], shells[shell + 1]):
                names[n_changed] = j
                n_changed += changed[i, j]
            starts[shell + 1] = n_changed
            stale = min(stale, shell) if n_changed else stale
        _count(i, places, n_before, -1, stale, sq_radii, kept)
        _put(i, places[: found.shape[2]], found, least, window, centers, kept)
        if n_changed:
            _replace_centers(i, names[:n_changed], slots, window, centers)
            _update_radii(i, names, starts, changed, centers)
            _search_anew(i, n_rows, starts, window, centers, kept)
            _search_lost(i, n_rows, starts, changed, window, centers, kept)
            if n_changed < psi:
                _offer(i, n_rows, names, starts, window, centers, kept)
            _recount(i, stale, n_rows, shells, sq_radii, kept)
        _count(i, places, n_rows, 1, stale, sq_radii, kept)


@jit_inner
def _shares(d, unit):
    """What squared distances and squared norms are multiplied by in ``_bound``."""
    share = (1.0 - (d + 8) * ROUNDING) ** 2
    return (1.0 + 2.0**-9) / share / (unit * unit), NORMS_SHARE / share


@jit_inner
def _bound(sq_dist, norm, shares):
    """A float32 that no ``flag_nearer`` of a point is above which is as near as this: see ``_offer``."""
    return np.float32(sq_dist * shares[0] + norm * norm * shares[1] + TINY)


@jit_inner
def _count(i, places, n_places, step, stale, sq_radii, kept):
    """Add a step to the counts of the cells of the rows at places below n_places, at the levels below stale."""
    winners, sq_dists, _, counts = kept
    for number in range(len(places) if stale else 0):
        if places[number] >= n_places:
            continue
        block, lane = places[number] // BLOCK, places[number] % BLOCK
        best = np.inf
        cell = np.uint16(0)
        for level in range(stale):
            offered, winner = sq_dists[i, level, block, lane], winners[i, level, block, lane]
            cell = winner if offered < best else cell
            best = offered if offered < best else best
            counts[i, level, cell] += step if best <= sq_radii[i, level, cell] else 0


@jit_inner
def _put(i, places, found, least, window, centers, kept):
    """Write the nearest centers found (T, L, n) of the rows at places."""
    (owners, shells), (rows, _, _, norms, _, units) = centers[:2], window
    winners, sq_dists, bounds, _ = kept
    view = owners[i]
    shares = _shares(rows.shape[2], units[view])
    for shell in range(found.shape[1]):
        is_offered = shells[shell + 1] - shells[shell] > _ANEW
        for row in range(len(places)):
            block, lane = places[row] // BLOCK, places[row] % BLOCK
            winners[i, shell, block, lane] = found[i, shell, row]
            sq_dists[i, shell, block, lane] = least[i, shell, row]
            if is_offered:
                bounds[i, shell, block, lane] = _bound(least[i, shell, row], norms[view, block, lane], shares)


@jit_inner
def _replace_centers(i, names, slots, window, centers):
    """Let these centers be the rows at their slots."""
    rows, _, singles, norms, _, _ = window
    owners, _, points, columns, center_singles, center_norms, reaches, _, _, _ = centers
    view = owners[i]
    for j in names:
        place = slots[i, j]
        block, lane = place // BLOCK, place % BLOCK
        for k in range(rows.shape[2]):
            points[i, j, k] = rows[view, place, k]
            columns[i, k, j] = rows[view, place, k]
            center_singles[i, j, k] = singles[view, block, k, lane]
        center_norms[i, j] = norms[view, block, lane]
    reaches[i] = center_norms[i].max()


@jit_inner
def _update_radii(i, names, starts, changed, centers):
    """Nearest different centers after some centers changed, and the radii that follow.

    others, to_others (T, L, psi): of a center of shell l, at l the nearest different one of the shells up to l, and how
    far; at later shells that of the shell.
    """
    _, shells, all_points, all_columns, _, _, _, all_others, all_to_others, all_radii = centers
    columns, points = all_columns[i], all_points[i]
    n_shells, psi = len(shells) - 1, len(points)
    room, own_changed = np.empty(columns.shape[1]), changed[i]
    for shell in range(n_shells):  # centers whose nearest is gone search after all offers
        others, to_others = all_others[i, shell, : shells[shell + 1]], all_to_others[i, shell]
        for c in range(len(others)):
            if (others[c] >= 0) & own_changed[others[c]]:
                to_others[c] = _LOST
    for shell in range(n_shells):
        for j in names[starts[shell] : starts[shell + 1]]:
            measure_centers(points[j], columns, 0, psi, room)
            new = np.int16(j)
            for own in range(shell, n_shells):
                first, last = shells[own] if own > shell else 0, shells[own + 1]
                offered, held, names_held = (
                    room[first:last],
                    all_to_others[i, own, first:last],
                    all_others[i, own, first:last],
                )
                for c in range(len(offered)):
                    value, least, name = offered[c], held[c], names_held[c]
                    is_nearer = (value > 0.0) & (value < least)
                    held[c] = value if is_nearer else least
                    names_held[c] = new if is_nearer else name
                all_others[i, own, j], all_to_others[i, own, j] = nearest_of(room, first, last, 0.0)
    least = np.full(psi, np.inf)
    for shell in range(n_shells):
        others, to_others, sq_radii = all_others[i, shell], all_to_others[i, shell], all_radii[i, shell]
        for c in range(shells[shell + 1]):
            if to_others[c] < 0.0:
                first = 0 if c >= shells[shell] else shells[shell]
                measure_centers(points[c], columns, first, shells[shell + 1], room)
                others[c], to_others[c] = nearest_of(room, first, shells[shell + 1], 0.0)
        for c in range(shells[shell + 1]):
            least[c] = min(least[c], to_others[c])
            sq_radii[c] = least[c] if least[c] < np.inf else 0.0


@jit_inner
def _search_anew(i, n_rows, starts, window, centers, kept):
    """Search the small shells that have a new center for all rows: few centers have many rows each."""
    (owners, shells, _, center_columns), columns = centers[:4], window[1]
    winners, sq_dists = kept[:2]
    best, winner = np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)
    for shell in range(len(shells) - 1):
        if starts[shell] == starts[shell + 1] or shells[shell + 1] - shells[shell] > _ANEW:
            continue
        for block in range(-(-n_rows // BLOCK)):
            own = columns[owners[i], block]
            scan_block(own, center_columns[i], shells[shell], shells[shell + 1], best, winner)
            for q in range(BLOCK):
                winners[i, shell, block, q] = winner[q]
                sq_dists[i, shell, block, q] = best[q]


@jit_inner
def _search_lost(i, n_rows, starts, changed, window, centers, kept):
    """Search the other shells for the rows whose center in them has changed."""
    all_rows, _, _, all_norms, middles, units = window
    owners, shells, _, center_columns, center_singles, _, reaches, _, _, _ = centers
    winners, sq_dists, bounds, _ = kept
    view = owners[i]
    rows, middle, norms = all_rows[view], middles[view], all_norms[view].reshape(-1)
    d = rows.shape[1]
    room = make_room()
    best, winner = room[3], room[4]
    names = np.arange(shells[-1]).astype(np.int32)
    columns, singles = np.zeros((d, BLOCK)), np.zeros((d, BLOCK), dtype=np.float32)  # known to be no other arrays
    lengths = np.zeros(BLOCK)
    shares, per_unit = _shares(d, units[view]), 1.0 / units[view]
    hard = np.zeros(1, dtype=np.bool_)
    lost = np.empty(n_rows + 1, dtype=np.int64)
    for shell in range(len(shells) - 1):
        first, last = shells[shell], shells[shell + 1]
        if starts[shell] == starts[shell + 1] or last - first <= _ANEW:
            continue
        hard[0] = last - first <= SMALL
        holders, own_changed = winners[i, shell].reshape(-1), changed[i]
        n_lost = 0
        for place in range(n_rows):
            lost[n_lost] = place
            n_lost += own_changed[holders[place]]
        for start in range(0, n_lost, BLOCK):
            size = min(BLOCK, n_lost - start)
            for q in range(size):
                prefetch(rows, lost[min(start + q + _AHEAD, n_lost - 1)] * d)
                place = lost[start + q]
                lengths[q] = norms[place]
                for k in range(d):
                    columns[k, q] = rows[place, k]
                    singles[k, q] = single(rows[place, k], middle[k], per_unit)
            search_lanes(
                size, columns, singles, lengths, center_columns[i], center_singles[i], reaches[i], first, last, names,
                room, hard,
            )  # fmt: skip
            for q in range(size):
                block, lane = lost[start + q] // BLOCK, lost[start + q] % BLOCK
                winners[i, shell, block, lane] = winner[q]
                sq_dists[i, shell, block, lane] = best[q]
                bounds[i, shell, block, lane] = _bound(best[q], lengths[q], shares)


@jit_inner
def _offer(i, n_rows, names, starts, window, centers, kept):
    """Let new centers compete for all rows, none of whose nearest centers is gone.

    Distances are measured in float32 first: let r be that of x and c, made of their float32 values in units of
    ``unit``, and D the distance in units. Rounding moves both by u = 2^-24 of their norms, and the sum of squares by a
    share g, so r (1 - g) <= D + u (|x| + |c|), and for every e > 0

        r^2 (1 - g)^2 <= (1 + e) D^2 + (1 + 1 / e) u^2 2 (|x|^2 + |c|^2).

    With e = 2^-9 less some for the rounding of all this, ``_bound`` is the right side for the squared distance of the
    nearest center and |x|, and what |c| adds is subtracted from r^2: a center is measured in float64 where what is left
    is not above the bound.
    """
    all_rows, _, singles, norms, _, units = window
    owners, shells, all_points, _, center_singles, center_norms, _, _, _, _ = centers
    winners, sq_dists, bounds, _ = kept
    view = owners[i]
    rows, points = all_rows[view], all_points[i]
    d, psi, n_blocks = rows.shape[1], len(points), winners.shape[2]
    shares = _shares(d, units[view])
    for block in range(-(-n_rows // BLOCK)):
        size = min(BLOCK, n_rows - block * BLOCK)
        lanes = -1 if size == BLOCK else (1 << size) - 1
        for shell in range(len(shells) - 1):
            if shells[shell + 1] - shells[shell] <= _ANEW:
                continue
            row = (i * (len(shells) - 1) + shell) * n_blocks + block
            for j in names[starts[shell] : starts[shell + 1]]:
                term = np.float32(center_norms[i, j] ** 2 * shares[1])
                flags = lanes & flag_nearer(
                    singles, (view * n_blocks + block) * d, center_singles, (i * psi + j) * d, d, term, bounds, row
                )  # fmt: skip
                while flags:
                    lane = lowest_bit(flags)
                    flags &= flags - 1
                    offered = sq_distance(rows, block * BLOCK + lane, points, j)
                    held = sq_dists[i, shell, block, lane]
                    if offered < held or (offered == held and j < winners[i, shell, block, lane]):
                        winners[i, shell, block, lane] = j
                        sq_dists[i, shell, block, lane] = offered
                        bounds[i, shell, block, lane] = _bound(offered, norms[view, block, lane], shares)


@jit_inner
def _recount(i, stale, n_rows, shells, sq_radii, kept):
    """Count the first rows of the window at the levels from ``stale`` on."""
    winners, sq_dists, _, counts = kept
    n_levels, n_blocks = winners.shape[1], winners.shape[2]
    best, nearest = np.full((n_levels + 1, BLOCK), np.inf), np.zeros((n_levels + 1, BLOCK), dtype=np.uint16)
    tables = np.zeros((n_levels, counts.shape[2], _TABLES), dtype=np.int32)
    last = -(-n_rows // BLOCK)
    for block in range(last):
        for level in range(n_levels):  # all before any is counted: what was just written takes a while to be read
            keep_nearer(winners, sq_dists, (i * n_levels + level) * n_blocks + block, nearest, best, level)
        if n_rows < (block + 1) * BLOCK:
            best[1:, n_rows - block * BLOCK :] = np.inf  # in no ball
        ahead = min(block + 2, last - 1)
        for level in range(n_levels):
            start = ((i * n_levels + level) * n_blocks + ahead) * BLOCK
            for q in range(0, BLOCK, 8):
                prefetch(sq_dists, start + q)
            for q in range(0, BLOCK, 32):
                prefetch(winners, start + q)
            if level >= stale:
                own, radii, cells, lengths = tables[level], sq_radii[i, level], nearest[level + 1], best[level + 1]
                for q in range(0, BLOCK, _TABLES):
                    for table in range(_TABLES):
                        own[cells[q + table], table] += lengths[q + table] <= radii[cells[q + table]]
    for level in range(stale, n_levels):
        own, table = counts[i, level, : shells[level + 1]], tables[level]
        for cell in range(len(own)):
            own[cell] = table[cell, 0] + table[cell, 1]
