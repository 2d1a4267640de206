"""What is usual at a size: classes of whole sizes, a robust line, one answer in any order."""

import numpy as np
import pytest

from isobag.models.sizes import fit_size_line, size_classes


def log_uniform(rng, n, low=5, high=5000):
    return np.exp(rng.uniform(np.log(low), np.log(high), n)).astype(int)


def test_classes_are_runs_of_whole_sizes(rng):
    sizes = rng.permutation(np.repeat([1, 2, 3, 50, 51, 900], [40, 5, 26, 100, 1, 30]))
    # Three of 67.3 each: 71 groups up to size 3; what is left after size 50 is less than half a class.
    assert size_classes(sizes, 3).tolist() == [3]
    assert size_classes(sizes, 1).tolist() == []
    assert size_classes(np.full(500, 8), 5).tolist() == []


def test_the_same_groups_in_any_order_give_the_same_bits(rng):
    sizes = log_uniform(rng, 500)
    values = rng.normal(size=500) * np.log(sizes)
    line = fit_size_line(values, sizes, 1.0, 0.1, 0.2, sloped=True)
    for _ in range(5):
        order = rng.permutation(500)
        assert fit_size_line(values[order], sizes[order], 1.0, 0.1, 0.2, sloped=True) == line


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
    actual = line.normalise(values, np.array([1, sizes.min(), sizes.max(), 10**9]))
    assert actual[0] == actual[1] != actual[2] == actual[3]


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
