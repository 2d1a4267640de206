"""Rows on the scales of all views, and their nearest centers, shell by shell; see ``isobag.backends.numba.sliding``."""

from typing import Any, NamedTuple

import numpy as np

from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import measure_centers, prefetch, scan_candidates
from isobag.backends.numba.compiled.llvm import bits, number_of
from isobag.backends.numba.compiled.small_tables import WIDTH
from isobag.backends.numba.compiled.vectors import BLOCK, scan_centers

__all__ = [
    "ROUNDING", "SMALL", "Centers", "Window", "make_room", "nearest_of", "put_rows", "scan_block",
    "search_blocks", "search_lanes", "search_rows", "single",
]  # fmt: skip
ROUNDING = 2.0**-24
LEAST_LENGTH = 1e-15
"""More than underflow takes from a distance."""
FARTHEST_SINGLE = 1e18
"""Its square is still a float32."""
SMALL = 8
"""So many centers are compared in float64 sooner than a winner in float32 is verified."""
_DOUBT = -1.0


class Window(NamedTuple):
    """Rows of V views at places, BLOCK of which are a block.

    Compiled functions get a plain tuple: the name of a class in what is kept on disk could not change any more.

    rows (V, W, d) and columns (V, blocks, d, BLOCK): the same in two layouts
    singles (V, blocks, d, BLOCK) float32: (x - middle) / unit, limited; norms (V, blocks, BLOCK): their norms, infinite
    for rows beyond the limit; middles (V, d), units (V,): powers of two
    """

    rows: Any
    columns: Any
    singles: Any
    norms: Any
    middles: Any
    units: Any


class Centers(NamedTuple):
    """Centers of T partitionings, psi each; those from shells[l] to shells[l + 1] are a shell.

    owners (T,): the view of each partitioning; shells (L + 1,)
    points (T, psi, d) and columns (T, d, psi or more): the centers in two layouts, as ``measure_centers`` needs them
    singles (T, psi, d), norms (T, psi), reaches (T,): as those of the rows that they are, and the largest norm
    others, to_others (T, L, psi): see ``update_radii``; sq_radii (T, L, psi)
    """

    owners: Any
    shells: Any
    points: Any
    columns: Any
    singles: Any
    norms: Any
    reaches: Any
    others: Any
    to_others: Any
    sq_radii: Any


@jit
def put_rows(first, places, X, window):
    """Write rows (v, n, d) of the views from ``first`` on to places."""
    rows, columns, singles, norms, middles, units = window
    for number in range(len(X)):
        view = first + number
        per_unit = 1.0 / units[view]  # exactly: a power of two
        for row in range(len(places)):
            place = places[row]
            block, lane = place // BLOCK, place % BLOCK
            total = 0.0
            for k in range(X.shape[2]):
                x, middle = X[number, row, k], middles[view, k]
                value = (x - middle) * per_unit
                total += value * value if abs(value) < FARTHEST_SINGLE else np.inf
                rows[view, place, k] = x
                columns[view, block, k, lane] = x
                singles[view, block, k, lane] = single(x, middle, per_unit)
            norms[view, block, lane] = np.sqrt(total)


@jit_inner
def single(x, middle, per_unit):
    """A coordinate in units, in float32, limited."""
    return np.float32(min(max((x - middle) * per_unit, -FARTHEST_SINGLE), FARTHEST_SINGLE))


@jit_inner
def nearest_of(room, first, last, floor):
    """The first of the least numbers above the floor, and that number; -1 if there is none."""
    own = room[first:last]
    least = bits(np.inf)
    for j in range(len(own)):  # numbers from 0 on are in the order of their bits, and integers are compared in vectors
        least = min(least, bits(own[j]) if own[j] > floor else bits(np.inf))
    best = number_of(least)
    place = len(own)
    for j in range(len(own)):  # to the end: a loop that may stop is not compared in vectors
        place = min(place, j if own[j] == best else len(own))
    return (first + place, best) if best < np.inf else (-1, np.inf)


@jit_inner
def search_rows(X, owners, shells, columns, sq_radii, counts, winners, sq_dists):
    """Nearest center of each shell, one row after the other: X (V, n, d), columns as in Centers -> (T, L, n).

    Radii and counts (T, L, psi) at the cells of the rows are asked for: whoever searches few rows needs them next.
    """
    room = np.empty(columns.shape[2])
    n_levels, psi = sq_radii.shape[1:]
    for i in range(len(owners)):
        for row in range(X.shape[1]):
            measure_centers(X[owners[i], row], columns[i], 0, shells[-1], room)
            cell, least = 0, np.inf
            for shell in range(n_levels):
                winner, best = nearest_of(room, shells[shell], shells[shell + 1], -1.0)
                winners[i, shell, row] = max(winner, shells[shell])
                sq_dists[i, shell, row] = best
                cell = winner if best < least else cell
                least = min(best, least)
                prefetch(sq_radii, (i * n_levels + shell) * psi + cell)
                prefetch(counts, (i * n_levels + shell) * psi + cell)


