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

Equal rows of a large table are one query, whose cell is found once.

The answer for a partitioning is a list of runs: consecutive queries, in tree order, with the same cell.
"""

from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import LANES
from isobag.backends.threads import map_in_threads, slices

_SAMPLE = 31
_SAMPLED = 2048
_BOXES_AT_A_TIME = 1024
_GROUPED_ROWS = 1 << 15
"""In smaller tables equal rows stay apart: the first use would wait for a compiler that saves milliseconds."""
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_MIXED_BITS = np.uint64(32)


class Boxes(NamedTuple):
    """Queries in tree order and the boxes over them, in preorder: the left child of box i is box i + 1."""

    order: Ints  # (n,) rows of X, those of one query side by side, queries in tree order
    firsts: Ints  # (q + 1,) where the rows of each query begin
    columns: Floats  # (d, q) the queries in tree order
    low: Floats  # (m, d) lower corner of each box
    high: Floats  # (m, d) upper corner
    start: Ints  # (m,) first query of a box
    stop: Ints  # (m,) one past its last query
    right: Ints  # (m,) right child, -1 for a leaf
    depth: Ints  # (m,) distance to the root


def build_boxes(X: Floats, n_jobs: int | None = None) -> Boxes:
    """Sort the queries into a tree of boxes: split the widest side near its median until LANES or fewer are left.

    Widest side and median of many queries are those of a sample: they decide how fast the search is, never what it
    finds.
    """
    if len(X) < _GROUPED_ROWS:
        order, start, stop, right, depth = _split_into_boxes(X)
        firsts = np.arange(len(X) + 1)
    else:
        names, rows = _name_queries(np.ascontiguousarray(X).view(np.uint64))
        queries, start, stop, right, depth = _split_into_boxes(X[rows])
        order, firsts = _list_rows(names, queries)
    nothing = np.empty((0, X.shape[1]))
    return _fill(X, Boxes(order, firsts, nothing, nothing, nothing, start, stop, right, depth), n_jobs)[0]


def rebuild_boxes(X: Floats, like: Boxes, n_jobs: int | None = None) -> Boxes:
    """The same tree over the same rows on another scale: their numbers and the corners of boxes are new.

    Rows that only the other scale rounds to equal numbers cannot stay one query: then the tree is new as well.
    """
    boxes, are_equal = _fill(X, like, n_jobs)
    return boxes if are_equal else build_boxes(X, n_jobs)


def _fill(X: Floats, tree: Boxes, n_jobs: int | None) -> tuple[Boxes, bool]:
    """A tree with its queries and corners, and whether the rows of each query are equal."""
    columns = np.empty((X.shape[1], len(tree.firsts) - 1))
    low, high = np.empty((2, len(tree.start), X.shape[1]))
    shape = tree.order, tree.firsts, tree.start, tree.stop, tree.right
    are_equal = map_in_threads(
        lambda part: _fill_leaves(X, *shape, part.start, part.stop, columns, low, high),
        slices(len(tree.start), _BOXES_AT_A_TIME),
        n_jobs,
    )
    _join_boxes(tree.right, low, high)
    return tree._replace(columns=columns, low=low, high=high), all(are_equal)


@jit
def _name_queries(bits):
    """Number of each row's query, equal rows having one, and the first row of each: bits (n, d) -> (n,), (q,)."""
    n, d = bits.shape
    size = 1
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int32)  # places by the hash of a row, then the next one free
    names = np.empty(n, np.int64)
    rows = np.empty(n, np.int64)
    n_queries = 0
    for row in range(n):
        mixed = np.uint64(0)
        for k in range(d):
            mixed = (mixed ^ bits[row, k]) * _MIXER
            mixed ^= mixed >> _MIXED_BITS
        place = np.int64(mixed & np.uint64(size - 1))
        while True:
            name = table[place]
            is_other = name < 0
            if not is_other:
                for k in range(d):
                    is_other |= bits[rows[name], k] != bits[row, k]
                if is_other:
                    place = (place + 1) & (size - 1)
                    continue
            break
        if name < 0:
            name = n_queries
            table[place] = name
            rows[n_queries] = row
            n_queries += 1
        names[row] = name
    return names, rows[:n_queries]


@jit
def _list_rows(names, queries):
    """Rows (n,) in the order of their queries, and where each begins: names (n,), queries (q,) in tree order."""
    places = np.empty(len(queries), np.int64)
    firsts = np.zeros(len(queries) + 1, np.int64)
    for place in range(len(queries)):
        places[queries[place]] = place
    for name in names:
        firsts[places[name] + 1] += 1
    for place in range(len(queries)):
        firsts[place + 1] += firsts[place]
    order = np.empty(len(names), np.int64)
    following = firsts[:-1].copy()
    for row in range(len(names)):
        place = places[names[row]]
        order[following[place]] = row
        following[place] += 1
    return order, firsts


