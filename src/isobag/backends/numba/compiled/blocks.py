"""Blocks of LANES neighbouring queries: a median tree over single-precision coordinates, cut at whole blocks.

Only speed depends on the order. Which center is nearest is decided elsewhere, from the coordinates of every query.
"""

import numpy as np

from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.vectors import LANES

SUPER = 16
"""Blocks whose common box is tested first."""

_SAMPLED = 2048
_FARTHEST = np.float32(1e30)


@jit
def order_rows(rows, order, start, stop):
    """Sort order[start:stop] so that every block, and every SUPER blocks, are neighbours: rows (n, d) float32.

    start is a multiple of LANES * SUPER.
    """
    todo = np.empty((128, 2), np.int64)  # halves of halves: no deeper than the bits of an integer
    todo[0, 0] = start
    todo[0, 1] = stop
    n_todo = 1
    while n_todo > 0:
        n_todo -= 1
        a = todo[n_todo, 0]
        b = todo[n_todo, 1]
        middle = split_rows(rows, order, a, b)
        if middle < b:
            todo[n_todo, 0] = a
            todo[n_todo, 1] = middle
            todo[n_todo + 1, 0] = middle
            todo[n_todo + 1, 1] = b
            n_todo += 2


@jit
def split_rows(rows, order, a, b):
    """Split order[a:b] near the median of its widest side; where the upper part begins, b if it need not be split."""
    unit = LANES * SUPER if b - a > LANES * SUPER else LANES
    if b - a <= unit:
        return b
    side = _widest_side(rows, order, a, b)
    if side < 0:
        return b
    keys = np.empty(b - a, np.float32)
    for q in range(b - a):
        keys[q] = rows[order[a + q], side]
    middle = ((b - a) // 2 + unit - 1) // unit * unit
    _select(keys, order[a:b], middle)
    return a + middle


@jit_inner
def _widest_side(rows, order, a, b):
    """Feature of the largest mean absolute deviation in a sample of the rows; -1 if all rows of it are equal."""
    step = max(1, (b - a) // _SAMPLED)
    d = rows.shape[1]
    n_sampled = (b - a + step - 1) // step
    means = np.zeros(d, np.float32)
    deviations = np.zeros(d, np.float32)
    share = np.float32(1.0 / n_sampled)
    for q in range(a, b, step):
        row = rows[order[q]]
        for k in range(d):
            means[k] += share * max(min(row[k], _FARTHEST), -_FARTHEST)
    for q in range(a, b, step):
        row = rows[order[q]]
        for k in range(d):
            deviations[k] += min(abs(row[k] - means[k]), _FARTHEST)
    side = -1
    widest = np.float32(0.0)
    for k in range(d):
        if deviations[k] > widest:
            widest = deviations[k]
            side = k
    return side


@jit_inner
def _select(keys, order, middle):
    """Reorder both so that no key before the middle exceeds one after it (Hoare's selection)."""
    low = 0
    high = len(keys) - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) // 2], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i = low
        j = high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while pivot < keys[j]:
                j -= 1
            if i <= j:
                key = keys[i]
                keys[i] = keys[j]
                keys[j] = key
                row = order[i]
                order[i] = order[j]
                order[j] = row
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@jit
def place_rows(X, mean, axes, placed, lengths):
    """Coordinates (x - mean) axes in float32, infinite where they overflow: (n, d); and their lengths (n,)."""
    n, d = X.shape
    total = np.empty(d)
    for row in range(n):
        total[:] = 0.0
        for j in range(d):
            gap = X[row, j] - mean[j]
            axis = axes[j]
            for k in range(d):
                total[k] += gap * axis[k]
        sq_length = 0.0
        for k in range(d):
            sq_length += total[k] * total[k]
            placed[row, k] = total[k] if total[k] == total[k] else np.inf
        lengths[row] = np.sqrt(sq_length)


@jit
def fill_blocks(X, rows, order, first, last, exact, lanes, middles, halves, joined_middles, joined_halves):
    """Copy rows of blocks first to last into lanes (blocks, d, LANES), and find the boxes of these and each SUPER.

    X (n, d) are the same rows in float64, which are copied to ``exact`` in the order of the blocks. A box is its middle
    and its half widths, rounded up. The last row fills the rest of the last block.
    first is a multiple of SUPER.
    """
    n, d = rows.shape
    lows = np.empty((SUPER, d), np.float32)
    highs = np.empty((SUPER, d), np.float32)
    for block in range(first, last):
        member = block % SUPER
        own = lanes[block]
        for place in range(block * LANES, min(block * LANES + LANES, n)):
            for k in range(d):
                exact[place, k] = X[order[place], k]
        for q in range(LANES):
            row = rows[order[min(block * LANES + q, n - 1)]]
            for k in range(d):
                own[k, q] = row[k]
        for k in range(d):
            low = own[k, 0]
            high = low
            for q in range(LANES):
                low = min(low, own[k, q])
                high = max(high, own[k, q])
            lows[member, k] = low
            highs[member, k] = high
            _set_side(low, high, middles[block], halves[block], k)
        if member == SUPER - 1 or block == last - 1:
            for k in range(d):
                low = lows[0, k]
                high = highs[0, k]
                for other in range(1, member + 1):
                    low = min(low, lows[other, k])
                    high = max(high, highs[other, k])
                _set_side(low, high, joined_middles[block // SUPER], joined_halves[block // SUPER], k)


@jit_inner
def _set_side(low, high, middles, halves, k):
    middle = np.float32(0.5) * low + np.float32(0.5) * high
    middles[k] = middle
    halves[k] = max(high - middle, middle - low) * np.float32(1 + 2.0**-20)
