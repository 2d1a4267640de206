"""The rivals, each against its definition in loops."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import eigsh
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import Nystroem as SklearnNystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

from isobag import IsolationKernel
from paper import balls, gaussian, nystroem
from paper.balls import INNE, Norm
from paper.gaussian import BANDWIDTHS, OCSMM, GaussianDetector, mean_kernels
from paper.searches import GDK2


def kernel(x, y, bandwidth):
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * bandwidth**2))


def mean_kernel(xs, ys, bandwidth):
    return sum(kernel(x, y, bandwidth) for x in xs for y in ys) / len(xs) / len(ys)


@pytest.mark.parametrize("n_features", [1, 3, 9])
def test_every_bandwidth_of_the_path_is_the_double_loop(rng, n_features):
    """A term is at most 64 roundings off, and 80 of them are summed."""
    X = np.vstack([rng.random((70, n_features)), rng.normal(3, 1, (10, n_features))])
    X[40:60] = X[20:40]
    path = GaussianDetector(1.0).fit(X).score_path(X)
    assert tuple(2.0**k for k in range(-5, 6)) == BANDWIDTHS
    assert_allclose(path, [[mean_kernel([x], X, width) for x in X] for width in BANDWIDTHS], rtol=1e-13)
    assert_allclose(GaussianDetector(0.7).fit(X).score_samples(X), [mean_kernel([x], X, 0.7) for x in X], rtol=1e-14)


def test_kernel_values_fade_out_without_a_jump():
    """exp(-707.9) is the least value that counts; the next is 0, and powers of small ones underflow to 0."""
    model = GaussianDetector(2**-0.5).fit(np.zeros((2, 1)))
    queries = np.sqrt([[700.0], [707.9], [708.1], [750.0]])
    assert_allclose(model.score_samples(queries)[:2], np.exp([-700.0, -707.9]), rtol=1e-12)
    assert_array_equal(model.score_samples(queries)[2:], [0.0, 0.0])
    assert_array_equal(model.score_path(np.array([[1e9], [1e140]])), np.zeros((len(BANDWIDTHS), 2)))


def test_scores_do_not_depend_on_threads(rng):
    X, ids = rng.normal(size=(3000, 3)), np.repeat(np.arange(300), 10)
    for make in (GaussianDetector, lambda *how, **more: GaussianDetector(*how, nystroem=True, **more)):
        alone, threaded = (make(0.5, n_jobs=n_jobs).fit(X).score_samples(X) for n_jobs in (1, 2))
        assert_array_equal(alone, threaded)
    assert_array_equal(*(INNE(9, 16, n_jobs=n_jobs).fit(X).score_samples(X) for n_jobs in (1, 2)))
    assert_array_equal(*(mean_kernels(X, ids, bandwidths=(0.5, 1.0), n_jobs=n_jobs) for n_jobs in (1, 2)))


def test_k_ng_is_the_mean_of_the_feature_map(rng):
    """The same score by the paper's formula, <phi(x), mean of phi>, with phi of the landmarks drawn."""
    X = rng.random((400, 2))
    model = GaussianDetector(0.25, nystroem=True, seed=3).fit(X)
    assert len(model.points) == 20
    phi = SklearnNystroem(kernel="rbf", gamma=0.5 / 0.25**2, n_components=20).fit(model.points).transform(X)
    assert_allclose(model.score_samples(X), phi @ phi.mean(axis=0), rtol=1e-6)


def test_with_every_row_a_landmark_the_feature_map_is_the_kernel(rng, monkeypatch):
    monkeypatch.setattr(nystroem, "isqrt", int)
    monkeypatch.setattr(gaussian, "isqrt", int)
    X = rng.normal(size=(50, 3))
    phi = nystroem.Nystroem(0.5).fit(X).transform(X)
    assert_allclose(phi @ phi.T, rbf_kernel(X, gamma=2.0), atol=1e-8)
    exact, approximate = (GaussianDetector(0.1, nystroem=way).fit(X).score_samples(X) for way in (False, True))
    assert_allclose(approximate, exact, rtol=1e-8)


def approximation_error(X, landmarks):
    """Spectral norm of K - K_L, the error that leverage scores promise to bound."""
    cross = rbf_kernel(X, landmarks, gamma=0.5)
    approximated = cross @ np.linalg.pinv(rbf_kernel(landmarks, gamma=0.5), hermitian=True) @ cross.T
    error = rbf_kernel(X, gamma=0.5) - approximated
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
        recursive.append(approximation_error(X, X[rows]))
        uniform.append(approximation_error(X, X[generator.choice(len(X), 24, replace=False)]))
    assert np.mean(recursive) < 0.5 * np.mean(uniform)


def test_leverage_scores_are_those_of_the_whole_kernel_if_all_rows_are_landmarks(rng):
    """K - K (K + ridge I)^-1 K has diagonal ridge * (ridge leverage): the definition, up to the common factor."""
    X, everything = rng.normal(size=(40, 2)), np.arange(40)
    scores = nystroem.leverage_scores(X, everything, everything, np.ones(40), 0.7)
    whole = rbf_kernel(X, gamma=0.5 / 0.7**2)
    n_directions = int(40 / (1 + math.log(40)))
    ridge = np.linalg.eigvalsh(whole)[:-n_directions].sum() / n_directions
    assert_allclose(scores, ridge * np.diag(whole @ np.linalg.inv(whole + ridge * np.eye(40))), rtol=1e-8)


def test_duplicates_everywhere_leave_landmarks_to_draw():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 200, axis=0)
    model = GaussianDetector(0.5, nystroem=True).fit(X)
    assert_allclose(model.score_samples(X), (1 + math.exp(-4.0)) / 2, rtol=1e-12)


