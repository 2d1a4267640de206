"""A stream: counts are those of a recount of the window, whatever the batches, the threads or the backend."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from isobag.backends import Compute
from isobag.data.rows import ArrayRows
from isobag.models.stream import Stream

WINDOW = 150
DEFINITION, FAST = Compute("numpy"), Compute("numba")


def stream_of(d=3, window=WINDOW, max_samples="auto", n_estimators=7, seed=3):
    none = np.empty((0, d))
    return Stream(window, n_estimators, max_samples, "auto", seed, none, none)


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


def followed(X, sizes, compute, **how):
    stream, parts, start = stream_of(X.shape[1], **how), [], 0
    for size in sizes:
        parts.append(stream.follow(X[start : start + size], compute))
        start += size
    assert start == len(X)
    return stream, np.concatenate([p.scores for p in parts]), np.concatenate([p.p_values for p in parts])


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("kind", ["smooth", "equal", "drifting", "constant", "gross", "close"])
def test_counts_are_those_of_a_recount_of_the_window_at_any_moment(kind, max_samples):
    X, stream = rows_of(kind), stream_of(max_samples=max_samples)
    for a, b in pairwise([*range(0, 60, 3), *range(60, 500, 47), 500]):
        stream.follow(X[a:b], FAST)
        recount = stream.model.views.tally(stream.window_rows, DEFINITION)
        assert recount.n_rows == stream.model.n_rows == min(stream.n_learned, WINDOW)
        for table, expected in zip(stream.model.tables, recount.tables, strict=True):
            assert np.array_equal(table, expected)
        assert np.array_equal(stream.window_rows, X[max(0, stream.n_learned - WINDOW) : stream.n_learned])
        stream.validate()


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("kind", ["smooth", "equal"])
def test_neither_batches_nor_threads_nor_backends_nor_copies_change_a_bit(kind, max_samples):
    X = rows_of(kind)
    whole, scores, p_values = followed(X, [500], FAST, max_samples=max_samples)
    for sizes, compute in (
        ([1] * 500, FAST),
        ([2, 98, 1, 299, 100], Compute("numba", 3)),
        ([30, 30], DEFINITION),  # which takes its time
    ):
        n = sum(sizes)
        _, same_scores, same_p_values = followed(X[:n], sizes, compute, max_samples=max_samples)
        assert np.array_equal(same_scores, scores[:n], equal_nan=True)
        assert np.array_equal(same_p_values, p_values[:n])
    stream = stream_of(max_samples=max_samples)
    for part in np.split(X, range(0, 500, 71)):
        stream = pickle.loads(pickle.dumps(stream))
        stream.learn(part, FAST)
    assert np.array_equal(stream.score(X, FAST), whole.score(X, FAST))
    assert np.array_equal(stream.scores, whole.scores)


def test_a_model_stays_as_it_is_when_the_window_moves():
    X = rows_of("smooth")
    stream, _, _ = followed(X[:300], [300], FAST)
    model = stream.model
    before = model.scores(ArrayRows(X), FAST)
    assert np.array_equal(before, stream.score(X, FAST))
    stream.follow(X[300:], FAST)
    assert np.array_equal(model.scores(ArrayRows(X), FAST), before)
    assert not np.array_equal(stream.score(X, FAST), before)


def test_pools_are_rows_of_the_window_and_new_ones_come_with_every_quarter_of_it():
    X, stream = rows_of("drifting"), stream_of()
    drawn, stops = None, [2]
    for k in range(500):
        stream.learn(X[k : k + 1], FAST)
        if stream.model and drawn is not stream.model.views:
            rows = X[max(0, stops[-1] - WINDOW) : stops[-1]]  # those of the window when the pools were drawn
            for view in stream.model.views.members:
                assert {*map(bytes, view.balls.pool)} <= {*map(bytes, view.scaling.apply(rows, FAST))}
            drawn = stream.model.views
        if stream.n_renewed > stops[-1]:
            stops.append(stream.n_renewed)
    assert stops[:4] == [2, 3, 4, 5]
    block = WINDOW // 20
    assert all(max(1, min(a, WINDOW) // 4) <= b - a < max(1, min(a, WINDOW) // 4) + block for a, b in pairwise(stops))


def test_blocks_are_a_twentieth_of_the_rows_and_of_the_window_at_most():
    stream, stops = stream_of(1, window=400), [0]
    while stops[-1] < 1000:
        stream.learn(np.array([[float(stream.n_seen % 7)]]), FAST)
        if stream.n_learned > stops[-1]:
            stops.append(stream.n_learned)
    assert stops[:4] == [0, 2, 3, 4]
    assert all(1 <= b - a <= max(1, a // 20) for a, b in pairwise(stops[1:]))
    assert stops[-1] - stops[-2] == 20


def test_the_next_model_is_ready_before_the_block_is_complete():
    X, stream = rows_of("smooth", 2000), stream_of(window=1000)
    stream.learn(X[:1400], FAST)
    n_ready = 0
    for k in range(1400, 2000):
        is_last = stream.n_seen + 1 == stream.next_stop
        if is_last and stream.n_renewed == stream.n_learned:
            assert stream._next is not None
            n_ready += 1
        stream.learn(X[k : k + 1], FAST)
    assert n_ready >= 2


def test_a_row_is_scored_before_it_is_learned():
    X = rows_of("smooth")
    stream, _, _ = followed(X[:200], [200], FAST)
    expected = stream.score(X[200:201], FAST)
    assert stream.follow(X[200:201], FAST).scores == expected
    assert stream.p_values(stream.score(np.full((1, 3), 50.0), FAST)) < 0.01


def test_p_values_of_a_stationary_stream_are_uniform():
    X = np.random.default_rng(5).normal(size=(4000, 3))
    p_values = stream_of(window=500, n_estimators=100).follow(X, FAST).p_values[1000:]
    for alpha in (0.02, 0.1, 0.5):
        assert (p_values <= alpha).mean() == pytest.approx(alpha, abs=4 * np.sqrt(alpha * (1 - alpha) / 3000))


def test_p_values_fall_as_scores_fall():
    X = rows_of("smooth", 1000)
    for max_samples in ("auto", 16, 64):
        stream, _, _ = followed(X, [1000], FAST, max_samples=max_samples, window=500)
        far = np.outer([0, 1, 2, 4, 8, 16, 50, 1e3, 1e9, 1e100], [1.0, -1, 1])
        scores = np.sort(np.concatenate([stream.score(X, FAST), stream.score(far, FAST)]))
        assert np.all(np.diff(stream.p_values(scores)) >= 0)
        assert np.all(np.diff(stream.score(far, FAST)[3:]) < 0)


@pytest.mark.parametrize("max_samples", ["auto", 16])
def test_a_value_never_seen_before_is_as_odd_as_can_be(max_samples):
    X = np.column_stack([np.random.default_rng(0).normal(size=(1000, 9)), np.zeros(1000)])
    stream, _, p_values = followed(X, [1000], FAST, max_samples=max_samples, window=500, n_estimators=50)
    new = X[:1].copy()
    new[0, 9] = 1
    assert stream.p_values(stream.score(new, FAST)) < min(1e-6, p_values.min())
