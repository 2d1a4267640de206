import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle

from isobag import IDKPointDetector, IsolationKernel
from isobag.data.scaling import SCALINGS


def detector(t=8, psi=6, **options):
    return IDKPointDetector(t, psi, **{"random_state": 0, **options})


def drawn_centers(X, t=8, psi=6):
    return IsolationKernel(t, psi, random_state=0).fit(X).centers_


def unit_square(rng, step):
    """Multiples of the step that fill [0, 1]^2: scaling to [0, 1] changes nothing."""
    return np.vstack([[[0.0, 0.0], [1.0, 1.0]], rng.integers(0, 1 / step + 1, (48, 2)) * step])


def with_queries(X, rng):
    return np.vstack([X, rng.normal(X.mean(0), 2 * X.std(0) + 0.1, (20, X.shape[1])), X[:3] * 50 + 1000])


@pytest.mark.parametrize("mechanism", ["hypersphere", "voronoi"])
@pytest.mark.parametrize("method", ["similarity", "norm"])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_scores_are_those_of_the_definition_on_scaled_data(X, rng, scaling, method, mechanism):
    X = X * [1, 1000]
    Q = with_queries(X, rng)
    scaled, scaled_Q = np.array(oracle.scale(X, X, scaling)), np.array(oracle.scale(Q, X, scaling))
    rule = "covering" if method == "norm" else "nearest"
    cells = oracle.assign_cells(scaled_Q, drawn_centers(scaled), rule, mechanism)
    data_cells = cells[: len(X)]
    expected = [oracle.norm_score(c) if method == "norm" else oracle.point_score(c, data_cells) for c in cells]
    scores = detector(scaling=scaling, method=method, mechanism=mechanism).fit(X).score_samples(Q)
    assert_allclose(scores, expected, rtol=1e-12, atol=1e-15)
    assert scores.shape == (len(Q),)
    assert scores.min() >= 0
    assert scores.max() <= 1


def test_scores_are_those_of_the_definition_where_ties_and_duplicates_abound(rng):
    X = unit_square(rng, 0.25)
    cells = oracle.assign_cells(X, drawn_centers(X))
    assert_allclose(detector().fit(X).score_samples(X), [oracle.point_score(c, cells) for c in cells], rtol=1e-12)


@pytest.mark.parametrize("scaling", [name for name in SCALINGS if name is not None])
def test_scores_ignore_the_unit_of_a_feature_and_unscaled_scores_do_not(X, scaling):
    units = np.array([2.0**12, 2.0**-5])
    options = {"t": 20, "scaling": scaling}
    assert_array_equal(
        detector(**options).fit(X).score_samples(X), detector(**options).fit(X * units).score_samples(X * units)
    )
    plain = detector(t=20, scaling=None)
    assert (plain.fit(X).score_samples(X) != plain.fit(X * units).score_samples(X * units)).any()


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("value", [0.0, 7.5, -1e8, 0.1])
def test_a_constant_feature_changes_no_score(X, scaling, value):
    wide = np.column_stack([X[:, 0], np.full(len(X), value), X[:, 1]])
    plain = detector(scaling=scaling).fit(X).score_samples(X)
    assert_array_equal(detector(scaling=scaling).fit(wide).score_samples(wide), plain)


def test_data_of_equal_rows_get_finite_and_equal_scores():
    scores = IDKPointDetector(5, 4, random_state=0).fit(np.full((9, 2), 3.0)).score_samples(np.full((2, 2), 3.0))
    assert np.isfinite(scores).all()
    assert scores[0] == scores[1]


def test_far_points_score_lowest_and_are_flagged_first(X):
    model = IDKPointDetector(100, 8, contamination=0.05, random_state=0).fit(X)
    assert set(np.argsort(model.score_samples(X))[:3]) == {57, 58, 59}
    assert set(np.flatnonzero(model.predict(X) == -1)) == {57, 58, 59}


@pytest.mark.parametrize("contamination", [0.01, 0.1, 0.25, 0.5])
def test_contamination_is_the_share_of_training_rows_flagged(rng, contamination):
    X = rng.normal(size=(400, 3))
    flagged = IDKPointDetector(100, 16, contamination=contamination, random_state=0).fit_predict(X) == -1
    # Scores repeat, so the share is not exact; a handful of equal scores among 400 is 2 %.
    assert flagged.mean() == pytest.approx(contamination, abs=0.02)


