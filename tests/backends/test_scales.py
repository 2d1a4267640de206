"""Scales of rows: compiled code says what NumPy says, to the last bit, for few rows and for many."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag.backends import Compute
from isobag.backends.numba import scales
from isobag.data.scaling import SCALINGS, fit_scaling

FAST = Compute("numba", 2)


@pytest.mark.parametrize("name", SCALINGS)
def test_compiled_scales_are_those_of_numpy(rng, name):
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 3, 400), np.zeros(400), 1e8 + rng.normal(size=400)])
    scaling = fit_scaling(X, name)
    for rows in (X[:1], X[:7], np.array([[1e149, -1e149, 5.0, -1e3]]), np.tile(X, (100, 1)), np.asfortranarray(X)):
        expected = scaling.apply(rows)
        assert expected.dtype == np.float32 and np.isfinite(expected).all()
        assert_array_equal(scaling.apply(rows, FAST), expected)
    for _ in range(scales._SMALL_CALLS + 1):  # small arrays are scaled by compiled code once there have been many
        scaled = scaling.apply(X[:3], FAST)
    assert_array_equal(scaled, scaling.apply(X[:3]))
