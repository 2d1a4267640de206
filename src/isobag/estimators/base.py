"""What all detectors share: from training scores to an offset, from an offset to decisions."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from isobag.backends import Compute
from isobag.backends.arrays import Floats
from isobag.data.frames import feature_names
from isobag.data.groups import Groups, as_groups
from isobag.data.params import BACKEND, CONTAMINATION, FDR, N_JOBS, Constraint, check_params
from isobag.data.rows import Rows
from isobag.data.validation import as_rows
from isobag.models.calibration import discoveries
from isobag.models.thresholds import Scores, counts_of, quantile_of, threshold_of_ratios


class Constrained(BaseEstimator):
    """Parameters, and a table of what each may be."""

    parameter_constraints: ClassVar[Mapping[str, Constraint]] = {}

    def check_params(self) -> None:
        """Refuse the first parameter that is not what it may be."""
        check_params(self.get_params(deep=False), self.parameter_constraints)


class Computing(Constrained):
    """Parameters that say how to compute."""

    backend: str
    n_jobs: int | None
    device: str | None = None
    parameter_constraints: ClassVar[Mapping[str, Constraint]] = {"backend": BACKEND, "n_jobs": N_JOBS}

    @property
    def compute(self) -> Compute:
        """Backend, threads and device, as the parameters are now."""
        return Compute(self.backend, self.n_jobs, self.device)

    def compute_for(self, rows: Rows) -> Compute:
        """The same, where the rows are."""
        return self.compute.beside(rows.device)


def mean_less_two_deviations(values: Floats) -> float:
    """Two standard deviations below the mean: (n,)."""
    return float(np.mean(values) - 2 * np.std(values))


class Thresholded(OutlierMixin, Constrained):
    """Scores, higher = more normal, and a threshold on them."""

    contamination: float | str
    offset_: float
    parameter_constraints: ClassVar[Mapping[str, Constraint]] = {"contamination": CONTAMINATION}
    _lowest_score: ClassVar[float | None] = None  # where scores cannot be lower, their ratios mean more

    def threshold(self, scores: Floats | Scores) -> float:
        """Score below which an anomaly begins, from the scores of training data: (n,)."""
        if self.contamination != "auto":
            return quantile_of(scores, float(self.contamination))
        return self._auto_offset(scores)

    def _auto_offset(self, scores: Any) -> float:
        if self._lowest_score is not None:
            lowest = self._lowest_score
            above = np.asarray(scores) - lowest if lowest else scores
            return threshold_of_ratios(counts_of(above)) + lowest
        values = np.asarray(scores)
        # Where all score alike none is odd, though rounding may put the threshold above them.
        return mean_less_two_deviations(values) if np.ptp(values) else float(values[0])

    def _verdicts(self, scores: Floats) -> npt.NDArray[np.int64]:
        return np.where(scores < self.offset_, -1, 1)


class PointDetector(Thresholded):
    """A detector of points: ``fit`` learns from ``_fit_rows``, the scores of the training data."""

    _accepts_sparse: ClassVar[bool] = False

    def _fit_rows(self, rows: Rows) -> Floats:
        """Learn from rows and return their scores: (n,)."""
        raise NotImplementedError

    def _score_rows(self, rows: Rows) -> Floats:
        """How normal each row is: (n,)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the rows of X (n, d) are like, and where odd ones begin."""
        self._fit(X)
        return self

    def fit_scores(self, X: Any) -> Floats:
        """``fit``, and the scores of the training data that it computes anyway: (n,)."""
        rows, scores = self._fit(X)
        found: Floats = rows.give(scores)
        return found

    def _fit(self, X: Any) -> tuple[Rows, Floats]:
        """Learn; the rows, and their scores in host memory: (n,)."""
        rows = self._training_rows(X)
        scores = self._fit_rows(rows)
        self.offset_ = self.threshold(scores)
        return rows, scores

    def _training_rows(self, X: Any) -> Rows:
        """Input of ``fit``, once the parameters are what they may be."""
        self.check_params()
        return as_rows(self, X, reset=True, min_rows=2, accept_sparse=self._accepts_sparse)

    def fit_predict(self, X: Any, y: Any = None) -> npt.NDArray[np.int64]:
        """Verdicts on the training data, +1 or -1, from the scores that ``fit`` computes anyway: (n,)."""
        rows, scores = self._fit(X)
        found: npt.NDArray[np.int64] = rows.give(self._verdicts(scores))
        return found

    def score_samples(self, X: Any) -> Floats:
        """How normal each row is: (n,), higher = more normal; on the GPU if X is there."""
        rows = self._rows(X)
        found: Floats = rows.give(self._score_rows(rows))
        return found

    def decision_function(self, X: Any) -> Floats:
        """Score minus ``offset_``: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies."""
        rows = self._rows(X)
        found: npt.NDArray[np.int64] = rows.give(self._verdicts(self._score_rows(rows)))
        return found

    def _rows(self, X: Any) -> Rows:
        """Input of a fitted detector."""
        check_is_fitted(self)
        return as_rows(self, X, reset=False, accept_sparse=self._accepts_sparse)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        return tags


class GroupDetector(Thresholded):
    """A detector of groups: a score for each group, and the verdicts that follow from it.

    Input is rows with one label each (or the name of the column of a frame that holds them), or a list of arrays, one
    for each group: ``fit(X, groups=labels)`` or ``fit([array, array, ...])``, and the same for all other methods.
    Scores come in the order in which labels first appear, or in list order.

    Fitted: ``labels_`` (g,) of the groups of ``fit``, ``scores_`` (g,) in that order, ``offset_``, ``n_features_in_``.
    """

    def _fit_groups(self, groups: Groups) -> Floats:
        """Learn from the groups, and return their scores: (g,)."""
        raise NotImplementedError

    def _score_groups(self, groups: Groups) -> Floats:
        """Score of each group against the groups of ``fit``: (g,)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn what groups are like, and where odd ones begin. ``y`` is not used: pipelines pass it."""
        if y is not None and groups is None:
            raise ValueError("labels came as y, which is not used; pass them as groups=.")
        self.check_params()
        given = as_groups(self, X, groups, reset=True)
        self.scores_ = self._fit_groups(given)
        self.labels_ = given.labels
        self.offset_ = self.threshold(self.scores_)
        return self

    def score_samples(self, X: Any, groups: Any = None) -> Floats:
        """How normal each group is, new or old, against the groups of ``fit``: (g,), higher = more normal."""
        given = self._groups(X, groups)
        found: Floats = given.rows.give(self._score_groups(given))
        return found

    def decision_function(self, X: Any, groups: Any = None) -> Floats:
        """Score minus ``offset_``: negative for odd groups, (g,)."""
        return self.score_samples(X, groups) - self.offset_

    def predict(self, X: Any, groups: Any = None) -> npt.NDArray[np.int64]:
        """+1 for normal groups, -1 for odd ones: (g,)."""
        given = self._groups(X, groups)
        found: npt.NDArray[np.int64] = given.rows.give(self._verdicts(self._score_groups(given)))
        return found

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> npt.NDArray[np.int64]:
        """Verdicts on the groups of ``fit`` from the scores that ``fit`` computes anyway: (g,)."""
        self.fit(X, y, groups)
        return self._verdicts(self.scores_)

    def rank(self, X: Any, groups: Any = None) -> list[tuple[Any, float]]:
        """Label and score of every group, the oddest first."""
        given = self._groups(X, groups)
        scores = self._score_groups(given)
        return [(given.labels[g], float(scores[g])) for g in np.argsort(scores, kind="stable")]

    def _groups(self, X: Any, groups: Any) -> Groups:
        """Input of a fitted detector."""
        check_is_fitted(self)
        given: Groups = as_groups(self, X, groups, reset=False)
        return given


class Modelled(Computing):
    """An estimator over a model: parameters, and ``model_``, all that was learned."""

    model_: Any

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def learned(self) -> Any:
        """The model, if there is one yet."""
        check_is_fitted(self)
        return self.model_

    @property
    def calibrated(self) -> Any:
        """The model, if it can tell p-values."""
        if self.learned.calibration is None:
            raise ValueError("calibrate=False, so nothing was set aside for p-values; fit with calibrate=True.")
        return self.model_

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, "x0", "x1", ... where they came without."""
        return feature_names(self)


def verdicts_at(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 for what stands out at a false discovery rate, else +1: (n,) -> (n,)."""
    check_params({"fdr": fdr}, {"fdr": FDR})
    return discoveries(p_values, fdr)
