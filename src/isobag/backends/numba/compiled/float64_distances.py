"""Squared distances, 64 queries at a time, in the order of the NumPy backend."""

from isobag.backends.numba.compiled.jit import jit

AT_ONCE = 64
"""Queries that are measured together."""


@jit
def sq_distance(X, x, points, c):
    """Squared distance of X[x] and points[c] as defined: features summed in order."""
    total = 0.0
    for k in range(X.shape[1]):
        total += (X[x, k] - points[c, k]) * (X[x, k] - points[c, k])
    return total


@jit
def padded(d):
    """Features rounded up to a multiple of four; the added ones are zero in queries and centers and change no sum."""
    return d + -d % 4


@jit
def measure_lanes(lanes, candidates, a, sq_dists):
    """Squared distances of one candidate to AT_ONCE queries, features in order: lanes (padded, AT_ONCE)."""
    for q in range(AT_ONCE):
        sq_dists[q] = 0.0
    for k in range(0, len(lanes), 4):
        c0 = candidates[k, a]
        c1 = candidates[k + 1, a]
        c2 = candidates[k + 2, a]
        c3 = candidates[k + 3, a]
        for q in range(AT_ONCE):
            x0 = lanes[k, q] - c0
            x1 = lanes[k + 1, q] - c1
            x2 = lanes[k + 2, q] - c2
            x3 = lanes[k + 3, q] - c3
            sq_dists[q] = (((sq_dists[q] + x0 * x0) + x1 * x1) + x2 * x2) + x3 * x3
