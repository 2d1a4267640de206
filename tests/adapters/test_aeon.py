"""aeon's interface: its own checks, and the scores of isobag's detector of groups."""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

if os.environ.get("CI_ADAPTERS") != "1":
    pytest.importorskip("aeon")
from aeon.testing.estimator_checking import parametrize_with_checks

from isobag import IDKGroupDetector
from isobag.adapters.aeon import IDKCollection, bags_of_series

pytestmark = pytest.mark.filterwarnings("ignore")  # aeon's own, about its optional packages
HOW = {"n_estimators": 20, "random_state": 0}


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    return [np.sin(np.arange(n) / 5 + rng.uniform(0, 6))[None] for n in rng.integers(60, 90, 41)]


@parametrize_with_checks([IDKCollection])
def test_aeons_own_checks_pass(check):
    check()


def test_values_in_another_order_are_odd_if_changes_are_looked_at(waves):
    waves = [*waves]
    waves[7] = np.random.default_rng(0).permutation(waves[7][0])[None]
    scores = IDKCollection(**HOW).fit_predict(waves)
    assert scores.argmax() == 7 and scores.shape == (41,)
    assert IDKCollection(lags=0, **HOW).fit_predict(waves).argmax() != 7


def test_scores_are_those_of_the_detector_of_groups_and_high_is_odd(waves):
    of_bags = IDKGroupDetector(20, random_state=0).fit(bags_of_series(waves[:30]))
    detector = IDKCollection(**HOW).fit(waves[:30])
    predicted = detector.predict(waves[30:])
    assert_array_equal(predicted, -np.log(of_bags.score_samples(bags_of_series(waves[30:]))))
    assert_array_equal(detector.p_values(waves[30:]), of_bags.p_values(bags_of_series(waves[30:])))


def test_a_bag_has_values_changes_and_position():
    series = np.array([[1.0, 2.0, 4.0, 8.0], [0.0, 1.0, 0.0, 1.0]])
    bag = bags_of_series([series], lags=2, position=True)[0]
    assert_array_equal(bag, [[4, 0, 2, -1, 3, 0, 2 / 3], [8, 1, 4, 1, 6, 0, 1]])
    assert_array_equal(bags_of_series([[1.0, 5.0]], lags=0)[0], [[1], [5]])


def test_position_tells_the_same_event_at_another_time(rng):
    series = rng.normal(size=(40, 1, 60)) * 0.1
    series[:, 0, 10:14] += 3
    series[5, 0, 10:14] -= 3
    series[5, 0, 40:44] += 3
    assert IDKCollection(position=True, **HOW).fit_predict(series).argmax() == 5


def test_lengths_are_evidence_unless_they_are_ignored(waves):
    long = [*waves[:-1], np.sin(np.arange(800) / 5)[None]]
    assert IDKCollection(**HOW).fit_predict(long).argmax() == 40
    assert IDKCollection(size="ignore", **HOW).fit_predict(long).argmax() != 40


def test_short_series_and_bad_lags_are_refused_in_a_sentence(waves):
    with pytest.raises(ValueError, match="Series 1 has 3 time points; need more than lags=3"):
        IDKCollection(lags=3, **HOW).fit([waves[0], waves[1][:, :3]])
    with pytest.raises(ValueError, match="lags=-1; need an integer"):
        IDKCollection(lags=-1, **HOW).fit(waves)
    with pytest.raises(ValueError, match="missing"):
        IDKCollection(**HOW).fit([*waves[:3], np.array([[1.0, np.nan, 2.0]])])
