"""Distances from bytes: the cells of the definition, whatever the steps, and only where they save work."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from oracle.engines import FAST, PLAIN, assert_as_defined, drawn_from
from oracle.hard_data import KINDS, queries

from isobag import IsolationKernel
from isobag.backends.numba import coarse, products
from isobag.backends.numba.compiled import quads, vectors

pytestmark = pytest.mark.usefixtures("no_pairs")


def sparse(rng, n, d):
    return rng.gamma(1.0, size=(n, d)) * (rng.random((n, d)) < 0.2)


def rare_and_large(rng, n, d):
    X = sparse(rng, n, d)
    X[:, ::9] = (rng.random(X[:, ::9].shape) < 0.01) * rng.normal(1000, 10, X[:, ::9].shape)
    return X


def one_feature_a_million_times_larger(rng, n, d):
    X = rng.normal(size=(n, d))
    X[:, 5] *= 1e6
    return X


def steps_of_all_sizes(rng, n, d):
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-15, 3, d)


def equal_rows(rng, n, d):
    return np.repeat(rng.normal(size=(n // 10, d)), 10, axis=0)


def half_constant(rng, n, d):
    X = rng.normal(size=(n, d))
    X[:, ::2] = rng.normal(size=(1, X[:, ::2].shape[1]))
    return X


KINDS = KINDS | {
    "sparse": sparse,
    "rare and large": rare_and_large,
    "one feature a million times larger": one_feature_a_million_times_larger,
    "steps of all sizes": steps_of_all_sizes,
    "equal rows": equal_rows,
    "half of the features constant": half_constant,
    "three features vary": lambda rng, n, d: np.where(np.arange(d) % 40 == 7, rng.normal(size=(n, d)), 3.0),
    "tiny": lambda rng, n, d: rng.normal(size=(n, d)) * 1e-11,
    "huge": lambda rng, n, d: rng.normal(size=(n, d)) * 1e10,
    "denormal differences": lambda rng, n, d: rng.integers(0, 3, (n, d)) * 5e-324 + (rng.random((n, d)) < 0.1),
    "constant rows": lambda rng, n, d: np.repeat(rng.integers(0, 5, (n, 1)), d, axis=1).astype(float),
}


@pytest.fixture
def always(monkeypatch):
    """Bytes wherever there are steps, however little they help; whether there were."""
    used = []

    def find(balls, X, limits):
        steps = coarse._finest_steps(balls.points)
        used.append(steps is not None)
        return steps

    monkeypatch.setattr(products, "find_steps", find)
    monkeypatch.setattr(products, "find_axes", lambda *_: None)
    return used


@pytest.mark.parametrize("mechanism", ["hypersphere", "voronoi"])
@pytest.mark.parametrize("d", [97, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_counts_and_octaves_from_bytes_are_those_of_the_definition(rng, always, kind, d, mechanism):
    X = np.asarray(KINDS[kind](rng, 150, d), dtype=float)
    Q = np.vstack([queries(rng, X), X[:20] * 1e6, X[:20] + 1e-9, X[:9] * 1e30, X[:9] * 1e-30]).astype(float)
    assert_as_defined(drawn_from(X, mechanism=mechanism), Q)
    assert always
    assert all(always) or np.ptp(X) > 1e12 or np.ptp(X) < 1e-12


def test_equal_distances_go_to_the_first_center(rng, always):
    X = rng.integers(0, 2, (200, 120)).astype(float)
    Q = np.vstack([X, (X + X[::-1]) / 2, np.full((1, 120), 0.5)])  # the last is equally far from all
    drawn = drawn_from(X)
    cells = drawn.assign(drawn.prepare(Q, FAST), FAST)
    assert_array_equal(cells, drawn.assign(drawn.prepare(Q, PLAIN), PLAIN))
    assert_array_equal(drawn.nearest_anchors(drawn.prepare(Q[-1:], FAST), FAST), 0)
    assert always == [True, True]


@pytest.mark.parametrize("n", [1, 31, 32, 33, 513])
def test_blocks_of_any_size_have_the_same_cells(rng, always, n):
    X = sparse(rng, 600, 100)
    drawn = drawn_from(X)
    assert_array_equal(drawn.assign(drawn.prepare(X[:n], FAST), FAST), drawn.assign(drawn.prepare(X[:n], PLAIN), PLAIN))
    assert always == [True]


def test_questions_are_answered_in_parts_where_there_is_no_room_for_all(rng, always, monkeypatch):
    monkeypatch.setattr(coarse, "_PAIRS", 0)
    X = rng.integers(0, 3, (400, 110)).astype(float)  # so many ties that most centers have to be measured
    drawn = drawn_from(X, t=9)
    expected = drawn.count_and_sum(drawn.prepare(X, PLAIN), PLAIN, limits=drawn.far_limits())
    found = drawn.count_and_sum(drawn.prepare(X, FAST), FAST, limits=drawn.far_limits())
    for own, other in zip(found, expected, strict=True):
        assert_array_equal(own, other)


def test_queries_far_beyond_the_range_of_the_centers_have_the_same_cells(rng, always):
    X = sparse(rng, 300, 120)
    Q = np.vstack([X * 10.0**k for k in range(-4, 9)] + [X[:30] + 10.0**k for k in range(-9, 9, 3)])
    drawn = drawn_from(X)
    for verb in ("assign", "count"):
        own, other = (getattr(drawn, verb)(drawn.prepare(Q, compute), compute) for compute in (FAST, PLAIN))
        assert_array_equal(own, other)
    far, expected = (
        drawn.sum_at(
            drawn.prepare(Q, compute), np.ones((4, 3, 100), dtype=np.int64), compute, limits=drawn.far_limits()
        )
        for compute in (FAST, PLAIN)
    )
    assert_array_equal(far, expected)


@pytest.mark.parametrize("kind", ["normal", "sparse", "rare and large", "steps of all sizes", "a few rows far out"])
def test_rounding_moves_rows_by_no_more_than_it_says(rng, kind):
    X = np.asarray(KINDS[kind](rng, 200, 130), dtype=float)
    steps = coarse._finest_steps(X)
    Q = np.vstack([X, X * 3, X * 1e-3])
    x, c = steps.round(Q, 128), steps.round(X, 0)

    def decoded(rounded, bias):
        levels = rounded.words.view(np.uint8).astype(int) - bias
        levels = np.where(levels > 127, levels - 256, levels)
        assert np.abs(levels).max() <= 127
        return levels[:, steps.columns] * steps.steps

    z_x, z_c = decoded(x, 128), decoded(c, 0)
    assert_allclose((z_x**2).sum(axis=1), x.sq_norms)
    between = np.sqrt(((z_x[:, None] - z_c) ** 2).sum(axis=2))
    dists = np.sqrt(((Q[:, None].astype(np.longdouble) - X) ** 2).sum(axis=2)) / steps.unit
    assert (between - x.errors[:, None] - c.errors <= dists).all()
    assert (dists <= between + (x.errors + x.excesses)[:, None] + c.errors + c.excesses).all()


@pytest.mark.parametrize("has_quads", [False, True])
@pytest.mark.parametrize("kind", ["normal", "rare and large"])
def test_bounds_are_below_distances_and_close_on_every_processor(rng, monkeypatch, kind, has_quads):
    if has_quads and not vectors.HAS_QUADS:
        pytest.skip("this processor does not multiply bytes")
    monkeypatch.setattr(vectors, "HAS_QUADS", has_quads)

    @njit
    def measure(lanes, tiles, starts, names, words, sums, weights, sq_norms, terms, bounds):
        quads.measure_coarsely(
            lanes, 0, lanes.shape[1], tiles, starts, names, words, sums, weights, sq_norms, terms, bounds
        )

    X = np.asarray(KINDS[kind](rng, 100, 130), dtype=float)
    steps = coarse._finest_steps(X)
    c, x = steps.round(X, 0), steps.round(X[: quads.LANES], 128)
    tiles, starts, names, words, sums, weights, terms = coarse._pack(c, steps)
    bounds = np.empty((len(X) + 1, quads.LANES), dtype=np.float32)
    lanes = np.ascontiguousarray(x.words.T[None])
    sq_norms = (x.sq_norms * (1 - steps.share)).astype(np.float32)[None]
    measure(lanes, tiles, starts, names, words, sums, weights, sq_norms, terms, bounds)
    dists = np.sqrt(((X[:, None] - X[: quads.LANES]) ** 2).sum(axis=2)) / steps.unit
    assert (bounds[:-1] - x.errors <= dists).all()
    lengths = np.sqrt(c.sq_norms)[:, None] + np.sqrt(x.sq_norms)
    assert (bounds[:-1] + 2 * c.errors[:, None] + x.errors + 0.01 * lengths >= dists).all()


def test_bytes_are_used_where_they_save_work_and_not_where_they_do_not(rng, monkeypatch):
    monkeypatch.setattr(coarse, "LEAST_WORK", 0)
    monkeypatch.setattr(vectors, "HAS_QUADS", True)
    X = sparse(rng, 2000, 300)
    drawn = drawn_from(X, (100,), t=20)
    steps = coarse.find_steps(drawn, X)
    assert steps.cost < 150
    assert coarse.find_steps(drawn, X * 100) is None  # beyond the range of the steps, all centers are in doubt
    assert coarse.find_steps(drawn_from(X * 1e13, (100,)), X) is None
    assert coarse.find_steps(drawn_from(np.ones((200, 300)), (100,)), X) is None
    monkeypatch.setattr(vectors, "HAS_QUADS", False)
    assert coarse.find_steps(drawn, X) is None
    monkeypatch.undo()
    assert coarse.find_steps(drawn, X[:100]) is None


def test_a_few_points_far_out_do_not_coarsen_the_steps_of_all(rng):
    X = rng.normal(size=(500, 120))
    fine = coarse._finest_steps(X)
    X[::100] *= 1e6
    steps = coarse._finest_steps(X)
    assert_allclose(steps.steps * steps.unit, fine.steps * fine.unit, rtol=1.01)


@pytest.mark.skipif(not vectors.HAS_QUADS, reason="this processor does not multiply bytes")
def test_sparse_rows_take_bytes_by_themselves(rng, monkeypatch):
    monkeypatch.setattr(coarse, "LEAST_WORK", 0)
    used = []
    find = coarse.Coarse.scan
    monkeypatch.setattr(coarse.Coarse, "scan", lambda self, X, far: used.append(len(X)) or find(self, X, far))
    X = sparse(rng, 2000, 150)
    cells = [
        IsolationKernel(10, 64, backend=backend, random_state=0).fit(X).assign_cells(X)
        for backend in ("numpy", "numba")
    ]
    assert_array_equal(*cells)
    assert sum(used) == 2000
