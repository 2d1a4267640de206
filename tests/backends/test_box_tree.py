"""The box tree: equal rows are one query."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag.backends import numba as fast
from isobag.backends import numpy as slow
from isobag.backends.arrays import Balls
from isobag.backends.numba.compiled import box_tree
from isobag.partitionings.base import distinct_points

pytestmark = pytest.mark.usefixtures("no_pairs")

LEVELS = (2, 5, 12)


@pytest.fixture
def always(monkeypatch, no_pairs):
    monkeypatch.setattr(box_tree, "_GROUPED_ROWS", 1)


def balls_of(X, rng):
    points, _ = distinct_points(X)
    slots = rng.integers(0, len(points), (3, LEVELS[-1])).astype(np.int32)
    return Balls(points, slots, LEVELS, slow.sq_radii(points, slots, LEVELS))


def assert_all_verbs_agree(Q, balls, like=None):
    limits = np.array([-1, 900 << 12, 1000 << 12])
    tables = np.random.default_rng(1).integers(0, 99, balls.sq_radii.shape)
    prepared = fast.prepare(Q, None if like is None else fast.prepare(like))
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
    tree = box_tree.build_boxes(rng.permutation(X))
    assert tree.n_queries == 71
    assert_all_verbs_agree(X, balls_of(X, rng))


def test_rows_that_only_another_scale_makes_equal_stay_apart(rng, always):
    X = rng.normal(size=(400, 3))
    coarse = np.round(X)
    assert fast.prepare(coarse).boxes(1).n_queries < 300
    assert_all_verbs_agree(X, balls_of(X, rng), like=coarse)


def test_one_order_serves_a_scale_on_which_more_rows_are_equal(rng, always):
    X = np.repeat(rng.normal(size=(200, 3)), 2, axis=0)
    tree = fast.prepare(X).boxes(1)
    assert box_tree.rebuild_boxes(np.round(X), tree).order is tree.order
    assert_all_verbs_agree(np.round(X), balls_of(X, rng), like=X)


def test_large_tables_are_grouped_and_small_ones_are_not(rng):
    rows = rng.normal(size=(40, 2))
    assert box_tree.build_boxes(np.tile(rows, (1000, 1))).n_queries == 40
    assert box_tree.build_boxes(np.tile(rows, (3, 1))).n_queries == 120
