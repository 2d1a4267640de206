"""Detectors without a psi to choose: what "auto" means in plain loops, and what must leave its scores alone."""

import math
import pickle
import statistics
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import groups as group_oracle
from oracle import points as oracle
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import Compute
from isobag.data.scaling import SCALINGS
from isobag.models.averaging import fit_average, fit_views_average

BACKENDS = ["numpy", "numba"]


def average(train_path, path, importance):
    """exp(sum_k w_k log max(s_k, floor_k)); w_k ~ importance_k / deviation of the training logs, none if they agree."""
    floors, weights = [], []
    for k, matters in enumerate(importance):
        column = [row[k] for row in train_path]
        floors.append(sum(column) / len(column) / 1000)
        deviation = statistics.pstdev([math.log(max(value, floors[k])) for value in column])
        weights.append(matters / deviation if deviation > 1e-9 else 0.0)
    scores = []
    for row in path:
        logs = [math.log(max(value, floor)) for value, floor in zip(row, floors, strict=True)]
        scores.append(math.exp(sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights)))
    return scores


def centers_by_scale(X, levels, t):
    """Scaled data and what is drawn from them, the partitionings dealt out in turn to three scales."""
    for first, scaling in enumerate(["absolute", "normal", "asinh"]):
        scaled = np.array(oracle.scale(X, X, scaling))
        yield scaled, IsolationKernel(t, levels[-1], random_state=0).fit(scaled).centers_[first::3]


def views_of(X, levels, t, method, mechanism, counted):
    """For each scale the scores at every psi, and the mean octaves beyond what is typical at the psi that count."""
    rule = "covering" if method == "norm" else "nearest"
    for scaled, drawn in centers_by_scale(X, levels, t):
        path, far = [[] for _ in X], [0] * len(X)
        for psi in levels:
            cells = oracle.assign_cells(scaled, drawn[:, :psi], rule, mechanism)
            for row, own in zip(path, cells, strict=True):
                row.append(oracle.point_score(own, cells) if method == "similarity" else oracle.norm_score(own))
        for psi in counted:
            limit = oracle.far_limit(drawn[:, :psi])
            far = [sum_ + oracle.far_out(x, drawn[:, :psi], limit) for sum_, x in zip(far, scaled, strict=True)]
        yield path, [sum_ / (2**12 * len(counted) * len(drawn)) for sum_ in far] if counted else None


@pytest.fixture
def parts(rng):
    """24 groups of 1 to 7 points in the plane, each around a middle of its own."""
    return [rng.normal(rng.normal(size=2), 1, (size, 2)) for size in rng.integers(1, 8, 24)]


@pytest.mark.parametrize("t", [5, 6])
@pytest.mark.parametrize(
    ("method", "mechanism"), [("similarity", "hypersphere"), ("similarity", "voronoi"), ("norm", "hypersphere")]
)
def test_the_default_is_the_mean_over_psi_and_scales_less_how_far_out_unless_small_psi_overrule(
    X, t, method, mechanism
):
    X = X * [1, 1000]
    levels = (2, 4, 8, 16, 30)
    # Where balls end: under Voronoi's cells nothing is OUTSIDE, and the norm asks only whether a row is.
    counted = (4, 30) if (method, mechanism) == ("similarity", "hypersphere") else ()
    views = list(views_of(X, levels, t, method, mechanism, counted))
    expected = oracle.average_over_views(views, views, levels)
    model = IDKPointDetector(t, method=method, mechanism=mechanism, random_state=0).fit(X)
    assert model.path_ == levels
    sizes = [len(drawn) for _, drawn in centers_by_scale(X, levels, t)]
    assert_allclose(
        model.score_path(X), np.average([path for path, _ in views], axis=0, weights=sizes), rtol=1e-12, atol=1e-15
    )
    assert_allclose(model.score_samples(X), expected, rtol=1e-9)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize(
    ("n", "largest"),
    [(2, 2), (4, 2), (11, 5), (60, 30), (400, 200), (512, 256), (513, 256), (600, 300), (1024, 512), (3000, 512)],
)
def test_psi_are_the_powers_of_two_up_to_512_or_half_of_the_rows(rng, n, largest):
    model = IDKPointDetector(2, random_state=0, calibrate=False).fit(rng.normal(size=(n, 2)))
    assert model.path_ == (*[2**k for k in range(1, 10) if 2**k < largest], largest)
    assert model.max_samples_ == largest


