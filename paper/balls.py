"""Two scores that ask only which balls cover a point: the paper's norm, and iNNE (Bandaragoda et al., 2018).

Both draw psi centers t times; the ball of a center reaches to the nearest different center.
"""

import numpy as np
from joblib import Parallel, delayed
from numba import njit

_BLOCK_ROWS = 1 << 12


@njit(nogil=True, cache=True)
def _neighbours(centers, nearest, sq_radii):
    """Write the nearest different center of each, and the squared distance; itself and 0 where all are equal."""
    for i in range(len(centers)):
        best, at = np.inf, i
        for j in range(len(centers)):
            total = 0.0
            for k in range(centers.shape[1]):
                total += (centers[i, k] - centers[j, k]) ** 2
                if total >= best:
                    break
            if 0 < total < best:
                best, at = total, j
        nearest[i], sq_radii[i] = at, 0.0 if at == i else best


@njit(nogil=True, cache=True)
def _add_smallest(X, centers, sq_radii, ratios, sums):
    """Of the first ball that covers x, and they come from small to large: sums[x] += 1, its ratio."""
    for x in range(len(X)):
        for c in range(len(centers)):
            total = 0.0
            for k in range(X.shape[1]):
                total += (X[x, k] - centers[c, k]) ** 2
                if total > sq_radii[c]:
                    break
            if total <= sq_radii[c]:
                sums[x, 0] += 1.0
                sums[x, 1] += ratios[c]
                break


class Norm:
    """Share of the partitionings in which any ball covers x, in [0, 1]."""

    def __init__(self, t, psi, seed=0, n_jobs=None):
        self.t, self.psi, self.seed, self.n_jobs = t, psi, seed, n_jobs

    def fit(self, X):
        rng = np.random.default_rng(self.seed)
        drawn = [X[rng.choice(len(X), self.psi, replace=False)] for _ in range(self.t)]
        self.balls = Parallel(self.n_jobs, backend="threading")(map(delayed(balls_around), drawn))
        return self

    def score_samples(self, X):
        return self._means(X)[:, 0]

    def _means(self, X):
        """Of the smallest ball that covers x, 0 without one: mean of 1, and of its ratio of radii, (n, 2)."""
        rows, inverse = np.unique(X, axis=0, return_inverse=True)
        sums = np.zeros((len(rows), 2))

        def work(block):
            for balls in self.balls:
                _add_smallest(rows[block], *balls, sums[block])

        blocks = (slice(first, first + _BLOCK_ROWS) for first in range(0, len(rows), _BLOCK_ROWS))
        Parallel(self.n_jobs, backend="threading")(map(delayed(work), blocks))
        return sums[inverse.ravel()] / self.t


class INNE(Norm):
    """Minus the mean isolation score 1 - r(c') / r(c): in [-1, 0], -1 where no ball covers x.

    c is the center of the smallest ball that covers x, r its radius, and c' the center nearest to c.
    """

    def score_samples(self, X):
        return self._means(X)[:, 1] - 1


def balls_around(centers):
    """Centers, squared radii, and r(c') / r(c) of each center c and the nearest c'; the smallest ball first."""
    nearest, sq_radii = np.empty(len(centers), dtype=np.int64), np.empty(len(centers))
    _neighbours(centers, nearest, sq_radii)
    ratios = np.sqrt(np.divide(sq_radii[nearest], sq_radii, out=np.ones(len(centers)), where=sq_radii > 0))
    order = sq_radii.argsort(kind="stable")
    return centers[order], sq_radii[order], ratios[order]
