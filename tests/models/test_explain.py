"""Explanations: what must add up to what, against the definitions in loops, and whether they name what was planted."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import groups as group_oracle
from oracle import points as oracle

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import HOST_BACKENDS, Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.models.witness import separation

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


def columns_of(frame):
    return list(getattr(frame, "column_names", None) or frame.columns)


def values_of(frame, name):
    return list(np.asarray(frame[name]))


@pytest.fixture
def parts(rng):
    """12 groups of 1 to 9 points in the plane, each around a middle of its own."""
    return [rng.normal(rng.normal(size=2), 1, (size, 2)) for size in rng.integers(1, 10, 12)]


@pytest.mark.parametrize("max_samples", ["auto", 2, 8])
def test_the_features_add_up_to_the_logarithm_of_typical_score_over_score(X, max_samples):
    model = IDKPointDetector(50, max_samples, random_state=0).fit(X)
    scores, usual = model.score_samples(X), model.score_samples(model.model_.reference)
    # Where an integer psi says less than a thousandth of the mean, the explanation stops there.
    floor = 0 if max_samples == "auto" else usual.mean() / 1000
    logs, typical = np.log(np.maximum(scores, floor)), np.log(np.maximum(usual, floor)).mean()
    assert_allclose(model.explain(X).sum(axis=1), typical - logs, atol=1e-9)
    assert_allclose(model.explain(model.model_.reference).mean(axis=0), 0, atol=1e-9)


def test_of_many_rows_some_make_the_typical_score(rng):
    X = rng.normal(size=(2000, 3))
    model = IDKPointDetector(20, random_state=0).fit(X)
    sums, logs = model.explain(X).sum(axis=1), np.log(model.score_samples(X))
    assert_allclose(sums - sums[0], logs[0] - logs, atol=1e-9)
    # The mean over all rows is that over the 256 within its noise.
    assert abs(sums.mean()) < 5 * logs.std() / 16


def test_minus_the_logarithm_of_a_score_is_split_by_squared_distance_to_the_nearest_center(X):
    X = X * [1, 1000]
    scaled = np.float32(oracle.scale(X, X, "minmax"))
    rows = IsolationKernel(6, 8, pool_size="auto", random_state=0).fit(np.arange(len(X))[:, None]).centers_.round()
    centers = scaled[rows.astype(int)[..., 0]]
    cells = oracle.assign_cells(scaled, centers)
    nearest = oracle.assign_cells(scaled, centers, mechanism="voronoi")
    floor = sum(oracle.point_score(row_cells, cells) for row_cells in cells) / len(X) / 1000
    expected = np.zeros(X.shape)
    for i, x in enumerate(scaled):
        for row_cells, j, drawn in zip(zip(*cells, strict=True), nearest[i], centers, strict=True):
            missing = 1 - (row_cells.count(row_cells[i]) / len(X) if row_cells[i] != oracle.OUTSIDE else 0)
            steps = [(float(a) - float(c)) ** 2 for a, c in zip(x, drawn[j], strict=True)]
            expected[i] += [missing * step / sum(steps) if sum(steps) > 0 else missing / 2 for step in steps]
        expected[i] *= -math.log(max(oracle.point_score(cells[i], cells), floor)) / expected[i].sum()
    explanation = IDKPointDetector(6, 8, random_state=0).fit(X).explain(X)
    assert_allclose(explanation, expected - expected.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("max_samples", ["auto", 8])
def test_a_row_like_no_other_has_a_finite_explanation(X, max_samples):
    explanation = (
        IDKPointDetector(20, max_samples, random_state=0).fit(X).explain([[1e12, 0.0], [0.0, -1e4], [-1e140, 0.0]])
    )
    assert np.isfinite(explanation).all()
    assert_array_equal(explanation.argmax(axis=1), [0, 1, 0])
    farther, far, _ = explanation.sum(axis=1)
    if max_samples == "auto":  # how far counts
        assert farther > 2 * far
    else:
        assert_allclose(farther, far, rtol=1e-9)
    assert np.isfinite(IDKPointDetector(5, random_state=0).fit(np.ones((9, 2))).explain([[1.0, 2.0]])).all()


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("d", [5, 20])
def test_the_feature_in_which_a_point_is_odd_comes_first(d, max_samples):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, odd, feature = rng.normal(size=(300, d)), rng.normal(size=(1, d)), seed % d
        odd[0, feature] = -7
        model = IDKPointDetector(max_samples=max_samples, random_state=seed).fit(X)
        explanation = model.explain(odd)[0]
        assert explanation.argmax() == feature
        # Two and a half times the next or more, over seeds 0 to 19.
        assert explanation[feature] > 1.5 * np.delete(explanation, feature).max()


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("seed", range(6))
def test_both_features_of_a_broken_correlation_come_first(seed, max_samples):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 5))
    X[:, 3] = X[:, 1] + 0.1 * rng.normal(size=400)
    odd = 0.3 * rng.normal(size=(1, 5))
    odd[0, [1, 3]] = 1.5, -1.5  # each value is ordinary
    explanation = IDKPointDetector(max_samples=max_samples, random_state=seed).fit(X).explain(odd)[0]
    assert set(np.argsort(explanation)[-2:]) == {1, 3}


def test_an_explanation_never_depends_on_the_rest_of_its_batch(X, parts):
    points = IDKPointDetector(30, random_state=0).fit(X)
    whole = points.explain(X)
    assert isinstance(whole, np.ndarray)
    for i in range(0, len(X), 7):
        assert_allclose(points.explain(X[i : i + 1]), whole[i : i + 1], atol=1e-9)
    groups = IDKGroupDetector(30, random_state=0).fit(parts)
    explanation = groups.explain(parts)
    starts = np.cumsum([0, *map(len, parts)])
    for g, part in enumerate(parts):
        alone = groups.explain([part])
        assert_allclose(alone.differences, explanation.differences[g : g + 1], atol=1e-9)
        assert_allclose(alone.points, explanation.points[starts[g] : starts[g + 1]], atol=1e-9)
        assert_allclose(alone.lacking, explanation.lacking[g : g + 1], atol=1e-9)
        assert_allclose(alone.features, explanation.features[g : g + 1], atol=1e-9)


def test_an_explanation_does_not_depend_on_the_backend(X, parts):
    points, groups = IDKPointDetector(30, random_state=0).fit(X), IDKGroupDetector(30, random_state=0).fit(parts)
    grouped = Groups(ArrayRows(np.vstack(parts)), np.repeat(np.arange(12), list(map(len, parts))), np.arange(12))
    expected = groups.explain(parts)
    for backend in HOST_BACKENDS:
        assert_array_equal(points.model_.explain(ArrayRows(X), Compute(backend)), points.explain(X))
        explanation = groups.model_.explain(grouped, Compute(backend))
        for name in ("differences", "points", "lacking", "features"):
            assert_array_equal(getattr(explanation, name), getattr(expected, name))


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_explained_by_a_frame_with_its_names_in_order(X, kind):
    frame = FRAMES[kind]({"weight": X[:, 0], "age": X[:, 1]})
    model = IDKPointDetector(10, random_state=0)
    expected = model.fit(X).explain(X)
    explanation = model.fit(frame).explain(frame)
    assert type(explanation) is type(frame)
    assert columns_of(explanation) == ["weight", "age"]
    for j, name in enumerate(["weight", "age"]):
        assert_array_equal(values_of(explanation, name), expected[:, j])


def test_rows_of_a_pandas_frame_keep_their_index(X):
    frame = pd.DataFrame(X, columns=["weight", "age"], index=pd.date_range("2024-01-01", periods=len(X)))
    explanation = IDKPointDetector(10, random_state=0).fit(frame).explain(frame[20:50:3])
    assert explanation.index.equals(frame.index[20:50:3])
    grouped = frame.assign(team=np.arange(len(X)) % 6)
    points = IDKGroupDetector(10, random_state=0).fit(grouped, groups="team").explain(grouped, groups="team").points
    assert points.index.equals(frame.index)


def dense_maps(model, parts):
    """The mean maps of parts in loops, and the row of ``reference`` that is the center of each cell."""
    (view,) = model.model_.views.members
    balls, mechanism = view.balls, "voronoi" if model.max_samples == "auto" else "hypersphere"
    maps, anchors, scaled = [[] for _ in parts], [], [view.scaling.apply(part) for part in parts]
    for psi in balls.levels:
        drawn = oracle.partitionings(balls.pool, balls.slots, balls.levels, psi)
        for shares, part in zip(maps, scaled, strict=True):
            shares.extend(group_oracle.mean_map(oracle.assign_cells(part, drawn, mechanism=mechanism), psi))
        anchors += [balls.slots[slot] for own in oracle.samples(len(balls.slots), balls.levels, psi) for slot in own]
    return np.array(maps, dtype=float), np.array(anchors)


@pytest.mark.parametrize("max_samples", ["auto", 6])
def test_parts_of_points_and_of_reference_points_are_those_of_the_definition(parts, max_samples):
    model = IDKGroupDetector(6, max_samples, 6, random_state=0).fit(parts)
    new = [*parts[:5], parts[0][:1] + 100]
    explanation = model.explain(new)
    population, (new_maps, anchors) = dense_maps(model, parts)[0].mean(axis=0), dense_maps(model, new)
    single_maps, _ = dense_maps(model, [row[None] for part in new for row in part])
    t = model.model_.views.n_samples
    assert_allclose(explanation.differences, ((new_maps - population) ** 2).sum(axis=1) / t, atol=1e-12)
    owners = np.repeat(np.arange(len(new)), [len(part) for part in new])
    carried = (single_maps * (new_maps - population)[owners]).sum(axis=1) / t
    assert_allclose(explanation.points, carried / np.bincount(owners)[owners], atol=1e-12)
    masses = np.bincount(anchors, weights=population, minlength=len(explanation.reference))
    for g, lacking in enumerate(explanation.lacking):
        expected = np.bincount(anchors, (population - new_maps[g]) * population / t, len(explanation.reference))
        assert_allclose(lacking, expected, atol=1e-12)
        assert explanation.points[owners == g].sum() + lacking.sum() == pytest.approx(
            explanation.differences[g], abs=1e-9
        )
        features = separation(new[g], np.maximum(explanation.points[owners == g], 0), explanation.reference, masses)
        assert_allclose(explanation.features[g], features, atol=1e-9)


def test_all_points_together_differ_in_nothing_from_groups_of_one_size(rng):
    parts = [rng.normal(size=(30, 2)) for _ in range(20)]
    explanation = IDKGroupDetector(50, random_state=0).fit(parts).explain([np.vstack(parts), parts[0], parts[0] + 3])
    assert_allclose([explanation.differences[0], explanation.lacking[0].sum()], 0, atol=1e-12)
    assert explanation.differences[0] < explanation.differences[1] < explanation.differences[2] / 5


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("seed", range(4))
def test_points_of_which_a_group_has_too_many_carry_its_difference(seed, max_samples):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(60, 2)) for _ in range(50)]
    odd = np.vstack([rng.normal(size=(60, 2)), rng.normal(4, 0.3, (20, 2))])
    explanation = IDKGroupDetector(60, max_samples, 16, random_state=seed).fit([*parts, odd]).explain([odd])
    blob, rest = explanation.points[60:], explanation.points[:60]
    # A quarter of the points; over seeds 0 to 9 they carry two thirds or more of what is positive.
    assert blob.min() > 0
    assert blob.sum() > 0.55 * np.maximum(explanation.points, 0).sum()
    assert np.median(blob) > 3 * abs(np.median(rest))


@pytest.mark.parametrize(("max_samples", "share"), [("auto", 0.5), (16, 0.9)])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_group_lacks_lies_where_its_points_are_missing(seed, max_samples, share):
    rng = np.random.default_rng(seed)
    parts = [np.vstack([rng.normal(0, 0.3, (30, 2)), rng.normal(3, 0.3, (30, 2))]) for _ in range(50)]
    odd = rng.normal(0, 0.3, (60, 2))
    explanation = IDKGroupDetector(60, max_samples, 16, random_state=seed).fit([*parts, odd]).explain([odd])
    lacking, missing = explanation.lacking[0], explanation.reference.sum(axis=1) > 3
    assert lacking[missing].sum() > 0 > lacking[~missing].sum()
    assert np.mean(lacking[missing & (lacking != 0)] > 0) > 0.8  # of the points that are in a sample
    # With psi = 2 both centers may be of one cluster, so that a center stands for the other one too: over seeds 0 to 9,
    # 60 % or more of what is lacking is at the missing cluster, and 97 % or more at psi = 16 alone.
    assert lacking[missing].sum() > share * np.maximum(lacking, 0).sum()


def test_the_feature_in_which_a_group_is_narrow_sets_it_apart():
    hits = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        parts = [rng.normal(size=(200, 4)) for _ in range(40)]
        parts[0][:, 2] *= 0.15
        explanation = IDKGroupDetector(random_state=seed).fit(parts).explain(parts[:1])
        hits += np.abs(explanation.features[0]).argmax() == 2
    assert hits == 5  # 20 of 20 over seeds 0 to 19


def test_the_sign_of_a_feature_is_the_side_on_which_a_group_lies(rng):
    parts = [rng.normal(size=(60, 3)) for _ in range(30)]
    explanation = IDKGroupDetector(random_state=0).fit(parts).explain([parts[0] + [2, 0, 0], parts[1] - [0, 2, 0]])
    assert explanation.features[0, 0] > 0.5 and explanation.features[1, 1] < -0.5
    assert np.abs(explanation.features).max() <= 1


def test_reference_points_are_points_of_fit_to_the_last_digit_and_equal_values_separate_nothing(rng):
    # 32 / 49 * 49 is less than 32: a value that goes to another scale and back is no longer equal to itself.
    def group(shift=0.0):
        often = np.where(rng.random(40) < 0.9, 32.0, rng.choice([0.0, 49.0], 40))
        return np.column_stack([often, rng.normal(shift, 1, 40)])

    parts = [group() for _ in range(30)]
    explanation = IDKGroupDetector(random_state=0).fit(parts).explain([group(shift=1)])
    assert abs(explanation.features[0, 0]) < 0.3 < explanation.features[0, 1]
    assert {tuple(row) for row in explanation.reference} <= {tuple(row) for part in parts for row in part}


def smirnov(A, a, B, b):
    """The largest difference of two weighted distribution functions, feature by feature, with the sign of the means."""
    distances = []
    for x, y in zip(A.T, B.T, strict=True):
        largest = 0.0
        for value in [*x, *y]:
            below_x = sum(weight for v, weight in zip(x, a, strict=True) if v <= value) / sum(a)
            below_y = sum(weight for v, weight in zip(y, b, strict=True) if v <= value) / sum(b)
            largest = max(largest, abs(below_x - below_y))
        distances.append(largest if (x * a).sum() / sum(a) >= (y * b).sum() / sum(b) else -largest)
    return distances


@pytest.mark.parametrize("seed", range(5))
def test_separation_is_the_distance_of_kolmogorov_and_smirnov(seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(23, 4)), rng.normal(0.5, 2, size=(31, 4))
    A[:, 1:3], B[:, 1:3] = rng.integers(0, 3, (23, 2)), rng.integers(0, 4, (31, 2))
    A[:, 3] = B[:, 3] = 7.0
    a, b = rng.random(23), rng.random(31)
    a[rng.random(23) < 0.4] = 0
    actual = separation(A, a, B, b)
    assert_allclose(actual[:3], smirnov(A, a, B, b)[:3], rtol=1e-12)
    assert_allclose(actual[3], 0, atol=1e-12)
    assert_allclose(separation(A, 10 * a, B, b), actual, rtol=1e-9, atol=1e-12)
    assert_array_equal(separation(A, 0 * a, B, b), 0)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_of_groups_is_explained_by_frames_that_keep_the_labels(X, kind):
    model = IDKGroupDetector(10, random_state=0)
    for labels in (["b", "a", "c"], [7, 3, 5]):
        rows = [labels[i % 3] for i in range(len(X))]
        frame = FRAMES[kind]({"weight": X[:, 0], "age": X[:, 1]})
        expected = model.fit(X, groups=rows).explain(X, groups=rows)
        explanation = model.fit(frame, groups=rows).explain(frame, groups=rows)
        assert list(explanation.labels) == list(expected.labels) == labels
        assert type(explanation.points) is type(explanation.features) is type(explanation.reference) is type(frame)
        assert columns_of(explanation.points) == ["group", "contribution"]
        assert columns_of(explanation.features) == ["group", "difference", "weight", "age"]
        assert columns_of(explanation.reference) == ["weight", "age"]
        assert values_of(explanation.points, "group") == rows and values_of(explanation.features, "group") == labels
        assert_array_equal(values_of(explanation.points, "contribution"), expected.points)
        assert_array_equal(values_of(explanation.features, "difference"), expected.differences)
        assert_array_equal(values_of(explanation.features, "age"), expected.features[:, 1])
        assert_array_equal(values_of(explanation.reference, "age"), expected.reference[:, 1])
        assert_array_equal(explanation.lacking, expected.lacking)
    frame = FRAMES[kind]({"weight": X[:, 0], "team": [f"team {i % 3}" for i in range(len(X))], "age": X[:, 1]})
    explanation = model.fit(frame, groups="team").explain(frame, groups="team")
    assert columns_of(explanation.features) == ["group", "difference", "weight", "age"]
    assert values_of(explanation.features, "group") == ["team 0", "team 1", "team 2"]


def test_features_called_like_our_own_columns_hide_nothing(X):
    frame, rows = pd.DataFrame(X, columns=["group", "difference"]), [f"team {i % 3}" for i in range(len(X))]
    explanation = IDKGroupDetector(10, random_state=0).fit(frame, groups=rows).explain(frame, groups=rows).features
    assert explanation.shape == (3, 4)
    assert ["team 0", "team 1", "team 2"] in [explanation.iloc[:, j].tolist() for j in range(explanation.shape[1])]
