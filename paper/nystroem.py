"""Nystroem's finite feature map of the Gaussian kernel, with landmarks drawn by recursive leverage scores.

phi(x) = kappa(x, L) kappa(L, L)^(-1/2) for s landmarks L (Musco and Musco, 2017): rows that the others do not explain
are likely to be drawn, so that rare regions have landmarks too.
"""

from math import isqrt, log

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.spatial.distance import cdist

_BLOCK_ROWS = 1 << 12
_EPS = float(np.finfo(np.float64).eps)


class Nystroem:
    """The feature map of sqrt(n) landmarks: (n, d) -> (n, s)."""

    def __init__(self, bandwidth, seed=0):
        self.bandwidth, self.seed = bandwidth, seed

    def fit(self, X):
        rng = np.random.default_rng(self.seed)
        self.landmarks = X[draw_landmarks(X, max(1, isqrt(len(X))), self.bandwidth, rng)]
        vectors, values = invertible_part(gaussian_kernel(self.landmarks, self.landmarks, self.bandwidth))
        self.whitening = vectors / np.sqrt(values) @ vectors.T
        return self

    def transform(self, X):
        return gaussian_kernel(X, self.landmarks, self.bandwidth) @ self.whitening


def gaussian_kernel(X, Y, bandwidth):
    """Kappa of all pairs: (n, d), (m, d) -> (n, m)."""
    kernel = cdist(X, Y, "sqeuclidean")
    kernel *= -0.5 / bandwidth**2
    return np.exp(kernel, out=kernel)


def invertible_part(kernel):
    """Eigenvectors (s, r) and eigenvalues (r,) of a kernel matrix, without those that are rounding errors."""
    values, vectors = eigh(kernel)
    used = values > len(kernel) * _EPS * values[-1]
    return vectors[:, used], values[used]


def draw_landmarks(X, n_landmarks, bandwidth, rng):
    """Distinct rows of X, drawn by approximate ridge leverage scores: (n, d) -> (n_landmarks,).

    From the bottom up: the rows are halved at random until n_landmarks or fewer are left, all of them landmarks; then
    the landmarks of each half serve to estimate the scores in the set twice as large, where the next ones are drawn.
    """
    shuffled = rng.permutation(len(X))
    sizes = [len(X)]
    while sizes[-1] > n_landmarks:
        sizes.append(-(-sizes[-1] // 2))
    landmarks, weights = shuffled[: sizes.pop()], np.ones(n_landmarks)
    for size in reversed(sizes):
        rows = shuffled[:size]
        scores = leverage_scores(X, rows, landmarks, weights[: len(landmarks)], bandwidth)
        shares = scores / scores.sum()
        drawn = rng.choice(size, size=n_landmarks, replace=False, p=shares)
        landmarks, weights = rows[drawn], 1 / np.sqrt(np.minimum(1.0, n_landmarks * shares[drawn]))
    return landmarks


def leverage_scores(X, rows, landmarks, weights, bandwidth):
    """Approximate ridge leverage scores of rows, up to a common factor: (rows,), all above 0.

    score_x = kappa(x, x) - k_x (K + ridge I)^-1 k_x', where K is the weighted kernel matrix of the landmarks and k_x
    the weighted kernel of x with them. The ridge is 1/k of what the k largest eigenvalues of K leave, with k of the
    order of s / log(s): so many directions can be told from a sample of s rows.
    """
    kernel = gaussian_kernel(X[landmarks], X[landmarks], bandwidth) * weights * weights[:, None]
    n_directions = max(1, int(len(landmarks) / (1 + log(len(landmarks)))))
    values = eigh(kernel, eigvals_only=True)
    ridge = max(float(values[:-n_directions].sum()) / n_directions, len(kernel) * _EPS * float(values[-1]))
    factor = cholesky(kernel + ridge * np.eye(len(kernel)), lower=True)
    scores = np.empty(len(rows))
    for first in range(0, len(rows), _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        likeness = gaussian_kernel(X[rows[block]], X[landmarks], bandwidth) * weights
        explained = solve_triangular(factor, likeness.T, lower=True, check_finite=False)
        scores[block] = 1 - np.einsum("sn,sn->n", explained, explained)
    # Rows fully explained up to rounding keep a chance, or too few rows could be drawn.
    return np.maximum(scores, _EPS)
