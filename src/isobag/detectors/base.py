"""What all detectors share: from training scores to an offset, from an offset to decisions."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from isobag.arrays import Floats
from isobag.backends import BACKENDS
from isobag.partitionings import MECHANISMS, Partitionings, draw_partitionings, nested_levels
from isobag.scaling import SCALINGS, Scaling, fit_scaling
from isobag.validation import (
    check_contamination,
    check_n_estimators,
    check_option,
    check_points,
    resolve_max_samples,
)


class Detector(OutlierMixin, BaseEstimator):
    """A detector with ``score_samples`` (higher = more normal), a threshold on it, and decisions."""

    contamination: float | str
    offset_: float
    _lowest_score = 0.0

    def score_samples(self, X: Any) -> Floats:
        """How normal each row is: (n,), higher = more normal."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Floats:
        """Score minus ``offset_``: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _set_offset(self, scores: Floats) -> Self:
        """Fix the threshold from the scores of the training data."""
        if self.contamination == "auto":
            self.offset_ = lower_fence(scores - self._lowest_score) + self._lowest_score
        else:
            self.offset_ = float(np.quantile(scores, float(self.contamination)))
        return self


def lower_fence(scores: Floats) -> float:
    """Threshold without a guess of the contamination: Tukey's lower fence, on the logarithms of the scores.

    exp(q1 - 1.5 (q3 - q1)), with a thousandth of the mean added to the scores so that zeros have a logarithm.
    """
    floor = 1e-3 * float(np.mean(scores)) + np.finfo(float).tiny
    low, high = np.quantile(np.log(scores + floor), (0.25, 0.75))
    return float(np.exp(low - 1.5 * (high - low)) - floor)


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
    scaling_: Scaling
    partitionings_: Partitionings

    def _draw(self, X: Any) -> Floats:
        """Check options and input, learn the scaling, draw the partitionings; the scaled input: (n, d)."""
        check_option("scaling", self.scaling, SCALINGS)
        check_option("mechanism", self.mechanism, MECHANISMS)
        check_option("backend", self.backend, ("auto", *BACKENDS))
        check_contamination(self.contamination)
        n_estimators = check_n_estimators(self.n_estimators)
        points = check_points(self, X, reset=True, min_rows=2)
        self.max_samples_ = resolve_max_samples(self.max_samples, len(points))
        self.scaling_ = fit_scaling(points, self.scaling)
        scaled = self.scaling_.apply(points)
        levels = nested_levels(self.max_samples_)
        self.partitionings_ = draw_partitionings(
            scaled, n_estimators, levels, self.mechanism, self.random_state, self.backend, self.n_jobs
        )
        return scaled

    def _scaled(self, X: Any) -> Floats:
        """Input of a fitted detector, checked and scaled: (n, d)."""
        check_is_fitted(self)
        return self.scaling_.apply(check_points(self, X, reset=False))
