"""Engines for many features, held against the definition."""

import numpy as np
from numpy.testing import assert_array_equal

from isobag.backends import Compute
from isobag.data.rows import ArrayRows
from isobag.partitionings import draw_from_rows

PLAIN, FAST = Compute("numpy", 1), Compute("numba", 2)
LEVELS = (2, 4, 40, 100)


def drawn_from(X, levels=LEVELS, t=3, mechanism="hypersphere"):
    return draw_from_rows(ArrayRows(X), t, levels, mechanism, 0, PLAIN)


def assert_as_defined(drawn, Q):
    """Cells, counts, sums and octaves of queries, with one thread and with several."""
    limits = np.array([0, -1, -1, 0]) if drawn.far_limits() is None else drawn.far_limits()
    assert_array_equal(drawn.assign(drawn.prepare(Q, FAST), FAST), drawn.assign(drawn.prepare(Q, PLAIN), PLAIN))
    expected = drawn.count_and_sum(drawn.prepare(Q, PLAIN), PLAIN, limits=limits)
    for n_jobs in (1, 3):
        compute = Compute("numba", n_jobs)
        found = drawn.count_and_sum(drawn.prepare(Q, compute), compute, limits=limits)
        for own, other in zip(found, expected, strict=True):
            assert_array_equal(own, other)
