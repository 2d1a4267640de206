"""Scores of few rows from their sums, but for the logarithms, and the typical radius, to the bits of NumPy."""

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.llvm import bits


@jit
def floor_shares(sums, largest, floors, terms):
    """Sums / largest, at least the floors: sums, terms (V, n, C), the others (V, 1, C)."""
    n_views, n, n_columns = sums.shape
    for view in range(n_views):
        for row in range(n):
            for k in range(n_columns):
                terms[view, row, k] = max(sums[view, row, k] / largest[view, 0, k], floors[view, 0, k])


@jit
def weigh_terms(terms, weights, order, n_coarse, slope, offset, overruled, lowest, mean):
    """Weighted sums of terms (V, n, C), less what the coarse ones take away, at least the lowest: mean (n,)."""
    n_columns = terms.shape[2]
    for row in range(len(mean)):
        total = coarse = 0.0
        for number in range(len(order)):
            view, k = order[number] // n_columns, order[number] % n_columns
            total += terms[view, row, k] * weights[view, 0, k]
            coarse = total if number == n_coarse - 1 else coarse
        excess = max(total - (offset + slope * coarse), 0.0) if n_coarse else 0.0
        mean[row] = max(total - overruled * excess, lowest)


@jit
def middle_octave(sq_radii):
    """Octaves of the lower median of squared radii above 0 (t, m), and of 1 if there are none.

    By halving the range of octaves: counting how many are not above a number is a loop in vectors, sorting is not.
    """
    known = np.empty(sq_radii.size, dtype=np.int64)
    n_known = 0
    for own in sq_radii:
        for value in own:
            known[n_known] = bits(value) >> OCTAVE_BITS
            n_known += value > 0.0
    known = known[:n_known]
    if not n_known:
        return bits(1.0) >> OCTAVE_BITS
    low, high = known.min(), known.max()
    while low < high:
        middle = low + (high - low) // 2
        n_below = 0
        for q in range(n_known):
            n_below += known[q] <= middle
        if n_below > (n_known - 1) // 2:
            high = middle
        else:
            low = middle + 1
    return low
