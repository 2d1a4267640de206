"""What makes scores of few rows: the compiled verbs say to the last bit what NumPy's say."""

import numpy as np
import pytest

from isobag.backends import Compute
from isobag.backends.arrays import Weights
from isobag.data.scaling import SCALINGS, fit_scaling, join_scalings

DEFINITION, FAST = Compute("numpy").verbs, Compute("numba").verbs
RNG = np.random.default_rng(0)


def weights(n_views=3, n_columns=9, n_coarse=9):
    shape = n_views, 1, n_columns
    order = RNG.permutation(n_views * n_columns)
    floors = np.append(RNG.random((n_views, 1, n_columns - 1)) / 100, np.zeros((n_views, 1, 1)), axis=2)
    return Weights(
        np.full(shape, 7000.0), floors, RNG.normal(size=shape), order, n_coarse, 1.3, -0.2, 0.9, -708.0
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 3, 16])
@pytest.mark.parametrize("n_coarse", [0, 9])
def test_few_rows_are_averaged_alike(n, n_coarse):
    own = weights(n_coarse=n_coarse)
    sums = RNG.integers(0, 7000, size=(3, n, 9)) * RNG.integers(0, 2, size=(3, n, 9))
    terms = DEFINITION.floor_shares(sums, own)
    assert np.array_equal(FAST.floor_shares(sums, own), terms)
    for values in (np.log(np.maximum(terms, 1e-300)), -1e6 * terms):
        assert np.array_equal(FAST.weigh_terms(values, own), DEFINITION.weigh_terms(values, own))


def test_few_rows_have_the_scales_of_each_view():
    names = [name for name in SCALINGS if name is not None]
    X = np.column_stack([RNG.normal(size=400), RNG.integers(0, 3, 400), np.zeros(400), 1e8 + RNG.normal(size=400)])
    scalings = [fit_scaling(X, name) for name in names]
    scales = join_scalings(scalings)
    for rows in (X[:1], X[:7], np.array([[1e149, -1e149, 5.0, -1e3]])):
        expected = [scaling.apply(rows) for scaling in scalings]
        for _ in range(1100):  # small arrays are scaled by compiled code once there have been many
            found = FAST.scale_views(rows, scales, 1)
        assert all(map(np.array_equal, found, expected))
        assert all(map(np.array_equal, DEFINITION.scale_views(rows, scales, 1), expected))


@pytest.mark.parametrize(
    "radii",
    [RNG.random((5, 8)), np.zeros((2, 3)), np.array([[0.0, 1e-300, 1e300]]), np.full((3, 4), 2.0), RNG.random((1, 1))],
    ids=["some", "none", "far apart", "equal", "one"],
)
def test_the_typical_radius_is_the_lower_median_in_octaves(radii):
    assert FAST.middle_octave(radii) == DEFINITION.middle_octave(radii)
    wide = np.zeros((radii.shape[0], 2 * radii.shape[1]))
    wide[:, : radii.shape[1]] = radii
    assert FAST.middle_octave(wide[:, : radii.shape[1]]) == DEFINITION.middle_octave(radii)
