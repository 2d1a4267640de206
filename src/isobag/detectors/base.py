"""What all detectors share: from training scores to an offset, from an offset to decisions."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from isobag.arrays import Floats
from isobag.groups import Bags, check_groups
from isobag.partitionings import MECHANISMS, nested_levels
from isobag.rows import ArrayRows, Rows
from isobag.scaling import SCALINGS
from isobag.validation import (
    check_contamination,
    check_how,
    check_n_estimators,
    check_option,
    check_points,
    resolve_max_samples,
)
from isobag.views import Plan, Views, draw_views


def far_below(values: Floats) -> float:
    """A threshold that needs no guess of the contamination: two standard deviations below the mean."""
    return _far_below_in_place(values.copy())


def far_below_in_ratio(scores: Floats) -> float:
    """The same on the logarithms of scores that are 0 or more.

    A thousandth of the mean is added first, so that zeros have a logarithm.
    """
    floor = 1e-3 * float(np.mean(scores)) + np.finfo(float).tiny
    logarithms = scores + floor
    np.log(logarithms, out=logarithms)
    return float(np.exp(_far_below_in_place(logarithms)) - floor)


def _far_below_in_place(values: Floats) -> float:
    """The threshold, with the room of the values to work in: scores may fill a good part of the memory."""
    middle = np.mean(values)
    values -= middle
    values *= values
    return float(middle - 2 * np.sqrt(np.mean(values)))


class Thresholded(OutlierMixin, BaseEstimator):
    """Scores, higher = more normal, and a threshold on them."""

    contamination: float | str
    offset_: float
    _lowest_score: float | None = None  # where scores cannot be lower, their ratios mean more than their differences

    def _set_offset(self, scores: Floats) -> Self:
        """Fix the threshold from the scores of the training data."""
        if self.contamination == "auto":
            # Where all score alike none is odd, though rounding may put the threshold above them.
            self.offset_ = self._auto_offset(scores) if np.ptp(scores) else float(scores[0])
        else:
            self.offset_ = float(np.quantile(scores, float(self.contamination)))
        return self

    def _auto_offset(self, scores: Floats) -> float:
        if self._lowest_score is None:
            return far_below(scores)
        above = scores - self._lowest_score if self._lowest_score else scores
        return far_below_in_ratio(above) + self._lowest_score

    def _verdicts(self, scores: Floats) -> npt.NDArray[np.int64]:
        return np.where(scores < self.offset_, -1, 1)


class Detector(Thresholded):
    """A detector of points: ``fit`` learns from ``_fit_scores``, the scores of the training data."""

    def _fit_scores(self, X: Any) -> Floats:
        """Learn from X (n, d) and return the scores of its rows: (n,)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the rows of X (n, d) are like, and where odd ones begin."""
        return self._set_offset(self._fit_scores(X))

    def fit_predict(self, X: Any, y: Any = None) -> npt.NDArray[np.int64]:
        """Verdicts on the training data, +1 or -1, from the scores that ``fit`` computes anyway: (n,)."""
        scores = self._fit_scores(X)
        return self._set_offset(scores)._verdicts(scores)

    def score_samples(self, X: Any) -> Floats:
        """How normal each row is: (n,), higher = more normal."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Floats:
        """Score minus ``offset_``: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies."""
        return self._verdicts(self.score_samples(X))


class GroupDetector(Thresholded):
    """A detector of groups: a score for each group, and the verdicts that follow from it.

    Input is rows with one label each (or the name of the column of a frame that holds them), or a list of arrays, one
    for each group: ``fit(X, groups=labels)`` or ``fit([array, array, ...])``, and the same for all other methods.
    Scores come in the order in which labels first appear, or in list order.

    Fitted: ``labels_`` (g,) of the groups of ``fit``, ``scores_`` (g,) in that order, ``offset_``, ``n_features_in_``.
    """

    def _fit_groups(self, bags: Bags) -> Floats:
        """Learn from the groups, and return their scores: (g,)."""
        raise NotImplementedError

    def _score_groups(self, bags: Bags) -> Floats:
        """Score of each group against the groups of ``fit``: (g,)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn what groups are like, and where odd ones begin. ``y`` is not used: pipelines pass it."""
        if y is not None and groups is None:
            raise ValueError("labels came as y, which is not used; pass them as groups=.")
        check_contamination(self.contamination)
        bags = check_groups(self, X, groups, reset=True)
        self.scores_ = self._fit_groups(bags)
        self.labels_ = bags.labels
        return self._set_offset(self.scores_)

    def score_samples(self, X: Any, groups: Any = None) -> Floats:
        """How normal each group is, new or old, against the groups of ``fit``: (g,), higher = more normal."""
        check_is_fitted(self)
        return self._score_groups(check_groups(self, X, groups, reset=False))

    def decision_function(self, X: Any, groups: Any = None) -> Floats:
        """Score minus ``offset_``: negative for odd groups, (g,)."""
        return self.score_samples(X, groups) - self.offset_

    def predict(self, X: Any, groups: Any = None) -> npt.NDArray[np.int64]:
        """+1 for normal groups, -1 for odd ones: (g,)."""
        return self._verdicts(self.score_samples(X, groups))

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> npt.NDArray[np.int64]:
        """Verdicts on the groups of ``fit`` from the scores that ``fit`` computes anyway: (g,)."""
        return self.fit(X, y, groups)._verdicts(self.scores_)

    def rank(self, X: Any, groups: Any = None) -> list[tuple[Any, float]]:
        """Label and score of every group, the oddest first."""
        check_is_fitted(self)
        bags = check_groups(self, X, groups, reset=False)
        scores = self._score_groups(bags)
        return [(bags.labels[g], float(scores[g])) for g in np.argsort(scores, kind="stable")]


class PartitioningDetector(Detector):
    """A detector of points that scales its input and draws partitionings from it."""

    n_estimators: int
    max_samples: int | str
    scaling: str | None
    mechanism: str = "hypersphere"
    random_state: Any
    backend: str
    n_jobs: int | None
    max_samples_: int
    views_: Views

    def _plans(self, n_rows: int) -> list[Plan]:
        """The views to draw: here one, on one scale."""
        check_option("scaling", self.scaling, SCALINGS)
        return [Plan(self.scaling, nested_levels(resolve_max_samples(self.max_samples, n_rows)))]

    def _fit_scores(self, X: Any) -> Floats:
        return self._fit_rows(ArrayRows(check_points(self, X, reset=True, min_rows=2)))

    def _fit_rows(self, rows: Rows) -> Floats:
        """Learn from rows, in memory or not, and return their scores: (n,)."""
        raise NotImplementedError

    def _draw(self, rows: Rows) -> None:
        """Check options, learn the scalings, draw the partitionings."""
        check_option("mechanism", self.mechanism, MECHANISMS)
        check_how(self.backend, self.n_jobs)
        check_contamination(self.contamination)
        n_estimators = check_n_estimators(self.n_estimators)
        plans = self._plans(len(rows))
        self.max_samples_ = plans[0].levels[-1]
        self.views_ = draw_views(rows, n_estimators, plans, self.mechanism, self.random_state, *self._how())

    def _points(self, X: Any) -> Floats:
        """Input of a fitted detector, checked: (n, d)."""
        check_is_fitted(self)
        return check_points(self, X, reset=False)

    def _how(self) -> tuple[str, int | None]:
        return self.backend, self.n_jobs