def test_partitionings_of_more_than_256_cells_are_two_thirds_as_many(rng):
    X = rng.normal(size=(1024, 2))
    detectors = [(100, "auto", X[:513]), (100, "auto", X), (100, 512, X)]
    models = [IDKPointDetector(t, psi, random_state=0, calibrate=False).fit(some).model_ for t, psi, some in detectors]
    assert [len(model.views) for model in models] == [100, 67, 100]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_with_one_scale_a_column_of_the_path_is_the_detector_of_that_psi(X, scaling):
    auto = IDKPointDetector(9, scaling=scaling, random_state=0).fit(X)
    for k, psi in enumerate(auto.path_):
        single = IDKPointDetector(9, psi, scaling=scaling, random_state=0).fit(X)
        assert_array_equal(auto.score_path(X)[:, k], single.score_samples(X))


def test_a_psi_that_tells_no_rows_apart_has_no_say(rng):
    path = rng.uniform(size=(50, 3))
    path[:, 1] = 0.3
    importance = np.array([1.0, 100.0, 0.5])
    with_it, without = fit_average(path, importance), fit_average(path[:, [0, 2]], importance[[0, 2]])
    assert with_it.weights[1] == 0
    assert_allclose(with_it.weights.sum(), 1, rtol=1e-12)
    assert_allclose(with_it.apply(path), without.apply(path[:, [0, 2]]), rtol=1e-12)
    assert_allclose(without.apply(path[:, [0, 2]]), average(path, path, importance), rtol=1e-12)
    none_does = fit_average(np.full((9, 2), 0.25), np.array([3.0, 1.0]))
    assert_allclose(none_does.weights, [0.75, 0.25], rtol=1e-12)
    assert (with_it.far_weight, none_does.far_weight) == (0, 0)


def test_how_far_out_rows_are_matters_as_much_as_all_psi_together(rng):
    levels, path, far = (2, 8, 32), rng.uniform(size=(50, 3)), rng.exponential(size=50)
    (own,) = fit_views_average([(path, far)], levels).views
    importance = sum(psi**-0.5 for psi in levels)
    first = own.weights[0] * np.log(path[:, 0]).std() / 2**-0.5
    assert own.far_weight * far.std() == pytest.approx(importance * first, rel=1e-9)
    assert own.weights.sum() + own.far_weight == pytest.approx(1, rel=1e-12)
    (none_is,) = fit_views_average([(path, np.zeros(50))], levels).views  # new rows may be
    assert none_is.far_weight / none_is.weights[0] == pytest.approx(
        importance * np.log(path[:, 0]).std() / 2**-0.5, rel=1e-9
    )