@jit_inner
def scan_block(columns, centers, first, last, best, winner):
    """Nearest of the centers first to last for BLOCK rows, in float64: columns (d, BLOCK), centers (d, psi)."""
    for start in range(0, BLOCK, WIDTH):
        for lane in range(WIDTH):
            best[start + lane] = np.inf
            winner[start + lane] = first
        scan_candidates(columns, start, centers, first, last, best, winner, start)


@jit_inner
def search_lanes(n, columns, singles, norms, centers, own_singles, reach, first, last, names, room, hard):
    """Nearest of the centers first to last for n rows, at most BLOCK: winner and its squared distance, in room.

    columns, singles (d, BLOCK): the rows in float64 and in float32, norms (BLOCK,) of the latter
    centers (d, psi), own_singles (psi, d): the centers; reach: the largest of their norms; names: 0, 1, ...
    hard (1,): whether all are compared in float64, as centers are few or float32 was of no use before
    room: the least and second in float32, the winner, and what is certain of these, (BLOCK,) each

    The distance D of a row and a center, in units, and r, the root of what float32 makes of its square, differ by at
    most g r + u R, R being the sum of their norms. The winner is certain where r (1 - g) - u R of the second is above
    r (1 + g) + u R of the best.
    """
    best32, second32, winner32, best, winner = room
    d = len(columns)
    n_doubtful = 0
    if not hard[0]:
        for q in range(BLOCK):
            best32[q] = np.inf
            second32[q] = np.inf
            winner32[q] = first
        scan_centers(singles, own_singles, names, first, last, best32, second32, winner32)
        share = (d + 8) * ROUNDING
        for q in range(BLOCK):
            winner[q] = winner32[q]
            best[q] = 0.0
        for k in range(d):
            for q in range(BLOCK):
                gap = columns[k, q] - centers[k, winner32[q]]
                best[q] += gap * gap
        for q in range(n):
            least = np.sqrt(np.float64(best32[q])) * (1.0 + share)
            other = np.sqrt(np.float64(second32[q])) * (1.0 - share)
            certain = other > least + 3.0 * ROUNDING * (norms[q] + reach) + LEAST_LENGTH
            n_doubtful += 0 if certain else 1
            best[q] = best[q] if certain else _DOUBT
        hard[0] = n_doubtful > BLOCK // 8
    if hard[0]:
        scan_block(columns, centers, first, last, best, winner)
    elif n_doubtful:
        for q in range(n):
            if best[q] < 0.0:
                best[q] = np.inf
                winner[q] = first
                for j in range(first, last):
                    total = 0.0
                    for k in range(d):
                        total += (columns[k, q] - centers[k, j]) * (columns[k, q] - centers[k, j])
                    if total < best[q]:
                        best[q] = total
                        winner[q] = j


@jit_inner
def make_room():
    """Room for ``search_lanes``."""
    singles = np.empty(BLOCK, dtype=np.float32), np.empty(BLOCK, dtype=np.float32)
    return *singles, np.empty(BLOCK, dtype=np.int32), np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)


@jit
def search_blocks(begin, end, queries, centers, winners, sq_dists):
    """The same for many rows, BLOCK together, in the partitionings begin to end; queries: a Window of them."""
    rows, columns, singles, norms, _, _ = queries
    owners, shells, _, center_columns, center_singles, _, reaches, _, _, _ = centers
    n = rows.shape[1]
    room = make_room()
    names = np.arange(shells[-1]).astype(np.int32)
    hard = np.zeros(1, dtype=np.bool_)
    best, winner = room[3], room[4]
    for i in range(begin, end):
        view = owners[i]
        for shell in range(len(shells) - 1):
            hard[0] = shells[shell + 1] - shells[shell] <= SMALL
            for block in range(-(-n // BLOCK)):
                start = block * BLOCK
                size = min(BLOCK, n - start)
                search_lanes(
                    size, columns[view, block], singles[view, block], norms[view, block], center_columns[i],
                    center_singles[i], reaches[i], shells[shell], shells[shell + 1], names, room, hard,
                )  # fmt: skip
                for q in range(size):
                    winners[i, shell, start + q] = winner[q]
                    sq_dists[i, shell, start + q] = best[q]
