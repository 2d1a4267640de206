import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle

from isobag import IDKPointDetector, IsolationKernel
from isobag.backends import HOST_BACKENDS, Compute
from isobag.data.rows import ArrayRows
from isobag.data.scaling import SCALINGS

PAPER = {"pool_size": None, "max_rows": None}


def detector(t=8, psi=6, **options):
    return IDKPointDetector(t, psi, **{"random_state": 0, **options})


def by_definition(X, Q, scaling, t=8, psi=6, pool_size=None):
    """Scores of rows, on scaled data: the kernel says which rows are drawn.

    A pool that is no more than half of the rows teaches the scale, all but ranges.
    """
    kernel = IsolationKernel(t, psi, pool_size=pool_size, random_state=0).fit(np.arange(len(X))[:, None])
    drawn = kernel.centers_.round().astype(int)[..., 0]
    pool = np.unique(drawn)
    teaches = pool_size is not None and 2 * len(pool) <= len(X) and scaling not in ("minmax", None)
    scaled, scaled_Q = (np.float32(oracle.scale(data, X[pool] if teaches else X, scaling)) for data in (X, Q))
    cells, data_cells = (oracle.assign_cells(data, scaled[drawn]) for data in (scaled_Q, scaled))
    return [oracle.point_score(own, data_cells) for own in cells]


def with_queries(X, rng):
    return np.vstack([X, rng.normal(X.mean(0), 2 * X.std(0) + 0.1, (20, X.shape[1])), X[:3] * 50 + 1000])


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scores_are_those_of_the_definition_on_scaled_data(X, rng, scaling):
    X = X * [1, 1000]
    Q = with_queries(X, rng)
    for pool_size in (None, "auto", 12):
        scores = detector(scaling=scaling, pool_size=pool_size).fit(X).score_samples(Q)
        assert_allclose(scores, by_definition(X, Q, scaling, pool_size=pool_size), rtol=1e-12, atol=1e-15)
        assert 0 <= scores.min() < scores.max() <= 1


def test_scores_are_those_of_the_definition_where_ties_and_duplicates_abound(rng):
    X = np.vstack([[[0.0, 0.0], [1.0, 1.0]], rng.integers(0, 5, (48, 2)) / 4])
    assert_allclose(detector(**PAPER).fit(X).score_samples(X), by_definition(X, X, None), rtol=1e-12)


@pytest.mark.parametrize("scaling", [name for name in SCALINGS if name is not None])
def test_scores_ignore_the_unit_of_a_feature_and_unscaled_scores_do_not(X, scaling):
    units = np.array([2.0**12, 2.0**-5])
    plain, other = (detector(20, scaling=scaling).fit(data).score_samples(data) for data in (X, X * units))
    assert_array_equal(plain, other)
    plain, other = (detector(20, scaling=None).fit(data).score_samples(data) for data in (X, X * units))
    assert (plain != other).any()


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_constant_feature_changes_no_score(X, scaling):
    for psi in (6, "auto"):
        model = detector(psi=psi, scaling=scaling)
        plain = model.fit(X).score_samples(X)
        for value in (0.0, 0.1, -1e8):
            wide = np.column_stack([X[:, 0], np.full(len(X), value), X[:, 1]])
            assert_array_equal(model.fit(wide).score_samples(wide), plain)


def test_data_of_equal_rows_get_finite_and_equal_scores():
    scores = IDKPointDetector(5, 4, random_state=0).fit(np.full((9, 2), 3.0)).score_samples(np.full((2, 2), 3.0))
    assert np.isfinite(scores).all() and scores[0] == scores[1]


def test_far_points_score_lowest_and_are_flagged_first(X):
    model = IDKPointDetector(100, 8, contamination=0.05, random_state=0).fit(X)
    assert set(np.argsort(model.score_samples(X))[:3]) == {57, 58, 59}
    assert set(np.flatnonzero(model.predict(X) == -1)) == {57, 58, 59}


