"""Isolation trees of the Numba backend."""

import numpy as np

from isobag.backends.arrays import Cells, Floats, Ints
from isobag.backends.numba.compiled import trees
from isobag.backends.threads import map_in_threads, shares


def grow_tree(X: Floats, seed: int, columns: Cells, thresholds: Floats, children: Cells, places: Ints) -> None:
    """Split the rows of X until each leaf has one, or equal ones; places[j] becomes the first row of leaf j."""
    trees.grow_tree(X, np.uint64(seed), columns, thresholds, children, places)


def descend(X: Floats, columns: Cells, thresholds: Floats, children: Cells, n_jobs: int | None = None) -> Cells:
    """Leaf of every row in every tree of each level: (L, n, t)."""
    cells = np.empty((len(columns), len(X), columns.shape[1]), dtype=np.int32)

    def work(rows: slice) -> None:
        trees.descend(X[rows], columns, thresholds, children, cells[:, rows])

    map_in_threads(work, shares(len(X), n_jobs), n_jobs)
    return cells
