"""What is usual at a size: classes of whole sizes, a robust trend, one answer in any order."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from isobag.models.sizes import LEAST_IN_CLASS, MOST_CLASSES, fit_size_curve, fit_size_line, size_classes


def log_uniform(rng, n, low=5, high=5000):
    return np.exp(rng.uniform(np.log(low), np.log(high), n)).astype(int)


def test_of_one_size_values_are_divided_by_their_median_deviation(rng):
    values, sizes = rng.normal(3, 2, 101), np.full(101, 7)
    curve = fit_size_curve(values, sizes)
    middle = np.median(values)
    expected = (values - middle) / (1.4826 * np.median(np.abs(values - middle)))
    assert_allclose(curve.normalise(values, sizes), expected, rtol=1e-12)
    assert_allclose(curve.normalise(values, np.full(101, 10**9)), expected, rtol=1e-12)


def test_every_size_has_its_own_location_and_scale(rng):
    sizes = log_uniform(rng, 3000)
    at = np.log(sizes)
    values = 5 - at + 0.1 * at**2 + (1 + 3 / sizes**0.5) * rng.normal(size=3000)
    curve = fit_size_curve(values, sizes)
    assert MOST_CLASSES - 2 < len(curve.log_sizes) <= MOST_CLASSES
    found = curve.normalise(values, sizes)
    for own in np.array_split(np.argsort(sizes, kind="stable"), 10):  # 300 each: medians scatter by .07
        assert abs(np.median(found[own])) < 0.25
        assert 0.75 < found[own].std() < 1.25


def test_a_fifth_of_odd_groups_moves_the_trend_little(rng):
    sizes = log_uniform(rng, 600)
    values = 2 + 0.5 * np.log(sizes) + 0.1 * rng.normal(size=600)
    clean = fit_size_curve(values, sizes)
    values[::5] += 50
    spoiled = fit_size_curve(values, sizes)
    line = np.geomspace(6, 4000, 50).astype(int)
    usual = 2 + 0.5 * np.log(line)
    assert np.abs(clean.normalise(usual, line)).max() < 1
    assert np.abs(spoiled.normalise(usual, line)).max() < 1.5


def test_classes_are_runs_of_whole_sizes_with_thirty_groups_or_more(rng):
    sizes = rng.permutation(np.repeat([1, 2, 3, 50, 51, 900], [40, 5, 26, 100, 1, 30]))
    curve = fit_size_curve(rng.normal(size=len(sizes)), sizes)
    # 202 groups, 6 classes wanted, 33.7 in each: a run goes on until it has as many.
    expected = [np.log(1), np.log([2] * 5 + [3] * 26 + [50] * 100).mean(), np.log([51] + [900] * 30).mean()]
    assert_allclose(curve.log_sizes, expected, rtol=1e-12)
    # Three of 67.3 each: 71 groups up to size 3; what is left after size 50 is less than half a class.
    assert size_classes(sizes, 3).tolist() == [3]
    assert size_classes(sizes, 1).tolist() == []
    assert size_classes(np.full(500, 8), 5).tolist() == []


@pytest.mark.parametrize("n", [2, 5, LEAST_IN_CLASS - 1])
def test_few_groups_are_one_class_without_a_trend(rng, n):
    curve = fit_size_curve(rng.normal(size=n), log_uniform(rng, n))
    assert_array_equal(curve.trend, 0)
    assert len(curve.log_sizes) == 1


def test_beyond_the_largest_size_all_is_as_there(rng):
    sizes = log_uniform(rng, 400)
    curve = fit_size_curve(rng.normal(size=400) + np.log(sizes), sizes)
    largest = curve.normalise(np.array([3.0]), np.array([sizes.max()]))
    for size in (sizes.max() + 1, 10**6, 10**12):
        assert_array_equal(curve.normalise(np.array([3.0]), np.array([size])), largest)
    assert np.isfinite(curve.normalise(np.zeros(3), np.array([1, 2, 3]))).all()


def test_the_same_groups_in_any_order_give_the_same_bits(rng):
    sizes = log_uniform(rng, 500)
    values = rng.normal(size=500) * np.log(sizes)
    curve = fit_size_curve(values, sizes)
    line = fit_size_line(values, sizes, 1.0, 0.1, 0.2, sloped=True)
    for _ in range(5):
        order = rng.permutation(500)
        assert fit_size_line(values[order], sizes[order], 1.0, 0.1, 0.2, sloped=True) == line
        again = fit_size_curve(values[order], sizes[order])
        for name, value in vars(curve).items():
            assert_array_equal(getattr(again, name), value)


def test_where_all_are_alike_nothing_is_odd_and_anything_else_is():
    sizes = np.repeat([3, 4, 5, 6, 7], 20)
    curve = fit_size_curve(np.full(100, 2.0), sizes)
    assert_allclose(curve.normalise(np.full(100, 2.0), sizes), 0, atol=1e-6)
    assert curve.normalise(np.array([2.1]), np.array([5]))[0] > 10
    zeros = fit_size_curve(np.zeros(9), np.arange(1, 10))
    assert_array_equal(zeros.normalise(np.zeros(9), np.arange(1, 10)), 0)


@pytest.mark.parametrize("seed", range(40))
def test_nearly_equal_sizes_and_values_have_a_curve(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 4, 5], 60, p=[0.9, 0.04, 0.02, 0.02, 0.02])
    values = rng.choice([0.0, 1e-9, 1.0], 60, p=[0.6, 0.3, 0.1])
    assert np.isfinite(fit_size_curve(values, sizes).normalise(values, sizes)).all()


def test_a_line_finds_location_and_scale_that_follow_size(rng):
    sizes = log_uniform(rng, 2000)
    x = np.log(sizes)
    line = fit_size_line(5 - 0.3 * x + 0.1 * np.exp(0.2 * x) * rng.normal(size=2000), sizes, 5.0, 0, sloped=True)
    assert line.slope == pytest.approx(-0.3, abs=0.02) and line.scale_slope == pytest.approx(0.2, abs=0.04)
    u = line.normalise(5 - 0.3 * x + 0.1 * np.exp(0.2 * x), sizes)
    assert np.abs(u - 1).max() < 0.25


@pytest.mark.parametrize("end", ["largest", "smallest"])
def test_a_fifth_of_odd_groups_at_one_end_of_size_does_not_turn_the_line(rng, end):
    sizes = np.sort(log_uniform(rng, 400))
    values = 3 + 0.1 * np.log(sizes) + 0.1 * rng.normal(size=400)
    odd = slice(320, None) if end == "largest" else slice(80)
    values[odd] += 2
    line = fit_size_line(values, sizes, 3.0, 0.02)
    assert line.slope == pytest.approx(0.1, abs=0.03)
    assert line.normalise(values, sizes)[odd].min() > 5


def test_beyond_the_sizes_it_was_learned_from_a_line_is_level(rng):
    sizes = log_uniform(rng, 400, 20, 100)
    line = fit_size_line(np.log(sizes) + 0.1 * rng.normal(size=400), sizes, 1.0, 0.02, sloped=True)
    values = np.full(4, 2.0)
    found = line.normalise(values, np.array([1, sizes.min(), sizes.max(), 10**9]))
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.parametrize("n", [1, 2, 29])
def test_few_groups_have_a_level_line(rng, n):
    line = fit_size_line(rng.normal(size=n), log_uniform(rng, n), 1.0, 0.02, sloped=True)
    assert line.slope == 0 and line.scale_slope == 0 and line.scale > 0


def test_where_most_values_are_equal_the_scale_is_that_of_the_others():
    values, sizes = np.repeat([0.0, 4.0, 8.0], [90, 5, 5]), np.full(100, 3)
    line = fit_size_line(values, sizes, 1.0, 0.02)
    assert 4 < line.scale < 8
    assert fit_size_line(values, sizes, 1.0, 0.02, 0.2).scale == 0.2
    assert fit_size_line(np.zeros(50), sizes[:50], 0.0, 0.02, 0.2).scale == 1
