"""The point detector: how similar a point is to the data as a whole."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from isobag.arrays import Floats, Ints
from isobag.detectors.base import PartitioningDetector
from isobag.validation import check_option

SCORES = ("similarity", "norm")


class _NotAMethod:
    """A parameter called ``score``: scikit-learn takes an attribute of that name for a method that needs labels.

    It is set and cloned as any other, and read with ``get_params()["score"]``.
    """

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)["score"] = value

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        raise AttributeError("a detector has no method 'score'; its parameter is get_params()['score'].")


class IDKPointDetector(PartitioningDetector):
    """Point anomalies by the Isolation Distributional Kernel of a point and the training data.

    score(x) = K({x}, D) = (1/t) sum_i Phi_hat_i(D)[cell_i(x)]: the share of the training data in the cell of x, as
    a mean over the t partitionings, 0 where x is OUTSIDE. In [0, 1]; higher = more normal.

    Parameters
    ----------
    n_estimators : t, the number of partitionings.
    max_samples : psi, the number of centers of each partitioning: small for global, large for local anomalies. An
        integer is the paper's method to the letter. "auto" is 16, or the number of rows if that is less.
    score : "similarity", or "norm" for the paper's cut-down version, the share of partitionings that cover x.
    scaling : "minmax" (every feature to [0, 1] on the training data), "standard", "robust" or None.
    contamination : share of anomalies in the training data, which fixes ``offset_``; "auto" needs no guess: the
        lower fence of Tukey's boxplot of the logarithms of the training scores.
    mechanism : "hypersphere" (the paper's) or "voronoi".
    random_state : seed or numpy RandomState; all randomness is drawn in ``fit``.
    backend : "auto", "numba" or "numpy"; the results are identical.
    n_jobs : threads, as in joblib.

    Attributes
    ----------
    offset_ : threshold on the scores; mean_map_ : (t, psi), share of the training data in each cell;
    max_samples_ : psi; path_ : psi of each column of score_path;
    partitionings_, scaling_, n_features_in_, feature_names_in_.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IDKPointDetector
    >>> X = np.vstack([np.random.default_rng(0).normal(size=(500, 2)), [[6.0, 6.0]]])
    >>> detector = IDKPointDetector(random_state=0).fit(X)
    >>> int(detector.score_samples(X).argmin()), int(detector.predict(X)[-1])
    (500, -1)
    """

    score = _NotAMethod()
    _lowest_score = 0.0

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        score: str = "similarity",
        scaling: str | None = "minmax",
        contamination: float | str = "auto",
        mechanism: str = "hypersphere",
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.score = score
        self.scaling = scaling
        self.contamination = contamination
        self.mechanism = mechanism
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as in every scikit-learn estimator."""
        return {name: vars(self)[name] for name in self._get_param_names()}

    def _fit_scores(self, X: Any) -> Floats:
        """Draw the partitionings from the rows of X (n, d) and count the rows in every cell; their scores: (n,)."""
        score = check_option("score", self.get_params()["score"], SCORES)
        scaled = self._draw(X)  # input, partitionings
        counts, sums = self.partitionings_.count_and_sum(scaled, self.backend, self.n_jobs)  # cells, counted and let go
        self.mean_map_ = counts[-1] / len(scaled)  # mean map
        self._tables, self._largest = counts, len(scaled)  # what scores sum, and the most a partitioning can add
        if score == "norm":
            self._tables, self._largest = np.ones_like(counts), 1
            sums = self.partitionings_.last.sum_at_cells(scaled, self._tables[-1:], self.backend, self.n_jobs)[:, 0]
        return self._as_scores(sums)  # scores

    def score_samples(self, X: Any) -> Floats:
        """Similarity of each row to the training data: (n,) in [0, 1], higher = more normal."""
        scaled = self._scaled(X)
        sums = self.partitionings_.last.sum_at_cells(scaled, self._tables[-1:], self.backend, self.n_jobs)
        return self._as_scores(sums[:, 0])

    def score_path(self, X: Any) -> Floats:
        """Scores for every psi = 2, 4, ... up to ``max_samples_``, from nested samples in one pass: (n, number of psi).

        Column k is what a detector with max_samples = ``path_[k]`` and the same seed would say.
        """
        scaled = self._scaled(X)
        return self._as_scores(self.partitionings_.sum_at_cells(scaled, self._tables, self.backend, self.n_jobs))

    @property
    def path_(self) -> tuple[int, ...]:
        """The psi of each column of ``score_path``."""
        check_is_fitted(self)
        return self.partitionings_.levels

    def _as_scores(self, sums: Ints) -> Floats:
        return sums / (self._largest * len(self.partitionings_.slots))
