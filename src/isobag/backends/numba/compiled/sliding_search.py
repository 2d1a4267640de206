"""Nearest centers of rows, shell by shell, searched anew; see ``isobag.backends.numba.sliding``."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import scan_candidates
from isobag.backends.numba.compiled.llvm import bits, number_of
from isobag.backends.numba.compiled.small_tables import WIDTH
from isobag.backends.numba.compiled.vectors import BLOCK, scan_centers

__all__ = [
    "LOST", "ROUNDING", "make_room", "measure_centers", "nearest_of", "round_rows", "search_blocks", "search_lanes",
    "search_rows", "single",
]  # fmt: skip
LOST = -1.0
"""Squared distance that is to be found again."""
ROUNDING = 2.0**-24
LEAST_LENGTH = 1e-15
"""More than underflow takes from a distance."""
FARTHEST_SINGLE = 1e18
"""Its square is still a float32."""


@jit_inner
def measure_centers(x, centers, first, last, room):
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
def nearest_of(room, first, last, floor):
    """The first of the least numbers above the floor, and that number; -1 if there is none."""
    own = room[first:last]
    least = bits(np.inf)
    for j in range(len(own)):  # numbers from 0 on are in the order of their bits, and integers are compared in vectors
        least = min(least, bits(own[j]) if own[j] > floor else bits(np.inf))
    best = number_of(least)
    if best < np.inf:
        for j in range(len(own)):
            if own[j] == best:
                return first + j, best
    return -1, np.inf


@jit
def search_rows(X, centers, shells, winners, sq_dists):
    """Nearest center of each shell, one row after the other: X (n, d), centers (t, d, psi) -> (t, L, n)."""
    room = np.empty(centers.shape[2])
    for i in range(len(centers)):
        for row in range(len(X)):
            measure_centers(X[row], centers[i], 0, centers.shape[2], room)
            for shell in range(len(shells) - 1):
                winner, best = nearest_of(room, shells[shell], shells[shell + 1], -1.0)
                winners[i, shell, row] = max(winner, shells[shell])
                sq_dists[i, shell, row] = best


@jit_inner
def search_lanes(X, which, n, columns, singles, norms, centers, own_singles, reach, first, last, names, room, hard):
    """Nearest of the centers first to last for up to BLOCK rows X[which[:n]]: winner and its squared distance, in room.

    columns, singles (d, BLOCK): the rows in float64 and in float32, norms (BLOCK,) of the latter
    centers (d, psi), own_singles (psi, d): the centers; reach: the largest of their norms; names: 0, 1, ...
    hard (1,): whether float32 was of no use before, so that all are compared in float64
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
            if not other > least + 3.0 * ROUNDING * (norms[q] + reach) + LEAST_LENGTH:
                n_doubtful += 1
                best[q] = LOST
        hard[0] = n_doubtful > BLOCK // 8
    if hard[0]:
        for start in range(0, n, WIDTH):
            for lane in range(WIDTH):
                best[start + lane] = np.inf
                winner[start + lane] = first
            scan_candidates(columns, start, centers, first, last, best, winner, start)
    elif n_doubtful:
        for q in range(n):
            if best[q] < 0.0:
                best[q] = np.inf
                winner[q] = first
                for j in range(first, last):
                    total = 0.0
                    for k in range(d):
                        total += (X[which[q], k] - centers[k, j]) * (X[which[q], k] - centers[k, j])
                    if total < best[q]:
                        best[q] = total
                        winner[q] = j


@jit_inner
def make_room():
    """Room for ``search_lanes``."""
    singles = np.empty(BLOCK, dtype=np.float32), np.empty(BLOCK, dtype=np.float32)
    return *singles, np.empty(BLOCK, dtype=np.int32), np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)


@jit
def search_blocks(X, singles, norms, centers, own_singles, reaches, shells, winners, sq_dists):
    """The same for many rows, BLOCK together: singles (blocks, d, BLOCK) and norms (blocks, BLOCK) of X (n, d)."""
    n, d = X.shape
    room = make_room()
    names = np.arange(centers.shape[2]).astype(np.int32)
    columns, which = np.zeros((d, BLOCK)), np.zeros(BLOCK, dtype=np.int64)
    hard = np.zeros((len(centers), len(shells), 1), dtype=np.bool_)
    best, winner = room[3], room[4]
    for block in range(len(singles)):
        start = block * BLOCK
        size = min(BLOCK, n - start)
        for q in range(size):
            which[q] = start + q
            for k in range(d):
                columns[k, q] = X[start + q, k]
        for i in range(len(centers)):
            for shell in range(len(shells) - 1):
                search_lanes(
                    X, which, size, columns, singles[block], norms[block], centers[i], own_singles[i], reaches[i],
                    shells[shell], shells[shell + 1], names, room, hard[i, shell],
                )  # fmt: skip
                for q in range(size):
                    winners[i, shell, start + q] = winner[q]
                    sq_dists[i, shell, start + q] = best[q]


@jit_inner
def single(x, middle, per_unit):
    """A coordinate in units, in float32, limited."""
    return np.float32(min(max((x - middle) * per_unit, -FARTHEST_SINGLE), FARTHEST_SINGLE))


@jit
def round_rows(X, middle, unit, singles, norms):
    """Rows (n, d) as (x - middle) / unit in float32, limited, and their norms, infinite for rows beyond the limit."""
    per_unit = 1.0 / unit  # exactly: a power of two
    for row in range(len(X)):
        total = 0.0
        for k in range(X.shape[1]):
            value = (X[row, k] - middle[k]) * per_unit
            total += value * value if abs(value) < FARTHEST_SINGLE else np.inf
            singles[row // BLOCK, k, row % BLOCK] = single(X[row, k], middle[k], per_unit)
        norms[row // BLOCK, row % BLOCK] = np.sqrt(total)
