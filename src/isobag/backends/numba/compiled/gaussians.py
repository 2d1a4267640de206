"""Weighted sums of Gaussian kernels, 64 queries at a time, all bandwidths of a path from one pass."""

from math import factorial

import numpy as np

from isobag.backends.numba.compiled.float64_distances import AT_ONCE, measure_lanes, padded
from isobag.backends.numba.compiled.jit import jit

ANCHOR_LEVELS = 4

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93145751953125e-1  # the leading bits of ln 2: whole multiples of it up to 2^31 are exact
_LN2_LOW = 1.42860682030941723212e-6
_LOWEST = -708.0
_EXPONENT_BIAS = 1023
_MANTISSA_BITS = 52
_COEFFICIENTS = tuple(1 / factorial(k) for k in range(13, -1, -1))
"""Of Taylor's polynomial of exp, the highest degree first."""


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
        p = 0.0
        for coefficient in _COEFFICIENTS:
            p = p * r + coefficient
        likeness[q] = p
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
def add_gaussians(queries, owners, points, weights, starts, targets, factors, totals):
    """Weighted sums of Gaussian kernels between queries and runs of points, all levels.

    totals[l, owners[q], targets[k]] += sum over run k of weights[j] exp(-factors[l] |query_q - point_j|^2).

    queries (n, d) and owners (n,); points (padded d, m) feature by feature, weights (m,), run k from starts[k] to
    starts[k + 1]; factors (levels,), every one 4 times the one before. Points and then queries are added one by one in
    order, so an owner's sums are the same whatever the other owners.
    """
    n, d = queries.shape
    lanes = np.zeros((padded(d), AT_ONCE))
    sq_dists, likeness, scales = np.empty(AT_ONCE), np.empty(AT_ONCE), np.empty(AT_ONCE)
    bits, sums = scales.view(np.int64), np.empty((len(factors), AT_ONCE))
    for first in range(0, n, AT_ONCE):
        n_queries = min(AT_ONCE, n - first)
        for q in range(n_queries):
            for k in range(d):
                lanes[k, q] = queries[first + q, k]
        for run in range(len(targets)):
            sums[:] = 0.0
            for j in range(starts[run], starts[run + 1]):
                measure_lanes(lanes, points, j, sq_dists)
                add_levels(sq_dists, weights[j], factors, scales, bits, likeness, sums)
            for level in range(len(factors)):
                for q in range(n_queries):
                    totals[level, owners[first + q], targets[run]] += sums[level, q]
