"""Packed counts: what they hold, and dot products of pairs of bags on every host backend."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.pairs import pack_counts


def bags(seed, n_bags, n_columns):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.3, (n_bags, n_columns))
    counts[0] = 0
    counts[1, ::7] = [255, 256, 511, 100_000] * (len(counts[1, ::7]) // 4) + [1] * (len(counts[1, ::7]) % 4)
    return counts


def test_packing_keeps_counts_of_any_size():
    counts = bags(0, 6, 70)
    packed = pack_counts(csr_array(counts))
    rows = np.array([1, 0, 5, 1])
    assert packed.columns.dtype == np.uint16 and packed.counts.dtype == np.uint8
    assert np.array_equal(packed.sparse(rows, 70).toarray(), counts[rows])


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("n_pairs", [0, 5, 9000])
def test_dot_products_of_pairs_are_exact(backend, n_pairs):
    left, right = bags(1, 9, 300), bags(2, 4, 300)
    rng = np.random.default_rng(3)
    rows, others = rng.integers(0, 9, n_pairs), rng.integers(0, 4, n_pairs)
    dots = Compute(backend).backend.dot_pairs(
        pack_counts(csr_array(left)), rows, pack_counts(csr_array(right)), others, 300, 2
    )
    assert dots.dtype == np.int64
    assert np.array_equal(dots, (left[rows] * right[others]).sum(axis=1))
