"""Rows that no ball covers: ranked by how far out they are, explained to the last part, alike on every backend."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag import IDKPointDetector
from isobag.estimators.base import Computing


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_is_not_hidden_by_a_million_in_another_row(seed):
    X = np.random.default_rng(seed).normal(size=(5000, 5))
    X[10, 2], X[20, 4] = 1000, 1_000_000
    model = IDKPointDetector(20, random_state=seed).fit(X)
    assert_array_equal(np.argsort(model.score_samples(X))[:2], [20, 10])
    assert_array_equal(model.explain(X[[10, 20]]).argmax(axis=1), [2, 4])


def test_rows_outside_everywhere_are_ranked_by_distance(rng):
    X = rng.normal(size=(400, 3))
    model = IDKPointDetector(20, random_state=0).fit(X)
    away = rng.permutation(np.geomspace(1e3, 1e14, 200))
    Q = np.zeros((200, 3))
    Q[:, 1] = away
    assert (model.score_path(Q) == 0).all()
    assert_array_equal(np.argsort(model.score_samples(Q)), np.argsort(-away))


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 13])
@pytest.mark.parametrize("kind", KINDS)
def test_backends_and_threads_agree_on_all_that_the_default_says(monkeypatch, rng, kind, d):
    X = KINDS[kind](rng, 120, d).astype(float)
    Q = np.vstack([queries(rng, X), X[:9] * 1e6, X[:9] + 1e-9]).astype(float)

    def answers(backend, n_jobs):
        monkeypatch.setattr(Computing, "backend", backend)
        model = IDKPointDetector(7, random_state=0, n_jobs=n_jobs).fit(X)
        learned = model.model_
        answers = [model.score_samples(Q), model.p_values(Q), model.explain(Q), model.offset_, *learned.limits]
        return [*answers, learned.average.weights, learned.average.floors, learned.average.far_weight]

    first = answers("numpy", 1)
    assert np.all((first[0] > 0) & (first[0] <= 1))
    for how in (("numpy", 2), ("numba", 1), ("numba", 2)):
        for ours, theirs in zip(first, answers(*how), strict=True):
            assert_array_equal(ours, theirs)


@pytest.mark.parametrize("scaling", ["auto", "absolute", "normal", None])
def test_an_explanation_of_far_rows_adds_up_too(X, scaling):
    model = IDKPointDetector(30, scaling=scaling, random_state=0).fit(X)
    Q = np.vstack([X, [[1e3, 0], [0, -1e6], [1e9, 1e9], [1e100, 5]]])
    typical = math.exp(np.log(model.score_samples(model.model_.reference)).mean())
    contributions = model.explain(Q)
    assert_allclose(contributions.sum(axis=1), np.log(typical / model.score_samples(Q)), atol=1e-9, rtol=1e-9)
    assert_array_equal(contributions[[60, 61, 63]].argmax(axis=1), [0, 1, 0])


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1.0, 1e100])
@pytest.mark.parametrize("scaling", ["auto", "minmax", None])
def test_a_score_is_above_0_however_far_out_the_row(rng, scaling, scale):
    model = IDKPointDetector(10, scaling=scaling, random_state=0).fit(scale * rng.normal(size=(300, 2)))
    scores = model.score_samples([[1e150, 1e150], [-1e149, 0.0], [0.0, 0.0]])
    assert np.all((scores > 0) & (scores <= 1)) and scores[2] > 1e3 * scores[1]


def test_how_far_out_counts_only_where_psi_is_averaged(X):
    model = IDKPointDetector(9, 8, random_state=0).fit(X)
    assert model.model_.limits is None and model.average_ is None
    far, farther = model.score_samples([[1e6, 0.0], [1e9, 0.0]])
    assert far == farther == 0
    model = IDKPointDetector(9, random_state=0).fit(X)
    assert len({own.shape for own in model.model_.limits}) == 1 and len(model.model_.limits) == 3
    assert model.average_.weights.sum() + model.average_.far_weight == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize(("n_features", "constant"), [(1, 0.0), (9, 0.19), (30, -7.0)])
def test_a_value_never_seen_in_a_constant_column_is_the_oddest_and_flagged(rng, n_features, constant, max_samples):
    X = np.column_stack([rng.normal(size=(1000, n_features)), np.full(1000, constant)])
    model = IDKPointDetector(max_samples=max_samples, random_state=0).fit(X)
    batch = np.column_stack([rng.normal(size=(10_000, n_features)), np.full(10_000, constant)])
    for n_new in (1, 4):
        batch[:n_new, -1] = constant + 1
        for size in (100, 10_000):
            new = batch[:size]
            scores, p_values = model.score_samples(new), model.p_values(new)
            assert scores[:n_new].max() <= scores[n_new:].min() and p_values[:n_new].max() <= p_values[n_new:].min()
            if max_samples == "auto":
                assert scores[:n_new].max() < scores[n_new:].min() / 1e3
                assert (model.predict(new, fdr=0.1)[:n_new] == -1).all() and (model.predict(new)[:n_new] == -1).all()
    assert (model.explain(batch[:4]).argmax(axis=1) == n_features).all()


def test_a_column_with_one_other_value_is_not_constant(rng):
    X = np.column_stack([rng.normal(size=(1000, 3)), np.zeros(1000)])
    X[17, 3] = 1
    model = IDKPointDetector(random_state=0).fit(X)
    new = np.column_stack([rng.normal(size=(2000, 3)), np.zeros(2000)])
    assert np.mean(model.p_values(new) <= 0.1) == pytest.approx(0.1, abs=0.05)
    new[0, 3] = 1
    assert model.score_samples(new)[0] > 1e-6


@pytest.mark.parametrize("max_samples", ["auto", 8, 64])
def test_p_values_fall_as_scores_fall(rng, max_samples):
    model = IDKPointDetector(max_samples=max_samples, random_state=0).fit(rng.normal(size=(800, 3)))
    new = rng.normal(size=(500, 3)) * np.geomspace(0.5, 1e4, 500)[:, None]
    scores, p_values = model.score_samples(new), model.p_values(new)
    order = np.lexsort((p_values, scores))
    assert (np.diff(p_values[order]) >= 0).all()
    assert len(np.unique(p_values[scores == 0])) <= 1
