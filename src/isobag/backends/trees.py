"""Isolation trees by their definition: growing one, and going down many."""

from collections.abc import Iterator

import numpy as np

from isobag.backends.arrays import Cells, Floats, Ints

_WORD = (1 << 64) - 1


def grow_tree(X: Floats, seed: int, columns: Cells, thresholds: Floats, children: Cells, places: Ints) -> None:
    """Split the rows of X until each leaf has one, or equal ones; places[j] becomes the first row of leaf j.

    Node 0 is the root, a child has a higher number than its parent, and child -1 - j is leaf j.
    """
    draws = _random_words(int(seed))
    waiting = [(np.arange(len(X)), -1, 0)]  # rows, parent, side
    n_nodes = n_leaves = 0
    while waiting:
        rows, parent, side = waiting.pop()
        k = _choose_feature(X[rows], draws) if len(rows) > 1 else -1
        if k < 0:
            if parent >= 0:
                children[parent, side] = -1 - n_leaves
            places[n_leaves] = rows.min()
            n_leaves += 1
            continue
        values = X[rows, k]
        low, high = float(values.min()), float(values.max())
        share = float(next(draws) >> 11) * 2.0**-53
        threshold = min(high, low + share * (high - low))
        if threshold <= low:  # below the threshold is left, and neither side may be empty
            threshold = high
        if parent >= 0:
            children[parent, side] = n_nodes
        columns[n_nodes], thresholds[n_nodes] = k, threshold
        waiting += [(rows[values >= threshold], n_nodes, 1), (rows[values < threshold], n_nodes, 0)]
        n_nodes += 1


def _random_words(seed: int) -> Iterator[int]:
    """Random numbers of 64 bits: splitmix64."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & _WORD
        z = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _WORD
        yield z ^ (z >> 31)


def _choose_feature(X: Floats, draws: Iterator[int]) -> int:
    """A feature in which some rows differ, each as likely as any other; -1 if there is none."""
    d = int(X.shape[1])
    differ = (X[0] != X).any(axis=0)
    for _ in range(2 * d):
        k = next(draws) % d
        if differ[k]:
            return k
    first = next(draws) % d  # few features differ: the next one of them
    after = np.roll(differ, -first)
    return (first + int(after.argmax())) % d if after.any() else -1


def descend(X: Floats, columns: Cells, thresholds: Floats, children: Cells, n_jobs: int | None = None) -> Cells:
    """Leaf of every row in every tree of each level, (L, n, t): all rows go down together, a step at a time."""
    cells = np.empty((len(columns), len(X), columns.shape[1]), dtype=np.int32)
    for level, i in np.ndindex(columns.shape[:2]):
        nodes = np.zeros(len(X), dtype=np.int64)
        walking = np.arange(len(X))
        while len(walking):
            here = nodes[walking]
            is_right = X[walking, columns[level, i, here]] >= thresholds[level, i, here]
            nodes[walking] = children[level, i, here, is_right.astype(int)]
            walking = walking[nodes[walking] >= 0]
        cells[level, :, i] = -1 - nodes
    return cells