@pytest.mark.parametrize("contamination", [0.01, 0.25])
@pytest.mark.parametrize("max_rows", ["auto", 500])
def test_contamination_is_the_share_of_training_rows_flagged_and_moves_no_score(rng, contamination, max_rows):
    X = rng.normal(size=(2000, 3))
    model = IDKPointDetector(100, "auto", contamination=contamination, max_rows=max_rows, random_state=0)
    assert np.mean(model.fit_predict(X) == -1) == pytest.approx(contamination, abs=1 / 2000)
    assert_array_equal(model.scores_, model.score_samples(X))
    other = IDKPointDetector(100, "auto", max_rows=max_rows, random_state=0).fit(X)
    assert_array_equal(other.score_samples(X), model.scores_)
    assert hasattr(other, "scores_") == (max_rows == "auto")


def test_at_most_max_rows_are_learned_from_but_ranges_are_those_of_all(rng):
    X = rng.normal(size=(3000, 2))
    X[7] = 50, -50
    model = detector(psi=64, max_rows=300).fit(X)
    assert model.model_.n_rows == 300
    (view,) = model.views_.members
    assert_array_equal([view.scaling.shift, view.scaling.spread], [X.min(axis=0), np.ptp(X, axis=0)])
    with pytest.raises(ValueError, match=r"max_samples=400.*\b300\b"):
        detector(psi=400, max_rows=300).fit(X)


@pytest.mark.parametrize(("psi", "contamination"), [("auto", "auto"), (8, 0.2)])
def test_decision_is_score_minus_offset_and_its_sign_the_prediction(X, rng, psi, contamination):
    model = IDKPointDetector(20, psi, contamination=contamination, random_state=0).fit(X)
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


@pytest.mark.parametrize("scaling", SCALINGS)
def test_where_all_samples_are_drawn_from_all_rows_a_column_of_the_path_is_the_detector_of_that_psi(X, rng, scaling):
    Q = with_queries(X, rng)
    path = detector(psi=32, scaling=scaling, **PAPER).fit(X).score_path(Q)
    for k, psi in enumerate([2, 4, 8, 16, 32]):
        assert_array_equal(path[:, k], detector(psi=psi, scaling=scaling, **PAPER).fit(X).score_samples(Q))
    equal = rng.integers(0, 4, (300, 3)).astype(float)
    equal[100:] = equal[0]
    path = detector(psi=32, scaling=scaling, **PAPER).fit(equal).score_path(equal)
    assert_array_equal(path[:, 1], detector(psi=4, scaling=scaling, **PAPER).fit(equal).score_samples(equal))


@pytest.mark.parametrize("method", ["score_samples", "score_path"])
def test_later_changes_to_the_training_array_change_no_score(X, method):
    Q, expected = X.copy(), getattr(detector().fit(X.copy()), method)(X)
    model = detector().fit(X)
    X += 100
    assert_array_equal(getattr(model, method)(Q), expected)


@pytest.mark.parametrize("method", ["score_samples", "score_path", "decision_function", "predict", "p_values"])
@pytest.mark.parametrize("psi", [16, "auto"])
def test_a_score_never_depends_on_the_rest_of_its_batch(X, rng, method, psi):
    Q = np.vstack([with_queries(X, rng), rng.normal(size=(2000, 2))])
    score = getattr(detector(psi=psi).fit(X), method)
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
        return IDKPointDetector(30, random_state=0, **options).fit(X).score_samples(X)

    model = IDKPointDetector(30, random_state=0, n_jobs=1).fit(X)
    expected = model.score_samples(X)
    for backend in HOST_BACKENDS:
        assert_array_equal(model.model_.scores(ArrayRows(X), Compute(backend, 2)), expected)
    for options in ({}, {"n_jobs": 2}, {"n_jobs": -1}):
        assert_array_equal(scores(**options), expected)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(scores(), expected)
    for result in joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(scores)(n_jobs=n) for n in (1, 2)):
        assert_array_equal(result, expected)


@pytest.mark.parametrize("how", [{"pool_size": None, "max_rows": None}, {}])
def test_one_psi_is_drawn_from_all_rows_however_many(how):
    X = np.arange(13_000.0)[:, None]
    detector = IDKPointDetector(2, 12_600, random_state=0, **how).fit(X)
    assert detector.max_samples_ == 12_600
