"""What is promised with few groups, few points, equal groups, two kinds of groups, or odd ones in ``fit``."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector


def detector(seed=0):
    return IDKGroupDetector(30, random_state=seed)


def some_groups(rng, n_groups, middle=0.0):
    return [middle + rng.normal(0.3 * rng.normal(size=3), 1, (n, 3)) for n in rng.integers(20, 100, n_groups)]


@pytest.mark.parametrize("n_groups", [5, 10, 20, 50])
def test_among_few_groups_one_that_is_moved_is_the_oddest(n_groups):
    flagged, others = [], []
    for seed in range(10):
        parts = some_groups(np.random.default_rng(seed), n_groups)
        parts[0] = parts[0] + 2
        model = detector(seed).fit(parts)
        assert model.scores_.argmin() == 0
        first, *rest = model.predict(parts) == -1
        flagged.append(first)
        others.append(np.mean(rest))
    # What is beyond the bulk shows where there is a bulk: not among 20 groups or fewer.
    assert np.mean(flagged) == (n_groups > 20) and np.mean(others) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [5, 20])
def test_p_values_hold_with_few_groups(n_groups):
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        model = detector(seed).fit(some_groups(rng, n_groups))
        shares.append(np.mean(model.p_values(some_groups(rng, 10)) <= 0.2))
    # The groups of fit make the share scatter by .1 to .2 around .2 from seed to seed.
    assert np.mean(shares) < 0.2 + 3 * np.std(shares) / np.sqrt(len(shares))


@pytest.mark.parametrize("n_groups", [20, 50])
def test_groups_of_one_to_three_points_show_one_far_away(n_groups):
    ranks = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        parts = [rng.normal(size=(n, 3)) for n in rng.integers(1, 4, n_groups)]
        parts[0] = parts[0] + 5
        scores = detector(seed).fit(parts).scores_
        ranks.append(np.sum(scores < scores[0]))
    assert np.mean(np.array(ranks) < 2) >= 0.9


def test_where_all_groups_are_the_same_none_is_odd_and_any_other_is(rng):
    points = rng.normal(size=(30, 3))
    model = detector().fit([points] * 20)
    assert_array_equal(model.scores_, 1)
    assert_array_equal(model.predict([points] * 20), 1)
    assert model.score_samples([points + 3]) < 0.1


def test_of_two_kinds_of_groups_neither_is_odd_and_what_lies_between_is():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        parts = [*some_groups(rng, 50), *some_groups(rng, 50, 4.0)]
        model = detector(seed).fit(parts)
        flagged = model.predict(parts) == -1
        assert max(flagged[:50].mean(), flagged[50:].mean()) <= 0.1
        between = rng.normal(2, 1, (40, 3))
        both = np.vstack([part[:20] for part in (parts[0], parts[-1])])
        assert model.score_samples([between, both]).max() < np.quantile(model.scores_, 0.03)


@pytest.mark.parametrize("n_groups", [20, 200])
def test_a_tenth_of_odd_groups_in_fit_hides_no_new_ones(n_groups):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        model = detector(seed).fit(
            [*some_groups(rng, n_groups // 10, 2.0), *some_groups(rng, n_groups - n_groups // 10)]
        )
        normal, odd = some_groups(rng, 40), some_groups(rng, 40, 2.0)
        scores = model.score_samples([*normal, *odd])
        assert roc_auc_score(np.arange(80) < 40, scores) > 0.99
        # Those of fit count as normal, so p-values of normal groups are too large rather than too small.
        assert np.mean(model.p_values(normal) <= 0.1) <= 0.1