def test_of_very_many_rows_ten_thousand_make_the_weights(rng):
    X = rng.normal(size=(11_000, 1)) ** 3
    model = IDKPointDetector(2, calibrate=False, random_state=0).fit(X)
    learned = model.model_
    views = learned.divide(learned.sum_at(Compute())(X))
    spread = [10_999 * k // 9_999 for k in range(10_000)]
    some, first = ([(path[own], far[own]) for path, far in views] for own in (spread, slice(20)))
    scores = model.score_samples(X[:20])
    assert_allclose(scores, oracle.average_over_views(some, first, model.path_), rtol=1e-9)
    assert not np.allclose(scores, oracle.average_over_views(views, first, model.path_), rtol=1e-9)


@pytest.mark.parametrize(("share", "least"), [(0.01, 0.99), (0.05, 0.97), (0.1, 0.95)])
@pytest.mark.parametrize("seed", range(3))
def test_a_clump_of_anomalies_is_found_though_it_is_its_own_neighbourhood(share, least, seed):
    rng = np.random.default_rng(seed)
    n_odd = int(2000 * share)
    direction = rng.normal(size=5)
    clump = 4 * 5**0.5 * direction / np.linalg.norm(direction) + 0.1 * rng.normal(size=(n_odd, 5))
    X, y = np.vstack([rng.normal(size=(2000, 5)), clump]), np.repeat([0, 1], [2000, n_odd])
    model = IDKPointDetector(calibrate=False, random_state=seed).fit(X)
    assert roc_auc_score(y, -model.score_samples(X)) >= least
    if share == 0.1:
        assert roc_auc_score(y, -model.score_path(X)[:, model.path_.index(256)]) < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_small_psi_overrule_few_rows_of_clean_data_and_hardly_change_their_order(seed):
    X = np.random.default_rng(seed).normal(size=(2000, 5))
    model = IDKPointDetector(calibrate=False, random_state=seed).fit(X)
    learned = model.model_
    mean, coarse = learned.average.parts(learned.divide(learned.sum_at(Compute())(X)))
    scores = model.score_samples(X)
    assert np.mean(learned.average.limit(coarse) < mean) < 0.25
    assert (scores <= np.exp(mean)).all()
    assert spearmanr(scores, mean).statistic > 0.97


def test_a_score_rises_with_the_similarity_at_any_psi_and_falls_with_how_far_out(rng):
    levels = (2, 4, 8, 16, 32)
    train = [(rng.uniform(0.1, 0.6, size=(300, 5)), rng.exponential(size=300)) for _ in range(3)]
    average = fit_views_average(train, levels)
    assert (average.n_coarse, len(average.views)) == (3, 3)
    before = average.apply(train)
    assert np.all((before > 0) & (before <= 1))
    for v in range(3):
        for k in range(5):
            more = [(path.copy(), far) for path, far in train]
            more[v][0][:, k] *= 1.5
            assert (average.apply(more) > before).all()
        farther = [(path, far + (i == v)) for i, (path, far) in enumerate(train)]
        assert (average.apply(farther) < before).all()


def test_among_equal_rows_all_are_normal_and_any_other_is_less_so_the_farther_it_is():
    X = np.full((40, 2), 0.1)
    model = IDKPointDetector(20, random_state=0).fit(X)
    assert_array_equal(model.score_samples(X), 1)
    assert_array_equal(model.predict(X), 1)
    # Balls of radius 0 hold nothing else: similarity 0 at every psi, of which the floor makes a thousandth, and psi
    # have half of the say. Beyond a distance of 1 the other half counts.
    assert_allclose(model.score_samples(X[:1] + 1e-9), 1e-3 ** (1 / 2), rtol=1e-9)
    far = model.score_samples(X[:4] + np.array([[0.7], [2.0], [20.0], [2e9]]))
    assert (np.diff(far) < 0).all() and far[0] < 1e-3**0.5
    one_scale = IDKPointDetector(20, method="norm", random_state=0).fit(X)
    assert_allclose(one_scale.score_samples(X[:1] + 1e9), 1e-3, rtol=1e-9)
    groups = IDKGroupDetector(20, random_state=0).fit([X[:3], X[:5], X[:1], X[:2]])
    assert_array_equal(groups.scores_, 1)
    assert_array_equal(groups.predict([X[:7]]), 1)


@pytest.mark.parametrize("n", [5, 32, 40])
def test_where_all_score_alike_all_are_normal(rng, n):
    # Every row or group is a center and alone in its cell, so that all scores are 1 / n.
    X = rng.normal(size=(n, 2))
    points, groups = IDKPointDetector(4, n, random_state=0), IDKGroupDetector(4, 2, n, random_state=0)
    assert_array_equal(points.fit_predict(X), 1)
    assert_array_equal(groups.fit_predict(np.split(np.arange(n * n * 2.0).reshape(-1, 2), n)), 1)


@pytest.mark.parametrize(("n", "t"), [(2, 10), (3, 10), (5, 10), (60, 1)])
def test_two_rows_two_groups_and_one_partitioning_are_enough(rng, n, t):
    X = rng.normal(size=(n, 2))
    for cls, data in ((IDKPointDetector, X), (IDKGroupDetector, [*X[:, None]])):
        model = cls(t, random_state=0).fit(data)
        scores = model.score_samples(data)
        assert scores.shape == (n,) and np.isfinite(scores).all() and (scores > 0).all()
        assert data is not X or (scores <= 1).all()
        assert set(model.predict(data)) <= {-1, 1}
        assert np.all((model.p_values(data) > 0) & (model.p_values(data) <= 1))
        assert np.isfinite(model.explain(data) if data is X else model.explain(data).differences).all()


def test_scores_lie_between_0_and_1_and_fall_with_distance(X, rng):
    far = [[10.0**k, -(10.0**k)] for k in (3, 4, 6, 9, 50, 140)]
    Q = np.vstack([X, rng.normal(0, 30, (500, 2)), far])
    scores = IDKPointDetector(20, random_state=0).fit(X).score_samples(Q)
    assert np.all((scores > 0) & (scores <= 1))
    assert (np.diff(scores[-6:]) < 0).all()
    assert scores[-6] < scores[:-6].min()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["similarity", "norm"])
