"""Scores of few rows from their sums, and the typical radius."""

import numpy as np

from isobag.backends.arrays import Floats, Ints, Weights
from isobag.backends.numba.compiled import averages


def floor_shares(sums: Ints, own: Weights) -> Floats:
    """Sums as shares of the largest, at least the floors: (V, n, C)."""
    terms = np.empty(sums.shape)
    averages.floor_shares(sums, own.largest, own.floors, terms)
    return terms


def weigh_terms(terms: Floats, own: Weights) -> Floats:
    """Weighted sums of terms (V, n, C), less what the coarse ones take away, at least the lowest: (n,)."""
    mean = np.empty(terms.shape[1])
    averages.weigh_terms(terms, *own[2:], mean)
    return mean


def middle_octave(sq_radii: Floats) -> int:
    """Octaves of the lower median of those above 0, and of 1 if there are none: (t, m)."""
    return int(averages.middle_octave(sq_radii))
