"""Isolation trees: random splits of random features until each of the rows drawn is alone in its leaf.

The leaves are the cells; no point is OUTSIDE. This is the first form of the Isolation Kernel in the literature. Only
comparisons decide where a row goes, so all backends agree.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute, numpy
from isobag.backends.arrays import Cells, Cut, Floats, Ints, Singles
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import map_in_threads


@dataclass(frozen=True, eq=False)
class Trees(Learned):
    """Nodes of t trees: a row goes right where its feature is above the threshold.

    Node 0 is the root, a child has a higher number than its parent, and child -1 - j is leaf j.
    """

    levels: tuple[int, ...]  # (1,) psi
    width: int  # number of features
    columns: Cells  # (t, psi) feature of each node
    thresholds: Floats  # (t, psi)
    children: Cells  # (t, psi, 2) left, right

    def validate(self) -> None:
        """Children are leaves or later nodes, and nodes test features."""
        demand(len(self.levels) == 1 and self.levels[0] > 1, "trees have one psi, of 2 or more")
        check("columns", self.columns, (None, *self.levels), 0, self.width - 1)
        check("thresholds", self.thresholds, self.columns.shape)
        check("children", self.children, (*self.columns.shape, 2), -self.levels[-1], self.levels[-1] - 1)
        is_later = self.children > np.arange(self.levels[-1])[:, None]
        demand(len(self.columns) and np.all(is_later | (self.children < 0)), "a child is neither a leaf nor later")

    @property
    def cut(self) -> Cut:
        """Leaf j of tree i is slot i psi + j."""
        return Cut(self.levels, self.columns.size)

    def assign(
        self, X: Singles, compute: Compute, limits: Ints | None = None, rule: str = "nearest"
    ) -> tuple[Cells, Ints]:
        """Slot of every row's leaf in every tree (t, n), and zeros: no row is far out (n,)."""
        rows = compute.fetch(X)
        cells = np.empty((len(self.columns), len(rows)), dtype=np.int32)

        def descend(i: int) -> None:
            nodes, walking = np.zeros(len(rows), dtype=np.int64), np.arange(len(rows))
            while len(walking):
                here = nodes[walking]
                is_right = rows[walking, self.columns[i, here]] > self.thresholds[i, here]
                nodes[walking] = self.children[i, here, is_right.astype(int)]
                walking = walking[nodes[walking] >= 0]
            cells[i] = i * self.levels[-1] - 1 - nodes

        map_in_threads(descend, range(len(cells)), compute.n_jobs)
        return cells, np.zeros(len(rows), dtype=np.int64)

    def count_groups(self, X: Singles, starts: Ints, compute: Compute, rule: str = "nearest") -> csr_array:
        """Number of each group's rows in each leaf: (g, t psi)."""
        return numpy.count_groups(self.assign(X, compute)[0], self.cut, starts)


def grow_trees(pool: Singles, slots: Cells, psi: int, seed: int) -> Trees:
    """Grow a tree on each sample of psi rows of a pool."""
    samples = slots.reshape(-1, psi)
    columns, thresholds = np.zeros(samples.shape, dtype=np.int32), np.zeros(samples.shape)
    children = np.full((*columns.shape, 2), -1, dtype=np.int32)
    for i, rows in enumerate(samples):
        _grow(pool[rows].astype(np.float64), np.random.default_rng([seed, i]), columns[i], thresholds[i], children[i])
    return Trees((psi,), pool.shape[1], columns, thresholds, children)


def _grow(X: Floats, rng: np.random.Generator, columns: Cells, thresholds: Floats, children: Cells) -> None:
    """Split rows (n, d) at a random feature, anywhere between its extremes, until no rows of a leaf differ.

    scikit-learn's ExtraTreeRegressor stops early: where all splits leave equal means of its target, by rounding.
    """
    n_nodes = n_leaves = 0
    waiting = [(X, 0, 0)]  # rows, parent, side
    while waiting:
        rows, parent, side = waiting.pop()
        low, high = rows.min(axis=0), rows.max(axis=0)
        differ = np.flatnonzero(low < high)
        children[parent, side] = n_nodes if len(differ) else -1 - n_leaves
        if not len(differ):
            n_leaves += 1
            continue
        k = differ[rng.integers(len(differ))]
        threshold = min(low[k] + rng.random() * (high[k] - low[k]), np.nextafter(high[k], low[k]))
        columns[n_nodes], thresholds[n_nodes] = k, threshold
        is_right = rows[:, k] > threshold
        waiting += [(rows[is_right], n_nodes, 1), (rows[~is_right], n_nodes, 0)]
        n_nodes += 1