def test_a_score_without_tuning_never_depends_on_the_rest_of_its_batch(X, rng, backend, method):
    Q = np.vstack([X, rng.normal(0, 5, (3001, 2))])
    model = IDKPointDetector(20, method=method, random_state=0, backend=backend).fit(X)
    whole = model.score_samples(Q)
    for i in range(0, len(Q), 150):
        assert model.score_samples(Q[i : i + 1])[0] == whole[i]
    for rows in (slice(1, 8), slice(3, 77), slice(None, None, -3)):
        assert_array_equal(model.score_samples(Q[rows]), whole[rows])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_group_score_without_tuning_never_depends_on_the_rest_of_its_batch(parts, rng, backend):
    model = IDKGroupDetector(20, random_state=0, backend=backend).fit(parts)
    assert_array_equal(model.score_samples(parts), model.scores_)
    many = parts + [rng.normal(0, 2, (size, 2)) for size in rng.integers(1, 30, 100)]
    whole = model.score_samples(many)
    assert [model.score_samples([part])[0] for part in many] == whole.tolist()
    assert_array_equal(model.score_samples(many[::-2]), whole[::-2])


def test_backends_and_threads_say_the_same_without_tuning(rng, parts):
    X = rng.normal(size=(600, 3))
    X[300:450] = X[:150].round()

    def results(backend, n_jobs):
        how = {"random_state": 0, "backend": backend, "n_jobs": n_jobs}
        points, groups = IDKPointDetector(10, **how).fit(X), IDKGroupDetector(20, **how).fit(parts)
        found = [points.score_samples(X), points.score_path(X), points.p_values(X), points.offset_]
        return [*found, groups.scores_, groups.p_values(parts), groups.offset_]

    first = results("numpy", 1)
    for how in [("numpy", 2), ("numba", 1), ("numba", 2), ("auto", None)]:
        for mine, others in zip(first, results(*how), strict=True):
            assert_array_equal(mine, others)


def test_copies_score_as_the_original(X, parts):
    for cls, data in ((IDKPointDetector, X), (IDKGroupDetector, parts)):
        model = cls(20, random_state=3).fit(data)
        for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(data)):
            assert copy.get_params() == model.get_params()
            assert_array_equal(copy.score_samples(data), model.score_samples(data))
            assert_array_equal(copy.p_values(data), model.p_values(data))
            assert copy.offset_ == model.offset_


def test_absolute_scaling_sets_the_mean_absolute_deviation_to_1(X):
    X = np.column_stack([X * [1, 1000], np.full(len(X), 0.1)])
    scaled = np.array(oracle.scale(X, X, "absolute"))
    assert_allclose(np.abs(scaled[:, :2]).mean(axis=0), 1, rtol=1e-12)
    plain = IDKPointDetector(20, 8, scaling=None, random_state=0).fit(scaled).score_samples(scaled)
    model = IDKPointDetector(20, 8, scaling="absolute", random_state=0).fit(X)
    assert_allclose(model.views_.members[0].scaling.apply(X), scaled, atol=1e-12)
    assert_array_equal(model.score_samples(X), plain)
    assert (plain != IDKPointDetector(20, 8, scaling="standard", random_state=0).fit(X).score_samples(X)).any()


