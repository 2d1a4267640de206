"""Gaussian kernels between all pairs of rows, compiled, every bandwidth from one pass: K_G, K_NG and OCSMM's kernel.

kappa(x, y) = exp(-|x - y|^2 / (2 bandwidth^2))
"""

from itertools import pairwise
from math import factorial, isqrt

import numpy as np
from joblib import Parallel, delayed
from numba import njit
from scipy.spatial.distance import pdist
from sklearn.svm import OneClassSVM

from paper.nystroem import draw_landmarks, gaussian_kernel, invertible_part

BANDWIDTHS = tuple(2.0**k for k in range(-5, 6))
"""What the paper searches."""
_LANES = 64
_ANCHOR_LEVELS = 4
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6  # ln 2 in two parts, the first of few bits
_COEFFICIENTS = tuple(1 / factorial(k) for k in range(13, -1, -1))
_BLOCK = 1 << 10


@njit(nogil=True, cache=True, error_model="numpy")
def _add_levels(sq_dists, weight, factors, scales, bits, terms, sums):
    """sums[l, q] += weight exp(-factors[l] sq_dists[q]), each factor 4 times the one before.

    Halving a bandwidth raises a term to the fourth power; every fourth level is computed afresh, so that a term is off
    by 64 roundings at most. exp(x) = 2^k exp(r), r in [-.35, .35], is Taylor's polynomial and 2^k written as its bits
    (``scales`` and ``bits`` are one buffer): a call of the C library would keep the loop from becoming SIMD.
    """
    for level in range(len(factors)):
        if level % _ANCHOR_LEVELS:
            for q in range(_LANES):
                square = terms[q] * terms[q]
                terms[q] = square * square
        else:
            for q in range(_LANES):
                x = -factors[level] * sq_dists[q]
                inside = x if x > -708.0 else -708.0
                k = np.floor(inside * 1.4426950408889634 + 0.5)
                r = (inside - k * _LN2_HIGH) - k * _LN2_LOW
                p = 0.0
                for coefficient in _COEFFICIENTS:
                    p = p * r + coefficient
                terms[q] = p
                bits[q] = (np.int64(k) + 1023) << 52 if x >= -708.0 else 0
            for q in range(_LANES):
                terms[q] *= scales[q]
        row = sums[level]
        for q in range(_LANES):
            row[q] += weight * terms[q]


@njit(nogil=True, cache=True, error_model="numpy")
def _add_sums(queries, owners, columns, weights, starts, first_run, factors, totals):
    """totals[l, owners[q], k] += sum over j in run k of weights[j] exp(-factors[l] |query_q - point_j|^2).

    columns (d, m): the points, feature by feature; run k is starts[k] to starts[k + 1], those before first_run left out
    """
    lanes, sq_dists = np.zeros((queries.shape[1], _LANES)), np.empty(_LANES)
    terms, scales, sums = np.empty(_LANES), np.empty(_LANES), np.empty((len(factors), _LANES))
    bits = scales.view(np.int64)
    for first in range(0, len(queries), _LANES):
        n_queries = min(_LANES, len(queries) - first)
        for q in range(n_queries):
            lanes[:, q] = queries[first + q]
        for run in range(first_run, len(starts) - 1):
            sums[:] = 0.0
            for j in range(starts[run], starts[run + 1]):
                sq_dists[:] = 0.0
                for k in range(len(lanes)):
                    row, value = lanes[k], columns[k, j]
                    for q in range(_LANES):
                        sq_dists[q] += (row[q] - value) * (row[q] - value)
                _add_levels(sq_dists, weights[j], factors, scales, bits, terms, sums)
            for level in range(len(factors)):
                for q in range(n_queries):
                    totals[level, owners[first + q], run] += sums[level, q]


def kernel_sums(X, points, weights, bandwidths, n_jobs=None):
    """Sum over j of weights[j] kappa(x, point_j): (bandwidths, n); each bandwidth is twice the one before."""
    factors, columns = 0.5 / np.array(bandwidths[::-1]) ** 2, np.ascontiguousarray(points.T)
    sums = np.zeros((len(factors), len(X), 1))
    cuts = np.append(np.arange(0, len(points), _BLOCK), len(points))

    def work(rows):
        for cut in range(len(cuts) - 1):
            owners = np.arange(rows.start, rows.start + len(X[rows]))
            _add_sums(X[rows], owners, columns, weights, cuts[cut : cut + 2], 0, factors, sums)

    Parallel(n_jobs, backend="threading")(
        delayed(work)(slice(first, first + _BLOCK)) for first in range(0, len(X), _BLOCK)
    )
    return sums[::-1, :, 0]


