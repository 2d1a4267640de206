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
from isobag.backends.numba.compiled.float64_distances import AT_ONCE
from isobag.backends.numba.compiled.jit import jit, jit_inner
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
    columns: Floats  # (d, q + AT_ONCE) the queries in tree order, then zeros: they are read AT_ONCE at a time
    low: Floats  # (m, d) lower corner of each box
    high: Floats  # (m, d) upper corner
    start: Ints  # (m,) first query of a box
    stop: Ints  # (m,) one past its last query
    right: Ints  # (m,) right child, -1 for a leaf
    depth: Ints  # (m,) distance to the root

    @property
    def n_queries(self) -> int:
        """Number of queries q."""
        return len(self.firsts) - 1


def build_boxes(X: Floats, n_jobs: int | None = None) -> Boxes:
    """Sort the queries into a tree of boxes: split the widest side near its median until AT_ONCE or fewer are left.

    Widest side and median of many queries are those of a sample: they decide how fast the search is, never what it
    finds.
    """
    if len(X) < _GROUPED_ROWS:
        order, start, stop, right, depth = _split_into_boxes(X)
        firsts = np.arange(len(X) + 1)
    else:
        names, rows = np.empty((2, len(X)), dtype=np.int64)
        table = np.full(1 << (2 * len(X) - 1).bit_length(), -1, dtype=np.int32)
        n_queries = _name_queries(np.ascontiguousarray(X).view(np.uint64), table, names, rows)
        queries, start, stop, right, depth = _split_into_boxes(X[rows[:n_queries]])
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
    columns = np.empty((X.shape[1], tree.n_queries + AT_ONCE))
    columns[:, tree.n_queries :] = 0.0
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
def _name_queries(bits, table, names, rows):
    """Number of queries, equal rows being one; written: names (n,), the query of each row, and rows, its first row.

    bits (n, d); table: -1 at a power of two of places, 2 n or more, by the hash of a row, then the next one free
    """
    n, d = bits.shape
    last = len(table) - 1
    n_queries = 0
    for row in range(n):
        mixed = np.uint64(0)
        for k in range(d):
            mixed = (mixed ^ bits[row, k]) * _MIXER
            mixed ^= mixed >> _MIXED_BITS
        place = np.int64(mixed & np.uint64(last))
        while True:
            name = table[place]
            if name < 0:
                name = n_queries
                table[place] = name
                rows[name] = row
                n_queries += 1
                break
            n_same = 0
            for k in range(d):
                n_same += bits[rows[name], k] == bits[row, k]
            if n_same == d:
                break
            place = (place + 1) & last
        names[row] = name
    return n_queries


def _list_rows(names: Ints, queries: Ints) -> tuple[Ints, Ints]:
    """Rows (n,) in the order of their queries, and where each begins: names (n,), queries (q,) in tree order."""
    places = np.empty(len(queries), dtype=np.int64)
    places[queries] = np.arange(len(queries))
    owners = places[names]
    firsts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(queries)))])
    order = np.empty(len(names), dtype=np.int64)
    _write_rows(owners, firsts.copy(), order)
    return order, firsts


@jit
def _write_rows(owners, following, order):
    for row in range(len(owners)):
        order[following[owners[row]]] = row
        following[owners[row]] += 1


def _split_into_boxes(X: Floats) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Rows in tree order (n,), and start, stop, right child and depth of each box, (m,)."""
    n = len(X)
    order = np.arange(n)
    # A box in the way of another has a row of its own. Memory that is not written to is not taken.
    boxes, todo = np.empty((2 * n + 1, 4), dtype=np.int64), np.empty((n + 2, 4), dtype=np.int64)
    m = _split_boxes(np.array(X), order, np.empty(_SAMPLE), todo, boxes)
    start, stop, right, depth = np.ascontiguousarray(boxes[:m].T)
    return order, start, stop, right, depth


@jit
def _split_boxes(rows, order, ordered, todo, boxes):
    """Reorder the rows and their numbers, and write start, stop, right child and depth of each box; how many.

    ordered (_SAMPLE,), todo (n + 2, 4): room
    """
    todo[0, 0] = 0
    todo[0, 1] = len(rows)
    todo[0, 2] = -1
    todo[0, 3] = 0
    n_todo = 1
    m = 0
    while n_todo > 0:
        n_todo -= 1
        a = todo[n_todo, 0]
        b = todo[n_todo, 1]
        if todo[n_todo, 2] >= 0:
            boxes[todo[n_todo, 2], 2] = m
        boxes[m, 0] = a
        boxes[m, 1] = b
        boxes[m, 2] = -1
        boxes[m, 3] = todo[n_todo, 3]
        if b - a > AT_ONCE:
            middle = b
            step = (b - a) // 64 if b - a > _SAMPLED else 1
            while middle == b and step > 0:
                middle = _split(rows, order, ordered, a, b, step)
                step = 1 if step > 1 else 0  # all rows, if there is nothing to split in the sample
            if middle < b:
                todo[n_todo, 0] = middle
                todo[n_todo, 2] = m
                todo[n_todo, 3] += 1
                todo[n_todo + 1, 0] = a
                todo[n_todo + 1, 1] = middle
                todo[n_todo + 1, 2] = -1
                todo[n_todo + 1, 3] = todo[n_todo, 3]
                n_todo += 2
        m += 1
    return m


@jit_inner
def _split(rows, order, ordered, a, b, step):
    """Reorder rows[a:b] along the widest side of every step-th row; where the upper part starts, b if nowhere.

    The pivot is the median of _SAMPLE values, evenly spaced, which are sorted by insertion.
    """
    side = 0
    widest = -1.0
    for k in range(rows.shape[1]):
        low = rows[a, k]
        high = low
        for row in range(a, b, step):
            value = rows[row, k]
            low = value if value < low else low
            high = value if value > high else high
        if high - low > widest:
            widest = high - low
            side = k
    for s in range(_SAMPLE):
        value = rows[a + (b - a - 1) * s // (_SAMPLE - 1), side]
        place = s
        while place > 0 and ordered[place - 1] > value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    pivot = ordered[_SAMPLE // 2]
    while True:
        i = a
        j = b - 1
        while True:
            while i <= j and rows[i, side] <= pivot:
                i += 1
            while i <= j and rows[j, side] > pivot:
                j -= 1
            if i >= j:
                break
            for k in range(rows.shape[1]):
                value = rows[i, k]
                rows[i, k] = rows[j, k]
                rows[j, k] = value
            row = order[i]
            order[i] = order[j]
            order[j] = row
            i += 1
            j -= 1
        if i < b:
            return i
        below = -np.inf  # the pivot is the largest value: the next one below it
        for row in range(a, b):
            value = rows[row, side]
            below = value if below < value and value < pivot else below  # noqa: PLR1716, compiles faster
        if below == -np.inf:
            return b
        pivot = below


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
                least = value if value < least else least
                most = value if value > most else most
            low[box, k] = least
            high[box, k] = most
    return are_equal


@jit
def _join_boxes(right, low, high):
    """Corners of boxes that are not leaves, from their children, which come later."""
    for box in range(len(right) - 1, -1, -1):
        if right[box] >= 0:
            for k in range(low.shape[1]):
                left, other = low[box + 1, k], low[right[box], k]
                low[box, k] = left if left < other else other
                left, other = high[box + 1, k], high[right[box], k]
                high[box, k] = left if left > other else other
