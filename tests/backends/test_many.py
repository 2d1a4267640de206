"""The engine for many features: the cells of the definition, whatever numbers rows are rounded to."""

import numpy as np
import pytest
from isobag.backends.numba.compiled.tiles import LANES
from numpy.testing import assert_allclose, assert_array_equal
from oracle.engines import FAST, PLAIN, assert_as_defined, drawn_from
from oracle.hard_data import KINDS, queries

from isobag import IsolationKernel
from isobag.backends import numba as fast
from isobag.backends import numpy as slow
from isobag.backends.numba import many, rounding
from isobag.backends.numba.compiled import certified
from isobag.partitionings.base import distinct_points

pytestmark = pytest.mark.usefixtures("no_pairs")
ROUNDED_TO = {"shorts": rounding.SHORTS, "singles": rounding.SINGLES}


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


def low_rank(rng, n, d, rank=8):
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + 0.01 * rng.normal(size=(n, d))


KINDS = KINDS | {
    "low rank": low_rank,
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


@pytest.fixture(params=ROUNDED_TO)
def rounded_to(monkeypatch, request):
    """Every kind of numbers, however little it helps."""
    kind = ROUNDED_TO[request.param]
    monkeypatch.setattr(many, "cheapest", lambda balls, X: rounding.finest(kind, balls.points))
    return kind


@pytest.mark.parametrize("mechanism", ["hypersphere", pytest.param("voronoi", marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [97, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_counts_and_octaves_are_those_of_the_definition(rng, rounded_to, kind, d, mechanism):
    X = np.asarray(KINDS[kind](rng, 150, d), dtype=float)
    Q = np.vstack([queries(rng, X), X[:20] * 1e6, X[:20] + 1e-9, X[:9] * 1e30, X[:9] * 1e-30]).astype(float)
    assert_as_defined(drawn_from(X, mechanism=mechanism), Q)


@pytest.mark.parametrize("scale", [1e-200, 1e-140, 1e-20, 1e20, 1e130])
def test_scales_beyond_float32_have_the_same_cells(rng, rounded_to, scale):
    X = rng.normal(size=(150, 100)) * scale
    X[::50] *= 1e9
    assert_as_defined(drawn_from(X), np.vstack([X, X * 1e-3, X[:20] * 1e8]))


def test_equal_distances_go_to_the_first_center(rng, rounded_to):
    X = rng.integers(0, 2, (200, 120)).astype(float)
    Q = np.vstack([X, (X + X[::-1]) / 2, np.full((1, 120), 0.5)])  # the last is equally far from all
    drawn = drawn_from(X)
    cells = drawn.assign(drawn.prepare(Q, FAST), FAST)
    assert_array_equal(cells, drawn.assign(drawn.prepare(Q, PLAIN), PLAIN))
    assert_array_equal(drawn.nearest_levels(drawn.prepare(Q[-1:], FAST), FAST)[-1], 0)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 513])
def test_blocks_of_any_size_have_the_same_cells(rng, rounded_to, n):
    X = sparse(rng, 600, 100)
    drawn = drawn_from(X)
    assert_array_equal(drawn.assign(drawn.prepare(X[:n], FAST), FAST), drawn.assign(drawn.prepare(X[:n], PLAIN), PLAIN))


@pytest.mark.parametrize("rule", ["covering", "smallest"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_rules_have_the_cells_of_the_definition(rng, kind, rule):
    X = np.asarray(KINDS[kind](rng, 150, 97), dtype=float)
    Q = np.vstack([queries(rng, X), X[:20] * 1e6, X[:9] * 1e30]).astype(float)
    drawn = drawn_from(X)
    assert_array_equal(fast.assign_cells(fast.prepare(Q), drawn, rule, 2), slow.assign_cells(Q, drawn, rule))


def test_questions_are_answered_in_parts_where_there_is_no_room_for_all(rng, rounded_to, monkeypatch):
    monkeypatch.setattr(many, "_PAIRS", 0)
    X = rng.integers(0, 3, (400, 110)).astype(float)  # so many ties that most centers have to be measured
    drawn = drawn_from(X, t=9)
    expected = drawn.count_and_sum(drawn.prepare(X, PLAIN), PLAIN, limits=drawn.far_limits())
    found = drawn.count_and_sum(drawn.prepare(X, FAST), FAST, limits=drawn.far_limits())
    for own, other in zip(found, expected, strict=True):
        assert_array_equal(own, other)


def test_features_in_which_centers_do_not_differ_count_for_queries_that_do(rng, rounded_to):
    X = half_constant(rng, 300, 120)
    Q = np.repeat(X, 3, axis=0)
    Q[::3, ::2] += rng.normal(size=(300, 60))  # off where all centers agree, near or far
    Q[1::3, 4] += rng.choice([1e-9, 1e-3, 1e9, 1e100], 300)
    drawn = drawn_from(X)
    cells = drawn.assign(drawn.prepare(Q, FAST), FAST)
    assert_array_equal(cells, drawn.assign(drawn.prepare(Q, PLAIN), PLAIN))
    assert (cells[::3] == -1).mean() > (cells[2::3] == -1).mean() + 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_radii_of_many_features_are_those_of_the_definition(rng, kind):
    points, _ = distinct_points(np.asarray(KINDS[kind](rng, 150, 100), dtype=float))
    slots = rng.integers(0, len(points), (3, 40)).astype(np.int32)
    assert_array_equal(fast.sq_radii(points, slots, (2, 7, 40), 2), slow.sq_radii(points, slots, (2, 7, 40)))


def test_queries_far_beyond_the_range_of_the_centers_have_the_same_cells(rng, rounded_to):
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


HARD = [
    "normal",
    "sparse",
    "rare and large",
    "steps of all sizes",
    "a few rows far out",
    "half of the features constant",
]


def numbers_of(words, kind):
    numbers = words.view(kind.dtype).astype(float)
    assert np.abs(numbers).max() <= kind.most
    return numbers


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("numbers", ROUNDED_TO)
def test_rounding_moves_rows_by_no_more_than_it_says(rng, numbers, kind):
    X = np.asarray(KINDS[kind](rng, 200, 130), dtype=float)
    how = rounding.finest(ROUNDED_TO[numbers], X)
    Q = np.vstack([X, X * 3, X * 1e-3])
    varied = how.steps > 0
    x, c = how.round(Q), how.round(X)
    z_x, z_c = (numbers_of(each.words, how.kind)[:, how.columns[varied]] * how.steps[varied] for each in (x, c))
    apart = (((Q - X[0]) / how.unit)[:, ~varied] ** 2).sum(axis=1)
    assert_allclose((z_x**2).sum(axis=1) + apart, x.sq_norms)
    between = np.sqrt(((z_x[:, None] - z_c) ** 2).sum(axis=2) + apart[:, None])
    dists = np.sqrt(((Q[:, None].astype(np.longdouble) - X) ** 2).sum(axis=2)) / how.unit
    assert (between * (1 - 1e-14) - x.errors[:, None] - c.errors <= dists).all()
    assert (dists <= between * (1 + 1e-14) + (x.errors + x.excesses)[:, None] + c.errors + c.excesses).all()


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("numbers", ROUNDED_TO)
def test_bounds_are_below_distances_and_close(rng, numbers, kind):
    X = np.asarray(KINDS[kind](rng, 100, 130), dtype=float)
    how = rounding.finest(ROUNDED_TO[numbers], X)
    x, c = how.round(X[:LANES]), how.round(X)
    bounds = np.empty((len(X) + 1, LANES), dtype=np.float32)
    certified._measure(how.rows(X[:LANES], x), 0, how.centers(X, c), bounds)
    dists = np.sqrt(((X[:, None] - X[:LANES]) ** 2).sum(axis=2)) / how.unit
    assert (bounds[:-1] - x.errors <= dists).all()
    lengths = np.sqrt(c.sq_norms)[:, None] + np.sqrt(x.sq_norms)
    widths = 2 * c.errors[:, None] + c.excesses[:, None] + x.errors + x.excesses
    assert (bounds[:-1] + widths + 0.01 * lengths >= dists).all()


def test_numbers_are_the_cheapest_that_leave_few_centers_in_doubt(rng, monkeypatch):
    monkeypatch.setattr(rounding, "LEAST_WORK", 0)
    X = sparse(rng, 2000, 300)
    drawn = drawn_from(X, (100,), t=20)
    assert rounding.cheapest(drawn, X).kind is rounding.SHORTS
    noise = rng.normal(size=(2000, 300))  # all centers are nearly as far away as the nearest
    assert rounding.cheapest(drawn_from(noise, (100,), t=20), noise).kind is rounding.SHORTS
    assert rounding.cheapest(drawn, X * 1000).kind is rounding.SINGLES  # beyond the range of the steps
    monkeypatch.undo()
    assert rounding.cheapest(drawn, X[:100]).kind is rounding.SINGLES


def test_a_few_points_far_out_do_not_coarsen_the_steps_of_all(rng):
    X = rng.normal(size=(500, 120))
    fine = rounding.finest(rounding.SHORTS, X)
    X[::100] *= 1e6
    steps = rounding.finest(rounding.SHORTS, X)
    assert_allclose(steps.steps * steps.unit, fine.steps * fine.unit, rtol=1.01)


@pytest.mark.parametrize("make", [sparse, low_rank])
def test_rows_of_many_features_take_this_engine_by_themselves(rng, monkeypatch, make):
    monkeypatch.setattr(rounding, "LEAST_WORK", 0)
    used = []
    find = certified.find_cells
    monkeypatch.setattr(certified, "find_cells", lambda *args: used.append(len(args[-1])) or find(*args))
    X = make(rng, 2000, 150)
    cells = [
        IsolationKernel(10, 64, backend=backend, random_state=0).fit(X).assign_cells(X)
        for backend in ("numpy", "numba")
    ]
    assert_array_equal(*cells)
    assert sum(used) == 2000
