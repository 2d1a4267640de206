"""Dot products of counts are those of the NumPy backend."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from isobag.backends import numpy as definition
from isobag.backends.numba import dots
from isobag.backends.numba.compiled import byte_sums, target

SHAPES = [(1, 1, 1), (5, 3, 7), (300, 140, 1000), (257, 129, 300), (40, 30, 70_000)]
"""Rows, centers, columns: one block or more of rows, of centers, of sections, of runs of sections."""


def counts_of(n_rows, n_columns, density, largest, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, largest + 1, size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)
    return csr_array(dense.astype(np.int32))


@pytest.mark.parametrize("largest", [1, 127, 128, 255, 256, 40_000])
@pytest.mark.parametrize("density", [0.02, 1.0])
@pytest.mark.parametrize(("n_rows", "n_centers", "n_columns"), SHAPES)
def test_dot_products_are_exact_for_small_and_large_counts(n_rows, n_centers, n_columns, density, largest):
    if n_columns * density > 10_000:
        density = 0.1
    counts = counts_of(n_rows, n_columns, density, largest)
    rows = np.sort(np.random.default_rng(1).choice(n_rows, n_centers, replace=False))
    expected = definition.dot_counts(counts, counts[rows])
    for centers in (None, rows):
        assert_array_equal(dots.dot_counts(counts, counts[rows], 2, centers), expected)


def test_rows_without_any_count_have_products_of_zero():
    empty = csr_array((3, 40), dtype=np.int32)
    assert_array_equal(dots.dot_counts(empty, counts_of(5, 40, 0.5, 3), 1), np.zeros((3, 5)))


def test_columns_in_any_order_have_the_same_products():
    counts = counts_of(60, 900, 0.3, 9)
    shuffled = counts.copy()
    for start, stop in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        shuffled.indices[start:stop] = counts.indices[start:stop][::-1]
        shuffled.data[start:stop] = counts.data[start:stop][::-1]
    shuffled.has_sorted_indices = False
    assert_array_equal(dots.dot_counts(shuffled, shuffled, 1), definition.dot_counts(counts, counts))


def test_processors_that_cannot_multiply_bytes_find_the_same(monkeypatch):
    monkeypatch.setattr(target, "HAS_QUADS", False)

    @njit
    def add(places, quads, dense, total):
        byte_sums.add_quads(0, len(places), places, quads, dense, 0, total)

    rng = np.random.default_rng(0)
    places = np.arange(20, dtype=np.uint8)
    operands = rng.integers(0, 256, size=(20, 4), dtype=np.uint8)
    dense = rng.integers(-128, 128, size=(20, byte_sums.COUNTS, 4), dtype=np.int8)
    total = np.arange(byte_sums.COUNTS, dtype=np.int32)
    add(places, operands.view(np.uint32).ravel(), dense.view(np.uint8).ravel(), total)
    expected = np.arange(byte_sums.COUNTS) + np.einsum("eb,ecb->c", operands.astype(np.int64), dense.astype(np.int64))
    assert_array_equal(total, expected)
