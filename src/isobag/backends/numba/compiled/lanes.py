"""Squared distances, 64 queries at a time or from centers to a box, in the order of the NumPy backend."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit, jit_inner

LANES = 64


@jit_inner
def measure_box(candidates, size, low, high, near, far):
    """Least and greatest squared distance from each candidate to a box, bounds of what measure_lanes returns."""
    for a in range(size):
        near[a] = 0.0
        far[a] = 0.0
    for k in range(len(low)):
        column = candidates[k]
        lowest = low[k]
        highest = high[k]
        for a in range(size):
            below = lowest - column[a]
            above = column[a] - highest
            gap = below if below > above else above
            gap = gap if gap > 0.0 else 0.0
            reach = -below if -below > -above else -above
            near[a] += gap * gap
            far[a] += reach * reach


@jit
def padded(d):
    """Features rounded up to a multiple of four; the added ones are zero in queries and centers and change no sum."""
    return d + -d % 4


@jit
def measure_lanes(lanes, candidates, a, sq_dists):
    """Squared distances of one candidate to LANES queries, features in order: lanes (padded, LANES)."""
    for q in range(LANES):
        sq_dists[q] = 0.0
    for k in range(0, len(lanes), 4):
        c0 = candidates[k, a]
        c1 = candidates[k + 1, a]
        c2 = candidates[k + 2, a]
        c3 = candidates[k + 3, a]
        for q in range(LANES):
            x0 = lanes[k, q] - c0
            x1 = lanes[k + 1, q] - c1
            x2 = lanes[k + 2, q] - c2
            x3 = lanes[k + 3, q] - c3
            sq_dists[q] = (((sq_dists[q] + x0 * x0) + x1 * x1) + x2 * x2) + x3 * x3


@jit
def row_stride(size):
    """Length of a candidate row: an odd number of cache lines, or rows a power of two apart evict each other."""
    lines = size // 8 + 1
    return 8 * (lines + 1 - lines % 2)


@jit
def distinct_slots(slots, n_points):
    """Positions of the first center of each kind: a later equal one never wins a tie."""
    seen = np.zeros(n_points, np.bool_)
    kept = np.empty(len(slots), np.int64)
    size = 0
    for j in range(len(slots)):
        if not seen[slots[j]]:
            seen[slots[j]] = True
            kept[size] = j
            size += 1
    return kept[:size]
