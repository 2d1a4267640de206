"""Few dimensions: boxes of nearby queries share a shrinking list of candidate centers.

The queries are sorted once into a binary tree of boxes. For each partitioning the tree is walked from the root: a
center stays a candidate for a box only if its nearest possible point there is not farther than the farthest possible
point of some other center. A box whose points all lie in one ball, or in none, is done at once; only the points of a
leaf that a boundary crosses are compared one by one, 64 to a block.

Nothing is lost to rounding. Rounding is monotone: for x in a box, each rounded |x_k - c_k| lies between the rounded
distances of c_k to the nearer and to the farther side, and so do squares and sums taken in the same order. The bounds
of a box therefore enclose the very float64 numbers that the NumPy backend compares.

All levels of nested samples (the first 2, 4, 8, ... centers) are found in one walk: bounds only shrink as centers are
added, so one list of candidates, in the order of drawing, serves all levels.

The answer for a partitioning is a list of runs: consecutive queries, in tree order, with the same cell.
"""

from typing import NamedTuple

import numpy as np

from isobag.arrays import Floats, Ints
from isobag.backends.compiled.jit import jit
from isobag.backends.compiled.lanes import LANES

_SAMPLE = 31


class Boxes(NamedTuple):
    """Queries in tree order and the boxes over them, in preorder: the left child of box i is box i + 1."""

    order: Ints  # (n,) tree position -> row of X
    columns: Floats  # (d, n) the queries in tree order
    low: Floats  # (m, d) lower corner of each box
    high: Floats  # (m, d) upper corner
    start: Ints  # (m,) first query of a box
    stop: Ints  # (m,) one past its last query
    right: Ints  # (m,) right child, -1 for a leaf
    depth: Ints  # (m,) distance to the root


def build_boxes(X: Floats) -> Boxes:
    """Sort the queries into a tree of boxes: split at a median of the widest side until LANES or fewer are left."""
    return Boxes(*_split_into_boxes(X))


@jit
def _split_into_boxes(X):
    n, d = X.shape
    rows = X.copy()
    order = np.arange(n)
    # A split leaves at least one query on each side, so there are fewer than 2 n boxes; usually 4 n / LANES.
    capacity = 4 * (n // LANES) + 64
    low = np.empty((capacity, d))
    high = np.empty((capacity, d))
    start = np.empty(capacity, np.int64)
    stop = np.empty(capacity, np.int64)
    right = np.empty(capacity, np.int64)
    depth = np.empty(capacity, np.int64)
    todo = [(0, n, -1, 0)]
    sample = np.empty(_SAMPLE)
    m = 0
    while len(todo) > 0:
        a, b, parent, level = todo.pop()
        if m == capacity:
            capacity *= 2
            low = _grown_rows(low, capacity)
            high = _grown_rows(high, capacity)
            start = _grown(start, capacity)
            stop = _grown(stop, capacity)
            right = _grown(right, capacity)
            depth = _grown(depth, capacity)
        start[m] = a
        stop[m] = b
        depth[m] = level
        right[m] = -1
        if parent >= 0:
            right[parent] = m
        box_low = low[m]
        box_high = high[m]
        for k in range(d):
            box_low[k] = rows[a, k]
            box_high[k] = rows[a, k]
        for row in rows[a:b]:
            for k in range(d):
                box_low[k] = min(box_low[k], row[k])
                box_high[k] = max(box_high[k], row[k])
        m += 1
        if b - a <= LANES:
            continue
        side = np.argmax(box_high - box_low)
        if box_high[side] == box_low[side]:
            continue
        for s in range(_SAMPLE):
            sample[s] = rows[a + (b - a - 1) * s // (_SAMPLE - 1), side]
        pivot = np.sort(sample)[_SAMPLE // 2]
        middle = _partition(rows, order, a, b, side, pivot, pivot < box_high[side])
        todo.append((middle, b, m - 1, level + 1))
        todo.append((a, middle, -1, level + 1))
    return order, rows.T.copy(), low[:m], high[:m], start[:m], stop[:m], right[:m], depth[:m]


@jit
def _partition(rows, order, a, b, side, pivot, pivot_goes_left):
    """Reorder rows[a:b] so that those below the pivot come first; where the others start."""
    i = a
    j = b - 1
    while True:
        while i <= j and (rows[i, side] < pivot or (pivot_goes_left and rows[i, side] == pivot)):
            i += 1
        while i <= j and not (rows[j, side] < pivot or (pivot_goes_left and rows[j, side] == pivot)):
            j -= 1
        if i >= j:
            return i
        for k in range(rows.shape[1]):
            kept = rows[i, k]
            rows[i, k] = rows[j, k]
            rows[j, k] = kept
        row = order[i]
        order[i] = order[j]
        order[j] = row
        i += 1
        j -= 1


@jit
def _grown(values, capacity):
    grown = np.empty(capacity, values.dtype)
    grown[: len(values)] = values
    return grown


@jit
def _grown_rows(values, capacity):
    grown = np.empty((capacity, values.shape[1]), values.dtype)
    grown[: len(values)] = values
    return grown
