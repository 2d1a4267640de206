"""The synthetic sets: counts as published, anomalous as groups, ordinary as points."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.stats import gaussian_kde, ks_2samp
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag.datasets import (
    make_card_accounts,
    make_gaussian1k,
    make_gaussian100,
    make_mix_gaussian1k,
    make_scale_up,
    make_sensor_days,
    make_unequal_groups,
)  # fmt: skip
from paper.sets import make_dense_and_sparse, make_density_peaks, make_local_and_clustered

GROUP_SETS = {
    make_gaussian100: (300_000, 3000, 30, 2),
    make_gaussian1k: (1_040_000, 1040, 40, 2),
    make_mix_gaussian1k: (1_040_000, 1040, 40, 2),
    make_density_peaks: (150_000, 1500, 0, 1),
    make_dense_and_sparse: (100_000, 1000, 0, 2),
}
WITH_ANOMALIES = [make_gaussian100, make_gaussian1k, make_mix_gaussian1k]
SLOW_SETS = [pytest.param(make, marks=pytest.mark.slow) for make in WITH_ANOMALIES[1:]]
EVERY_SET = [*GROUP_SETS, make_scale_up, make_local_and_clustered, make_card_accounts]
EVERY_SET += [make_unequal_groups, make_sensor_days]


def by_name(value: Any) -> str:
    return str(getattr(value, "__name__", value))


def oddness_by_cells(X: np.ndarray, ids: np.ndarray, n_neighbours: int = 5, seed: int = 0) -> np.ndarray:
    """Distribution-aware reference: distance to the 5th nearest group, groups being shares in 8 x 16 Voronoi cells."""
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(8):
        cells = cKDTree(X[rng.choice(len(X), 16, replace=False)]).query(X)[1]
        shares.append(np.bincount(ids * 16 + cells, minlength=(ids.max() + 1) * 16).reshape(-1, 16))
    embedded = np.hstack(shares) / np.bincount(ids)[:, None]
    return cKDTree(embedded).query(embedded, k=n_neighbours + 1)[0][:, -1]


@pytest.mark.parametrize("make", GROUP_SETS, ids=by_name)
def test_counts_are_as_published(make: Callable[..., Any]) -> None:
    n_points, n_groups, n_anomalous, d = GROUP_SETS[make]
    made = make(random_state=0)
    assert made.X.shape == (n_points, d) and made.X.dtype == np.float64
    assert np.array_equal(np.bincount(made.groups), np.full(n_groups, n_points // n_groups))
    assert made.y.shape == (n_groups,) and made.y.sum() == n_anomalous


@pytest.mark.parametrize("make", EVERY_SET, ids=by_name)
def test_a_seed_repeats_a_set_and_another_does_not(make: Callable[..., Any]) -> None:
    made, again, other = make(random_state=3), make(random_state=np.random.default_rng(3)), make(random_state=4)
    assert all(np.array_equal(a, b) for a, b in zip(made, again, strict=True))
    assert made.X.shape != other.X.shape or not np.allclose(made.X, other.X)


@pytest.mark.parametrize("make", WITH_ANOMALIES, ids=by_name)
def test_y_follows_the_order_of_first_appearance(make: Callable[..., Any]) -> None:
    made = make(random_state=0)
    assert np.array_equal(made.groups, np.sort(made.groups))
    assert 0 < np.flatnonzero(made.y)[0] < np.flatnonzero(made.y)[-1]


@pytest.mark.parametrize("make", [WITH_ANOMALIES[0], *SLOW_SETS], ids=by_name)
def test_points_of_anomalous_groups_are_distributed_as_all_points(make: Callable[..., Any]) -> None:
    """Kolmogorov-Smirnov along 8 directions, one point per group, 10 seeds pooled.

    Points of one group depend on each other, so only one of each is taken: 300 or 400 independent ones against 10,000
    or more. A wrong law shows: Gaussians turned about their own means instead of the origin have p = 1e-5.
    """
    normal, odd = [], []
    for seed in range(10):
        made = make(random_state=seed)
        one_each = made.X[np.unique(made.groups, return_index=True)[1]]
        normal.append(one_each[made.y == 0])
        odd.append(one_each[made.y == 1])
    angles = np.pi * np.arange(8) / 8
    directions = np.stack([np.cos(angles), np.sin(angles)])
    along = [(np.vstack(parts) @ directions).T for parts in (normal, odd)]
    assert min(ks_2samp(a, b).pvalue for a, b in zip(*along, strict=True)) > 0.001


def auc_of_averages(detector: Any, X: Any, ids: Any, y: Any) -> float:
    """AUC of the mean score of each group's points."""
    return float(roc_auc_score(y, -np.bincount(ids, detector.fit(X).score_samples(X)) / np.bincount(ids)))


