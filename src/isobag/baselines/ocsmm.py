"""One-class support measure machine: a one-class SVM on groups instead of points."""

from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist
from sklearn.svm import OneClassSVM

from isobag.arrays import Floats
from isobag.detectors.base import GroupDetector
from isobag.groups import Bags

_BLOCK_POINTS = 1 << 10


class OCSMM(GroupDetector):
    """One-class SVM on the exact Gaussian mean-embedding kernel between groups (Muandet and Schoelkopf, 2013).

    K(G, H) = mean over x in G, y in H of exp(-|x - y|^2 / (2 bandwidth^2)); score of G = sum_j alpha_j K(G, G_j) over
    the groups G_j of ``fit``, with the dual coefficients alpha_j of the SVM. Every pair of points is visited, so the
    time grows with the square of their number; memory does not (a block of pairs at a time, and groups x groups).

    Parameters
    ----------
    nu : share of groups that may lie outside, an upper bound; in (0, 1].
    bandwidth : standard deviation of the Gaussian in the units of ``X``, which is not scaled here; or ``"median"``, the
        median distance between 1,000 points drawn by ``random_state``.
    contamination : share of odd groups that ``predict`` assumes, or ``"auto"``: the SVM's own boundary.
    tol : how exactly the SVM is solved. Scores do not repeat beyond it when groups change places.
    """

    def __init__(
        self,
        nu: float = 0.1,
        bandwidth: float | Literal["median"] = "median",
        *,
        contamination: float | Literal["auto"] = "auto",
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.nu = nu
        self.bandwidth = bandwidth
        self.contamination = contamination
        self.tol = tol
        self.random_state = random_state

    def _fit_groups(self, points: Bags) -> Floats:
        self.bandwidth_ = resolve_bandwidth(self.bandwidth, points.X, self.random_state)
        self._points = sort_by_group(points)
        kernel = mean_embedding_kernel(self._points, None, self.bandwidth_)
        self.svm_ = OneClassSVM(kernel="precomputed", nu=self.nu, tol=self.tol).fit(kernel)
        return self._score_kernel(kernel)

    def _score_groups(self, points: Bags) -> Floats:
        return self._score_kernel(mean_embedding_kernel(sort_by_group(points), self._points, self.bandwidth_))

    def _score_kernel(self, kernel: Floats) -> Floats:
        scores: Floats = self.svm_.score_samples(kernel)
        return scores

    def _auto_offset(self, scores: Floats) -> float:
        return float(self.svm_.offset_[0])


def resolve_bandwidth(bandwidth: float | str, X: Floats, random_state: Any) -> float:
    """The bandwidth given, or the median distance between up to 1,000 points of X: (points, d) -> float."""
    if not isinstance(bandwidth, str):
        if not 0 < bandwidth < np.inf:
            raise ValueError(f"bandwidth={bandwidth}; need a finite number above 0: it is a standard deviation.")
        return float(bandwidth)
    if bandwidth != "median":
        raise ValueError(f"bandwidth={bandwidth!r}; need a number or 'median'.")
    rows = np.random.default_rng(random_state).choice(len(X), size=min(len(X), 1000), replace=False)
    distances = pdist(X[rows])
    distances = distances[distances > 0]
    # Where all points are equal, so are all groups, at any bandwidth.
    return float(np.median(distances)) if len(distances) else 1.0


def sort_by_group(points: Bags) -> Bags:
    """The same points, those of a group side by side and otherwise in the order given."""
    order = np.argsort(points.ids, kind="stable")
    return Bags(points.X[order], points.ids[order], points.labels)


def mean_embedding_kernel(A: Bags, B: Bags | None, bandwidth: float) -> Floats:
    """K[i, j] = mean over x in A_i, y in B_j of exp(-|x - y|^2 / (2 bandwidth^2)): (groups of A, groups of B).

    Groups must lie side by side (``sort_by_group``). B = None means A itself: one half is computed and mirrored.

    Blocks start at fixed rows of B and at the first row of each group of A, and distances come from differences, not
    from a matrix product; so K[i] is the same to the last bit whatever the other groups of A are.
    """
    mirrored, B = B is None, A if B is None else B
    starts = np.concatenate([[0], np.cumsum(A.sizes)])
    sums = np.zeros((len(A.labels), len(B.labels)))
    for i, (start, stop) in enumerate(pairwise(starts)):
        first = start - start % _BLOCK_POINTS if mirrored else 0
        for column in range(first, len(B.X), _BLOCK_POINTS):
            block = slice(column, column + _BLOCK_POINTS)
            ids = B.ids[block]
            firsts = np.flatnonzero(np.diff(ids, prepend=-1))
            for row in range(start, stop, _BLOCK_POINTS):
                likeness = cdist(A.X[row : min(row + _BLOCK_POINTS, stop)], B.X[block], "sqeuclidean")
                likeness *= -0.5 / bandwidth**2
                np.exp(likeness, out=likeness)
                sums[i, ids[firsts]] += np.add.reduceat(likeness.sum(axis=0), firsts)
    kernel: Floats = sums / A.sizes[:, None] / B.sizes
    return np.triu(kernel) + np.triu(kernel, 1).T if mirrored else kernel
