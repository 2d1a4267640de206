"""Small tables, every pair compared: the answers of the definition, however the work is cut into parts."""

import numpy as np
import pytest
from isobag.backends.numba.choose import engine_for
from isobag.backends.numba.queries import Queries
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag.backends import Compute
from isobag.backends.numba import float32_blocks, many, small_tables
from isobag.data.rows import ArrayRows
from isobag.partitionings import draw_from_rows

PLAIN, FAST = Compute("numpy", 1), Compute("numba", 2)
LEVELS = (2, 3, 16, 100)
CUTS = {
    "whole": {},
    "each partitioning for itself": {"_MOST_SHARED": 0},
    "a few partitionings at a time": {"_KEPT_CELLS": 3 * len(LEVELS) * 64 * 4},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("d", [1, 3, 17])
@pytest.mark.parametrize("kind", ["normal", "integer grid", "90 % duplicates", "1e8 offset", "tiny differences"])
def test_counts_sums_and_cells_are_those_of_the_definition(rng, monkeypatch, kind, d, cut):
    for name, value in CUTS[cut].items():
        monkeypatch.setattr(small_tables, name, value)
    X = np.asarray(KINDS[kind](rng, 150, d), dtype=float)
    Q = np.vstack([queries(rng, X)[::3], X[:9] * 1e6])
    drawn = draw_from_rows(ArrayRows(X), 7, LEVELS, "hypersphere", 0, PLAIN)
    for only_last, limits in ((False, drawn.far_limits()), (False, None), (True, None)):
        expected = PLAIN.verbs.count_and_sum(Q, drawn, only_last, limits)
        for n_jobs in (1, 3):
            found = FAST.verbs.count_and_sum(Queries(Q), drawn, only_last, limits, n_jobs)
            for own, other in zip(found, expected, strict=True):
                assert_array_equal(own, other)
    assert_array_equal(drawn.assign(Queries(Q), FAST), drawn.assign(Q, PLAIN))


@pytest.mark.parametrize(
    ("shape", "rule", "engine"),
    [
        ((4000, 30), "nearest", small_tables),
        ((4000, 30), "covering", float32_blocks),
        ((4000, 60), "nearest", float32_blocks),
        ((5000, 4), "nearest", float32_blocks),
        ((5000, 3), "smallest", float32_blocks),
        ((5000, 97), "covering", many),
        ((5000, 97), "nearest", many),
    ],
)
def test_rows_features_and_rule_choose_the_engine(rng, shape, rule, engine):
    X = rng.normal(size=shape)
    drawn = draw_from_rows(ArrayRows(X), 2, (8,), "hypersphere", 0, PLAIN)
    assert engine_for(Queries(X), drawn, rule) is engine
