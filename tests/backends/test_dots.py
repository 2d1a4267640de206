"""Dot products of counts are those of the NumPy backend."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from isobag.backends import numpy as definition
from isobag.backends.numba import dots

SHAPES = [(1, 1, 1), (5, 3, 7), (300, 140, 1000), (257, 129, 300), (40, 30, 70_000)]
"""Rows, centers, columns: one block or more of rows, of centers, of sections."""


def counts_of(n_rows, n_columns, density, largest, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, largest + 1, size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)
    return csr_array(dense.astype(np.int32))


@pytest.mark.parametrize("largest", [1, 255, 32_767, 32_768, 40_000_000, 1 << 30])
@pytest.mark.parametrize("density", [0.02, 1.0])
@pytest.mark.parametrize(("n_rows", "n_centers", "n_columns"), SHAPES)
def test_dot_products_are_exact_for_small_and_large_counts(n_rows, n_centers, n_columns, density, largest):
    if n_columns * density > 10_000:
        density = 0.1
    counts = counts_of(n_rows, n_columns, density, largest)
    rows = np.sort(np.random.default_rng(1).choice(n_rows, n_centers, replace=False))
    for centers in (counts, counts[rows]):
        assert_array_equal(dots.dot_counts(counts, centers, 2), definition.dot_counts(counts, centers))


def test_rows_without_any_count_have_products_of_zero():
    empty = csr_array((3, 40), dtype=np.int32)
    assert_array_equal(dots.dot_counts(empty, counts_of(5, 40, 0.5, 3), 1), np.zeros((3, 5)))
    assert_array_equal(dots.dot_counts(empty, empty, 1), np.zeros((3, 3)))


def test_columns_in_any_order_have_the_same_products():
    counts = counts_of(60, 900, 0.3, 9)
    shuffled = counts.copy()
    for start, stop in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        shuffled.indices[start:stop] = counts.indices[start:stop][::-1]
        shuffled.data[start:stop] = counts.data[start:stop][::-1]
    shuffled.has_sorted_indices = False
    for centers in (shuffled, counts):
        assert_array_equal(dots.dot_counts(shuffled, centers, 1), definition.dot_counts(counts, counts))
