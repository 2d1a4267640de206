"""Cells, radii and how far out rows are: NumPy says what the definition says, Numba what NumPy says, bit for bit."""

import inspect
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from oracle import points as oracle
from oracle.hard_data import KINDS, queries

from isobag.backends import HOST_BACKENDS, RULES, Compute
from isobag.backends.arrays import FAR, OCTAVE, OUTSIDE, Cut, octaves
from isobag.backends.protocol import Backend
from isobag.partitionings import balls_around, cut_pool, nested_levels

PLAIN, FAST = Compute("numpy", 1), Compute("numba", 2)
LENGTHS = [*range(2, 71), 100, 300, 512]
CUTS = [(2, 4, 8, 16, 32, 40), (2, 4, 7), (5,), (4, 8)]


def balls_of(rng, X, levels, n_blocks=3, mechanism="hypersphere"):
    """Some blocks of slots of a pool; rows are drawn again where there are fewer than slots."""
    slots = cut_pool(len(X), min(levels[-1], len(X)), -(-n_blocks * levels[-1] // min(levels[-1], len(X))), rng)
    return balls_around(X.astype(np.float32), slots[: n_blocks * levels[-1]], levels, mechanism, PLAIN)


def hard(kind, rng, n, d):
    X = KINDS[kind](rng, n, d)
    return X, np.vstack([queries(rng, X), X[:9] * 1e5]).astype(np.float32)


def limits_of(rng, balls):
    """The usual limits, or one far below the usual at a level that has none."""
    limits = balls.far_limits()
    if limits is None:
        return np.full(len(balls.levels), -1)
    return np.where(rng.random(len(limits)) < 0.5, limits, limits.max() - 5 * OCTAVE)


def answers(backend, balls, Q, limits, tables, n_jobs):
    functions = Compute(backend).backend
    cells, far = functions.assign_cells(Q, balls, limits, n_jobs)
    starts = np.array([0, len(Q) // 3, len(Q) // 3, len(Q)])
    groups = functions.count_groups(cells, balls.cut, starts, n_jobs)
    return {
        "radii": functions.sq_radii(balls.pool, balls.slots, balls.levels, n_jobs),
        "cells": cells,
        "far": far,
        "sums and far": functions.sum_at_cells(Q, balls, tables, limits, n_jobs),
        "sums of few": np.vstack(
            [functions.sum_at_cells(few, balls, tables, limits, n_jobs) for few in np.split(Q, [1, 4])]
        ),
        "counts": functions.count_cells(cells, balls.cut, n_jobs),
        "counts at cells": functions.count_at_cells(Q, balls, n_jobs),
        "sums": functions.sum_cells(cells, balls.cut, tables, n_jobs),
        "counts of groups": groups.toarray(),
    }


def assert_backends_agree(rng, balls, Q, n_jobs=(2,)):
    tables = rng.integers(0, 1 << 32, balls.sq_radii.shape)
    for limits in (None, limits_of(rng, balls)):
        expected = answers("numpy", balls, Q, limits, tables, 1)
        for jobs in n_jobs:
            for name, values in answers("numba", balls, Q, limits, tables, jobs).items():
                assert_array_equal(values, expected[name], err_msg=name)
    assert_array_equal(expected["sums and far"], np.column_stack([expected["sums"], expected["far"]]))
    assert_array_equal(expected["sums of few"], expected["sums and far"])
    assert_array_equal(expected["counts at cells"], expected["counts"])
    assert_array_equal(expected["counts of groups"].sum(axis=0), expected["counts"].ravel())


def test_every_backend_answers_the_whole_protocol():
    names = {name for name, value in vars(Backend).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert len(names) > 15
    for backend in HOST_BACKENDS:
        for name in names:
            parameters = inspect.signature(getattr(Compute(backend).backend, name)).parameters
            assert len(parameters) >= len(inspect.signature(getattr(Backend, name)).parameters) - 1, name  # but self


@pytest.mark.parametrize("levels", [*CUTS, *map(nested_levels, (64, 100, 512)), (16, 32, 64), (128,)])
def test_slots_are_cut_into_the_samples_of_the_definition(levels):
    n_slots = 3 * levels[-1]
    cut = Cut(levels, n_slots)
    expected = [oracle.samples(n_slots, levels, psi) for psi in levels]
    assert [starts.tolist() for starts in cut.starts] == [[own[0] for own in samples] for samples in expected]
    assert cut.counts.tolist() == [len(samples) for samples in expected]
    assert cut.ends.tolist() == [sum(map(len, expected[:k])) for k in range(len(levels) + 1)]


@pytest.mark.parametrize(("d", "levels"), list(zip((3, 1, 13, 2), CUTS, strict=True)))
@pytest.mark.parametrize("kind", KINDS)
def test_cells_radii_and_octaves_are_those_of_the_definition(rng, kind, d, levels):
    X, Q = hard(kind, rng, 45, d)
    balls, Q = balls_of(rng, X, levels, 2), Q[::7]
    by_psi = [oracle.partitionings(balls.pool, balls.slots, levels, psi) for psi in levels]
    for rule in RULES:
        cells, _ = balls.assign(Q, PLAIN, rule=rule)
        inside = cells != OUTSIDE
        firsts = np.concatenate(balls.cut.starts)[:, None]
        expected = np.vstack([np.transpose(oracle.assign_cells(Q, own, rule)) for own in by_psi])
        assert_array_equal(np.where(inside, cells - firsts, OUTSIDE), expected)
    for level, starts in enumerate(balls.cut.starts):
        for start, centers in zip(starts, by_psi[level], strict=True):
            assert_array_equal(balls.sq_radii[level, start : start + levels[level]], oracle.sq_radii(centers))
    limits = np.full(len(levels), -1)
    near_root = max(level for level, psi in enumerate(levels) if level == 0 or psi**2 <= levels[-1])
    for level in (near_root, len(levels) - 1):
        limits[level] = oracle.far_limit(by_psi[level])
    assert_array_equal(balls.far_limits(), limits)
    expected = [
        sum(
            by_psi_far * oracle.far_out(x, own, limit)
            for by_psi_far, own, limit in zip(balls.cut.far_weights, by_psi, limits, strict=True)
            if limit >= 0
        )
        for x in Q
    ]
    assert_array_equal(balls.assign(Q, PLAIN, limits)[1], expected)
    assert max(expected) > 4 * OCTAVE or kind in ("1e8 offset", "mixed magnitudes", "subnormal gaps", "one value")


@pytest.mark.parametrize("d", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_backends_agree_on_hard_data(rng, kind, d):
    X, Q = hard(kind, rng, 150, d)
    for levels in (nested_levels(100), (16, 32, 64), (3,)):
        for mechanism in ("hypersphere", "voronoi"):
            assert_backends_agree(rng, balls_of(rng, X, levels, mechanism=mechanism), Q)


@pytest.mark.parametrize("psi", LENGTHS)
def test_backends_agree_in_blocks_of_any_length(rng, psi):
    X, Q = hard("integer grid", rng, max(psi, 130), 3)
    for levels in {nested_levels(psi), (psi,)}:
        for pool in (X, X[:psi]):  # fewer rows than slots, and as many or more
            for n_blocks in (1, 3):
                assert_backends_agree(rng, balls_of(rng, pool, levels, n_blocks), Q[: psi + 1])


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4095, 4096, 4097, 9000])
def test_backends_agree_on_any_number_of_rows_and_threads(rng, n):
    balls = balls_of(rng, rng.normal(size=(70, 3)), (2, 4, 8), 8)
    assert_backends_agree(rng, balls, rng.normal(size=(n, 3)).astype(np.float32), n_jobs=(1, 3))


@pytest.mark.parametrize("d", [784, pytest.param(3000, marks=pytest.mark.slow)])
def test_backends_agree_on_many_features(rng, d):
    X = (rng.random((90, d)) < 0.2) * rng.normal(size=(90, d))
    assert_backends_agree(rng, balls_of(rng, X, nested_levels(45)), X.astype(np.float32))


@pytest.mark.slow
def test_backends_agree_with_4096_centers(rng):
    X, Q = hard("1e8 offset", rng, 5000, 3)
    assert_backends_agree(rng, balls_of(rng, X, (4096,), 2), Q[::9])


@given(data=st.data())
def test_backends_agree_on_any_floats(data):
    n, d = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 20))
    values = st.floats(-float(FAR), float(FAR), width=32)
    X = data.draw(arrays(np.float32, (n, d), elements=values))
    levels = data.draw(st.sampled_from([(n,), nested_levels(n)]))
    rng = np.random.default_rng(n)
    assert_backends_agree(rng, balls_of(rng, X, levels, 2), X)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_a_row_says_the_same_alone_in_any_batch_and_in_any_order(rng, backend):
    X, Q = hard("integer grid", rng, 100, 3)
    balls, functions = balls_of(rng, X, nested_levels(50)), Compute(backend).backend
    limits, tables = limits_of(rng, balls), rng.integers(0, 99, balls.sq_radii.shape)
    cells, sums = functions.assign_cells(Q, balls, limits, 1)[0], functions.sum_at_cells(Q, balls, tables, limits, 1)
    for rows in [*(slice(i, i + 1) for i in range(0, len(Q), 25)), slice(3, 77), slice(None, None, -3)]:
        assert_array_equal(functions.assign_cells(Q[rows], balls, limits, 1)[0], cells[:, rows])
        assert_array_equal(functions.sum_at_cells(Q[rows], balls, tables, limits, 1), sums[rows])


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_center_is_in_its_own_ball_or_that_of_its_first_copy(rng, kind, backend):
    balls = balls_of(rng, KINDS[kind](rng, 40, 3), (8,))
    cells, _ = balls.assign(balls.pool, Compute(backend))
    for number, start in enumerate(balls.cut.starts[0]):
        sample = balls.slots[start : start + 8]
        sq_dists = [[oracle.sq_distance(balls.pool[a], balls.pool[b]) for b in sample] for a in sample]
        assert_array_equal(cells[number, sample], start + np.argmin(sq_dists, axis=1))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_the_nearest_center_counts_whether_its_ball_reaches_or_not(rng, backend):
    X, Q = hard("normal", rng, 60, 2)
    balls = balls_of(rng, X, (2, 4, 8))
    nearest, cells = balls.nearest(Q, Compute(backend)), balls.assign(Q, PLAIN)[0]
    assert_array_equal(nearest[cells != OUTSIDE], cells[cells != OUTSIDE])
    assert_array_equal(
        nearest, balls_around(balls.pool, balls.slots, balls.levels, "voronoi", PLAIN).assign(Q, PLAIN)[0]
    )
    assert (cells == OUTSIDE).any() and nearest.min() >= 0


def test_the_largest_psi_alone_is_that_of_nested_ones(rng):
    X, Q = hard("integer grid", rng, 60, 2)
    balls = balls_of(rng, X, (2, 4, 7))
    alone = balls.largest
    assert alone.levels == (7,)
    assert_array_equal(alone.assign(Q, FAST)[0], balls.assign(Q, FAST)[0][balls.cut.ends[-2] :])
    assert_array_equal(alone.sq_radii, PLAIN.backend.sq_radii(balls.pool, balls.slots, (7,), 1))


def test_octaves_are_a_logarithm_in_whole_numbers(rng):
    powers = np.ldexp(np.float32(1), np.arange(-126, 127))
    assert_array_equal(octaves(powers), (np.arange(-126, 127) + 127) * OCTAVE)
    values = np.concatenate([10.0 ** rng.uniform(-44, 38, 2000), rng.uniform(0, 9, 2000), [0.0]]).astype(np.float32)
    values.sort()
    steps = octaves(values)
    assert steps[0] == 0 and (np.diff(steps) >= 0).all()
    assert steps.tolist() == [oracle.octaves(value) for value in values]
    shortfall = np.log2(values[values > 1e-37].astype(float)) + 127 - steps[values > 1e-37] / OCTAVE
    assert (
        (shortfall > -1e-9) & (shortfall < 0.0864)
    ).all()  # a chord of log2 lies at most .0861 below, then rounded down


def test_among_equal_rows_the_limit_is_a_distance_of_1_and_without_bounds_there_is_none(rng):
    balls = balls_of(rng, np.full((30, 2), 0.3), (2, 4, 8, 16))
    assert_array_equal(balls.far_limits(), [-1, 127 * OCTAVE, -1, 127 * OCTAVE])
    assert balls_of(rng, rng.normal(size=(40, 2)), (2, 4), mechanism="voronoi").far_limits() is None


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_ten_times_as_far_is_seven_octaves_farther(rng, backend):
    balls = balls_of(rng, rng.normal(size=(200, 2)), (2, 4, 8, 16, 32), 6)
    away = np.array([[10.0**k, 0.0] for k in range(2, 9)], dtype=np.float32)
    far = balls.assign(away, Compute(backend), balls.far_limits())[1]
    # The squared distance is 100 times as large: 6.64 octaves, in 6 samples of 2 psi.
    assert np.diff(far) / OCTAVE == pytest.approx(12 * np.log2(100), rel=0.02)
    assert_array_equal(balls.assign(balls.pool[balls.slots[:1]], Compute(backend), balls.far_limits())[1] >= 0, [True])


@pytest.mark.parametrize("table", [-1, 1 << 32])
def test_tables_that_do_not_fit_are_refused(rng, table):
    balls = balls_of(rng, rng.normal(size=(20, 2)), (4,))
    with pytest.raises(ValueError, match="tables"):
        FAST.backend.sum_at_cells(balls.pool, balls, np.full(balls.sq_radii.shape, table), None, 1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"levels": (2, 8)}, "powers of two"),
        ({"levels": (3, 6, 8)}, "powers of two"),
        ({"levels": (8, 4)}, "rising"),
        ({"levels": (1, 2, 4, 8)}, "rising"),
        ({"slots": np.full(24, 50, dtype=np.int32)}, "slots"),
        ({"slots": np.zeros(23, dtype=np.int32)}, "blocks"),
        ({"sq_radii": np.zeros((3, 23), dtype=np.float32)}, "sq_radii"),
        ({"sq_radii": np.full((3, 24), np.nan, dtype=np.float32)}, "sq_radii"),
        ({"pool": np.full((50, 2), np.inf, dtype=np.float32)}, "pool"),
    ],
)
def test_balls_that_do_not_fit_together_are_refused(rng, change, problem):
    balls = balls_of(rng, rng.normal(size=(50, 2)), (2, 4, 8))
    balls.validate()
    with pytest.raises(ValueError, match=problem):
        replace(balls, **change).validate()


def test_memory_never_holds_every_pair_of_row_and_center(rng):
    n = 20_000
    balls = balls_of(rng, rng.normal(size=(2048, 2)), nested_levels(512), 4)
    X, tables = rng.normal(size=(n, 2)).astype(np.float32), np.zeros(balls.sq_radii.shape, dtype=np.int64)
    FAST.backend.sum_at_cells(X[:100], balls, tables, None, 1)
    tracemalloc.start()
    FAST.backend.sum_at_cells(X, balls, tables, None, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * n
