"""Scores of few rows from their sums."""

import numpy as np

from isobag.backends.arrays import Floats, Ints, Weights
from isobag.backends.numba.compiled import averages


def floor_shares(sums: Ints, own: Weights) -> Floats:
    """Sums as shares of the largest, at least the floors: (V, n, C)."""
    terms = np.empty(sums.shape)
    averages.floor_shares(sums, own.largest, own.floors, terms)
    return terms


def weigh_terms(terms: Floats, own: Weights) -> Floats:
    """Weighted sums of terms (V, n, C), less what the coarse ones take away: (n,)."""
    mean = np.empty(terms.shape[1])
    averages.weigh_terms(terms, *own[2:], mean)
    return mean
