"""Groups of unequal size: sizes as promised, no point twice, odd groups of all sizes."""

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.metrics import roc_auc_score

from isobag.datasets import make_alike_groups, make_sensor_days, make_unequal_groups, thin_groups
from isobag.datasets.unequal import ALIKE_KINDS


def test_thinned_points_are_some_of_those_given_in_their_order(rng):
    groups = rng.permutation(np.repeat(["a", "b", "c"], [300, 40, 2]))
    rows = np.arange(342)
    X, left = thin_groups(rows[:, None], groups, 5, random_state=0)
    assert (np.diff(X[:, 0]) > 0).all()
    assert np.array_equal(left, groups[X[:, 0]])
    sizes = dict(zip(*np.unique(left, return_counts=True), strict=True))
    assert 5 <= sizes["a"] < 300 and 5 <= sizes["b"] <= 40 and sizes["c"] == 2


def test_thinned_sizes_are_log_uniform_and_every_point_is_as_likely_to_stay():
    X, groups = thin_groups(np.arange(400_000)[:, None], np.repeat(np.arange(400), 1000), 10, random_state=0)
    shares = np.log(np.bincount(groups) / 10) / np.log(100)
    assert kstest(shares, "uniform").pvalue > 0.01
    assert kstest(X[:, 0] % 1000, "uniform", args=(0, 1000)).pvalue > 0.01


def test_thinning_to_one_point_or_more_loses_no_group():
    _, groups = thin_groups(np.zeros((600, 1)), np.repeat(np.arange(200), 3), 1, random_state=0)
    sizes = np.bincount(groups)
    assert len(sizes) == 200 and set(sizes) == {1, 2, 3}


def test_thinning_repeats_by_its_seed_and_not_by_another():
    X, groups = np.arange(500.0)[:, None], np.repeat(np.arange(5), 100)
    first, again, other = (thin_groups(X, groups, 5, random_state=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: thin_groups(np.zeros((2, 1)), [0, 1], 0), "low=0; need 1 or more"),
        (lambda: thin_groups(np.zeros((2, 1)), [0], 1), "groups has 1 labels and X has 2 rows"),
        (lambda: make_unequal_groups(5, 5), "n_odd=5; need 0 or more, below n_groups=5"),
        (lambda: make_unequal_groups(low=9, high=3), "low=9 and high=3"),
        (lambda: make_sensor_days(2), "n_days=2 and n_readings=96; need 3 and 2 or more"),
    ],
)
def test_what_cannot_be_is_refused_with_value_and_bound(work, message):
    with pytest.raises(ValueError, match=message):
        work()


def test_unequal_groups_are_log_uniform_and_odd_ones_have_all_sizes():
    X, groups, y = make_unequal_groups(random_state=0)
    assert X.shape == (len(groups), 3) and np.array_equal(groups, np.sort(groups))
    shares = np.log(np.bincount(groups) / 5) / np.log(1000)
    assert kstest(shares[y == 0], "uniform").pvalue > 0.01
    # Rounding moves a size of 5 or 6 by a tenth, less than a part of the range is wide.
    assert np.abs(np.sort(shares[y == 1]) - (np.arange(12) + 0.5) / 12).max() < 0.06
    assert make_unequal_groups(20, 0, random_state=0).y.sum() == 0


def test_large_odd_groups_stand_out_by_their_mean_or_their_spread():
    """Seeds 0-4: AUC 1 among groups of 100 points or more; distance to the nearest kind, or a spread that is not 1."""
    for seed in range(5):
        X, groups, y = make_unequal_groups(random_state=seed)
        sizes = np.bincount(groups)
        means = np.stack([np.bincount(groups, column) / sizes for column in X.T], axis=1)
        spreads = np.stack([np.bincount(groups, column**2) / sizes for column in X.T], axis=1) - means**2
        kinds = np.stack([np.median(part, axis=0) for part in _thirds(means)])
        away = np.linalg.norm(means[:, None] - kinds, axis=2).min(axis=1) + np.abs(np.sqrt(spreads) - 1).max(axis=1)
        large = sizes >= 100
        assert roc_auc_score(y[large], away[large]) > 0.95


def _thirds(means):
    first = means[:, 0] > 3
    second = means[:, 1] > 3
    return means[first & ~second], means[second & ~first], means[~first & ~second]


def test_each_reading_of_the_odd_days_is_ordinary_and_their_days_are_not():
    X, days, y = make_sensor_days(random_state=0)
    odd = y[days] == 1
    assert X.shape == (120 * 96, 2) and y.sum() == 2
    assert (np.abs(X[odd] - X[~odd].mean(axis=0)) < 4 * X[~odd].std(axis=0)).all()
    correlations = [np.corrcoef(X[days == day].T)[0, 1] if np.ptp(X[days == day, 0]) else 0.0 for day in range(120)]
    assert max(np.array(correlations)[y == 0]) < -0.9
    stuck, flipped = sorted(np.array(correlations)[y == 1])
    assert stuck == 0 and flipped > 0.9


@pytest.mark.parametrize("kind", ALIKE_KINDS)
def test_alike_groups_are_what_their_kind_says(kind):
    X, groups, y = make_alike_groups(200, 40, kind, random_state=0)
    sizes = np.bincount(groups)
    assert y.sum() == 40 and sizes.min() >= 20 and sizes.max() <= 500
    odd, usual = X[y[groups] == 1], X[y[groups] == 0]
    is_of_kind = {
        "shifted": odd[:, 0].mean() > 1.3,
        "narrower": odd.std() < 0.5,
        "correlated": np.corrcoef(odd[:, 0], odd[:, 1])[0, 1] > 0.9,
        "partly shifted": 0.2 < np.mean(odd.min(axis=1) > 1) < 0.4,
    }
    assert is_of_kind.pop(kind) and not any(is_of_kind.values())
    assert abs(usual.mean()) < 0.1 and usual.std() == pytest.approx(np.sqrt(1.09), abs=0.03)


def test_alike_groups_refuse_what_makes_no_sense():
    for how, message in (({"kind": "x"}, "kind='x'"), ({"n_odd": 400}, "n_odd=400"), ({"low": 9, "high": 3}, "low=9")):
        with pytest.raises(ValueError, match=message):
            make_alike_groups(**how)
