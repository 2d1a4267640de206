"""Scores of few rows from their sums, but for the logarithms: the operations of NumPy in the same order."""

from isobag.backends.numba.compiled.jit import jit


@jit
def floor_shares(sums, largest, floors, terms):
    """Sums / largest, at least the floors: sums, terms (V, n, C), the others (V, 1, C)."""
    n_views, n, n_columns = sums.shape
    for view in range(n_views):
        for row in range(n):
            for k in range(n_columns):
                terms[view, row, k] = max(sums[view, row, k] / largest[view, 0, k], floors[view, 0, k])


@jit
def weigh_terms(terms, weights, order, n_coarse, slope, offset, overruled, mean):
    """Weighted sums of terms (V, n, C), less what the coarse ones take away: mean (n,)."""
    n_columns = terms.shape[2]
    for row in range(len(mean)):
        total = coarse = 0.0
        for number in range(len(order)):
            view, k = order[number] // n_columns, order[number] % n_columns
            total += terms[view, row, k] * weights[view, 0, k]
            coarse = total if number == n_coarse - 1 else coarse
        excess = max(total - (offset + slope * coarse), 0.0) if n_coarse else 0.0
        mean[row] = total - overruled * excess
