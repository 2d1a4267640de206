"""What is drawn, how equal rows are told, and what cells become: counts, sums and one-hot maps."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag.backends.arrays import OUTSIDE
from isobag.backends.numpy import count_assigned, sum_assigned
from isobag.estimators.kernels import one_hot
from isobag.partitionings import base
from isobag.partitionings.base import distinct_points, draw_rows, draw_seeds, nested_levels


@pytest.mark.parametrize("n_rows", [2, 3, 64, 65, 2000])
def test_all_rows_can_be_drawn_and_smaller_draws_are_their_beginning(n_rows):
    rows = draw_rows(n_rows, draw_seeds(3, 0), n_rows)
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(n_rows), (3, 1)))
    assert np.array_equal(draw_rows(n_rows, draw_seeds(2, 0), max(1, n_rows // 3)), rows[:2, : max(1, n_rows // 3)])


def test_seeds_of_fewer_partitionings_are_the_first_of_more():
    assert_array_equal(draw_seeds(3, 5), draw_seeds(10, 5)[:3])
    assert (draw_seeds(3, 5) != draw_seeds(3, 6)).any()
    assert_array_equal(draw_seeds(3, np.random.RandomState(5)), draw_seeds(3, 5))


@pytest.mark.parametrize("collide", [False, True])
def test_equal_rows_become_one_point_even_if_all_hashes_are_equal(rng, collide, monkeypatch):
    if collide:
        monkeypatch.setattr(base, "_hash_rows", lambda values: np.zeros(len(values), dtype=np.uint64))
    X = rng.integers(0, 3, (50, 2)).astype(float)
    X[7], X[8] = (0.0, 1.0), (-0.0, 1.0)
    points, names = distinct_points(X)
    assert_array_equal(points[names], X)
    assert len(points) == len({tuple(row) for row in X.tolist()})
    assert names[7] == names[8]


def test_nested_levels_are_powers_of_two_and_the_last():
    assert [nested_levels(n) for n in (2, 3, 4, 5, 64, 65)] == [
        (2,),
        (2, 3),
        (2, 4),
        (2, 4, 5),
        (2, 4, 8, 16, 32, 64),
        (2, 4, 8, 16, 32, 64, 65),
    ]


def test_cells_are_counted_summed_and_mapped_without_those_outside(rng):
    cells = rng.integers(-1, 4, (30, 5)).astype(np.int32)
    table = rng.integers(0, 99, (5, 4))
    counts, sums, dense = np.zeros((5, 4), dtype=int), np.zeros(30, dtype=int), np.zeros((30, 20))
    for x, own in enumerate(cells):
        for i, cell in enumerate(own):
            if cell != OUTSIDE:
                counts[i, cell] += 1
                sums[x] += table[i, cell]
                dense[x, 4 * i + cell] = 1
    assert_array_equal(count_assigned(cells.T[None], 4), counts[None])
    assert_array_equal(sum_assigned(cells.T[None], table[None]), sums[:, None])
    features = one_hot(cells, 4)
    assert features.has_canonical_format and features.indices.dtype == np.int32
    assert_array_equal(features.toarray(), dense)