@jit
def _split_into_boxes(X):
    n = len(X)
    rows = X.copy()
    order = np.arange(n)
    capacity = 4 * (n // LANES) + 64
    start = np.empty(capacity, np.int64)
    stop = np.empty(capacity, np.int64)
    right = np.empty(capacity, np.int64)
    depth = np.empty(capacity, np.int64)
    todo = np.empty(4 * 64, np.int64)
    todo[0] = 0
    todo[1] = n
    todo[2] = -1
    todo[3] = 0
    n_todo = 1
    m = 0
    while n_todo > 0:
        n_todo -= 1
        a = todo[4 * n_todo]
        b = todo[4 * n_todo + 1]
        parent = todo[4 * n_todo + 2]
        level = todo[4 * n_todo + 3]
        if m == capacity:
            capacity *= 2
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
        m += 1
        if b - a > LANES:
            middle = a
            if b - a > _SAMPLED:
                middle = _split(rows, order, a, b, (b - a) // 64)
            if middle == a or middle == b:  # noqa: PLR1714, SIM109, compiles faster; nothing to split in the sample
                middle = _split(rows, order, a, b, np.int64(1))
            if middle != a and middle != b:  # noqa: PLR1714
                if 4 * n_todo + 8 > len(todo):
                    todo = _grown(todo, 2 * len(todo))
                _push(todo, n_todo, middle, b, m - 1, level + 1)
                _push(todo, n_todo + 1, a, middle, np.int64(-1), level + 1)
                n_todo += 2
    return order, start[:m], stop[:m], right[:m], depth[:m]


@jit_inner
def _split(rows, order, a, b, step):
    """Reorder rows[a:b] along the widest side of every step-th row; where the upper part starts, a or b if nowhere."""
    side = np.int64(0)  # a literal would be a type of its own, and what it is passed to compiled twice
    widest = -1.0
    for k in range(rows.shape[1]):
        low = rows[a, k]
        high = rows[a, k]
        for row in range(a, b, step):
            low = min(low, rows[row, k])
            high = max(high, rows[row, k])
        if high - low > widest:
            widest = high - low
            side = k
    pivot = _median_of_some(rows, a, b, side)
    middle = _partition(rows, order, a, b, side, pivot, np.bool_(True))
    return middle if middle < b else _partition(rows, order, a, b, side, pivot, np.bool_(False))


@jit_inner
def _median_of_some(rows, a, b, side):
    """Median of _SAMPLE values of rows[a:b], evenly spaced, by insertion."""
    ordered = np.empty(_SAMPLE)
    for s in range(_SAMPLE):
        value = rows[a + (b - a - 1) * s // (_SAMPLE - 1), side]
        place = s
        while place > 0 and ordered[place - 1] > value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    return ordered[_SAMPLE // 2]


@jit
def _fill_leaves(X, order, firsts, start, stop, right, first, last, columns, low, high):
    """Copy the queries of the leaves among boxes first to last into columns (d, q), and find the leaves' corners.

    Whether the rows of each query are equal.
    """
    are_equal = True
    for box in range(first, last):
        if right[box] >= 0 or start[box] == stop[box]:
            continue
        for k in range(X.shape[1]):
            least = X[order[firsts[start[box]]], k]
            most = least
            for position in range(start[box], stop[box]):
                value = X[order[firsts[position]], k]
                for place in range(firsts[position] + 1, firsts[position + 1]):
                    are_equal &= X[order[place], k] == value
                columns[k, position] = value
                least = min(least, value)
                most = max(most, value)
            low[box, k] = least
            high[box, k] = most
    return are_equal


@jit
def _join_boxes(right, low, high):
    """Corners of boxes that are not leaves, from their children, which come later."""
    for box in range(len(right) - 1, -1, -1):
        if right[box] >= 0:
            for k in range(low.shape[1]):
                low[box, k] = min(low[box + 1, k], low[right[box], k])
                high[box, k] = max(high[box + 1, k], high[right[box], k])


@jit_inner
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


@jit_inner
def _grown(values, capacity):
    grown = np.empty(capacity, np.int64)
    for i in range(len(values)):
        grown[i] = values[i]
    return grown


@jit_inner
def _push(todo, place, a, b, parent, level):
    todo[4 * place] = a
    todo[4 * place + 1] = b
    todo[4 * place + 2] = parent
    todo[4 * place + 3] = level
