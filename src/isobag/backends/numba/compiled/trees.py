"""Isolation trees: growing one, and going down many."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit

_NEAR_ROWS = 32
"""Rows that stay in the cache while they go down all trees."""


@jit
def _next_random(state):
    """Another 64 random bits (splitmix64); state (1,) is moved on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def _choose_feature(X, rows, state):
    """A feature in which some rows differ, each as likely as any other; -1 if there is none."""
    d = X.shape[1]
    for _ in range(2 * d):
        k = np.int64(_next_random(state) % np.uint64(d))
        for row in rows[1:]:
            if X[row, k] != X[rows[0], k]:
                return k
    first = np.int64(_next_random(state) % np.uint64(d))
    for step in range(d):  # few features differ, and luck has not found them
        k = (first + step) % d
        for row in rows[1:]:
            if X[row, k] != X[rows[0], k]:
                return k
    return -1


@jit
def grow_tree(X, seed, columns, thresholds, children, places):
    """Split the rows of X until each leaf has one, or equal ones; places[j] becomes the first row of leaf j."""
    n = len(X)
    state = np.full(1, seed, np.uint64)
    order = np.arange(n)
    waiting = np.empty((n + 1, 4), np.int64)  # first row, last row, parent, side
    waiting[0] = (0, n, -1, 0)
    n_waiting, n_nodes, n_leaves = 1, 0, 0
    while n_waiting > 0:
        n_waiting -= 1
        a, b, parent, side = waiting[n_waiting]
        rows = order[a:b]
        k = _choose_feature(X, rows, state) if b - a > 1 else -1
        if k < 0:
            if parent >= 0:
                children[parent, side] = -1 - n_leaves
            places[n_leaves] = rows.min()
            n_leaves += 1
            continue
        low = high = X[rows[0], k]
        for row in rows:
            low = min(low, X[row, k])
            high = max(high, X[row, k])
        share = np.float64(_next_random(state) >> np.uint64(11)) * 2.0**-53
        threshold = min(high, low + share * (high - low))
        if threshold <= low:  # below the threshold is left, and neither side may be empty
            threshold = high
        middle = a
        for j in range(a, b):
            if X[order[j], k] < threshold:
                kept = order[j]
                order[j] = order[middle]
                order[middle] = kept
                middle += 1
        if parent >= 0:
            children[parent, side] = n_nodes
        columns[n_nodes] = k
        thresholds[n_nodes] = threshold
        waiting[n_waiting] = (middle, b, n_nodes, 1)
        waiting[n_waiting + 1] = (a, middle, n_nodes, 0)
        n_waiting += 2
        n_nodes += 1


@jit
def descend(X, columns, thresholds, children, cells):
    """Write the leaf of every row in every tree into cells (L, n, t)."""
    for first in range(0, len(X), _NEAR_ROWS):
        rows = X[first : first + _NEAR_ROWS]
        for level in range(columns.shape[0]):
            for i in range(columns.shape[1]):
                own_columns = columns[level, i]
                own_thresholds = thresholds[level, i]
                own_children = children[level, i]
                for r in range(len(rows)):
                    row = rows[r]
                    node = np.int64(0)
                    while node >= 0:
                        at = np.uint64(node)  # never negative: no need to count from the end
                        is_right = row[np.uint64(own_columns[at])] >= own_thresholds[at]
                        node = np.int64(own_children[at, np.uint64(is_right)])
                    cells[level, first + r, i] = -1 - node
