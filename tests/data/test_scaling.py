"""Scales: each against its definition in loops, the same bits however rows come, and no file that does not fit."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.numpy import asinh
from isobag.data.rows import ArrayRows, SparseRows, sample_rows
from isobag.data.scaling import (
    KNOTS,
    SCALINGS,
    AsinhScaling,
    LinearScaling,
    NormalScaling,
    fit_scaling,
    fit_scalings,
)

NAMES = [name for name in SCALINGS if name is not None]
BENT = ["asinh", "normal"]


@pytest.fixture
def numbers(rng):
    """Numbers of either sign and of every size, many of them where one formula gives way to the other."""
    sizes = [*10.0 ** rng.uniform(-300, 150, 5000), *rng.uniform(0, 3, 5000), *rng.uniform(0.74, 0.76, 2000)]
    return np.concatenate([sizes, np.negative(sizes), [0.0, -0.0, 0.75, 1e150, -1e150, 5e-324]])


def plain_asinh(x):
    """The operations of the library on one Python float after the other."""
    size = abs(x)
    root = math.sqrt(1 + size * size)
    total = size + root
    half, exponent = math.frexp(total)
    s = size / (1 + root) if size < 0.75 else (half - 0.5) / (half + 0.5)
    rest = 0.0
    for term in range(16, 0, -1):
        rest = (rest + 1 / (2 * term + 1)) * (s * s)
    if size < 0.75:
        value = size + size * (rest - s * s * (1 + rest))
    else:
        value = (exponent - 1) * math.log(2) + (2 * (s + s * rest) + (size - (total - root)) / total)
    return math.copysign(value, x)


def test_asinh_is_a_chain_of_operations_that_every_machine_rounds_alike(numbers):
    expected = np.array([plain_asinh(x) for x in numbers.tolist()])
    assert_array_equal(asinh(numbers).view(np.int64), expected.view(np.int64))
    for part in (slice(0, 1), slice(7, 8), slice(3, 20), slice(None, None, -3)):
        assert_array_equal(asinh(numbers[part]), expected[part])
    assert_array_equal(asinh(np.asfortranarray(numbers[:12000].reshape(-1, 3))), expected[:12000].reshape(-1, 3))


def test_asinh_is_within_two_units_in_the_last_place(numbers):
    expected = np.arcsinh(numbers)
    units = np.spacing(np.maximum(np.abs(expected), np.finfo(float).tiny))
    assert (np.abs(asinh(numbers) - expected) <= 2 * units).all()


@pytest.mark.parametrize("near", [1e-8, 0.3535, 0.7499999, 0.75, 1.0, 7.5, 1e10])
def test_asinh_rises(near, numbers):
    assert (np.diff(asinh(np.sort(numbers))) >= 0).all()
    apart = near * (1 + np.arange(-2000, 2000) * 2.0**-44)
    assert (np.diff(asinh(apart)) > 0).all()
    neighbours = asinh(near * (1 + np.arange(-2000, 2000) * 2.0**-52))
    assert (np.diff(neighbours) >= -np.spacing(neighbours[:-1])).all()  # at most the last digit falls back


@pytest.mark.parametrize("name", SCALINGS)
def test_scales_are_those_of_the_definition_rounded_to_float32(X, rng, name):
    X = np.column_stack([X * [1, 1000], X[:, 0].round(), np.full(len(X), 0.1), rng.permutation(len(X))])
    Q = np.vstack([X, X * 3 - 1, rng.normal(0, 100, (40, 5))])
    Q[:, 3] = 0.1
    scaling = fit_scaling(X, name)
    assert scaling.n_features == 5 and scaling.apply(Q).dtype == np.float32
    assert_allclose(scaling.apply(Q), oracle.scale(Q, X, name), rtol=2**-23, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_any_other_value_of_a_constant_feature_is_as_far_as_can_be(name):
    scaling = fit_scaling(np.full((9, 1), 0.1), name)
    assert scaling.apply(np.array([[0.1]])) == 0
    low, near, far = scaling.apply(np.array([[0.1 - 1e-9], [0.1 + 1e-9], [1e9]]))[:, 0]
    assert far == near == -low > 35
    scaling.validate()


@pytest.mark.parametrize("name", NAMES)
def test_every_scale_rises_and_far_is_far(X, name):
    scaling = fit_scaling(X, name)
    for j in range(2):
        line = np.sort(np.concatenate([np.linspace(-40, 40, 4001), X[:, j]]))
        actual = scaling.apply(np.repeat(line[:, None], 2, axis=1))[:, j]
        assert (np.diff(actual) >= 0).all()
        assert (np.diff(actual[::2]) > 0).all() if name != "normal" else len(np.unique(actual)) > 3900
    far = scaling.apply(np.array([[1e3] * 2, [1e6] * 2, [1e13] * 2, [-1e6] * 2, [-1e13] * 2]))
    assert (np.diff(far[:3], axis=0) > 0).all() and (np.diff(far[3:], axis=0) < 0).all()


@pytest.mark.parametrize("name", SCALINGS)
def test_what_is_so_far_out_that_its_square_would_overflow_is_cut_off(name):
    scaling = fit_scaling(np.array([[0.0], [1e-200], [3e-200]]), name)
    actual = scaling.apply(np.array([[1e150], [-1e150], [1e-200]]))
    assert np.isfinite(actual * actual).all()
    assert actual[1, 0] < actual[2, 0] < actual[0, 0]


@pytest.mark.parametrize("step", [5e-324, 1e-320, 1e-310, 1e-300])
def test_values_that_hardly_differ_have_scores_all_the_same(step):
    X = np.array([[0.0], [step], [1.0], [2.0]])
    scaling = fit_scaling(X, "normal")
    expected = [-1.150349, -0.318639, 0.318639, 1.150349]
    assert_allclose(scaling.apply(X)[:, 0], expected, atol=1e-6)
    assert np.isfinite(scaling.apply(np.array([[-1.0], [0.5], [1e150]]))).all()


def test_ranks_become_normal_and_ties_share_a_score(rng):
    X = np.column_stack([rng.standard_t(1.1, 500) ** 3, rng.integers(0, 3, 500), rng.permutation(500)])
    actual = fit_scaling(X, "normal").apply(X)
    assert_array_equal(np.argsort(actual[:, 0]), np.argsort(X[:, 0]))
    assert abs(actual[:, 0].mean()) < 1e-6 and actual[:, 0].std() == pytest.approx(1, abs=0.02)
    for value in range(3):
        scores, share = set(actual[X[:, 1] == value, 1]), (X[:, 1] <= value).mean() - (X[:, 1] == value).mean() / 2
        assert len(scores) == 1
        assert oracle.NormalDist().cdf(scores.pop()) == pytest.approx(share, abs=1e-7)
    assert_allclose(np.sort(actual[:, 0]), np.sort(actual[:, 2]), atol=1e-6)  # ranks alone count


def test_beyond_the_range_the_line_of_the_outer_ranks_goes_on(rng):
    X = rng.normal(size=(1000, 1))
    X[0] = 50.0  # one far value makes no line of its own
    scaling = fit_scaling(X, "normal")
    low, high = X.min(), X.max()
    actual = scaling.apply(np.array([[low - 1], [low - 2], [low - 3], [high], [high + 10], [high + 20]]))[:, 0]
    assert actual[0] - actual[1] == pytest.approx(actual[1] - actual[2], rel=1e-5)
    assert actual[5] - actual[4] == pytest.approx(actual[4] - actual[3], rel=1e-5)
    # From a score of 1.645 to the highest, 3.29, over 50 less 1.6.
    assert (actual[5] - actual[3]) / 20 == pytest.approx(1.65 / 48.4, rel=0.1)
    assert actual[0] - actual[1] == pytest.approx(1, abs=0.6)


def test_many_values_have_1024_knots_that_reach_to_both_ends(rng):
    X = np.column_stack([rng.normal(size=5000), rng.integers(0, 50, 5000), np.ones(5000)])
    scaling = fit_scaling(X, "normal")
    assert np.diff(scaling.starts).tolist() == [KNOTS, 50, 1]
    knots = scaling.values[:KNOTS]
    assert set(knots) <= set(X[:, 0]) and knots[0] == X[:, 0].min() and knots[-1] == X[:, 0].max()
    # Every knot has the score of its own rank, as if there were no others.
    exact = [oracle.NormalDist().inv_cdf(((X[:, 0] < v).sum() + 0.5) / 5000) for v in knots]
    assert_allclose(scaling.scores[:KNOTS], exact, atol=1e-9)
    actual = scaling.apply(X)[:, 0]
    ranks = (np.argsort(np.argsort(X[:, 0])) + 0.5) / 5000
    middle = (ranks > 0.01) & (ranks < 0.99)
    assert_allclose(actual[middle], [oracle.NormalDist().inv_cdf(rank) for rank in ranks[middle]], atol=0.02)


@pytest.mark.parametrize("name", SCALINGS)
def test_of_very_many_rows_65536_make_the_scale_and_all_the_range_however_they_are_cut(rng, name):
    X = rng.standard_t(2, (70_000, 2))
    sample = sample_rows(ArrayRows(X))
    assert sample.shape == (65_536, 2) and {*sample[:, 0].tolist()} < {*X[:, 0].tolist()}
    whole = fit_scaling(X, name)
    if name == "minmax":
        assert_array_equal([whole.shift, whole.spread], [X.min(axis=0), np.ptp(X, axis=0)])
    blocks = fit_scalings(SparseRows(csr_array(X), block_rows=9_999), [name])[name]
    assert vars(whole).keys() == vars(blocks).keys()
    for field, value in vars(whole).items():
        assert_array_equal(value, getattr(blocks, field))
    if name in BENT:  # nothing but the sample counts
        for field, value in vars(fit_scaling(sample, name)).items():
            assert_array_equal(value, getattr(whole, field))


@pytest.mark.parametrize("name", SCALINGS)
def test_a_row_has_the_same_scale_in_any_batch(X, rng, name):
    scaling = fit_scaling(X, name)
    Q = rng.normal(0, 10, (999, 2))
    whole = scaling.apply(Q)
    for rows in (slice(0, 1), slice(5, 6), slice(2, 17), slice(None, None, -2)):
        assert_array_equal(scaling.apply(Q[rows]), whole[rows])
    assert_array_equal(scaling.apply(np.asfortranarray(Q)), whole)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", SCALINGS)
def test_compiled_scales_are_those_of_numpy_to_the_last_bit(numbers, rng, name, n_jobs):
    X = np.column_stack([rng.permutation(numbers) for _ in range(5)])
    tables = [X, rng.standard_t(1.5, (3000, 5)), rng.integers(-3, 4, (500, 5)) / 4, np.full((7, 5), 0.1), X * 1e-160]
    for learned in tables:
        scaling = fit_scaling(learned, name)
        for Q in (*tables, X[:0], X[:1], X[::-7], np.asfortranarray(X)):
            actual, expected = scaling.apply(Q, Compute("numba", n_jobs)), np.ascontiguousarray(scaling.apply(Q))
            assert_array_equal(actual.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("name", SCALINGS)
def test_threads_learn_the_same_scale(rng, name):
    rows = ArrayRows(rng.standard_t(2, (5000, 7)))
    for field, value in vars(fit_scalings(rows, [name], 1)[name]).items():
        assert_array_equal(value, getattr(fit_scalings(rows, [name], 2)[name], field))


def normal_of(**changes):
    """Two features, of three knots and of one, with something else in the place of some field."""
    fields = {
        "starts": np.array([0, 3, 4]),
        "values": np.array([0.0, 1, 2, -5]),
        "scores": np.array([-1.0, 0, 1, 0]),
        "slopes": np.ones(6),
    }
    return NormalScaling(**{**fields, **changes})


@pytest.mark.parametrize(
    ("scaling", "field"),
    [
        (LinearScaling(np.zeros(2), np.ones(3)), "spread"),
        (AsinhScaling(np.zeros(3), np.ones(2)), "spread"),
        (LinearScaling(np.zeros(2), np.zeros(2)), "spread"),
        (LinearScaling(np.array([np.nan]), np.ones(1)), "shift"),
        (normal_of(starts=np.array([0])), "feature"),
        (normal_of(starts=np.array([1, 3, 4])), "feature"),
        (normal_of(starts=np.array([0, 3, 5])), "starts"),
        (normal_of(starts=np.array([0, 3, 3, 4])), "feature"),
        (normal_of(starts=np.array([0, 4, 3, 4])), "feature"),
        (normal_of(scores=np.zeros(3)), "scores"),
        (normal_of(slopes=np.ones(5)), "slopes"),
        (normal_of(values=np.array([0.0, 0, 2, -5])), "rise"),
        (normal_of(values=np.array([0.0, 3, 2, -5])), "rise"),
        (normal_of(values=np.array([0.0, np.nan, 2, -5])), "values"),
    ],
)
def test_fields_that_do_not_fit_are_named(scaling, field):
    with pytest.raises(ValueError, match=field):
        scaling.validate()


@pytest.mark.parametrize("name", SCALINGS)
def test_what_is_learned_fits(X, name):
    normal_of().validate()  # from one feature to the next knots may fall
    fit_scaling(X, name).validate()
