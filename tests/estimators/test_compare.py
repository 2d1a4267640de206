"""compare: the level and the power of the test, its statistic from the definition, and what it says of rows."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ks_2samp

from isobag import IsolationKernel, compare


def p_values(draw, seeds, **options):
    """One p-value for each seed, samples and test drawn anew."""
    collected = []
    for seed in seeds:
        A, B = draw(np.random.default_rng(seed))
        collected.append(compare(A, B, random_state=seed, **options).p_value)
    return np.array(collected)


def parts_of_rows(A, B, levels, t, seed):
    """What each row carries of the statistic, from dense mean maps: (n,), (m,).

    Half of the partitionings are drawn on each of two scales, in turn; their seed is the first drawn from random_state.
    """
    X, n = np.vstack([A, B]), len(A)
    drawn_seed = np.random.RandomState(seed).randint(2**31 - 1, size=2)[0]
    middle = X.mean(axis=0)
    scaled = [(X - X.min(axis=0)) / np.ptp(X, axis=0), (X - middle) / np.abs(X - middle).mean(axis=0)]
    carried = np.zeros(len(X))
    for psi in levels:
        for first, points in enumerate(scaled):
            drawn = IsolationKernel(t, levels[-1], random_state=drawn_seed).fit(points).centers_
            for centers in drawn[first::2, :psi]:
                sq_dists = ((points[:, None] - centers) ** 2).sum(axis=2)
                feature_map = np.eye(psi)[sq_dists.argmin(axis=1)]
                apart = feature_map[:n].mean(axis=0) - feature_map[n:].mean(axis=0)
                carried += feature_map @ apart / (t * len(levels))
    return carried[:n] / n, -carried[n:] / len(B)


def gaussian_pair(rng):
    return rng.normal(size=(20, 2)), rng.normal(size=(20, 2))


def tied_pair(rng):
    """Rows of a 3 x 3 grid: hardly one is like no other."""
    return rng.integers(0, 3, (20, 2)).astype(float), rng.integers(0, 3, (20, 2)).astype(float)


def unequal_pair(rng):
    return rng.standard_t(1.5, size=(60, 2)), rng.standard_t(1.5, size=(5, 2))


@pytest.mark.slow
@pytest.mark.parametrize("draw", [gaussian_pair, tied_pair, unequal_pair])
def test_samples_of_one_distribution_differ_at_the_level_no_more_often_than_it_says(draw):
    p = p_values(draw, range(400), n_permutations=39, n_estimators=8)
    for level in (0.05, 0.1, 0.25):
        noise = 3 * math.sqrt(level * (1 - level) / len(p))
        assert np.mean(p <= level) <= level + noise
    assert np.mean(p <= 0.25) >= 0.15


def shifted_mean(rng):
    return rng.normal(size=(150, 3)), rng.normal([0.6, 0, 0], 1, size=(150, 3))


def doubled_spread(rng):
    return rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) * [1, 2]


def correlated(rng):
    """The features of both are Gaussian with mean 0 and variance 1; those of B have a correlation of 0.8."""
    A, B = rng.normal(size=(150, 2)), rng.normal(size=(150, 2))
    B[:, 1] = 0.8 * B[:, 0] + 0.6 * B[:, 1]
    return A, B


@pytest.mark.parametrize("draw", [shifted_mean, doubled_spread, correlated])
def test_a_shift_a_spread_and_a_correlation_are_found(draw):
    # 150 rows each; over seeds 0 to 99 the test finds all of them at the level of .05.
    p = p_values(draw, range(25), n_permutations=99, n_estimators=50)
    assert np.mean(p <= 0.05) >= 0.8


@pytest.mark.parametrize(("n", "m", "levels"), [(25, 35, (2, 8, 30)), (170, 130, (2, 8, 32, 128))])
def test_the_statistic_is_the_distance_of_mean_maps_and_rows_carry_their_part(rng, n, m, levels):
    A, B = rng.normal(size=(n, 2)) * [1, 100], rng.normal(0.5, 2, size=(m, 2)) * [1, 100]
    comparison = compare(A, B, n_permutations=19, n_estimators=10, random_state=4)
    in_a, in_b = parts_of_rows(A, B, levels, 10, 4)
    assert comparison.statistic == pytest.approx(in_a.sum() + in_b.sum(), rel=1e-9)
    assert_allclose(comparison.in_a, in_a, atol=1e-12)
    assert_allclose(comparison.in_b, in_b, atol=1e-12)
    distances = [ks_2samp(a, b).statistic for a, b in zip(A.T, B.T, strict=True)]
    assert_allclose(comparison.features, distances * np.sign(A.mean(axis=0) - B.mean(axis=0)), atol=1e-9)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (1, 40), (100, 30), (200, 300)])
def test_rows_add_up_to_the_statistic(rng, n, m):
    comparison = compare(rng.normal(size=(n, 3)), rng.normal(1, 1, size=(m, 3)), n_permutations=19, random_state=0)
    assert (comparison.in_a.shape, comparison.in_b.shape, comparison.features.shape) == ((n,), (m,), (3,))
    assert comparison.in_a.sum() + comparison.in_b.sum() == pytest.approx(comparison.statistic, abs=1e-9)
    assert 0 < comparison.statistic <= 2
    assert 0 < comparison.p_value <= 1


def test_two_rows_are_too_few_to_tell_anything(rng):
    comparison = compare([[0.0, 1.0]], [[1.0, 0.0]], random_state=0)
    # Both rows are centers in every partitioning: the mean maps have nothing in common.
    assert (comparison.statistic, comparison.p_value) == (2.0, 1.0)
    equal = compare([[3.0, 1.0]], [[3.0, 1.0]], random_state=0)
    assert (equal.statistic, equal.p_value) == (0.0, 1.0)
    # Of the 10 ways to deal out 2 and 3 rows, one or more are as far apart.
    smallest = p_values(lambda rng: (rng.normal(size=(2, 2)), rng.normal(9, 1, size=(3, 2))), range(5))
    assert np.all((smallest > 0.05) & (smallest < 0.2))


def test_samples_with_the_same_rows_differ_in_nothing(rng):
    A, equal = rng.normal(size=(40, 2)), np.full((15, 2), 0.1)
    for a, b in [(equal[:10], equal), *((A, rng.permutation(np.tile(A, (n, 1)))) for n in (1, 2, 3))]:
        comparison = compare(a, b, random_state=0)
        assert comparison.statistic == pytest.approx(0, abs=1e-15)
        assert comparison.p_value == 1
        assert_allclose([*comparison.in_a, *comparison.in_b, *comparison.features], 0, atol=1e-12)


def test_rows_of_which_one_sample_has_too_many_carry_the_statistic(rng):
    A = rng.normal(size=(200, 2))
    B = np.vstack([rng.normal(size=(180, 2)), rng.normal(3, 0.2, (20, 2))])
    comparison = compare(A, B, random_state=0)
    assert comparison.p_value <= 0.05
    assert comparison.in_b[180:].min() > 0
    assert np.median(comparison.in_b[180:]) > 3 * np.abs(np.median(comparison.in_b[:180]))


@pytest.mark.parametrize("seed", range(4))
def test_the_feature_that_differs_comes_first_and_its_sign_is_the_side_of_the_first_sample(seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(200, 4)), rng.normal(size=(250, 4))
    options = {"n_permutations": 19, "random_state": seed}
    for step in (1.5, -1.5):
        shifted = compare(A + step * np.eye(4)[2], B, **options).features
        assert np.abs(shifted).argmax() == 2
        assert shifted[2] * step > 0.5
    # The spread alone, in a sample of 300: 20 of 20 over seeds 0 to 19.
    wide = compare(rng.normal(size=(300, 4)), rng.normal(size=(300, 4)) * [1, 3, 1, 1], **options).features
    assert np.abs(wide).argmax() == 1


def test_to_swap_the_samples_turns_the_sign_and_is_else_like_another_seed(rng):
    A, B = rng.normal(size=(100, 2)), rng.normal([1, 0], 1, size=(60, 2))
    direct = [compare(A, B, n_permutations=19, random_state=seed) for seed in range(8)]
    other = [compare(B, A, n_permutations=19, random_state=seed) for seed in range(8)]
    statistics = np.array([[found.statistic for found in results] for results in (direct, other)])
    error = math.sqrt(statistics.var(axis=1, ddof=1).sum() / 8)
    assert abs(statistics[0].mean() - statistics[1].mean()) < 4 * error
    assert error < 0.05 * statistics.mean()
    # Rows are drawn by their place, so that other centers come from the same seed.
    assert (statistics[0] != statistics[1]).any()
    for here, there in zip(direct, other, strict=True):
        assert here.features[0] == -there.features[0] < -0.3
        assert np.corrcoef(here.in_a, there.in_b)[0, 1] > 0.9


@pytest.mark.parametrize("n_permutations", [19, 99, 250])
def test_a_p_value_is_a_share_of_permutations_the_samples_as_they_are_among_them(n_permutations):
    p = p_values(gaussian_pair, range(10), n_permutations=n_permutations, n_estimators=10)
    shares = p * (n_permutations + 1)
    assert_allclose(shares, shares.round(), atol=1e-9)
    assert shares.min() >= 1
    assert len(set(p)) > 3
    far = compare(np.zeros((30, 1)), np.ones((30, 1)), n_permutations=n_permutations, random_state=0)
    assert far.p_value == pytest.approx(1 / (n_permutations + 1))


def test_results_follow_random_state_and_neither_threads_nor_the_backend(rng):
    A, B = rng.normal(size=(60, 2)), rng.integers(-1, 2, (50, 2)).astype(float)

    def results(random_state, **how):
        comparison = compare(A, B, n_permutations=49, n_estimators=20, random_state=random_state, **how)
        return [comparison.statistic, comparison.p_value, *comparison.in_a, *comparison.in_b, *comparison.features]

    first = results(3)
    assert results(np.random.RandomState(3)) == first
    for how in ({"backend": "numpy"}, {"backend": "numba"}, {"n_jobs": 2}):
        assert results(3, **how) == first
    assert results(4) != first


def test_units_of_features_change_nothing(rng):
    A, B = rng.normal(size=(60, 2)), rng.normal(0.3, 1, size=(50, 2))
    units = np.array([2.0**10, 2.0**-7])  # powers of two, which change no digit
    plain, other = compare(A, B, random_state=0), compare(A * units, B * units, random_state=0)
    assert (plain.statistic, plain.p_value) == (other.statistic, other.p_value)
    assert_array_equal(plain.features, other.features)


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_of_features_come_from_frames_and_must_agree(rng, frame_of):
    A, B = rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    frames = [frame_of({"weight": sample[:, 0], "age": sample[:, 1]}) for sample in (A, B)]
    plain, named = (compare(*pair, n_permutations=19, random_state=0) for pair in ((A, B), frames))
    assert (plain.feature_names, named.feature_names) == (("x0", "x1"), ("weight", "age"))
    assert_array_equal(named.in_a, plain.in_a)
    assert named.p_value == plain.p_value
    for names in (["age", "weight"], ["weight", "height"]):
        with pytest.raises(ValueError, match="feature names"):
            compare(frames[0], frame_of(dict(zip(names, B.T, strict=True))))


@pytest.mark.parametrize(
    ("A", "B", "message"),
    [
        (np.zeros((5, 3)), np.zeros((5, 2)), "features"),
        (np.zeros((0, 2)), np.zeros((5, 2)), "0 sample"),
        (np.zeros((5, 2)), np.zeros((0, 2)), "0 sample"),
        (np.zeros(5), np.zeros((5, 1)), "1D array"),
        ([[0.0, math.inf], [2.0, 1.0]], np.zeros((5, 2)), "infinity: inf in row 0, column 1"),
        ([["a", "b"]], [["a", "b"]], "text"),
    ],
)
def test_samples_that_cannot_be_compared_are_refused(A, B, message):
    with pytest.raises(ValueError, match=message):
        compare(A, B)


@pytest.mark.parametrize(
    ("option", "value"),
    [("n_permutations", n) for n in (0, -1, 18, 99.5, True, "many")]
    + [("n_estimators", 0), ("backend", "fast"), ("n_jobs", 0)],
)
def test_options_that_make_no_sense_are_refused_by_name(option, value):
    with pytest.raises(ValueError, match=f"{option}={value!r}"):
        compare(np.zeros((5, 2)), np.ones((5, 2)), **{option: value})


def test_features_of_equal_samples_are_rarely_beyond_chance():
    n_named = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        A, B = (np.column_stack([rng.normal(size=(n, 4)), rng.poisson(1, (n, 2))]) for n in (80, 120))
        n_named += len(compare(A, B, n_permutations=99, n_estimators=8, random_state=seed).differing) > 0
    assert n_named <= 6  # 2 are expected of 40; more than 6 have a probability of .003


def test_a_feature_that_differs_is_named_alone_and_a_changed_relation_names_none(rng):
    A, B = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
    B[:, 2] += 1
    comparison = compare(A, B, random_state=0)
    assert comparison.differing.tolist() == [2] and comparison.features[2] < -0.3
    assert repr(comparison) == "Comparison(300 and 300 rows: p_value=0.002; apart in x2)"
    B = rng.normal(size=(300, 5))
    B[:, 1] = B[:, 0] + 0.01 * B[:, 1]  # each as before, but tied
    comparison = compare(A, B, random_state=0)
    assert comparison.p_value <= 0.01 and "no single feature" in repr(comparison)


def test_gaps_of_either_sample_are_compared_and_it_does_not_matter_of_which(rng):
    A, B = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    gaps = B.copy()
    gaps[rng.random(300) < 0.15, 1] = np.nan
    there, back = compare(A, gaps, random_state=0), compare(gaps, A, random_state=0)
    for comparison, sign in ((there, -1), (back, 1)):
        assert (
            comparison.p_value <= 0.01 and comparison.differing.tolist() == [1] and sign * comparison.features[1] > 0.1
        )
    assert np.isclose(there.in_a.sum() + there.in_b.sum(), there.statistic)
    both = np.where(rng.random(A.shape) < 0.15, np.nan, A), np.where(rng.random(B.shape) < 0.15, np.nan, B)
    assert compare(*both, random_state=0).p_value > 0.05
