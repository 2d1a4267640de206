"""A stream: counts are those of a recount of the window, whatever the batches, the threads or the backend."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import ks_2samp

from isobag.backends import Compute
from isobag.data.rows import ArrayRows
from isobag.data.scaling import fit_scaling
from isobag.models.point import FEW_SAMPLES, PointParams
from isobag.models.point_fit import fit_point_model
from isobag.models.stream import Stream, differ, exchange_at, levels_at, next_stop
from isobag.partitionings import draw_seeds

WINDOW = 150
DEFINITION = Compute("numpy")


def params(max_samples="auto", n_estimators=7, seed=3):
    return PointParams(n_estimators, max_samples, "similarity", "auto", "hypersphere", False, seed, FEW_SAMPLES)


def rows_of(kind, n=500):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    gross = X.copy()
    gross[::45], gross[::90] = 1e9 * X[::45], 1e140
    return {
        "smooth": X,
        "equal": np.round(X),
        "drifting": X + np.arange(n)[:, None] / 50,
        "constant": 0 * X,
        "gross": gross,
        "close": 1e9 + X / 1e3,
    }[kind]


def followed(X, sizes, compute, max_samples="auto"):
    stream, parts, start = Stream(params(max_samples), WINDOW, X.shape[1]), [], 0
    for size in sizes:
        parts.append(stream.follow(X[start : start + size], compute))
        start += size
    assert start == len(X)
    return stream, np.concatenate([p.scores for p in parts]), np.concatenate([p.p_values for p in parts])


def assert_counts_are_those_of_a_recount(stream):
    model = stream.model
    recount = model.views.tally(stream.window_rows, DEFINITION)
    assert recount.n_rows == model.largest
    for own, table in zip(recount.tables, model.tables, strict=True):
        assert np.array_equal(own, table)


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("kind", ["smooth", "equal", "drifting", "constant", "gross", "close"])
def test_counts_are_those_of_a_recount_by_the_current_balls_at_any_moment(kind, max_samples):
    X = rows_of(kind)
    stream, compute = Stream(params(max_samples), WINDOW, 3), Compute("numba")
    for a, b in pairwise([*range(0, 60, 3), *range(60, 500, 47), 500]):
        stream.follow(X[a:b], compute)
        if stream.model is not None:
            assert_counts_are_those_of_a_recount(stream)
            assert np.array_equal(stream.window_rows, X[max(0, stream.n_learned - WINDOW) : stream.n_learned])


@pytest.mark.parametrize("max_samples", [pytest.param("auto", marks=pytest.mark.slow), 16])
@pytest.mark.parametrize("kind", ["smooth", "equal"])
def test_neither_batches_nor_threads_nor_backends_change_a_bit(kind, max_samples):
    X = rows_of(kind)
    expected, scores, p_values = followed(X, [500], DEFINITION, max_samples)
    for sizes, compute in (
        ([1] * 500, Compute("numba")),
        ([500], Compute("numba", 2)),
        ([2, 98, 1, 299, 100], Compute("numba", 3)),
    ):
        stream, own_scores, own_p_values = followed(X, sizes, compute, max_samples)
        assert np.array_equal(own_scores, scores, equal_nan=True)
        assert np.array_equal(own_p_values, p_values)
        assert np.array_equal(stream.score(X[:40], compute), expected.score(X[:40], DEFINITION))


def test_scores_are_those_of_the_finished_model():
    X = rows_of("smooth")
    stream, _, _ = followed(X, [500], Compute("numba"))
    far = np.vstack([X[:50], [[9.0, 0, 0], [1e6, 0, 0]]])
    assert np.array_equal(stream.score(far, Compute("numba")), stream.model.scores(ArrayRows(far), DEFINITION))
    assert stream.model.limits is not None


@pytest.mark.parametrize("compute", [DEFINITION, Compute("numba")], ids=["numpy", "numba"])
def test_a_model_stays_as_it_is_when_the_window_moves(compute):
    X = rows_of("smooth")
    stream, _, _ = followed(X[:300], [300], compute, 16)
    model = stream.model
    before = model.scores(ArrayRows(X), DEFINITION)
    stream.follow(X[300:], compute)
    assert np.array_equal(model.scores(ArrayRows(X), DEFINITION), before)
    assert not np.array_equal(stream.model.scores(ArrayRows(X), DEFINITION), before)


def test_centers_are_different_rows_of_the_window_and_leave_with_them():
    X = rows_of("smooth")
    stream, _, _ = followed(X[:300], [300], Compute("numba"))
    (first, *_) = stream.model.views.members
    window = {tuple(row) for row in first.scaling.apply(stream.window_rows, DEFINITION)}
    for centers in first.partitionings.centers:
        assert len({tuple(center) for center in centers}) == len(centers)
        assert {tuple(center) for center in centers} <= window
    assert all(len(set(own)) == len(own) for own in stream.slots)


def test_every_row_of_the_window_is_a_center_equally_often():
    n, psi = 40, 8
    hits = np.zeros((psi, n))
    stream = Stream(params(psi, n_estimators=4000), 60, 1)
    stream.seeds = draw_seeds(4000, 0)
    stream.n_seen = n
    stream._draw_centers()
    for j in range(psi):
        hits[j] = np.bincount(stream.slots[:, j], minlength=n)
    deviations = (hits - 4000 / n) / np.sqrt(4000 / n * (1 - 1 / n))
    assert np.abs(deviations).max() < 4.5
    assert (deviations**2).mean() == pytest.approx(1, abs=0.25)


def test_exchanges_depend_on_seed_and_row_alone():
    seeds = draw_seeds(50, 0)
    assert np.array_equal(exchange_at(seeds, 9)[:20], exchange_at(seeds[:20], 9))
    assert exchange_at(seeds, 9).max() <= 9


def test_psi_is_at_most_half_of_the_rows():
    levels = (2, 4, 8, 16, 20)
    assert [levels_at(n, levels)[-1] for n in (2, 7, 8, 31, 32, 39, 40, 99)] == [2, 2, 4, 8, 16, 16, 20, 20]


def test_blocks_are_a_twentieth_of_the_rows_and_of_the_window_at_most():
    stops = [0]
    while stops[-1] < 1000:
        stops.append(next_stop(stops[-1], 400))
    assert stops[:4] == [0, 2, 3, 4]
    assert all(1 <= b - a <= max(1, a // 20) for a, b in pairwise(stops[1:]))
    assert stops[-1] - stops[-2] == 20


@pytest.mark.parametrize("name", ["absolute", "normal", "asinh"])
def test_scales_differ_where_spreads_do_and_not_by_chance(name):
    X = np.random.default_rng(2).normal(size=(4000, 3))
    old = fit_scaling(X[:2000], name)
    for factor, shift, expected in ((1.0, 0.0, False), (1.3, 0.0, True), (1.0, 3.0, True)):
        rows = X[2000:] * [factor, 1, 1] + [0, shift, 0]
        assert differ(old, fit_scaling(rows, name), rows) == expected
    assert not differ(old, old, X)


def test_a_row_is_scored_before_it_is_learned():
    X = rows_of("smooth")
    stream, _, _ = followed(X[:200], [200], Compute("numba"))
    expected = stream.score(X[200:201], Compute("numba"))
    assert stream.follow(X[200:201], Compute("numba")).scores == expected
    odd = np.full((1, 3), 50.0)
    assert stream.p_values(stream.score(odd, Compute("numba"))) < 0.01


def test_p_values_of_a_stationary_stream_are_uniform():
    X = np.random.default_rng(5).normal(size=(3000, 3))
    stream = Stream(params(n_estimators=30), 500, 3)
    p_values = stream.follow(X, Compute("numba")).p_values[1000:]
    for alpha in (0.02, 0.1, 0.5):
        assert (p_values <= alpha).mean() == pytest.approx(alpha, abs=4 * np.sqrt(alpha * (1 - alpha) / 2000))


@pytest.mark.slow
def test_scores_are_distributed_as_those_of_a_fresh_fit_on_the_window():
    X = rows_of("drifting", 400)
    queries = np.array([[8.0, 8.0, 8.0], [0.0, 0.0, 0.0], [6.0, 7.0, 8.0]])
    streamed, fresh = [], []
    for seed in range(200):
        stream = Stream(params(16, seed=seed), 100, 3)
        stream.follow(X, Compute("numba"))
        streamed.append(stream.score(queries, Compute("numba")))
        other = params(16, seed=1000 + seed)
        model, _ = fit_point_model(ArrayRows(stream.window_rows), other, Compute("numba"))
        fresh.append(model.scores(ArrayRows(queries), Compute("numba")))
    for own, others in zip(np.transpose(streamed), np.transpose(fresh), strict=True):
        assert ks_2samp(own, others).pvalue > 0.01
