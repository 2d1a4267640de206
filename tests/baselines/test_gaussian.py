"""K_G and K_NG: each against a direct formula."""

import math

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import eigsh
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from isobag.baselines import GaussianPointDetector, RecursiveNystroem, nystroem
from isobag.baselines.gaussian import BANDWIDTHS
from isobag.data.scaling import fit_scaling


def mean_kernel(x, rows, bandwidth):
    """The definition, in loops."""
    total = 0.0
    for y in rows:
        total += math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * bandwidth**2))
    return total / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [1, 3, 4, 9])
def test_every_bandwidth_of_the_path_is_the_double_loop(rng, n_features):
    """A term is at most 64 roundings off, and 130 of them are summed."""
    X = np.vstack([rng.normal(size=(120, n_features)), rng.normal(8, 3, (10, n_features))])
    X[40:60] = X[20:40]
    scaled = fit_scaling(X, "minmax").apply(X)
    path = GaussianPointDetector(bandwidth=1.0).fit(X).score_path(X)
    assert GaussianPointDetector.path_ == BANDWIDTHS == tuple(2.0**k for k in range(-5, 6))
    expected = [[mean_kernel(x, scaled, bandwidth) for bandwidth in BANDWIDTHS] for x in scaled]
    assert_allclose(path, expected, rtol=1e-13)


@pytest.mark.parametrize("bandwidth", [0.03, 0.5, 7.0])
def test_one_bandwidth_is_the_double_loop(X, bandwidth):
    scaled = fit_scaling(X, "minmax").apply(X)
    model = GaussianPointDetector(bandwidth=bandwidth).fit(X)
    assert_allclose(model.score_samples(X), [mean_kernel(x, scaled, bandwidth) for x in scaled], rtol=1e-14)


def test_a_point_too_far_for_any_kernel_value_scores_zero(X):
    path = GaussianPointDetector(bandwidth=1.0).fit(X).score_path([[1e9, 0.0], [1e140, -1e140]])
    assert_array_equal(path, np.zeros((2, len(BANDWIDTHS))))


def test_kernel_values_fade_out_without_a_jump():
    """exp(-707.9) is the least value that counts; the next is 0, and powers of small ones underflow to 0."""
    model = GaussianPointDetector(bandwidth=2**-0.5, scaling=None).fit([[0.0], [0.0]])
    queries = np.sqrt([[700.0], [707.9], [708.1], [750.0]])
    assert_allclose(model.score_samples(queries)[:2], np.exp([-700.0, -707.9]), rtol=1e-12)
    assert_array_equal(model.score_samples(queries)[2:], [0.0, 0.0])


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_a_score_depends_neither_on_its_batch_nor_on_threads(rng, approximation):
    X = rng.normal(size=(3000, 3))
    model = GaussianPointDetector(bandwidth=0.25, approximation=approximation, random_state=0, n_jobs=1).fit(X)
    scores = model.score_samples(X)
    for rows in (slice(0, 1), slice(63, 66), slice(2999, 3000)):
        assert_array_equal(model.score_samples(X[rows]), scores[rows])
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(model.set_params(n_jobs=None).score_samples(X), scores)


def test_k_ng_is_the_mean_of_the_feature_map(rng):
    """The same score by the paper's formula, <phi(x), mean of phi>, with phi of the landmarks drawn."""
    X = rng.normal(size=(400, 2))
    model = GaussianPointDetector(bandwidth=0.25, approximation="nystroem", random_state=3).fit(X)
    scaled = model.scaling_.apply(X)
    feature_map = Nystroem(kernel="rbf", gamma=0.5 / 0.25**2, n_components=len(model.landmarks_))
    feature_map.fit(model.landmarks_)
    phi = feature_map.transform(scaled)
    assert len(model.landmarks_) == 20
    assert_allclose(model.score_samples(X), phi @ phi.mean(axis=0), rtol=1e-6)


def test_k_ng_with_every_row_a_landmark_is_k_g(rng):
    X = rng.normal(size=(60, 2))
    exact = GaussianPointDetector(bandwidth=0.1).fit(X).score_samples(X)
    model = GaussianPointDetector(bandwidth=0.1, approximation="nystroem", n_landmarks=60, random_state=0).fit(X)
    assert_allclose(model.score_samples(X), exact, rtol=1e-8)
    assert np.unique(model.landmarks_, axis=0).shape == (60, 2)


