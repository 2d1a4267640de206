"""Rows that belong together: p-values hold where rows are copies, hang together in groups, or in time."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag import IDKPointDetector
from isobag.data.rows import ArrayRows
from isobag.models.units import blocks_of, copies_of, memory_of


def share_below(fit, new, alpha, seeds):
    """Mean and standard error over fits of the share of new normal rows with p <= alpha."""
    shares = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        model = fit(IDKPointDetector(8, random_state=seed), rng)
        shares.append(np.mean(model.p_values(new(rng)) <= alpha))
    return np.mean(shares), np.std(shares, ddof=1) / math.sqrt(len(shares))


def test_copies_are_told_from_common_values(rng):
    X = rng.normal(size=(100, 2))
    copied = copies_of(ArrayRows(np.repeat(X, 10, axis=0)), 10_000)
    assert_array_equal(np.bincount(copied), 10)
    assert len(np.unique(copied.reshape(100, 10), axis=1)[0]) == 1
    grid = rng.integers(0, 4, (1000, 2)).astype(float)
    for natural in (X, grid, np.vstack([X, X[:50]])):
        assert copies_of(ArrayRows(natural), 10_000) is None
    assert copies_of(ArrayRows(np.repeat(X, 10, axis=0)), 999) is None


def test_rows_that_are_copies_make_no_false_alarms():
    def fit(model, rng):
        return model.fit(np.repeat(rng.normal(size=(100, 3)), 10, axis=0))

    share, error = share_below(fit, lambda rng: rng.normal(size=(100, 3)), 0.05, range(30))
    assert share <= 0.05 + 2 * error


def clusters(rng, n_clusters):
    """50 rows of each cluster, which are nearly one: nine tenths of the variance are between clusters."""
    return np.repeat(rng.normal(size=(n_clusters, 2)), 50, axis=0) + rng.normal(size=(50 * n_clusters, 2)) / 3


def test_rows_of_new_groups_hold_the_promise_if_the_groups_are_named():
    labels = np.repeat([f"account {k}" for k in range(30)], 50)

    def fit(model, rng):
        return model.fit(clusters(rng, 30), groups=labels)

    share, error = share_below(fit, lambda rng: clusters(rng, 20), 0.1, range(20))
    assert share <= 0.1 + 2 * error
    without, _ = share_below(
        lambda model, rng: model.fit(clusters(rng, 30)), lambda rng: clusters(rng, 20), 0.1, range(20)
    )
    assert without > share


def test_labels_that_are_not_one_for_each_row_are_refused(rng):
    with pytest.raises(ValueError, match=r"groups has shape \(4,\); need \(5,\), one label for each row"):
        IDKPointDetector(2).fit(rng.normal(size=(5, 2)), groups=list("abcd"))


def walk(rng, n, memory):
    """Two features that forget: correlation memory^k after k rows."""
    X = rng.normal(size=(n, 2))
    for i in range(1, n):
        X[i] = memory * X[i - 1] + math.sqrt(1 - memory**2) * X[i]
    return X


def test_stretches_of_time_are_longer_than_what_rows_remember(rng):
    assert memory_of(rng.normal(size=2000)) == 1
    assert memory_of(walk(rng, 5000, 0.9)[:, 0]) >= 16  # .9^16 = .19
    assert memory_of(np.zeros(50)) == 1
    blocks = blocks_of(ArrayRows(walk(rng, 4000, 0.9)))
    assert (np.diff(blocks) >= 0).all() and np.bincount(blocks).max() >= 32


def test_rows_later_in_time_hold_the_promise_by_stretches_of_time():
    shares = {None: [], "blocks": []}
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = walk(rng, 3000, 0.97)
        for groups, below in shares.items():
            model = IDKPointDetector(8, random_state=seed).fit(X[:2000], groups=groups)
            below.append(np.mean(model.p_values(X[2500:]) <= 0.05))
    error = np.std(shares["blocks"], ddof=1) / math.sqrt(24)
    assert np.mean(shares["blocks"]) <= 0.05 + 2 * error
    assert np.mean(shares["blocks"]) < np.mean(shares[None])
