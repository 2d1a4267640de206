"""Cells in, counts out: one-hot feature maps and mean maps."""

import numpy as np
from scipy.sparse import csr_array

from isobag.arrays import OUTSIDE, Cells, Floats, Ints


def one_hot(cells: Cells, n_cells: int) -> csr_array:
    """Feature map Phi(x): a one at the cell of x in each partitioning, nothing where it is OUTSIDE.

    cells (n, t) -> CSR (n, t * n_cells) float64
    """
    n, t = cells.shape
    inside = cells != OUTSIDE
    columns = (cells + np.arange(t, dtype=np.int64) * n_cells)[inside]
    starts = np.concatenate([[0], inside.sum(axis=1).cumsum()])
    return csr_array((np.ones(len(columns)), columns, starts), shape=(n, t * n_cells))


def mean_map(cells: Cells, n_cells: int) -> Floats:
    """Share of samples in each cell: Phi_hat(S) = (1/|S|) sum_x Phi(x).

    cells (n_samples, t), OUTSIDE if uncovered -> (t, n_cells) float64
    """
    counts = np.stack([np.bincount(column[column != OUTSIDE], minlength=n_cells) for column in cells.T])
    return counts / len(cells)


def group_counts(cells: Cells, n_cells: int, group_ids: Ints, n_groups: int) -> csr_array:
    """Number of each group's points in each cell: cells (n, t), group_ids (n,) -> CSR (g, t * n_cells) int64."""
    membership = csr_array(
        (np.ones(len(group_ids), dtype=np.int64), (group_ids, np.arange(len(group_ids)))),
        shape=(n_groups, len(group_ids)),
    )
    return csr_array(membership @ one_hot(cells, n_cells).astype(np.int64))