@pytest.fixture
def groups(rng):
    """Thirty groups of 3 to 20 points: X, ids ascending."""
    sizes = rng.integers(3, 21, size=30)
    X = np.repeat(rng.normal(size=(30, 2)), sizes, axis=0) + rng.normal(size=(sizes.sum(), 2))
    return X, np.repeat(np.arange(30), sizes)


@pytest.mark.parametrize("block", [1, 7, 1024])
def test_kernels_of_groups_are_the_mean_gaussians_over_all_pairs(groups, block, monkeypatch):
    monkeypatch.setattr(gaussian, "_BLOCK", block)
    X, ids = (values[groups[1] < 9] for values in groups)
    parts = [X[ids == group] for group in range(9)]
    bandwidths = tuple(0.7 * 2.0**k for k in range(-3, 3))
    expected = [[[mean_kernel(G, H, width) for H in parts] for G in parts] for width in bandwidths]
    mirrored = mean_kernels(X, ids, bandwidths=bandwidths)
    assert_allclose(mirrored, expected, rtol=1e-12, atol=1e-300)
    assert_allclose(mean_kernels(X, ids, X, ids, bandwidths), expected, rtol=1e-12, atol=1e-300)
    assert_array_equal(mirrored, mirrored.transpose(0, 2, 1))


def test_ocsmm_is_a_one_class_svm_on_that_kernel(groups):
    X, ids = groups
    parts = [X[ids == group] for group in range(30)]
    whole = np.array([[mean_kernel(G, H, 0.7) for H in parts] for G in parts])
    svm = OneClassSVM(kernel="precomputed", nu=0.2, tol=1e-6).fit(whole)
    model = OCSMM(0.7, nu=0.2).fit(X, ids)
    assert_allclose(model.scores_, svm.score_samples(whole), atol=1e-5)
    assert_allclose(model.score_samples(X, ids), model.scores_, rtol=1e-10)


def test_ocsmm_and_gdk2_rank_the_group_that_lies_elsewhere_first(rng):
    X = np.vstack([rng.normal(size=(600, 2)), rng.normal(4, 1, size=(20, 2))])
    ids = np.repeat(np.arange(31), 20)
    assert OCSMM().fit(X, ids).scores_.argmin() == 30
    assert GDK2(1.0, 0.5).fit(X, ids).score_samples(X, ids).argmin() == 30


def test_median_bandwidth_is_the_median_distance_between_points(rng):
    X = rng.normal(size=(50, 3))
    assert gaussian.median_distance(X, 0) == np.median(pdist(X))
    assert gaussian.median_distance(np.ones((4, 2)), 0) == 1


def sq_distance(x, y):
    return sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, y, strict=True))


def inne_score(x, partitionings):
    """1 - r(nearest center of c) / r(c) for the smallest ball c that covers x, 1 if none does; the mean."""
    total = 0.0
    for centers in partitionings:
        different = [[other for other in centers if sq_distance(center, other) > 0] for center in centers]
        radii = [
            min((sq_distance(center, other) for other in others), default=Fraction(0))
            for center, others in zip(centers, different, strict=True)
        ]
        covering = [j for j in range(len(centers)) if sq_distance(x, centers[j]) <= radii[j]]
        if not covering:
            total += 1.0
            continue
        smallest = min(covering, key=lambda j: radii[j])
        nearest = [j for j in range(len(centers)) if sq_distance(centers[smallest], centers[j]) == radii[smallest] > 0]
        total += 1.0 - math.sqrt(radii[nearest[0]]) / math.sqrt(radii[smallest])
    return total / len(partitionings)


def test_inne_scores_are_minus_the_mean_isolation_score_of_the_inne_paper(rng):
    for X in (rng.random((60, 3)), np.repeat(rng.random((30, 2)), 2, axis=0)):
        Q = np.vstack([X, rng.normal(X.mean(0), 2 * X.std(0), (20, X.shape[1])), X[:3] * 50 + 1000])
        model = INNE(8, 6).fit(X)
        centers = [drawn[0] for drawn in model.balls]
        assert_allclose(model.score_samples(Q), [-inne_score(q, centers) for q in Q], rtol=1e-9, atol=1e-12)
        assert model.score_samples(Q).min() == -1


def test_inne_compares_radii_and_not_squared_radii():
    # Centers 0, 1/4 and 1 have radii 1/4, 1/4 and 3/4. The point 3/4 is in the ball of 1 alone, whose neighbour is
    # 1/4: the isolation score is 1 - (1/4) / (3/4). In the ball of 1/4 it is 1 - 1, and at 2 no ball reaches.
    model = INNE(3, 3).fit(np.array([[0.0], [0.25], [1.0]]))
    assert_allclose(model.score_samples(np.array([[0.75], [0.25], [2.0]])), [-2 / 3, 0, -1], rtol=1e-12, atol=1e-15)


def test_the_norm_is_the_share_of_partitionings_in_which_a_ball_covers_the_point(rng):
    X = rng.random((80, 2))
    model = Norm(7, 10).fit(X)
    expected = np.zeros(len(X))
    for centers, sq_radii, _ in model.balls:
        sq_dists = ((X[:, None] - centers) ** 2).sum(axis=2)
        expected += (sq_dists <= sq_radii).any(axis=1) / 7
    assert_allclose(model.score_samples(X), expected, rtol=1e-12)


def test_balls_have_the_radii_of_the_isolation_kernel(rng):
    X = rng.random((20, 3))
    fitted = IsolationKernel(1, 20, random_state=0).fit(X)
    centers, sq_radii, _ = balls.balls_around(fitted.centers_[0].astype(float))
    order = np.lexsort(centers.T)
    there = np.lexsort(fitted.centers_[0].T)
    assert_allclose(sq_radii[order], fitted.sq_radii_[0][there], rtol=1e-5)
