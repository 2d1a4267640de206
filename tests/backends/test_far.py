"""How far out rows are: whole numbers of octaves against the definition in exact arithmetic, alike on every backend."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from oracle import points as oracle
from oracle.hard_data import KINDS, queries

from isobag.backends import HOST_BACKENDS, Compute
from isobag.backends.arrays import OCTAVE, octaves
from isobag.data.rows import ArrayRows
from isobag.partitionings import MECHANISMS, draw_from_rows

pytestmark = pytest.mark.usefixtures("both_sizes")

PLAIN = Compute("numpy", 1)
LEVELS = (2, 4, 8, 16, 20)


def drawn_from(X, levels=LEVELS, t=4, compute=PLAIN):
    return draw_from_rows(ArrayRows(X), t, levels, "hypersphere", 0, compute)


def far(drawn, Q, limits, compute):
    no_tables = np.zeros((len(drawn.levels), len(drawn), drawn.levels[-1]), dtype=np.int64)
    return drawn.sum_at(drawn.prepare(Q, compute), no_tables, compute, limits=np.asarray(limits))[:, -1]


def test_octaves_are_a_logarithm_in_whole_numbers(rng):
    powers = 2.0 ** np.arange(-1000, 1000)
    assert_array_equal(octaves(powers), (np.arange(-1000, 1000) + 1023) * OCTAVE)
    values = np.sort(np.concatenate([10.0 ** rng.uniform(-300, 300, 2000), rng.uniform(0, 9, 2000), [0.0]]))
    found = octaves(values)
    assert found[0] == 0 and (np.diff(found) >= 0).all()
    assert found.tolist() == [oracle.octaves(Fraction(value)) for value in values.tolist()]
    lack = np.log2(values[1:]) + 1023 - found[1:] / OCTAVE
    assert ((lack > -1e-9) & (lack < 0.0864)).all()  # a chord of log2 lies at most .0861 below, then rounded down
    assert_array_equal(octaves(values[::-3]), found[::-3])


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("d", [1, 2, pytest.param(13, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["integer grid", "1e8 offset of a grid", "90 % duplicates", "quarters"])
def test_far_is_what_exact_arithmetic_says(rng, kind, d, backend):
    compute = Compute(backend)
    X = rng.integers(-9, 9, (40, d)) / 4 if kind == "quarters" else KINDS[kind](rng, 40, d).round().astype(float)
    Q = np.vstack([queries(rng, X)[::4], X[:5] + 1000, X[:5] - 2.0**20]).round(2 if kind == "quarters" else 0)
    Q = (Q * 4).round() / 4  # squares of quarters are exact
    drawn = drawn_from(X, compute=compute)
    limits = np.full(5, -1)
    for level in (1, 4):  # 4 is the largest power whose square is at most 20
        limits[level] = oracle.far_limit(drawn.at(level).centers)
    assert_array_equal(drawn.far_limits(), limits)
    for limit in (limits, [0, -1, -1, 1020 * OCTAVE, -1]):
        expected = np.zeros(len(Q), dtype=int)
        for level in np.flatnonzero(np.asarray(limit) >= 0):
            centers = drawn.at(int(level)).centers
            expected += [oracle.far_out(x, centers, int(limit[level])) for x in Q]
        assert_array_equal(far(drawn, Q, limit, compute), expected)
    assert expected.max() > 4 * OCTAVE


@pytest.mark.parametrize("d", [1, 2, 5, 13, 300, *(pytest.param(d, marks=pytest.mark.slow) for d in (4, 11, 40))])
@pytest.mark.parametrize("kind", KINDS)
def test_backends_agree_how_far_out_rows_are(rng, kind, d):
    X = KINDS[kind](rng, 150, d).astype(float)
    Q = np.vstack([queries(rng, X), X[:20] * 1e6, X[:20] + 1e-9]).astype(float)
    drawn = drawn_from(X, (2, 16, 100))
    for limits in (drawn.far_limits(), np.array([0, -1, 0])):
        expected = far(drawn, Q, limits, PLAIN)
        for n_jobs in (1, 3):
            assert_array_equal(far(drawn, Q, limits, Compute("numba", n_jobs)), expected)


@pytest.mark.parametrize("d", [3, 6, 30])
@pytest.mark.parametrize("scale", [1e-145, 1e-130, 1e-110, 1e-60, 1e60, 1e120])
def test_backends_agree_how_far_out_rows_are_at_any_scale(rng, scale, d):
    X = rng.normal(size=(150, d)) * scale
    Q = np.vstack([queries(rng, X), X[:40] * 30])
    drawn = drawn_from(X, (2, 16, 100))
    limits = drawn.far_limits()
    expected = far(drawn, Q, limits, PLAIN)
    assert expected.max() > 0
    assert_array_equal(far(drawn, Q, limits, Compute("numba", 2)), expected)


@given(data=st.data())
def test_backends_agree_how_far_out_any_finite_floats_are(data):
    n, d = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 20))
    X = data.draw(arrays(np.float64, (n, d), elements=st.floats(-1e100, 1e100, width=64)))
    drawn = drawn_from(X, (n,))
    for limits in (drawn.far_limits(), np.array([0])):
        assert_array_equal(far(drawn, X, limits, Compute("numba", 2)), far(drawn, X, limits, PLAIN))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("d", [2, 13])
def test_how_far_out_a_row_is_does_not_depend_on_its_batch(rng, d, backend):
    compute = Compute(backend)
    X = KINDS["a few rows far out"](rng, 100, d)
    drawn, Q = drawn_from(X), queries(rng, X)
    whole = far(drawn, Q, drawn.far_limits(), compute)
    for rows in [*(slice(i, i + 1) for i in range(0, len(Q), 25)), slice(3, 77), slice(None, None, -3)]:
        assert_array_equal(far(drawn, Q[rows], drawn.far_limits(), compute), whole[rows])


@pytest.mark.parametrize(("levels", "counted"), [((2,), [0]), ((2, 3), [0, 1]), ((2, 4, 8), [0, 2]), (LEVELS, [1, 4])])
def test_the_largest_psi_and_one_near_its_root_count(rng, levels, counted):
    limits = drawn_from(rng.normal(size=(40, 2)), levels).far_limits()
    assert np.flatnonzero(limits >= 0).tolist() == counted
    limits = drawn_from(rng.normal(size=(600, 2)), (2, 4, 8, 16, 32, 64, 128, 256)).far_limits()
    assert np.flatnonzero(limits >= 0).tolist() == [3, 7]


def test_among_equal_rows_the_limit_is_a_distance_of_1():
    assert_array_equal(drawn_from(np.full((30, 2), 0.3)).far_limits(), [-1, 1023 * OCTAVE, -1, -1, 1023 * OCTAVE])


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "hypersphere"])
def test_where_nothing_is_outside_nothing_is_far_out(rng, mechanism):
    drawn = draw_from_rows(ArrayRows(rng.normal(size=(40, 2))), 3, LEVELS, mechanism, 0, PLAIN)
    assert drawn.far_limits() is None


def test_farther_out_is_more_and_inside_is_nothing(rng):
    X = rng.normal(size=(200, 2))
    drawn = drawn_from(X, (2, 4, 16, 64), t=10)
    away = np.array([[10.0**k, 0.0] for k in range(2, 9)])
    found = far(drawn, away, drawn.far_limits(), Compute())
    # Ten times as far is 100 times the squared distance: 6.64 octaves, in 10 partitionings of 2 levels.
    assert np.diff(found) / OCTAVE == pytest.approx(20 * math.log2(100), rel=0.02)
    assert far(drawn, drawn.points[drawn.slots[:1, 0]], [-1, -1, -1, 0], Compute())[0] >= 0
    alone = drawn_from(X, (200,), t=3)  # every row is a center: none is OUTSIDE
    assert_array_equal(far(alone, X, [0], Compute()), 0)