@pytest.mark.parametrize("contamination", ["auto", 0.2])
def test_decision_is_score_minus_offset_and_its_sign_the_prediction(X, rng, contamination):
    model = IDKPointDetector(20, 8, contamination=contamination, random_state=0).fit(X)
    Q = with_queries(X, rng)
    decision = model.decision_function(Q)
    assert_array_equal(decision, model.score_samples(Q) - model.offset_)
    assert_array_equal(model.predict(Q), np.where(decision < 0, -1, 1))
    assert set(model.predict(Q)) == {-1, 1}
    assert_array_equal(model.fit_predict(X), model.predict(X))


def test_a_score_at_the_offset_is_normal(X):
    # The median of an odd number of scores is one of them.
    model = IDKPointDetector(20, 8, contamination=0.5, random_state=0).fit(X[1:])
    at_offset = model.decision_function(X[1:]) == 0
    assert at_offset.any()
    assert (model.predict(X[1:])[at_offset] == 1).all()


def test_contamination_moves_the_offset_and_no_score(X):
    few, many = (IDKPointDetector(20, 8, contamination=c, random_state=0).fit(X) for c in (0.05, 0.4))
    assert few.offset_ < many.offset_
    assert_array_equal(few.score_samples(X), many.score_samples(X))


@pytest.mark.parametrize("options", [{}, {"method": "norm"}, {"mechanism": "voronoi"}, {"scaling": None}], ids=str)
def test_a_column_of_the_score_path_is_the_detector_of_that_max_samples(X, rng, options):
    Q = with_queries(X, rng)
    path = detector(psi=32, **options).fit(X).score_path(Q)
    assert path.shape == (len(Q), 5)
    for k, psi in enumerate([2, 4, 8, 16, 32]):
        assert_array_equal(path[:, k], detector(psi=psi, **options).fit(X).score_samples(Q))


def test_score_path_holds_where_ties_and_duplicates_abound(rng):
    X = rng.integers(0, 4, (300, 3)).astype(float)
    X[100:] = X[0]
    path = detector(psi=64).fit(X).score_path(X)
    for k in range(6):
        assert_array_equal(path[:, k], detector(psi=2 ** (k + 1)).fit(X).score_samples(X))


@pytest.mark.parametrize("method", ["score_samples", "score_path"])
def test_later_changes_to_the_training_array_change_no_score(X, method):
    Q, expected = X.copy(), getattr(detector().fit(X.copy()), method)(X)
    model = detector().fit(X)
    X += 100
    assert_array_equal(getattr(model, method)(Q), expected)


@pytest.mark.parametrize("method", ["score_samples", "score_path", "decision_function", "predict"])
@pytest.mark.parametrize("options", [{}, {"method": "norm"}, {"backend": "numpy"}], ids=str)
def test_a_score_never_depends_on_the_rest_of_its_batch(X, rng, method, options):
    Q = np.vstack([with_queries(X, rng), rng.normal(size=(2000, 2))])
    score = getattr(detector(psi=16, **options).fit(X), method)
    whole = score(Q)
    for rows in (slice(0, 1), slice(59, 60), slice(3, 77), slice(None, None, -3)):
        assert_array_equal(score(Q[rows]), whole[rows])


def test_scores_follow_random_state(X):
    scores = [IDKPointDetector(10, 6, random_state=seed).fit(X).score_samples(X) for seed in (5, 5, 6)]
    assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()
    model = IDKPointDetector(10, 6, random_state=5)
    assert_array_equal(model.fit(X).fit(X).score_samples(X), scores[0])


def test_scores_depend_neither_on_threads_nor_on_the_backend(rng):
    X = rng.normal(size=(3000, 3))
    X[1000:2000] = X[:1000]

    def scores(**options):
        return IDKPointDetector(30, 32, random_state=0, **options).fit(X).score_samples(X)

    expected = scores(n_jobs=1)
    for options in ({}, {"n_jobs": 2}, {"n_jobs": -1}, {"backend": "numba"}, {"backend": "numpy"}):
        assert_array_equal(scores(**options), expected)
    for n_jobs in (1, 2):
        with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
            assert_array_equal(scores(), expected)
    outer = joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(scores)(n_jobs=n) for n in (1, 2, None, 2))
    for result in outer:
        assert_array_equal(result, expected)
