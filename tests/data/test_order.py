"""The order of many numbers, found part by part."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag.data.order import is_rising, stable_order

RNG = np.random.default_rng(0)
VALUES = {
    "different": RNG.normal(size=1_000),
    "few": RNG.integers(0, 5, 1_000) / 4,
    "equal": np.zeros(1_000),
    "unknown": np.where(RNG.random(1_000) < 0.3, np.nan, RNG.normal(size=1_000)),
    "far": np.where(RNG.random(1_000) < 0.1, np.inf, -np.abs(RNG.normal(size=1_000))),
    "zeros": np.where(RNG.random(1_000) < 0.5, 0.0, -0.0),
    "groups": RNG.integers(0, 90, 1_000).astype(np.int32),
    "rising": np.arange(1_000),
}


@pytest.mark.parametrize("block", [7, 100, 999, 1_000])
@pytest.mark.parametrize("kind", VALUES)
def test_an_order_found_in_parts_is_that_of_a_stable_sort(kind, block):
    actual = stable_order(VALUES[kind], block)
    assert actual.dtype == np.int32
    assert_array_equal(actual, np.argsort(VALUES[kind], kind="stable"))


def test_nothing_has_an_order():
    assert len(stable_order(np.empty(0))) == 0


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_a_fall_is_seen_wherever_blocks_end(block):
    assert is_rising(np.empty(0, dtype=np.int64), block) and is_rising(np.array([0, 0, 1, 1, 5]), block)
    for place in range(1, 6):
        values = np.arange(6)
        values[place] = values[place - 1] - 1
        assert not is_rising(values, block)
