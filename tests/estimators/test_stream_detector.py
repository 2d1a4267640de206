"""The stream detector: what scikit-learn expects, alarms that go on over calls, drift, copies that go on alike."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from isobag import IDKPointDetector, IDKStreamDetector

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
ODD = np.array([[8.0, -8.0, 0.0]])


def detector(**how):
    return IDKStreamDetector(**{"window": 200, "n_estimators": 12, "random_state": 0, **how})


CLEAN = "rows of clean blobs are not flagged: only what the tail of the bulk does not explain is"


@pytest.mark.slow
@parametrize_with_checks(
    [IDKStreamDetector(window=200, n_estimators=10)],
    expected_failed_checks=lambda _: dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), CLEAN),
)
def test_all_promises_of_scikit_learn_are_kept(estimator, check):
    check(estimator)


def test_odd_rows_have_low_scores_small_p_values_and_a_reason():
    model = detector().partial_fit(X)
    assert model.score_samples(ODD) < model.score_samples(X).min()
    assert model.p_values(ODD) < 0.01
    assert model.predict(np.vstack([ODD, np.zeros((1, 3))])).tolist() == [-1, 1]
    assert model.explain(ODD)[0, 2] < model.explain(ODD)[0, :2].min()
    assert model.n_seen_ == 600
    assert len(model.window_) == 200


@pytest.mark.parametrize("max_samples", ["auto", 16, 64, 256])
def test_gross_rows_raise_alarms_at_every_psi_and_clean_ones_do_not(max_samples):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 3))
    odd = np.arange(2100, 4000, 160)
    rows[odd] = 50 * rng.choice([-1, 1], size=(len(odd), 3))
    model = IDKStreamDetector(2000, max_samples=max_samples, fdr=0.1, random_state=0)
    alarms = np.flatnonzero(model.alarms(model.follow(rows).p_values) == -1)
    assert set(odd) <= set(alarms) and len(alarms) <= len(odd) + 1


def test_alarms_of_many_calls_are_those_of_one():
    rng = np.random.default_rng(1)
    learned, stream = rng.normal(size=(3000, 3)), rng.normal(size=(300, 3))
    stream[[1, 20, 50]] = 60
    in_one_call, in_many_calls = (detector(window=1000, n_estimators=30).partial_fit(learned) for _ in range(2))
    expected = in_one_call.predict(stream, fdr=0.2)
    parts = np.concatenate([in_many_calls.predict(part, fdr=0.2) for part in np.array_split(stream, 7)])
    assert np.array_equal(parts, expected)
    assert {1, 20, 50} <= set(np.flatnonzero(expected == -1))
    assert in_one_call.online_ == in_many_calls.online_
    assert in_one_call.online_.n_seen == 300


def test_fdr_can_be_a_parameter():
    model, other = detector(fdr=0.2).partial_fit(X), detector().partial_fit(X)
    assert np.array_equal(model.predict(X[:50]), other.predict(X[:50], fdr=0.2))
    assert model.online_.fdr == 0.2
    with pytest.raises(ValueError, match="need a share between 0 and 1"):
        model.predict(X, fdr=2)


def test_fit_forgets():
    model = detector().partial_fit(X[:300]).fit(X[:100])
    assert np.array_equal(model.score_samples(X), detector().fit(X[:100]).score_samples(X))


def test_a_pickled_copy_goes_on_to_the_same_bits():
    model = detector().partial_fit(X[:333])
    copy = pickle.loads(pickle.dumps(model))
    for stream in (model, copy):
        stream.partial_fit(X[333:])
    assert np.array_equal(model.score_samples(X), copy.score_samples(X))
    assert np.array_equal(model.p_values(X), copy.p_values(X))


def test_drift_from_the_first_window_names_the_row_where_it_began():
    model = detector(reference="first").partial_fit(X[:150])
    with pytest.raises(ValueError, match="145 rows have been learned; the first 200 are the reference"):
        _ = model.drift_
    model.partial_fit(X[150:])
    assert model.drift_.p_value > 0.01
    model.partial_fit(RNG.normal(size=(100, 3)) + 3)
    drift = model.drift_
    assert drift.p_value < 0.01
    assert drift.change_p_value < 0.01
    assert abs(drift.began - 600) <= 6


def test_drift_from_a_fitted_detector():
    normal = IDKPointDetector(10, random_state=0).fit(X)
    model = detector(reference=normal).partial_fit(X[:300] + 2)
    assert model.drift_.p_value < 0.01
    with pytest.raises(ValueError, match="reference has 3 features; need 2"):
        _ = detector(reference=normal).partial_fit(X[:, :2]).drift_
    with pytest.raises(ValueError, match="use reference='first'"):
        _ = detector().partial_fit(X).drift_


def test_without_rows_every_method_says_so():
    for method in ("score_samples", "predict", "p_values", "explain"):
        with pytest.raises(NotFittedError):
            getattr(clone(detector()), method)(X)
    of_one_row = detector().partial_fit(X[:1])
    with pytest.raises(ValueError, match="1 row has been seen; need at least 2"):
        of_one_row.score_samples(X)


@pytest.mark.parametrize(("name", "value"), [("window", 3), ("fdr", 1.5), ("reference", "last"), ("max_samples", 1)])
def test_nonsense_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name}="):
        detector(**{name: value}).partial_fit(X)


def test_a_gross_row_raises_an_alarm_after_long_silence(rng):
    detector = IDKStreamDetector(window=400, n_estimators=20, random_state=0).partial_fit(rng.normal(size=(400, 2)))
    for _ in range(5):
        batch = rng.normal(size=(400, 2))
        detector.predict(batch, fdr=0.1)
        detector.partial_fit(batch)
    assert detector.predict([[60.0, 60.0]], fdr=0.1).tolist() == [-1]


@pytest.mark.parametrize("every", [500, 100])
def test_an_odd_row_does_not_hide_the_next(every):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    odd = np.arange(500, 4000, every)
    X[odd] = rng.choice([-1, 1], size=(len(odd), 3)) * rng.uniform(30, 100, size=(len(odd), 3))
    detector = IDKStreamDetector(1000, 50, random_state=0)
    followed = detector.follow(X)
    alarms = np.flatnonzero(detector.alarms(np.where(np.isfinite(followed.scores), followed.p_values, 1.0)) == -1)
    assert np.isin(odd, alarms).mean() > 0.8
    assert np.isin(alarms, odd, invert=True).sum() <= 2


def test_p_values_are_known_while_psi_grows():
    X = np.random.default_rng(0).normal(size=(700, 3))
    detector = IDKStreamDetector(300, 30, random_state=0)
    for start in range(0, 700, 5):
        detector.partial_fit(X[start : start + 5])
        if start > 60:
            assert detector.p_values([[50.0, 50, 50]])[0] < 0.05


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"window": 50}, "window=50, but the stream was begun with 300; fit begins anew."),
        ({"max_samples": 8}, "max_samples=8, but"),
        ({"scaling": "foo"}, "scaling"),
    ],
)
def test_parameters_that_a_stream_cannot_follow_are_refused(params, why):
    X = np.random.default_rng(0).normal(size=(400, 2))
    detector = IDKStreamDetector(300, 10, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match=why):
        detector.set_params(**params).partial_fit(X)
    if params != {"scaling": "foo"}:
        assert len(detector.fit(X).window_) <= detector.window