@pytest.mark.parametrize("value", [0.0, 0.1, -1e8])
def test_a_constant_feature_changes_no_score_without_tuning(X, value):
    wide = np.column_stack([X[:, 0], np.full(len(X), value), X[:, 1]])
    for scaling in ("auto", "absolute"):
        model = IDKPointDetector(10, scaling=scaling, random_state=0)
        expected = model.fit(X).score_samples(X)
        assert_array_equal(model.fit(wide).score_samples(wide), expected)


@pytest.mark.parametrize("scaling", ["auto", "absolute"])
def test_the_unit_of_a_feature_changes_nothing_without_tuning(X, scaling):
    # Powers of two change no digit, so that the answers are equal to the last bit.
    units = np.array([2.0**12, 2.0**-5])
    one, other = (IDKPointDetector(20, scaling=scaling, random_state=0).fit(data) for data in (X, X * units))
    for method in ("score_samples", "p_values", "explain"):
        assert_array_equal(getattr(one, method)(X), getattr(other, method)(X * units))
    assert one.offset_ == other.offset_


def test_robust_scaling_divides_by_the_range_where_the_quartiles_are_equal(rng):
    X = np.column_stack([rng.normal(size=80), np.zeros(80)])
    X[:15, 1] = rng.integers(-8, 33, 15)
    X[:2, 1] = -8, 32
    scaled = np.column_stack([oracle.scale(X[:, :1], X[:, :1], "robust"), X[:, 1] / 40])
    plain = IDKPointDetector(20, 8, scaling=None, random_state=0).fit(scaled).score_samples(scaled)
    assert_array_equal(IDKPointDetector(20, 8, scaling="robust", random_state=0).fit(X).score_samples(X), plain)


def test_an_integer_psi_has_the_scale_of_the_paper(X):
    models = {s: IDKPointDetector(20, 8, scaling=s, random_state=0).fit(X) for s in ("auto", "minmax", "absolute")}
    scores = {name: model.score_samples(X) for name, model in models.items()}
    assert_array_equal(scores["auto"], scores["minmax"])
    assert (scores["auto"] != scores["absolute"]).any()
    assert models["auto"].average_ is None


def test_the_threshold_is_two_deviations_in_ratio(X, parts):
    for model, data in ((IDKPointDetector(30, random_state=0), X), (IDKGroupDetector(30, random_state=0), parts)):
        scores = model.fit(data).score_samples(data).tolist()
        floor = sum(scores) / len(scores) / 1000
        logs = [math.log(score + floor) for score in scores]
        expected = math.exp(statistics.fmean(logs) - 2 * statistics.pstdev(logs)) - floor
        # Scores are counted in steps, 4,096 an octave.
    assert expected * (1 - 2**-11) < model.offset_ <= expected
    assert set(np.flatnonzero(IDKPointDetector(random_state=0).fit_predict(X) == -1)) == {57, 58, 59}


def group_mean_maps(model, parts):
    """Level 1 in loops: the mean maps of all views side by side."""
    maps = [[] for _ in parts]
    for view in model.point_views_.members:
        centers = view.partitionings.centers
        for part, own in zip(parts, maps, strict=True):
            scaled = view.scaling.apply(part)
            cells = oracle.assign_cells(scaled, centers, mechanism="voronoi")
            own.extend(group_oracle.mean_map(cells, centers.shape[1]))
    return maps


