"""Cells in, counts out: one-hot feature maps, counts of cells and sums at cells."""

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import OUTSIDE, Cells, Ints


def one_hot(cells: Cells, n_cells: int) -> csr_array:
    """Feature map Phi(x): a one at the cell of x in each partitioning, nothing where it is OUTSIDE.

    cells (n, t) -> CSR (n, t * n_cells) float64
    """
    n, t = cells.shape
    inside = cells != OUTSIDE
    columns = (cells + np.arange(t, dtype=np.int64) * n_cells)[inside]
    starts = np.concatenate([[0], inside.sum(axis=1).cumsum()])
    if max(len(columns), t * n_cells) < 2**31:  # scikit-learn's SVMs refuse wider indices
        columns, starts = columns.astype(np.int32), starts.astype(np.int32)
    return csr_array((np.ones(len(columns)), columns, starts), shape=(n, t * n_cells))


def count_cells(cells: Cells, n_cells: int) -> Ints:
    """Number of samples in each cell: cells (n, t), OUTSIDE if uncovered -> (t, n_cells)."""
    return np.stack([np.bincount(column[column != OUTSIDE], minlength=n_cells) for column in cells.T])


def sum_at_cells(cells: Cells, table: Ints) -> Ints:
    """Sum over partitionings of the table at each sample's cell, OUTSIDE adding nothing: cells (n, t) -> (n,)."""
    values = table[np.arange(len(table)), cells]
    total: Ints = np.where(cells == OUTSIDE, 0, values).sum(axis=1)
    return total
