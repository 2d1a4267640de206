"""PyOD's interface: what its own tests ask of every detector, and the same order as isobag's own."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

if os.environ.get("CI_ADAPTERS") != "1":
    pytest.importorskip("pyod")
    pytest.importorskip("combo")
from pyod.models.combination import average, maximization
from pyod.models.hbos import HBOS
from pyod.utils.data import generate_data
from pyod.utils.utility import standardizer

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.adapters.pyod import IDK, IDKGroups


@pytest.fixture(scope="module")
def samples():
    return generate_data(n_train=200, n_test=100, n_features=3, contamination=0.1, random_state=42)


@pytest.fixture(scope="module")
def fitted(samples):
    return IDK(contamination=0.1, random_state=0, n_estimators=60).fit(samples[0])


def test_fitted_attributes_are_those_of_pyod(fitted, samples):
    X_train = samples[0]
    assert fitted.decision_scores_.shape == fitted.labels_.shape == (len(X_train),)
    assert fitted.labels_.sum() == 20 and set(fitted.labels_) == {0, 1}
    assert_array_equal(fitted.labels_, fitted.decision_scores_ > fitted.threshold_)
    assert {"_mu", "_sigma", "_classes"} <= set(vars(fitted))


def test_high_is_anomalous_and_the_order_is_that_of_isobag(fitted, samples):
    _, X_test, _, y_test = samples
    scores = fitted.decision_function(X_test)
    assert roc_auc_score(y_test, scores) > 0.95
    of_isobag = IDKPointDetector(60, random_state=0).fit(samples[0])
    assert_array_equal(rankdata(scores), rankdata(-of_isobag.score_samples(X_test)))
    assert_allclose(fitted.decision_function(samples[0]), fitted.decision_scores_)


@pytest.mark.parametrize("method", ["linear", "unify"])
def test_probabilities_lie_between_0_and_1_and_sum_to_1(fitted, samples, method):
    shares = fitted.predict_proba(samples[1], method=method)
    assert shares.shape == (100, 2) and shares.min() >= 0 and shares.max() <= 1
    assert_allclose(shares.sum(axis=1), 1)


def test_predictions_with_and_without_confidence_agree(fitted, samples):
    labels, confidence = fitted.predict(samples[1], return_confidence=True)
    assert_array_equal(labels, fitted.predict(samples[1]))
    assert confidence.min() >= 0 and confidence.max() <= 1
    rejecting = fitted.predict_with_rejection(samples[1], c_r=0.1)
    assert set(rejecting) <= {-2, 0, 1}


def test_rows_with_another_number_of_features_are_refused(fitted):
    with pytest.raises(ValueError, match="features"):
        fitted.predict([[1.0, 2.0, 3.0, 4.0]])


def test_a_clone_is_not_fitted_and_has_the_same_parameters(fitted):
    again = clone(fitted)
    assert again.get_params() == fitted.get_params() and not hasattr(again, "decision_scores_")


@pytest.mark.parametrize("contamination", [0, 0.7, -0.1])
def test_a_share_of_anomalies_that_is_none_is_refused(contamination):
    with pytest.raises(ValueError, match="contamination"):
        IDK(contamination=contamination)


def test_it_joins_other_detectors_by_pyods_combinations(samples):
    X_train, X_test, _, y_test = samples
    detectors = [IDK(random_state=0, n_estimators=30), HBOS()]
    scores = np.column_stack([one.fit(X_train).decision_function(X_test) for one in detectors])
    for combine in (average, maximization):
        assert roc_auc_score(y_test, combine(standardizer(scores))) > 0.9


def test_groups_come_as_a_list_of_arrays_and_the_odd_one_is_labelled(rng):
    groups = [rng.normal(size=(n, 2)) for n in rng.integers(20, 60, 39)]
    groups.append(0.2 * rng.normal(size=(40, 2)))  # each point is ordinary
    detector = IDKGroups(contamination=0.025, random_state=0, n_estimators=30).fit(groups)
    assert_array_equal(np.flatnonzero(detector.labels_), [39])
    of_isobag = IDKGroupDetector(30, random_state=0).fit(groups)
    assert_array_equal(rankdata(detector.decision_function(groups)), rankdata(-of_isobag.score_samples(groups)))
    assert detector.predict_proba(groups).shape == (40, 2)
