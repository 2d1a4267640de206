"""Blocks of BLOCK neighbouring queries: a median tree over single-precision coordinates, cut at whole blocks.

Only speed depends on the order. Which center is nearest is decided elsewhere, from the coordinates of every query.
"""

import numpy as np

from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.vectors import BLOCK

SUPER = 16
"""Blocks whose common box is tested first."""

_SAMPLED = 2048
_FARTHEST = np.float32(1e30)
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_MIXED_BITS = np.uint64(32)


@jit
def name_rows(bits, table, names, rows):
    """Number of distinct rows; written: names (n,), the number of each row among them, and rows, where each is first.

    bits (n, d); table: -1 at a power of two of places, 2 n or more, by the hash of a row, then the next one free
    """
    n, d = bits.shape
    last = len(table) - 1
    n_distinct = 0
    for row in range(n):
        mixed = np.uint64(0)
        for k in range(d):
            mixed = (mixed ^ bits[row, k]) * _MIXER
            mixed ^= mixed >> _MIXED_BITS
        place = np.int64(mixed & np.uint64(last))
        while True:
            name = table[place]
            if name < 0:
                name = n_distinct
                table[place] = name
                rows[name] = row
                n_distinct += 1
                break
            n_same = 0
            for k in range(d):
                n_same += bits[rows[name], k] == bits[row, k]
            if n_same == d:
                break
            place = (place + 1) & last
        names[row] = name
    return n_distinct


@jit
def order_rows(rows, order, start, stop, once, todo, keys, means, deviations):
    """Sort order[start:stop] so that every block, and every SUPER blocks, are neighbours: rows (n, d) float32.

    start is a multiple of BLOCK * SUPER. ``once``: only split it in two, and say where; stop if it need not be split.
    todo (128, 2), keys (stop - start or more,) float32, means and deviations (d,) float32: room
    """
    todo[0, 0] = start
    todo[0, 1] = stop
    n_todo = 1
    middle = stop
    while n_todo > 0:
        n_todo -= 1
        a = todo[n_todo, 0]
        b = todo[n_todo, 1]
        unit = BLOCK * SUPER if b - a > BLOCK * SUPER else BLOCK
        if b - a <= unit:
            continue
        side = _widest_side(rows, order, a, b, means, deviations)
        if side < 0:
            continue
        for q in range(a, b):
            keys[q - a] = rows[order[q], side]
        middle = a + ((b - a) // 2 + unit - 1) // unit * unit
        _select(keys, order, a, b, middle - a)
        if once:
            break
        todo[n_todo, 1] = middle
        todo[n_todo + 1, 0] = middle
        todo[n_todo + 1, 1] = b
        n_todo += 2
    return middle


@jit_inner
def _widest_side(rows, order, a, b, means, deviations):
    """Feature of the largest mean absolute deviation in a sample of the rows; -1 if all rows of it are equal."""
    d = rows.shape[1]
    step = (b - a) // _SAMPLED
    step = step if step > 1 else 1
    share = np.float32(1.0 / ((b - a + step - 1) // step))
    for k in range(d):
        means[k] = 0
        deviations[k] = 0
    for q in range(a, b, step):
        row = rows[order[q]]
        for k in range(d):
            value = row[k]
            value = _FARTHEST if value > _FARTHEST else value
            means[k] += share * (-_FARTHEST if value < -_FARTHEST else value)
    for q in range(a, b, step):
        row = rows[order[q]]
        for k in range(d):
            away = abs(row[k] - means[k])
            deviations[k] += _FARTHEST if away > _FARTHEST else away
    side = -1
    widest = np.float32(0.0)
    for k in range(d):
        if deviations[k] > widest:
            widest = deviations[k]
            side = k
    return side


@jit_inner
def _select(keys, order, a, b, middle):
    """Reorder keys[: b - a] and order[a:b] so that no key before the middle exceeds one after it: Hoare's selection."""
    low = 0
    high = b - a - 1
    while low < high:
        first = keys[low]
        pivot = keys[(low + high) // 2]
        last = keys[high]
        if first > last:  # the median of three
            first, last = last, first
        pivot = first if pivot < first else pivot
        pivot = last if pivot > last else pivot
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
                row = order[a + i]
                order[a + i] = order[a + j]
                order[a + j] = row
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return