def blocks_of_groups(ids, n_points):
    """Slices of rows that hold whole groups, about n_points in each: ids (n,) ascending."""
    ends = np.flatnonzero(np.diff(ids, append=-1)) + 1
    wanted = np.searchsorted(ends, np.arange(n_points, len(ids) + n_points, n_points)).clip(max=len(ends) - 1)
    cuts = [0, *np.unique(ends[wanted]).tolist()]
    return [slice(a, b) for a, b in pairwise(cuts)]


def mean_kernels(A, ids, B=None, b_ids=None, bandwidths=BANDWIDTHS, n_jobs=None):
    """Mean of kappa(x, y) over x of group i of A and y of group j of B: (bandwidths, groups of A, groups of B).

    ids and b_ids are 0, 1, ..., ascending. Without B it is A, and one half is computed.
    """
    mirrored = B is None
    if mirrored:
        B, b_ids = A, ids
    factors, columns, weights = 0.5 / np.array(bandwidths[::-1]) ** 2, np.ascontiguousarray(B.T), np.ones(len(B))
    a_sizes, b_sizes = np.bincount(ids), np.bincount(b_ids)
    starts, sums = np.append(0, np.cumsum(b_sizes)), np.zeros((len(factors), len(a_sizes), len(b_sizes)))

    def work(rows):
        _add_sums(A[rows], ids[rows], columns, weights, starts, ids[rows.start] if mirrored else 0, factors, sums)

    Parallel(n_jobs, backend="threading")(delayed(work)(rows) for rows in blocks_of_groups(ids, _BLOCK))
    means = (sums / a_sizes[:, None] / b_sizes)[::-1]
    return np.triu(means) + np.triu(means, 1).transpose(0, 2, 1) if mirrored else means


def median_distance(X, seed):
    """Median distance between up to 1,000 rows, 1 if all are equal."""
    distances = pdist(np.random.default_rng(seed).permutation(X)[:1000])
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0


class GaussianDetector:
    """K_G: score(x) = (1/n) sum_y kappa(x, y), visiting every pair of different rows.

    With ``nystroem``, K_NG: kappa(x, y) is replaced by <phi(x), phi(y)> of sqrt(n) landmarks L, so that the score is
    sum_l alpha_l kappa(x, l) with alpha = kappa(L, L)^+ m and m the scores of the landmarks by K_G.
    """

    def __init__(self, bandwidth, nystroem=False, seed=0, n_jobs=None):
        self.bandwidth, self.nystroem, self.seed, self.n_jobs = bandwidth, nystroem, seed, n_jobs

    def fit(self, X):
        self.points, counts = np.unique(X, axis=0, return_counts=True)
        self.weights = counts / len(X)
        if self.nystroem:
            rng = np.random.default_rng(self.seed)
            landmarks = X[draw_landmarks(X, max(1, isqrt(len(X))), self.bandwidth, rng)]
            means = kernel_sums(landmarks, self.points, self.weights, (self.bandwidth,), self.n_jobs)[0]
            vectors, values = invertible_part(gaussian_kernel(landmarks, landmarks, self.bandwidth))
            self.points, self.weights = landmarks, vectors @ (vectors.T @ means / values)
        return self

    def score_samples(self, X):
        return self.score_path(X, (self.bandwidth,))[0]

    def score_path(self, X, bandwidths=BANDWIDTHS):
        """Scores by K_G at each bandwidth: (bandwidths, n)."""
        rows, inverse = np.unique(X, axis=0, return_inverse=True)
        return kernel_sums(rows, self.points, self.weights, bandwidths, self.n_jobs)[:, inverse.ravel()]


class OCSMM:
    """One-class support measure machine: a one-class SVM of groups on the mean of kappa over all pairs of points."""

    tol = 1e-6

    def __init__(self, bandwidth="median", nu=0.1, seed=0, n_jobs=None):
        self.bandwidth, self.nu, self.seed, self.n_jobs = bandwidth, nu, seed, n_jobs

    def fit(self, X, groups):
        self.X, self.groups = X, groups
        self.bandwidth_ = median_distance(X, self.seed) if self.bandwidth == "median" else self.bandwidth
        kernel = mean_kernels(X, groups, bandwidths=(self.bandwidth_,), n_jobs=self.n_jobs)[0]
        self.svm = OneClassSVM(kernel="precomputed", nu=self.nu, tol=self.tol).fit(kernel)
        self.scores_ = self.svm.score_samples(kernel)
        return self

    def score_samples(self, X, groups):
        kernel = mean_kernels(X, groups, self.X, self.groups, (self.bandwidth_,), self.n_jobs)[0]
        return self.svm.score_samples(kernel)
