"""A finite feature map of the Gaussian kernel: Nystroem's method, landmarks drawn by recursive leverage scores."""

from math import isqrt, log
from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.baselines.ocsmm import resolve_bandwidth
from isobag.data.params import is_integer
from isobag.data.validation import check_points

_BLOCK_ROWS = 1 << 12
_EPS = float(np.finfo(np.float64).eps)


class RecursiveNystroem(TransformerMixin, BaseEstimator):
    """Feature map phi with <phi(x), phi(y)> close to kappa(x, y) = exp(-|x - y|^2 / (2 bandwidth^2)).

    phi(x) = kappa(x, L) kappa(L, L)^(-1/2) for landmarks L, s rows of the data: (n, d) -> (n, s). Landmarks are drawn
    by approximate ridge leverage scores, found recursively from half the rows (Musco and Musco, 2017): rows that the
    others do not explain are likely to be drawn, so rare regions get landmarks too.

    Parameters
    ----------
    bandwidth : standard deviation of the Gaussian in the units of ``X``, which is not scaled here; or ``"median"``, the
        median distance between 1,000 rows.
    n_components : s, the number of landmarks and of features; ``"sqrt"`` (the paper's) is the square root of the number
        of rows.
    random_state : seed or numpy Generator; all randomness is drawn in ``fit``.

    Attributes
    ----------
    landmarks_ : (s, d); bandwidth_; n_features_in_, feature_names_in_.
    """

    def __init__(
        self, bandwidth: float | str = "median", n_components: int | str = "sqrt", *, random_state: Any = None
    ) -> None:
        self.bandwidth = bandwidth
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the landmarks from the rows of X: (n, d)."""
        X = check_points(self, X, reset=True)
        rng = as_generator(self.random_state)
        self.bandwidth_ = resolve_bandwidth(self.bandwidth, X, rng)
        self.landmarks_ = X[
            draw_landmarks(X, resolve_n_landmarks("n_components", self.n_components, len(X)), self.bandwidth_, rng)
        ]
        vectors, values = invertible_part(gaussian_kernel(self.landmarks_, self.landmarks_, self.bandwidth_))
        self._whitening = vectors / np.sqrt(values) @ vectors.T
        return self

    def transform(self, X: Any) -> Floats:
        """Feature map phi of each row: (n, s)."""
        check_is_fitted(self)
        X = check_points(self, X, reset=False)
        features = np.empty((len(X), len(self.landmarks_)))
        for block in slices(len(X), _BLOCK_ROWS):
            features[block] = gaussian_kernel(X[block], self.landmarks_, self.bandwidth_) @ self._whitening
        return features


def as_generator(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn accepts: a seed, a RandomState, a Generator or None."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def gaussian_kernel(X: Floats, Y: Floats, bandwidth: float) -> Floats:
    """exp(-|x - y|^2 / (2 bandwidth^2)) for all pairs: (n, d), (m, d) -> (n, m)."""
    kernel: Floats = cdist(X, Y, "sqeuclidean")
    kernel *= -0.5 / bandwidth**2
    return np.exp(kernel, out=kernel)


def invertible_part(kernel: Floats) -> tuple[Floats, Floats]:
    """Eigenvectors (s, r) and eigenvalues (r,) of a kernel matrix, without those that are rounding errors."""
    values, vectors = eigh(kernel)
    kept = values > len(kernel) * _EPS * values[-1]
    return vectors[:, kept], values[kept]


def resolve_n_landmarks(name: str, value: Any, n_rows: int) -> int:
    """The number of landmarks, between 1 and the number of rows; "sqrt" is the square root of that."""
    if isinstance(value, str) and value == "sqrt":
        return max(1, isqrt(n_rows))
    if not is_integer(value) or not 1 <= value <= n_rows:
        raise ValueError(f"{name}={value!r}; need 'sqrt' or an integer from 1 to {n_rows}, the number of rows.")
    return int(value)


def draw_landmarks(X: Floats, n_landmarks: int, bandwidth: float, rng: np.random.Generator) -> Ints:
    """Distinct rows of X, drawn by approximate ridge leverage scores: (n, d) -> (n_landmarks,).

    From the bottom up: the rows are halved at random until n_landmarks or fewer are left, all of them landmarks; then
    the landmarks of each half serve to estimate the leverage scores in the set twice as large, where the next ones are
    drawn.
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


def leverage_scores(X: Floats, rows: Ints, landmarks: Ints, weights: Floats, bandwidth: float) -> Floats:
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
    for block in slices(len(rows), _BLOCK_ROWS):
        likeness = gaussian_kernel(X[rows[block]], X[landmarks], bandwidth) * weights
        explained = solve_triangular(factor, likeness.T, lower=True, check_finite=False)
        scores[block] = 1 - np.einsum("sn,sn->n", explained, explained)
    # Rows fully explained up to rounding keep a chance, or too few rows could be drawn.
    return np.maximum(scores, _EPS)
