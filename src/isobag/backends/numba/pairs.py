"""The verb of the Numba backend for pairs of bags."""

import numpy as np

from isobag.backends.arrays import Ints
from isobag.backends.numba.compiled import pairs
from isobag.backends.pairs import PackedCounts
from isobag.backends.threads import map_in_threads, shares

_FEW_PAIRS = 1 << 12


def dot_pairs(
    own: PackedCounts, rows: Ints, other: PackedCounts, other_rows: Ints, n_columns: int, n_jobs: int | None = None
) -> Ints:
    """Dot products of the counts of pairs of bags: (pairs,)."""
    dots = np.empty(len(rows), dtype=np.int64)

    def work(share: slice) -> None:
        table = np.zeros(n_columns, dtype=np.int64)
        mine, theirs = (own.starts, own.columns, own.counts), (other.starts, other.columns, other.counts)
        pairs.dot_pairs(*mine, rows[share], *theirs, other_rows[share], table, dots[share])

    if len(rows) <= _FEW_PAIRS:
        work(slice(0, len(rows)))
    else:
        map_in_threads(work, shares(len(rows), n_jobs), n_jobs)
    return dots
