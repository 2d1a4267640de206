"""What is drawn, how a pool is cut into samples, and how equal rows are told."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag import IDKPointDetector
from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Cut
from isobag.data.rows import ArrayRows
from isobag.partitionings import count_blocks, cut_pool, draw_pools, draw_samples, nested_levels, pool_rows
from isobag.partitionings.base import _hash_rows, distinct_points, draw_rows, draw_seeds
from isobag.partitionings.counts import GroupBalls


@pytest.mark.parametrize("n_rows", [2, 3, 64, 65, 2000])
def test_all_rows_can_be_drawn_and_smaller_draws_are_their_beginning(n_rows):
    rows = draw_rows(n_rows, draw_seeds(3, 0), n_rows)
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(n_rows), (3, 1)))
    assert np.array_equal(draw_rows(n_rows, draw_seeds(2, 0), max(1, n_rows // 3)), rows[:2, : max(1, n_rows // 3)])


def test_seeds_of_fewer_partitionings_are_the_first_of_more():
    assert_array_equal(draw_seeds(3, 5), draw_seeds(10, 5)[:3])
    assert (draw_seeds(3, 5) != draw_seeds(3, 6)).any()
    assert_array_equal(draw_seeds(3, np.random.RandomState(5)), draw_seeds(3, 5))


def test_samples_of_all_rows_are_those_drawn_one_behind_the_other():
    rows, slots = draw_samples(50, 7, 8, 3)
    assert_array_equal(rows[slots].reshape(7, 8), draw_rows(50, draw_seeds(7, 3), 8))
    assert (np.diff(rows) > 0).all()


def test_a_pool_of_2048_rows_is_cut_once_into_samples_of_every_psi():
    levels = nested_levels(512)
    assert pool_rows("auto", 512, 10_000, 32) == 2048
    n_blocks = count_blocks(levels, 2048, 100)
    cut = Cut(levels, len(cut_pool(2048, 512, n_blocks, np.random.default_rng(0))))
    assert dict(zip(levels, cut.counts.tolist(), strict=True)) == {
        2: 64, 4: 64, 8: 64, 16: 64, 32: 64, 64: 32, 128: 16, 256: 8, 512: 4,
    }  # fmt: skip


def test_pools_hold_four_samples_of_a_large_psi_half_as_many_of_many_features_or_all_rows_there_are():
    assert [pool_rows("auto", psi, 10**6, 10) for psi in (2, 512, 1000)] == [2048, 2048, 4000]
    assert [pool_rows("auto", psi, 10**6, 33) for psi in (2, 512, 1000)] == [1024, 1024, 2000]
    assert pool_rows("auto", 512, 1500, 10) == 1500
    assert [pool_rows(size, 64, 1000, 10) for size in (10, 100, 5000)] == [64, 100, 1000]


@pytest.mark.parametrize(("n_pool", "psi"), [(2048, 512), (2048, 300), (100, 50), (75, 37), (5, 2)])
@pytest.mark.parametrize("n_estimators", [1, 20, 100, 500])
def test_a_psi_has_about_as_many_samples_as_asked_for_and_at_least_one(n_pool, psi, n_estimators):
    levels = nested_levels(psi)
    n_blocks = count_blocks(levels, n_pool, n_estimators)
    if psi >= 32:  # a block is made whole, and so has samples of the smaller psi that were not asked for
        assert 1 <= Cut(levels, n_blocks * psi).counts.max() < n_estimators + Cut(levels, psi).counts.max()
    else:  # as many slots as a usual pool
        assert n_blocks == -(-32 * (n_estimators // 64 * 64 or n_estimators) // psi)
    slots = cut_pool(n_pool, psi, n_blocks, np.random.default_rng(0))
    assert len(slots) == n_blocks * psi and slots.min() >= 0 and slots.max() < n_pool
    per_cut = n_pool // psi * psi
    for start in range(0, len(slots), per_cut):  # within a cut no row is drawn twice
        block = slots[start : start + per_cut]
        assert len(np.unique(block)) == len(block)
    assert_array_equal(slots[:per_cut], np.arange(len(slots[:per_cut])))


def test_samples_of_one_psi_are_disjoint_and_every_row_is_drawn_alike():
    rng, times = np.random.default_rng(0), np.zeros(60)
    cut = Cut((2, 4, 8, 16, 30), 60)
    for _ in range(3000):
        (pool,) = draw_pools(60, 60, 1, rng)
        for level, starts in enumerate(cut.starts):
            drawn = np.concatenate([pool[start : start + cut.levels[level]] for start in starts])
            assert len(np.unique(drawn)) == len(drawn)
            if level == 1:
                times += np.bincount(drawn, minlength=60)
    # 2 samples of 4 among 60 rows: each row in 400 of 3,000, with a standard deviation of 19.
    assert np.abs(times - 400).max() < 5 * 19


@pytest.mark.parametrize(
    ("n_rows", "n_different"), [(100_000, 3 * 2048), (12_288, 3 * 2048), (6_000, 3_000), (4096, 2048), (4095, 4095)]
)
def test_pools_take_at_most_half_of_the_rows_and_overlap_as_little_as_can_be(n_rows, n_different):
    pools = draw_pools(n_rows, 2048, 3, np.random.default_rng(0))
    assert all(len(np.unique(pool)) == 2048 for pool in pools)
    union = len(np.unique(np.concatenate(pools)))
    assert union == n_different if n_rows >= 4096 else union > 2048
    assert not any(np.array_equal(pools[0], pool) for pool in pools[1:])


def test_equal_rows_become_one_point(rng):
    X = rng.integers(0, 3, (50, 2)).astype(float)
    X[7], X[8] = (0.0, 1.0), (-0.0, 1.0)
    points, names = distinct_points(X)
    assert_array_equal(points[names], X)
    assert len(points) == len({tuple(row) for row in X.tolist()})
    assert names[7] == names[8]


def test_different_rows_with_one_hash_stay_different():
    a, b = _hash_rows(np.array([[1.0], [2.0]]))
    X = np.array([[1.0, 3.0], [2.0, (a ^ b ^ np.float64(3.0).view(np.uint64)).view(np.float64)], [1.0, 3.0]])
    assert len(np.unique(_hash_rows(X))) == 1
    points, names = distinct_points(X)
    assert len(points) == 2 and names[0] == names[2] != names[1]
    assert_array_equal(points[names], X)


@pytest.mark.parametrize("t", [1, 5, 100])
@pytest.mark.parametrize("how", [{}, {"pool_size": None}, {"pool_size": 50}], ids=str)
def test_every_scale_has_as_many_samples_of_a_psi_and_at_most_about_as_asked_for(t, how):
    X = np.random.default_rng(0).normal(size=(600, 2))
    model = IDKPointDetector(t, random_state=0, **how).fit(X)
    assert len({view.balls.cut for view in model.views_.members}) == 1
    # A block of 300 slots has 9 runs of 32, so samples of small psi come by nine.
    assert model.views_.counts[0] <= -(-t // 9) * 9 + 9
    assert_array_equal(model.model_.scores(ArrayRows(X), Compute("numpy")), model.score_samples(X))


def test_nested_levels_are_powers_of_two_and_the_last():
    assert [nested_levels(n) for n in (2, 3, 4, 5, 64, 65)] == [
        (2,),
        (2, 3),
        (2, 4),
        (2, 4, 5),
        (2, 4, 8, 16, 32, 64),
        (2, 4, 8, 16, 32, 64, 65),
    ]


def test_cells_of_groups_are_counted_and_summed_without_those_outside(rng):
    cells = rng.integers(-1, 4, (2, 5, 30)).astype(np.int32)
    table = rng.integers(0, 99, (2, 5, 4))
    counts, sums = np.zeros((2, 5, 4), dtype=int), np.zeros((30, 2), dtype=int)
    for level, i, x in np.ndindex(cells.shape):
        cell = cells[level, i, x]
        if cell != OUTSIDE:
            counts[level, i, cell] += 1
            sums[x, level] += table[level, i, cell]
    balls = GroupBalls(None, 1, np.zeros((5, 4), dtype=np.int32), (2, 4), None)
    assert_array_equal(balls.count(cells), counts)
    assert_array_equal(balls.sum_at(cells, table), sums)
