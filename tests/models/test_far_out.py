"""Rows that no ball covers: ranked by how far out they are, explained to the last part, alike on every backend."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag import IDKPointDetector
from isobag.backends import HOST_BACKENDS
from isobag.partitionings import MECHANISMS


@pytest.mark.slow
@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_is_not_hidden_by_a_million_in_another_row(seed, backend):
    X = np.random.default_rng(seed).normal(size=(5000, 5))
    X[10, 2], X[20, 4] = 1000, 1_000_000
    model = IDKPointDetector(20, calibrate=False, random_state=seed, backend=backend).fit(X)
    assert_array_equal(np.argsort(model.score_samples(X))[:2], [20, 10])
    assert_array_equal(model.explain(X[[10, 20]]).argmax(axis=1), [2, 4])


def test_rows_outside_everywhere_are_ranked_by_distance(rng):
    X = rng.normal(size=(400, 3))
    model = IDKPointDetector(20, calibrate=False, random_state=0).fit(X)
    away = rng.permutation(np.geomspace(1e3, 1e140, 200))
    Q = np.zeros((200, 3))
    Q[:, 1] = away
    assert (model.score_path(Q) == 0).all()
    assert_array_equal(np.argsort(model.score_samples(Q)), np.argsort(-away))


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 13])
@pytest.mark.parametrize("kind", KINDS)
def test_backends_and_threads_agree_on_all_that_the_default_says(rng, kind, d):
    X = KINDS[kind](rng, 120, d).astype(float)
    Q = np.vstack([queries(rng, X), X[:9] * 1e6, X[:9] + 1e-9]).astype(float)

    def answers(backend, n_jobs):
        model = IDKPointDetector(7, random_state=0, backend=backend, n_jobs=n_jobs).fit(X)
        learned = model.model_
        found = [model.score_samples(Q), model.p_values(Q), model.explain(Q), model.offset_, *learned.limits]
        return [*found, learned.average.weights, learned.average.floors, learned.average.far_weight]

    first = answers("numpy", 1)
    assert np.all((first[0] > 0) & (first[0] <= 1))
    for how in (("numpy", 2), ("numba", 1), ("numba", 2)):
        for ours, theirs in zip(first, answers(*how), strict=True):
            assert_array_equal(ours, theirs)


@pytest.mark.parametrize("scaling", ["auto", "absolute", "normal", None])
def test_an_explanation_of_far_rows_adds_up_too(X, scaling):
    model = IDKPointDetector(30, scaling=scaling, random_state=0).fit(X)
    Q = np.vstack([X, [[1e3, 0], [0, -1e6], [1e9, 1e9], [1e100, 5]]])
    typical = math.exp(np.log(model.score_samples(X)).mean())
    found = model.explain(Q)
    assert_allclose(found.sum(axis=1), np.log(typical / model.score_samples(Q)), atol=1e-9, rtol=1e-9)
    assert_array_equal(found[[60, 61, 63]].argmax(axis=1), [0, 1, 0])


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1.0, 1e100])
@pytest.mark.parametrize("scaling", ["auto", "minmax", None])
def test_a_score_is_above_0_however_far_out_the_row(rng, scaling, scale):
    model = IDKPointDetector(10, scaling=scaling, calibrate=False, random_state=0).fit(
        scale * rng.normal(size=(300, 2))
    )
    scores = model.score_samples([[1e150, 1e150], [-1e149, 0.0], [0.0, 0.0]])
    assert np.all((scores > 0) & (scores <= 1)) and scores[2] > 1e3 * scores[1]


def test_how_far_out_counts_only_where_balls_end_and_psi_is_averaged(X):
    for how in (
        *({"mechanism": mechanism} for mechanism in MECHANISMS if mechanism != "hypersphere"),
        {"method": "norm"},
        {"max_samples": 8},
    ):
        model = IDKPointDetector(9, random_state=0, **how).fit(X)
        assert model.model_.limits is None
        assert model.average_ is None or model.average_.far_weight == 0
        far, farther = model.score_samples([[1e6, 0.0], [1e9, 0.0]])
        assert far == farther
    model = IDKPointDetector(9, random_state=0).fit(X)
    assert [own.shape for own in model.model_.limits] == [(5,)] * 3
    assert model.average_.weights.sum() + model.average_.far_weight == pytest.approx(1, rel=1e-12)
