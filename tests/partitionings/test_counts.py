"""Counts of groups: several views side by side, and sums of them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array, hstack, vstack

from isobag.partitionings.counts import MeanMaps, join_counts, stack_counts


def counts_of(n_rows, n_columns, density, seed):
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 9, size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)
    return csr_array(dense.astype(np.int32))


@pytest.mark.parametrize("density", [0.0, 0.05, 0.9])
def test_views_side_by_side_are_what_scipy_makes_of_them(density):
    parts = [counts_of(30, width, density, width) for width in (16, 5, 64)]
    joined, expected = join_counts(parts), hstack(parts, format="csr")
    assert joined.shape == expected.shape
    assert joined.indices.dtype == np.int32
    for name in ("indptr", "indices", "data"):
        assert_array_equal(getattr(joined, name), getattr(expected, name))


def test_weighted_sums_of_counts_are_exact_beyond_32_bits():
    counts = counts_of(40, 70, 0.5, 0)
    maps, dense = MeanMaps(counts, np.full(40, 9)), counts.toarray().astype(object)
    weights, vector = np.arange(40) + 2**44, np.arange(70) + 2**50
    assert maps.total(weights).tolist() == (dense.T @ weights.astype(object)).tolist()
    assert maps.dot(vector).tolist() == (dense @ vector.astype(object)).tolist()


@pytest.mark.parametrize("n_rows", [0, 1, 4_000])
def test_sums_of_counts_do_not_depend_on_how_many_entries_are_widened_at_once(n_rows):
    counts = counts_of(n_rows, 500, 0.9, 0)  # of the most rows, more entries than are widened at once
    dense, weights, vector = counts.toarray().astype(np.int64), np.arange(n_rows) + 3, np.arange(500)
    maps = MeanMaps(counts, np.full(n_rows, 9))
    assert_array_equal(maps.total(weights), weights @ dense)
    assert_array_equal(maps.dot(vector), dense @ vector)
    assert_array_equal(maps.self_dots, (dense**2).sum(axis=1))


def test_counts_put_below_each_other_are_what_scipy_makes_of_them():
    parts = [counts_of(n_rows, 30, 0.3, n_rows) for n_rows in (5, 1, 17)]
    stacked, expected = stack_counts(iter(parts), 23 * 30), vstack(parts, format="csr")
    assert stacked.shape == expected.shape
    assert stacked.indices.dtype == stacked.indptr.dtype == np.int32
    for name in ("indptr", "indices", "data"):
        assert_array_equal(getattr(stacked, name), getattr(expected, name))