def test_the_feature_map_of_all_rows_is_the_kernel(rng):
    X = rng.normal(size=(50, 3))
    phi = RecursiveNystroem(bandwidth=0.5, n_components=50, random_state=0).fit_transform(X)
    assert_allclose(phi @ phi.T, rbf_kernel(X, gamma=2.0), atol=1e-8)


def approximation_error(X, landmarks, bandwidth):
    """Spectral norm of K - K_L, the error that leverage scores promise to bound."""
    gamma = 0.5 / bandwidth**2
    cross = rbf_kernel(X, landmarks, gamma=gamma)
    approximated = cross @ np.linalg.pinv(rbf_kernel(landmarks, gamma=gamma), hermitian=True) @ cross.T
    error = rbf_kernel(X, gamma=gamma) - approximated
    return eigsh(error, k=1, which="LA", v0=np.ones(len(X)), return_eigenvectors=False)[0]


def test_recursive_landmarks_approximate_better_than_uniform_ones():
    """A tight crowd and four far clusters with 6 % of the rows: 24 uniform draws miss one, an eigenvalue of 10, in all
    of 10 seeds; recursive draws miss one in two seeds, and have errors of 0.3 to 3.3 in the others.
    """
    rng = np.random.default_rng(0)
    clusters = np.repeat(rng.uniform(-40, 40, (4, 2)), 10, axis=0)
    X = np.vstack([0.3 * rng.normal(size=(600, 2)), clusters + 0.1 * rng.normal(size=clusters.shape)])
    recursive, uniform = [], []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        rows = nystroem.draw_landmarks(X, 24, 1.0, generator)
        assert len(set(rows.tolist())) == 24
        recursive.append(approximation_error(X, X[rows], 1.0))
        uniform.append(approximation_error(X, X[generator.choice(len(X), 24, replace=False)], 1.0))
    assert np.mean(recursive) < 0.5 * np.mean(uniform)


def test_leverage_scores_are_those_of_the_whole_kernel_if_all_rows_are_landmarks(rng):
    """K - K (K + ridge I)^-1 K has diagonal ridge * (ridge leverage): the definition, up to the common factor."""
    X = rng.normal(size=(40, 2))
    everything = np.arange(40)
    found = nystroem.leverage_scores(X, everything, everything, np.ones(40), 0.7)
    kernel = rbf_kernel(X, gamma=0.5 / 0.7**2)
    values = np.linalg.eigvalsh(kernel)
    n_directions = int(40 / (1 + math.log(40)))
    ridge = values[:-n_directions].sum() / n_directions
    exact = np.diag(kernel @ np.linalg.inv(kernel + ridge * np.eye(40)))
    assert_allclose(found, ridge * exact, rtol=1e-8)


def test_duplicates_everywhere_leave_landmarks_to_draw():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 200, axis=0)
    model = GaussianPointDetector(bandwidth=0.5, approximation="nystroem", random_state=0).fit(X)
    assert_allclose(model.score_samples(X), (1 + math.exp(-4.0)) / 2, rtol=1e-12)


@pytest.mark.parametrize("n_landmarks", [0, 61, 2.5, "all", True])
def test_a_number_of_landmarks_out_of_bounds_is_an_error(X, n_landmarks):
    with pytest.raises(ValueError, match=r"n_landmarks=.*; need 'sqrt' or an integer from 1 to 60"):
        GaussianPointDetector(approximation="nystroem", n_landmarks=n_landmarks).fit(X)


def test_landmarks_belong_to_one_bandwidth(X):
    with pytest.raises(ValueError, match="score_path needs None"):
        GaussianPointDetector(approximation="nystroem").fit(X).score_path(X)
    with pytest.raises(AttributeError, match="approximation='nystroem' only"):
        GaussianPointDetector().fit(X).landmarks_  # noqa: B018


@pytest.mark.parametrize(
    ("option", "value"), [("approximation", "fourier"), ("bandwidth", 0.0), ("scaling", "log"), ("n_jobs", 0)]
)
def test_options_that_are_none_of_the_allowed_are_an_error(X, option, value):
    with pytest.raises(ValueError, match=option):
        GaussianPointDetector(**{option: value}).fit(X)
