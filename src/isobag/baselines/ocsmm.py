"""One-class support measure machine: a one-class SVM on groups instead of points."""

from typing import Any, ClassVar, Literal

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.svm import OneClassSVM

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import map_in_threads
from isobag.data.groups import Groups
from isobag.data.params import BANDWIDTH, N_JOBS, Parameters, check_params
from isobag.data.rows import ArrayRows, whole_groups
from isobag.estimators.base import GroupDetector, Thresholded

_BLOCK_POINTS = 1 << 10


class OCSMM(GroupDetector):
    """One-class SVM on the exact Gaussian mean-embedding kernel between groups (Muandet and Schoelkopf, 2013).

    K(G, H) = mean over x in G, y in H of exp(-|x - y|^2 / (2 bandwidth^2)); score of G = sum_j alpha_j K(G, G_j) over
    the groups G_j of ``fit``, with the dual coefficients alpha_j of the SVM. Every pair of points is visited, so the
    time grows with the square of their number; memory is groups x groups.

    Parameters
    ----------
    nu : share of groups that may lie outside, an upper bound; in (0, 1].
    bandwidth : standard deviation of the Gaussian in the units of ``X``, which is not scaled here; or ``"median"``, the
        median distance between 1,000 points drawn by ``random_state``.
    contamination : share of odd groups that ``predict`` assumes, or ``"auto"``: the SVM's own boundary.
    tol : how exactly the SVM is solved. Scores do not repeat beyond it when groups change places.
    n_jobs : threads, as in joblib; the results do not depend on it.
    """

    parameters: ClassVar[Parameters] = {**Thresholded.parameters, "bandwidth": BANDWIDTH, "n_jobs": N_JOBS}

    def __init__(
        self,
        nu: float = 0.1,
        bandwidth: float | Literal["median"] = "median",
        *,
        contamination: float | Literal["auto"] = "auto",
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.bandwidth = bandwidth
        self.contamination = contamination
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_groups(self, points: Groups) -> Floats:
        self.bandwidth_ = resolve_bandwidth(self.bandwidth, points.points, self.random_state)
        self._points = sort_by_group(points)
        kernel = self._kernel(self._points, None)
        self.svm_ = OneClassSVM(kernel="precomputed", nu=self.nu, tol=self.tol).fit(kernel)
        return self._score_kernel(kernel)

    def _score_groups(self, points: Groups) -> Floats:
        return self._score_kernel(self._kernel(sort_by_group(points), self._points))

    def _kernel(self, A: Groups, B: Groups | None) -> Floats:
        kernel: Floats = mean_embedding_kernels(A, B, (self.bandwidth_,), self.n_jobs)[0]
        return kernel

    def _score_kernel(self, kernel: Floats) -> Floats:
        scores: Floats = self.svm_.score_samples(kernel)
        return scores

    def _auto_offset(self, scores: Floats) -> float:
        return float(self.svm_.offset_[0])


def resolve_bandwidth(bandwidth: float | str, X: Floats, random_state: Any) -> float:
    """The bandwidth given, or the median distance between up to 1,000 points of X: (points, d) -> float."""
    check_params({"bandwidth": bandwidth}, {"bandwidth": BANDWIDTH})
    if bandwidth != "median":
        return float(bandwidth)
    rows = np.random.default_rng(random_state).choice(len(X), size=min(len(X), 1000), replace=False)
    distances = pdist(X[rows])
    distances = distances[distances > 0]
    # Where all points are equal, so are all groups, at any bandwidth.
    return float(np.median(distances)) if len(distances) else 1.0


def sort_by_group(points: Groups) -> Groups:
    """The same points, those of a group side by side and otherwise in the order given."""
    order = np.argsort(points.ids, kind="stable")
    return Groups(ArrayRows(points.points[order]), points.ids[order], points.labels)


def mean_embedding_kernels(
    A: Groups, B: Groups | None, bandwidths: tuple[float, ...], n_jobs: int | None = None
) -> Floats:
    """K[l, i, j] = mean over x in A_i, y in B_j of exp(-|x - y|^2 / (2 bandwidth_l^2)): (bandwidths, g of A, g of B).

    All bandwidths, each twice the one before, come from one pass over the distances. Groups must lie side by side
    (``sort_by_group``). B = None means A itself: one half is computed and mirrored. K[l, i] is the same to the last bit
    whatever the other groups of A are, and the threads.
    """
    # Imported here, as the compiled code brings Numba with it.
    from isobag.backends.numba.compiled.gaussians import add_gaussians, by_feature  # noqa: PLC0415

    mirrored, B = B is None, A if B is None else B
    queries, points, ends = A.points, by_feature(B.points), np.cumsum(A.sizes)
    starts, weights = np.append(0, np.cumsum(B.sizes)), np.ones(points.shape[1])
    factors = 0.5 / np.array(bandwidths[::-1]) ** 2
    sums = np.zeros((len(factors), len(A), len(B)))

    def work(block: tuple[slice, Ints, Ints]) -> None:
        rows, _, own = block
        others = np.arange(own[0] if mirrored else 0, len(B))
        runs = starts[others[0] :], others
        part = np.zeros((len(factors), len(own), len(B)))
        add_gaussians(queries[rows], A.ids[rows] - own[0], points, weights, *runs, factors, part)
        sums[:, own] = part

    map_in_threads(work, whole_groups(ends, _BLOCK_POINTS), n_jobs)
    sums /= A.sizes[:, None]
    sums /= B.sizes
    if mirrored:
        for kernel in sums:
            kernel[:] = np.triu(kernel) + np.triu(kernel, 1).T
    return sums[::-1]
