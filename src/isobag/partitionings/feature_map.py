"""The feature map of the Isolation Kernel."""

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import OUTSIDE, Cells


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
