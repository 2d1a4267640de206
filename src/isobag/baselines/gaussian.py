"""The Gaussian point detectors K_G and K_NG: how similar a point is to the data, by a kernel that ignores density."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from isobag.backends.arrays import Floats
from isobag.backends.threads import map_in_threads, slices
from isobag.baselines.nystroem import (
    as_generator,
    draw_landmarks,
    gaussian_kernel,
    invertible_part,
    resolve_n_landmarks,
)
from isobag.baselines.ocsmm import resolve_bandwidth
from isobag.data.params import BANDWIDTH, N_JOBS, Parameters, one_of
from isobag.data.rows import Rows
from isobag.data.scaling import SCALINGS, Scaling, fit_scaling
from isobag.estimators.base import PointDetector, Thresholded
from isobag.partitionings.base import distinct_points

BANDWIDTHS = tuple(2.0**k for k in range(-5, 6))
"""The bandwidths that the paper searches."""

APPROXIMATIONS = (None, "nystroem")
_QUERIES_AT_A_TIME = _POINTS_AT_A_TIME = 1 << 10


class GaussianPointDetector(PointDetector):
    """Point anomalies by the Gaussian mean embedding of the training data D.

    score(x) = (1/n) sum_{y in D} kappa(x, y), kappa(x, y) = exp(-|x - y|^2 / (2 bandwidth^2)); higher = more normal.
    This is K_G: every pair is visited, so the time grows with the square of the rows; memory does not. Equal rows are
    visited once. Sparse input is made dense.

    K_NG, ``approximation="nystroem"``, replaces kappa by <phi(x), phi(y)> of ``RecursiveNystroem``. Its score is
    sum_l alpha_l kappa(x, l) over s landmarks l, with alpha = kappa(L, L)^+ m and m the scores of the landmarks by K_G.

    Parameters
    ----------
    bandwidth : standard deviation of the Gaussian in scaled units; ``"median"`` is the median distance between 1,000
        rows.
    approximation : None (exact) or "nystroem".
    n_landmarks : s, used by "nystroem"; ``"sqrt"`` (the paper's) is the square root of the number of rows.
    scaling : "minmax" (every feature to [0, 1] on the training data), "standard", "robust" or None.
    contamination : share of anomalies in the training data, which fixes ``offset_``; "auto" needs no guess: two
        standard deviations below the mean of the training scores.
    random_state : seed or numpy RandomState, for the landmarks and the median.
    n_jobs : threads, as in joblib; the results do not depend on it.

    Attributes
    ----------
    offset_, bandwidth_, scaling_, n_features_in_, feature_names_in_; landmarks_ (s, d) in scaled units, if any;
    path_ : bandwidth of each column of score_path.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag.baselines import GaussianPointDetector
    >>> X = np.vstack([np.random.default_rng(0).normal(size=(500, 2)), [[6.0, 6.0]]])
    >>> detector = GaussianPointDetector(bandwidth=0.125).fit(X)
    >>> int(detector.score_samples(X).argmin())
    500
    >>> detector.score_path(X).shape  # bandwidths 2^-5, 2^-4, ..., 2^5
    (501, 11)
    """

    scaling_: Scaling
    path_ = BANDWIDTHS
    _accepts_sparse = True
    parameters: ClassVar[Parameters] = {
        **Thresholded.parameters,
        "bandwidth": BANDWIDTH,
        "approximation": one_of(APPROXIMATIONS),
        "scaling": one_of(SCALINGS),
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        bandwidth: float | str = "median",
        *,
        approximation: str | None = None,
        n_landmarks: int | str = "sqrt",
        scaling: str | None = "minmax",
        contamination: float | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.scaling = scaling
        self.contamination = contamination
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_rows(self, rows: Rows) -> Floats:
        """Keep the rows, or landmarks among them; their scores: (n,)."""
        return self._sums(self._keep(rows), (self.bandwidth_,))[:, 0]

    def _keep(self, rows: Rows) -> Floats:
        """Learn the scaling, and what a score sums over; the scaled input: (n, d)."""
        points = rows.take(np.arange(len(rows)))
        self.scaling_ = fit_scaling(points, self.scaling)
        scaled: Floats = self.scaling_.apply(points)
        rng = as_generator(self.random_state)
        self.bandwidth_ = resolve_bandwidth(self.bandwidth, scaled, rng)
        self._points, names = distinct_points(scaled)
        self._weights = np.bincount(names) / len(scaled)
        if self.approximation == "nystroem":
            n_landmarks = resolve_n_landmarks("n_landmarks", self.n_landmarks, len(scaled))
            landmarks = scaled[draw_landmarks(scaled, n_landmarks, self.bandwidth_, rng)]
            means = self._sums(landmarks, (self.bandwidth_,))[:, 0]
            vectors, values = invertible_part(gaussian_kernel(landmarks, landmarks, self.bandwidth_))
            self._points, self._weights = landmarks, vectors @ (vectors.T @ means / values)
        return scaled

    @property
    def landmarks_(self) -> Floats:
        """The landmarks of ``approximation="nystroem"``, in scaled units: (s, d)."""
        check_is_fitted(self)
        if self.approximation is None:
            raise AttributeError("landmarks_ exist for approximation='nystroem' only: K_G sums over all rows.")
        return self._points

    def _score_rows(self, rows: Rows) -> Floats:
        return rows.map(lambda X: self._sums(self.scaling_.apply(X), (self.bandwidth_,))[:, 0])

    def score_path(self, X: Any) -> Floats:
        """Scores for every bandwidth of ``path_``, 2^-5 to 2^5, from one pass over the distances: (n, 11).

        Column k is what a detector with bandwidth = ``path_[k]`` would say, up to rounding. Only without
        approximation: landmarks are drawn for one bandwidth.
        """
        rows = self._rows(X)
        if self.approximation is not None:
            raise ValueError(
                f"approximation={self.approximation!r}; score_path needs None: landmarks belong to one bandwidth."
            )
        return rows.map(lambda block: self._sums(self.scaling_.apply(block), self.path_))

    def _sums(self, scaled: Floats, bandwidths: tuple[float, ...]) -> Floats:
        """Sum over j of w_j kappa(x, point_j) for each row x, bandwidths doubling one by one: (n, bandwidths)."""
        # Imported here, as the compiled code brings Numba with it.
        from isobag.backends.numba.compiled.gaussians import add_gaussians, by_feature  # noqa: PLC0415

        queries, inverse = distinct_points(scaled)
        points = by_feature(self._points)
        starts = np.append(np.arange(0, len(self._points), _POINTS_AT_A_TIME), len(self._points))
        runs = starts, np.zeros(len(starts) - 1, dtype=np.int64)
        factors = 0.5 / np.array(bandwidths[::-1]) ** 2
        sums = np.zeros((len(factors), len(queries), 1))

        def work(block: slice) -> None:
            owners = np.arange(block.stop - block.start)
            add_gaussians(queries[block], owners, points, self._weights, *runs, factors, sums[:, block])

        map_in_threads(work, slices(len(queries), _QUERIES_AT_A_TIME), self.n_jobs)
        return sums[::-1, inverse, 0].T

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights")
