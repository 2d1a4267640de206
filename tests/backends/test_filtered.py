"""Lower bounds along leading axes: the cells of the definition, whatever the axes, and only where they save work."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle.engines import FAST, PLAIN, assert_as_defined, drawn_from
from oracle.hard_data import KINDS, queries

from isobag import IsolationKernel
from isobag.backends import numpy as slow
from isobag.backends.numba import filtered, products
from isobag.backends.numba.varied import find_varied
from isobag.partitionings.base import distinct_points

pytestmark = pytest.mark.usefixtures("no_pairs")


def low_rank(rng, n, d, rank=8):
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + 0.01 * rng.normal(size=(n, d))


def half_constant(rng, n, d):
    X = rng.normal(size=(n, d))
    X[:, ::2] = rng.normal(size=(1, X[:, ::2].shape[1]))
    return X


KINDS = KINDS | {"low rank": low_rank, "half of the features constant": half_constant}


@pytest.fixture
def always(monkeypatch):
    """Filter wherever there are axes, however little they help; the numbers of axes used."""
    used = []

    def find(balls, n_queries, limits, most):
        axes = filtered._leading_axes(balls.points)
        used.append(0 if axes is None else 32)
        return None if axes is None else axes.first(32)

    monkeypatch.setattr(products, "find_axes", find)
    return used


@pytest.mark.parametrize("mechanism", ["hypersphere", "voronoi"])
@pytest.mark.parametrize("d", [97, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_filtered_cells_counts_and_octaves_are_those_of_the_definition(rng, always, kind, d, mechanism):
    X = np.asarray(KINDS[kind](rng, 150, d), dtype=float)
    Q = np.vstack([queries(rng, X), X[:20] * 1e6, X[:20] + 1e-9, X[:9] * 1e30]).astype(float)
    assert_as_defined(drawn_from(X, mechanism=mechanism), Q)
    assert always


def test_equal_distances_go_to_the_first_center(rng, always):
    X = rng.integers(0, 2, (200, 120)).astype(float)
    Q = np.vstack([X, (X + X[::-1]) / 2, np.full((1, 120), 0.5)])  # the last is equally far from all
    drawn = drawn_from(X)
    cells = drawn.assign(drawn.prepare(Q, FAST), FAST)
    assert_array_equal(cells, drawn.assign(drawn.prepare(Q, PLAIN), PLAIN))
    assert_array_equal(drawn.nearest_anchors(drawn.prepare(Q[-1:], FAST), FAST), 0)
    assert max(always) == 32


@pytest.mark.parametrize("n", [1, 15, 16, 17, 513])
def test_blocks_of_any_size_are_filtered_alike(rng, always, n):
    X = low_rank(rng, 600, 100)
    drawn = drawn_from(X)
    assert_array_equal(drawn.assign(drawn.prepare(X[:n], FAST), FAST), drawn.assign(drawn.prepare(X[:n], PLAIN), PLAIN))
    assert always == [32]


def test_lower_bounds_are_below_distances_in_exact_arithmetic(rng):
    for kind in ("low rank", "normal", "a few rows far out"):
        X = np.asarray(KINDS[kind](rng, 200, 130), dtype=float)
        axes = filtered._leading_axes(X).first(32)
        _, norms, along = axes.of(X)
        bounds = norms[:, None] ** 2 + norms**2 - 2 * along @ along.T
        reach = norms[:, None] + norms
        sq_dists = ((X[:, None].astype(np.longdouble) - X) ** 2).sum(axis=2)
        assert (bounds - axes.loss * reach**2 <= sq_dists).all()
        assert axes.loss < 1e-4


@pytest.mark.parametrize("has_axes", [False, True])
def test_features_in_which_centers_do_not_differ_count_for_queries_that_do(rng, always, monkeypatch, has_axes):
    if not has_axes:
        monkeypatch.setattr(products, "find_axes", lambda *_: None)
    X = half_constant(rng, 300, 120)
    Q = np.repeat(X, 3, axis=0)
    Q[::3, ::2] += rng.normal(size=(300, 60))  # off where all centers agree, near or far
    Q[1::3, 4] += rng.choice([1e-9, 1e-3, 1e9, 1e100], 300)
    drawn = drawn_from(X)
    cells = drawn.assign(drawn.prepare(Q, FAST), FAST)
    assert_array_equal(cells, drawn.assign(drawn.prepare(Q, PLAIN), PLAIN))
    assert (cells[::3] == -1).mean() > (cells[2::3] == -1).mean() + 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_radii_of_partitionings_that_share_few_centers_are_those_of_the_definition(rng, kind):
    points, _ = distinct_points(np.asarray(KINDS[kind](rng, 150, 100), dtype=float))
    slots = rng.integers(0, len(points), (3, 40)).astype(np.int32)
    found = products.sq_radii_apart(points, slots, (2, 7, 40), 2)
    assert_array_equal(found, slow.sq_radii(points, slots, (2, 7, 40)))


def test_distances_are_kept_where_centers_do_not_differ(rng):
    X = half_constant(rng, 50, 40)
    Q = X + rng.normal(size=X.shape)
    varied = find_varied(X)
    mean = varied.mean_of(X)
    assert_allclose(mean[:-1], X[:, 1::2].mean(axis=0))
    x, c = varied.less(Q, mean), varied.less(X, mean)
    assert x.shape == (50, 21)
    assert_allclose(slow.sq_distances(x, c), slow.sq_distances(Q, X), rtol=1e-12)
    X[0] += 1
    assert_array_equal(find_varied(X).less(Q, mean=np.full(40, 2.0)), Q - 2)


def test_axes_are_used_where_they_save_work_and_not_where_they_do_not(rng, monkeypatch):
    monkeypatch.setattr(filtered, "LEAST_WORK", 0)
    flat, noise = low_rank(rng, 3000, 200), rng.normal(size=(3000, 200))
    assert filtered.find_axes(drawn_from(flat, (100,), t=20), 10_000).vectors.shape == (200, 32)
    assert filtered.find_axes(drawn_from(noise, (100,), t=20), 10_000) is None
    # Many partitionings of few points: products with each point once are cheaper, but for what is far out.
    many = drawn_from(flat[:110], (100,), t=200)
    assert filtered.find_axes(many, 10_000) is None
    assert filtered.find_axes(many, 10_000, np.full(8, -1)) is None
    assert filtered.find_axes(many, 10_000, np.zeros(8)).vectors.shape == (200, 32)
    monkeypatch.undo()
    assert filtered.find_axes(drawn_from(flat, (100,), t=20), 100) is None


def test_rows_along_a_few_axes_take_the_filter_by_themselves(rng, monkeypatch):
    monkeypatch.setattr(filtered, "LEAST_WORK", 0)
    X = low_rank(rng, 2000, 150)
    cells = [
        IsolationKernel(10, 64, backend=backend, random_state=0).fit(X).assign_cells(X)
        for backend in ("numpy", "numba")
    ]
    assert_array_equal(*cells)