@pytest.mark.slow
@pytest.mark.parametrize("make", WITH_ANOMALIES, ids=by_name)
def test_averaged_point_scores_are_blind_and_group_distributions_are_not(make: Callable[..., Any]) -> None:
    """Seeds 0-2: point scores .45 to .60, cells .996 and more; a chance AUC with 30 anomalies has a spread of .053."""
    made = make(random_state=0)
    forest = IsolationForest(n_estimators=10, random_state=0)
    assert auc_of_averages(forest, made.X, made.groups, made.y) < 0.7
    assert roc_auc_score(made.y, oddness_by_cells(made.X, made.groups)) > 0.98


def test_density_peaks_stand_at_18_8_and_minus_2_in_falling_height() -> None:
    made = make_density_peaks(random_state=0)
    means = made.means[:, 0]
    assert made.means.shape == (1500, 1) and means.min() >= -15 and means.max() <= 25
    assert np.abs(means - made.X.reshape(1500, 100).mean(axis=1)).max() < 0.5  # five standard errors of 1 / sqrt(100)
    density = gaussian_kde(means, bw_method=0.1)
    heights = density([18, 8, -2])
    assert heights[0] > heights[1] > heights[2] > max(density([3, 13]))


def test_dense_cluster_is_denser_and_all_groups_have_one_variance() -> None:
    made = make_dense_and_sparse(random_state=0)
    spreads = [made.means[made.clusters == c].std(axis=0) for c in (0, 1)]
    assert (2.5 * spreads[0] < spreads[1]).all()
    variances = made.X.reshape(1000, 100, 2).var(axis=1)
    within = [variances[made.clusters == c].mean() for c in (0, 1)]
    assert within == pytest.approx([0.25, 0.25], rel=0.02)


@pytest.mark.parametrize("n_groups", [1, 1000, 10_000])
def test_scale_up_has_as_many_groups_as_asked_for(n_groups: int) -> None:
    made = make_scale_up(n_groups, random_state=0)
    assert made.X.shape == (100 * n_groups, 2) and len(made.y) == n_groups and made.y.sum() == n_groups // 100


def test_local_and_clustered_has_1500_normal_and_20_far_points() -> None:
    X, y = make_local_and_clustered(random_state=0)
    assert X.shape == (1520, 1) and y.sum() == 20
    assert X[y == 1].min() > X[y == 0].max() + 3
    assert X[y == 1].std() < 0.5
    spreads = X[:1500, 0].reshape(3, 500).std(axis=1)
    assert (np.diff(spreads) > 0.3).all()


def test_card_accounts_have_20_to_200_transactions_and_names() -> None:
    X, feature_names, labels, y = make_card_accounts(random_state=0)
    names, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    assert X.shape == (len(labels), len(feature_names)) and y.shape == (400,) and y.sum() == 6
    assert (np.diff(first) > 0).all() and names[173] == "acct-0173"
    assert sizes.min() >= 20 and sizes.max() <= 200
    assert (X >= 0).all() and (X[:, feature_names.index("hour")] < 24).all()


def test_every_transaction_of_an_odd_account_has_many_like_it_in_ordinary_accounts() -> None:
    """Distance to the 10th nearest ordinary transaction: odd ones are no further out, at any of the upper quantiles."""
    X, _, labels, y = make_card_accounts(random_state=0)
    odd = np.repeat(y, np.unique(labels, return_counts=True)[1]) == 1
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    ordinary = cKDTree(scaled[~odd])
    upper = [0.5, 0.9, 0.99]
    # The nearest neighbour of an ordinary transaction is itself, hence one more.
    of_odd = np.quantile(ordinary.query(scaled[odd], k=10)[0][:, -1], upper)
    of_ordinary = np.quantile(ordinary.query(scaled[~odd], k=11)[0][:, -1], upper)
    assert (of_odd < 1.1 * of_ordinary).all()


def test_odd_accounts_hide_from_point_scores_and_show_as_groups() -> None:
    """Mean AUC of 3 seeds (.48 and .997); with 6 odd accounts a chance AUC has a spread of .12, a mean of three .07."""
    blind, aware = [], []
    for seed in range(3):
        X, _, labels, y = make_card_accounts(random_state=seed)
        ids = np.unique(labels, return_inverse=True)[1]
        forest = IsolationForest(n_estimators=50, random_state=seed)
        blind.append(auc_of_averages(forest, X, ids, y))
        scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
        aware.append(roc_auc_score(y, oddness_by_cells(scaled, ids)))
    assert np.mean(blind) < 0.7
    assert np.mean(aware) > 0.95


def test_what_cannot_be_is_refused_with_value_and_bound() -> None:
    with pytest.raises(ValueError, match=r"n_groups=0\b.*\b1\b"):
        make_scale_up(0)
    with pytest.raises(ValueError, match=r"n_odd=5\b.*n_accounts=5"):
        make_card_accounts(5, 5)
