"""Blocks of neighbours: equal rows of large tables are searched once."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag.backends import numba as fast
from isobag.backends import numpy as slow
from isobag.backends.arrays import Balls
from isobag.backends.numba import choose, float32_blocks, many
from isobag.partitionings.base import distinct_points

pytestmark = pytest.mark.usefixtures("no_pairs")

LEVELS = (2, 5, 12)


@pytest.fixture
def always(monkeypatch, no_pairs):
    monkeypatch.setattr(float32_blocks, "_GROUPED_ROWS", 1)


def balls_of(X, rng):
    points, _ = distinct_points(X)
    slots = rng.integers(0, len(points), (3, LEVELS[-1])).astype(np.int32)
    return Balls(points, slots, LEVELS, slow.sq_radii(points, slots, LEVELS))


def assert_all_verbs_agree(Q, balls):
    limits = np.array([-1, 900 << 12, 1000 << 12])
    tables = np.random.default_rng(1).integers(0, 99, balls.sq_radii.shape)
    prepared = fast.prepare(Q)
    for rule in ("nearest", "covering", "smallest"):
        assert_array_equal(fast.assign_cells(prepared, balls, rule, 2), slow.assign_cells(Q, balls, rule))
    assert_array_equal(fast.count_cells(prepared, balls, 2), slow.count_cells(Q, balls))
    assert_array_equal(
        fast.sum_at_cells(prepared, balls, tables, limits=limits, n_jobs=2),
        slow.sum_at_cells(Q, balls, tables, limits=limits),
    )
    for found, expected in zip(
        fast.count_and_sum(prepared, balls, limits=limits, n_jobs=2),
        slow.count_and_sum(Q, balls, limits=limits),
        strict=True,
    ):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_repeat_have_the_cells_of_the_definition(rng, always, kind, d):
    X = KINDS[kind](rng, 200, d).astype(np.float64)
    Q = queries(rng, X).astype(np.float64)
    assert_all_verbs_agree(Q[rng.integers(0, len(Q), 900)], balls_of(X, rng))


def test_equal_rows_are_one_query_and_zero_has_two_signs(rng, always):
    X = np.repeat(rng.normal(size=(70, 3)), 5, axis=0)
    X[:5] = 0.0
    X[3] = -0.0
    assert len(float32_blocks._distinct(rng.permutation(X))[0]) == 71
    assert_all_verbs_agree(X, balls_of(X, rng))


@pytest.mark.parametrize("rule", ["nearest", "covering", "smallest"])
@pytest.mark.parametrize("scale", [1e-160, 1e140])
@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_few_features_beyond_float32_have_the_cells_of_the_definition(rng, d, scale, rule):
    X = rng.normal(size=(200, d)) * scale
    balls = balls_of(X, rng)
    assert choose.engine_for(fast.prepare(X), balls, rule) is many
    Q = np.vstack([X, X * 0.5, X[::-1] + X])
    assert_array_equal(fast.assign_cells(fast.prepare(Q), balls, rule, 2), slow.assign_cells(Q, balls, rule))
    assert_all_verbs_agree(Q, balls)


def test_large_tables_are_grouped_and_small_ones_are_not(rng):
    rows = rng.normal(size=(40, 2))
    assert len(float32_blocks._distinct(np.tile(rows, (1000, 1)))[0]) == 40
    assert len(float32_blocks._distinct(np.tile(rows, (3, 1)))[0]) == 120
