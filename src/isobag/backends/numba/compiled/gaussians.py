"""Weighted sums of Gaussian kernels, 64 queries at a time, all bandwidths of a path from one pass."""

import numpy as np

from isobag.backends.numba.compiled.float64_distances import AT_ONCE, measure_lanes, padded
from isobag.backends.numba.compiled.jit import jit

ANCHOR_LEVELS = 4
BLOCK_POINTS = 1024

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93145751953125e-1  # the leading bits of ln 2: whole multiples of it up to 2^31 are exact
_LN2_LOW = 1.42860682030941723212e-6
_LOWEST = -708.0
_EXPONENT_BIAS = 1023
_MANTISSA_BITS = 52


@jit
def by_feature(points):
    """Points (m, d) as the functions below take them: (padded d, m), a row for each feature and zeros below."""
    columns = np.zeros((padded(points.shape[1]), len(points)))
    columns[: points.shape[1]] = points.T
    return columns


@jit
def exponentiate_lanes(sq_dists, factor, scales, bits, likeness):
    """Write exp(-factor * sq_dists) into likeness, to a few units in the last place, 0 below exp(-708): (AT_ONCE,).

    exp(x) = 2^k exp(r) with r = x - k ln 2 in [-0.35, 0.35]: Taylor's polynomial of degree 13 is exact to rounding. 2^k
    is written as its bits; scales and bits are one buffer, seen as floats and as integers. A call of the C library
    would keep the loop from becoming SIMD.
    """
    for q in range(AT_ONCE):
        x = -factor * sq_dists[q]
        inside = x if x > _LOWEST else _LOWEST
        k = np.floor(inside * _LOG2_E + 0.5)
        r = (inside - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        likeness[q] = p * r + 1.0
        power = (np.int64(k) + _EXPONENT_BIAS) << _MANTISSA_BITS
        bits[q] = power if x >= _LOWEST else 0
    for q in range(AT_ONCE):
        likeness[q] *= scales[q]


@jit
def add_levels(sq_dists, weight, factors, scales, bits, likeness, sums):
    """sums[l, q] += weight exp(-factors[l] sq_dists[q]) for every level l and lane q; every factor 4 times the last.

    Halving a bandwidth raises each term to the fourth power. Every ANCHOR_LEVELS-th level is computed afresh, so a
    term is off by at most 4^3 = 64 roundings, as many as its exponent has where it is far from 0.
    """
    for level in range(len(factors)):
        if level % ANCHOR_LEVELS == 0:
            exponentiate_lanes(sq_dists, factors[level], scales, bits, likeness)
        else:
            for q in range(AT_ONCE):
                square = likeness[q] * likeness[q]
                likeness[q] = square * square
        row = sums[level]
        for q in range(AT_ONCE):
            row[q] += weight * likeness[q]


@jit
def room_for_lanes(d, n_levels):
    """What the loops below write to: queries, distances, likeness, its powers of two as floats and as bits, sums."""
    scales = np.empty(AT_ONCE)
    sums = np.empty((n_levels, AT_ONCE))
    return np.zeros((padded(d), AT_ONCE)), np.empty(AT_ONCE), np.empty(AT_ONCE), scales, scales.view(np.int64), sums


@jit
def fill_lanes(queries, first, lanes):
    """Copy up to AT_ONCE rows of queries (n, d), from the first given, into lanes (padded d, AT_ONCE); their number."""
    n_queries = min(AT_ONCE, len(queries) - first)
    for q in range(n_queries):
        for k in range(queries.shape[1]):
            lanes[k, q] = queries[first + q, k]
    return n_queries


@jit
def add_gaussians(queries, points, weights, factors, totals):
    """totals[q, l] = sum_j weights[j] exp(-factors[l] |query_q - point_j|^2), every factor 4 times the one before.

    queries (n, d), points (padded d, m) feature by feature, weights (m,), factors (levels,), totals (n, levels).
    Points are added in order, in blocks, so a query's sums are the same whatever the other queries.
    """
    n, d = queries.shape
    m = len(weights)
    n_levels = len(factors)
    lanes, sq_dists, likeness, scales, bits, sums = room_for_lanes(d, n_levels)
    block_sums = np.empty((n_levels, AT_ONCE))
    for first in range(0, n, AT_ONCE):
        n_queries = fill_lanes(queries, first, lanes)
        sums[:] = 0.0
        for start in range(0, m, BLOCK_POINTS):
            block_sums[:] = 0.0
            for j in range(start, min(start + BLOCK_POINTS, m)):
                measure_lanes(lanes, points, j, sq_dists)
                add_levels(sq_dists, weights[j], factors, scales, bits, likeness, block_sums)
            for level in range(n_levels):
                for q in range(AT_ONCE):
                    sums[level, q] += block_sums[level, q]
        for q in range(n_queries):
            for level in range(n_levels):
                totals[first + q, level] = sums[level, q]


@jit
def add_gaussians_of_groups(queries, ids, points, starts, factors, totals):
    """totals[l, i, j] += sum over queries x of group i and points y of group j of exp(-factors[l] |x - y|^2).

    queries (n, d) and ids (n,), the group of each; points (padded d, m) feature by feature, those of group j from
    starts[j] to starts[j + 1]; factors (levels,) as above; totals (levels, groups of queries, groups of points).
    Queries are added one by one in order, so a group's sums are the same whatever the other groups of queries.
    """
    n, d = queries.shape
    n_levels = len(factors)
    lanes, sq_dists, likeness, scales, bits, sums = room_for_lanes(d, n_levels)
    for first in range(0, n, AT_ONCE):
        n_queries = fill_lanes(queries, first, lanes)
        for group in range(len(starts) - 1):
            sums[:] = 0.0
            for j in range(starts[group], starts[group + 1]):
                measure_lanes(lanes, points, j, sq_dists)
                add_levels(sq_dists, 1.0, factors, scales, bits, likeness, sums)
            for level in range(n_levels):
                for q in range(n_queries):
                    totals[level, ids[first + q], group] += sums[level, q]
