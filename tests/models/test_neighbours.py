"""The default level 2: noise, distances and scores against loops over fractions, and what must leave them alone."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import groups as oracle
from scipy.sparse import csr_array
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector
from isobag.backends import HOST_BACKENDS, Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.datasets import make_sensor_days
from isobag.models import neighbours
from isobag.models.neighbours import UNIT, bounded, estimate_noise, fit_neighbours
from isobag.models.views import Draw, Plan, draw_views
from isobag.partitionings.counts import MeanMaps

T = 6


def some_parts(rng, n_groups=40, largest=40):
    """Groups of 1 to 40 points, each around a middle of its own; some are others with every point twice."""
    sizes = np.exp(rng.uniform(0, np.log(largest + 1), n_groups)).astype(int)
    parts = [rng.normal(rng.normal(0, 0.5, 2), 1, (size, 2)).round(1) for size in sizes]
    return [*parts, *(np.repeat(part, 2, axis=0) for part in parts[:3]), parts[0]]


def mean_maps(parts, t=T, psi=5):
    ids = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    rows = ArrayRows(np.vstack(parts))
    views, _ = draw_views(rows, [Plan("minmax", (psi,))], Draw(t, None, "voronoi", 0), Compute(), False)
    return views.mean_maps(Groups(rows, ids, np.arange(len(parts))), Compute())


def fractions(maps):
    """Mean map and size of each group."""
    counts, sizes = maps.counts.toarray().tolist(), maps.sizes.tolist()
    return [([Fraction(c, n) for c in own], n) for own, n in zip(counts, sizes, strict=True)]


@pytest.fixture
def maps(rng):
    return mean_maps(some_parts(rng))


@pytest.fixture
def singles(rng):
    return mean_maps([*rng.normal(size=(40, 1, 2))])


def test_noise_is_that_of_an_analysis_of_variance(maps):
    groups = fractions(maps)
    actual = estimate_noise(maps, T)
    ratio, population = oracle.noise([own for own, _ in groups], [n for _, n in groups], T)
    assert actual.ratio == pytest.approx(float(ratio), rel=1e-4) and ratio > 0.01
    assert_allclose(actual.population * UNIT, [float(share) for share in population], atol=UNIT)
    assert actual.largest == max(n for _, n in groups)


def test_groups_that_differ_by_chance_alone_have_hardly_any_variance_of_their_own():
    ratios = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        parts = [rng.normal(size=(size, 2)) for size in rng.integers(2, 60, 200)]
        ratios.append(estimate_noise(mean_maps(parts, t=20), 20).ratio)
    # A middle that scatters by half a deviation makes .1 and more.
    assert max(ratios) < 0.01


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_distances_and_scores_are_those_of_the_definition(maps, singles, backend):
    compute = Compute(backend)
    model, scores = fit_neighbours(maps, T, compute)
    groups = fractions(maps)
    noise = (model.ratio, [Fraction(int(one), 2**20) for one in model.population], model.largest)
    new = MeanMaps(csr_array(maps.counts[:5] * 100), maps.sizes[:5] * 100)  # sizes never seen
    for some_maps in (maps, singles[:9], new):
        expected = [oracle.near_and_far(group, groups, noise) for group in fractions(some_maps)]
        assert_allclose(model.distances(some_maps, compute), expected, rtol=1e-9, atol=1e-6)
        sizes = some_maps.sizes.tolist()
        u = np.array([oracle.oddness(own, n, model.lines) for own, n in zip(expected, sizes, strict=True)])
        assert_allclose(model.scores(some_maps, compute), 1 / (u + np.sqrt(1 + u * u)), rtol=1e-4)
    assert_array_equal(scores, model.scores(maps, compute))


@pytest.mark.parametrize("n_groups", [2, 3, 11])
def test_of_few_groups_all_others_are_neighbours(rng, n_groups):
    maps = mean_maps(some_parts(rng, n_groups)[:n_groups])
    model, scores = fit_neighbours(maps, T, Compute())
    groups = fractions(maps)
    noise = (model.ratio, [Fraction(int(one), 2**20) for one in model.population], model.largest)
    expected = [oracle.near_and_far(group, groups, noise) for group in groups]
    assert_allclose(model.distances(maps, Compute()), expected, rtol=1e-9, atol=1e-6)
    assert np.isfinite(scores).all()


def test_the_order_of_groups_changes_not_a_bit(maps, rng):
    noise, (model, scores) = estimate_noise(maps, T), fit_neighbours(maps, T, Compute())
    for _ in range(5):
        order = rng.permutation(len(maps))
        again = estimate_noise(maps[order], T)
        assert again.ratio == noise.ratio
        assert_array_equal(again.population, noise.population)
        shuffled, actual = fit_neighbours(maps[order], T, Compute())
        assert shuffled.lines == model.lines
        assert_array_equal(actual, scores[order])


def test_the_order_of_rows_in_groups_changes_not_a_bit(rng):
    parts = some_parts(rng)
    model = IDKGroupDetector(10, random_state=0).fit(parts)
    assert_array_equal(model.score_samples([rng.permutation(part) for part in parts]), model.scores_)
    assert_array_equal(model.score_samples(parts[::-1]), model.scores_[::-1])


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_a_group_of_fit_scores_the_same_again_alone_and_where_few_are_references(rng, backend, monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_REFERENCES", 20)
    monkeypatch.setattr(neighbours, "_KEPT_DOTS", 100)
    parts = some_parts(rng)
    model = IDKGroupDetector(10, random_state=0)
    model.backend = backend
    model.fit(parts)
    assert len(model.level2_.references) == 20
    assert_array_equal(model.score_samples(parts), model.scores_)
    assert [model.score_samples([part])[0] for part in parts[:10]] == model.scores_[:10].tolist()


def test_one_point_a_million_points_and_sizes_never_seen_have_finite_scores(maps, rng):
    model, scores = fit_neighbours(maps, T, Compute())
    assert maps.sizes.max() <= 80
    million = np.stack([rng.multinomial(1_000_000, np.full(5, 0.2)) for _ in range(T)]).ravel()
    strange = np.concatenate([np.concatenate([[size], np.zeros(4, dtype=int)] * T) for size in (1, 81, 1_000_000)])
    strange_maps = MeanMaps(csr_array(np.vstack([million, strange.reshape(3, -1)])), np.array([10**6, 1, 81, 10**6]))
    strange_scores = model.scores(strange_maps, Compute())
    assert np.isfinite(strange_scores).all() and (strange_scores > 0).all()
    # All points in one cell: the more of them, the odder; beyond the largest of fit size counts no more.
    assert strange_scores[1] > strange_scores[2] and strange_scores[2] == pytest.approx(strange_scores[3], rel=0.05)
    assert strange_scores[2] < scores.min()


def test_a_detector_takes_one_point_and_very_many(rng):
    model = IDKGroupDetector(3, random_state=0).fit([rng.normal(size=(size, 1)) for size in rng.integers(4, 30, 80)])
    new = [np.zeros((1, 1)), np.full((1, 1), 1e9), rng.normal(size=(1_000_000, 1)), rng.normal(9, 1, (100_000, 1))]
    scores, p_values = model.score_samples(new), model.p_values(new)
    assert np.isfinite(scores).all() and (scores > 0).all() and ((p_values > 0) & (p_values <= 1)).all()
    assert scores[3] < scores[:3].min()


def test_groups_of_one_size_are_ranked_by_their_distances(rng):
    parts = [rng.normal(rng.normal(0, 0.4, 2), 1, (25, 2)) for _ in range(70)]
    model = IDKGroupDetector(20, random_state=0).fit(parts)
    ids = np.repeat(np.arange(70), 25)
    maps = model.model_.views.mean_maps(Groups(ArrayRows(np.vstack(parts)), ids, np.arange(70)), Compute())
    level2 = model.level2_
    near, *far = level2.distances(maps, Compute()).T
    assert all(line.slope == 0 for line in level2.lines)
    nearest = np.argsort(level2.lines[0].normalise(near, maps.sizes), kind="stable")
    is_overruled = level2.oddness(np.column_stack([near, *far]), maps.sizes) > level2.lines[0].normalise(
        near, maps.sizes
    )
    order = [group for group in nearest if not is_overruled[group]]
    assert len(order) > 60 and (np.diff(near[order]) >= 0).all()
    assert 0.8 < np.median(model.scores_) <= 1.02  # the least of three scores that have a median of 1 or more


@pytest.mark.parametrize("n_odd", [11, 30, 60])
def test_odd_groups_that_are_alike_do_not_hide_each_other(rng, n_odd):
    parts = [rng.normal(size=(rng.integers(20, 80), 2)) for _ in range(300 - n_odd)]
    alike = [rng.normal([2.5, 0], 1, (rng.integers(20, 80), 2)) for _ in range(n_odd)]
    scores = IDKGroupDetector(random_state=0).fit([*parts, *alike]).scores_
    assert roc_auc_score(np.arange(300) < len(parts), scores) > 0.98


@pytest.mark.parametrize("kind", ["long", "short"])
def test_odd_groups_are_found_where_all_of_them_have_a_size_of_their_own(rng, kind):
    sizes_numbers = np.arange(4) if kind == "short" else np.repeat(np.arange(4), 10)
    flow = np.repeat(np.arange(8), 2)
    normal = [rng.permutation(np.concatenate([flow, rng.choice(flow, rng.integers(3))])) for _ in range(190)]
    odd = [np.concatenate([sizes_numbers, rng.integers(8, 11, 2)]) for _ in range(10)]
    scores = IDKGroupDetector(random_state=0).fit([np.eye(12)[one] for one in [*normal, *odd]]).scores_
    assert scores[190:].max() < np.quantile(scores[:190], 0.1)


def block(rng):
    """A session of a few kinds, so that most have many twins; one in twenty has an event of its own."""
    optional = ((0.5, [4] * 3), (0.6, [5] * 3 + [6] * 3), (0.05, [7]))
    return [*np.repeat(range(4), [1, 3, 3, 3]), *(event for p, more in optional if rng.random() < p for event in more)]


@pytest.mark.parametrize(("share", "least"), [(0.01, 0.99), (0.1, 0.95), (0.2, 0.9)])
def test_sessions_that_break_off_are_found_among_twins_with_rare_events(share, least):
    aucs = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        is_odd = np.arange(400) < 400 * share
        sessions = [block(rng) for _ in is_odd]
        sessions = [own[: rng.integers(2, 7)] if odd else own for own, odd in zip(sessions, is_odd, strict=True)]
        model = IDKGroupDetector(random_state=seed).fit([np.eye(8)[own] for own in sessions])
        aucs.append(roc_auc_score(~is_odd, model.scores_))
    assert np.mean(aucs) > least


def test_where_most_groups_are_equal_the_others_are_not_infinitely_odd(rng):
    same = np.eye(4)[[0, 1, 2]]
    others = [np.eye(4)[rng.integers(0, 4, 3)] for _ in range(30)]
    scores = IDKGroupDetector(random_state=0).fit([*([same] * 170), *others]).scores_
    assert np.isfinite(scores).all() and scores.min() > 0.005 and np.median(scores) == pytest.approx(1)


def test_scores_are_graded_and_hardly_depend_on_the_seed(rng):
    parts = [rng.normal(size=(30, 2)) for _ in range(100)]
    odd = [part + shift for part, shift in zip(parts, (1, 2, 4), strict=False)]
    first, second = (IDKGroupDetector(random_state=seed).fit([*parts, *odd]) for seed in (0, 1))
    assert (np.diff(first.scores_[-3:]) < 0).all() and first.scores_[-3:].max() < first.scores_[:-3].min()
    # Normal groups of one distribution, which differ by chance alone.
    assert spearmanr(first.scores_, second.scores_)[0] > 0.85


def test_a_score_is_one_for_what_is_usual_and_loses_no_digits():
    u = np.array([0.0, 1.0, -1.0, 1e8, -1e8, 1e150, -1e150, 1e-12])
    expected = [1, math.sqrt(2) - 1, math.sqrt(2) + 1, 5e-9, 2e8, 5e-151, 2e150, 1 - 1e-12]
    assert_allclose(bounded(u), expected, rtol=1e-12)
    assert (np.diff(bounded(np.linspace(-50, 50, 1001))) < 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_both_odd_days_of_a_sensor_are_among_the_three_lowest(seed):
    X, days, y = make_sensor_days(random_state=seed)
    scores = IDKGroupDetector(random_state=seed).fit(X, groups=days).scores_
    assert set(np.flatnonzero(y)) <= set(np.argsort(scores)[:3])