def group_score_path(model, maps):
    """Level 2 in loops: the score of every group at each psi, from the first psi centers of each partitioning."""
    drawn = model.level2_.partitionings
    counts = drawn.centers.counts.toarray().tolist()
    centers = [[Fraction(k, int(n)) for k in row] for row, n in zip(counts, drawn.centers.sizes, strict=True)]
    path = [[] for _ in maps]
    for psi in drawn.levels:
        partitionings = [[centers[slot] for slot in slots[:psi]] for slots in drawn.slots]
        cells = group_oracle.assign_cells(maps, partitionings, model.group_mechanism)
        for row, own in zip(path, cells, strict=True):
            row.append(group_oracle.score(own, cells))
    return path


@pytest.mark.slow
def test_hyperspheres_of_groups_without_tuning_follow_the_definition_at_both_levels(parts):
    n_points = sum(map(len, parts))
    model = IDKGroupDetector(8, group_mechanism="hypersphere", random_state=0).fit(parts)
    assert 64 < n_points < 128
    shapes = [view.partitionings.slots.shape for view in model.point_views_.members]
    assert shapes == [(8, psi) for psi in (16, 32, n_points // 2)]
    assert model.level2_.partitionings.levels == (2, 4, 8, 12)
    assert model.level2_.curve is None
    path = group_score_path(model, group_mean_maps(model, parts))
    expected = average(path, path, [0, 0, 1, 1])
    assert_allclose(model.scores_, expected, rtol=1e-9)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize(
    ("n_groups", "levels"),
    [
        (2, [2]),
        (9, [4]),
        (17, [8]),
        (40, [8, 16, 20]),
        (400, [8, 16, 32, 64, 128, 200]),
        (520, [8, 16, 32, 64, 128, 256]),
    ],
)
def test_groups_average_psi_from_8_to_256_or_half_of_the_groups(rng, n_groups, levels):
    model = IDKGroupDetector(6, group_mechanism="hypersphere", random_state=0, calibrate=False)
    model.fit([*rng.normal(size=(n_groups, 3, 1))])
    level2 = model.level2_
    assert np.array(level2.partitionings.levels)[level2.average.weights > 0].tolist() == levels
    assert model.group_max_samples_ == levels[-1]
    assert model.max_samples_ == min(64, max(2, 3 * n_groups // 2))


def test_integers_at_both_levels_are_the_method_of_the_paper(parts):
    model = IDKGroupDetector(10, 8, 8, random_state=0).fit(parts)
    literal = IDKGroupDetector(10, 8, 8, point_mechanism="hypersphere", scaling="minmax", random_state=0).fit(parts)
    assert_array_equal(model.scores_, literal.scores_)
    assert (model.point_mechanism_, model.level2_.average, model.level2_.curve) == ("hypersphere", None, None)
    assert [view.partitionings.slots.shape for view in model.point_views_.members] == [(10, 8)]
    in_cells = model.scores_ * 10 * len(parts)  # numbers of groups, counted in 10 partitionings
    assert_allclose(in_cells, in_cells.round(), rtol=1e-9)
    assert IDKGroupDetector(10, group_max_samples=8, random_state=0).fit(parts).point_mechanism_ == "voronoi"


def beside_a_dense_cluster(rng):
    """One point, nearer to a dense cluster than the points of a sparse one are to each other."""
    return np.vstack([rng.normal(0, 0.05, (700, 2)), rng.normal(6, 1.5, (300, 2)), [[0.45, 0.45]]]), 1


def dense_among_themselves(rng):
    return np.vstack([rng.normal(size=(980, 2)), rng.normal(5, 0.05, (20, 2))]), 20


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("data", "misses"), [(beside_a_dense_cluster, 2), (dense_among_themselves, 256)])
def test_the_default_finds_what_the_smallest_or_the_largest_psi_misses(data, misses, seed):
    X, n_odd = data(np.random.default_rng(seed))
    false_alarms = []
    for psi in ("auto", misses):
        scores = IDKPointDetector(max_samples=psi, calibrate=False, random_state=seed).fit(X).score_samples(X)
        false_alarms.append((scores[:-n_odd] <= scores[-n_odd:].max()).sum())  # before all that is odd is seen
    # Over seeds 0 to 19: at most 13 with the default, and 300 or more at the psi that misses.
    assert false_alarms[0] <= 20
    assert false_alarms[1] >= 150
