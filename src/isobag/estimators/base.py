"""What all detectors share: from training scores to an offset, from an offset to decisions."""

from dataclasses import fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from isobag.backends import Compute
from isobag.backends.arrays import Floats
from isobag.backends.learned import check, demand
from isobag.data.frames import feature_names
from isobag.data.gaps import GAPS, Gaps, fill_rows, learn_gaps
from isobag.data.groups import Groups, as_groups
from isobag.data.params import CONTAMINATION, DEVICE, FDR, N_JOBS, RANDOM_STATE, Parameters, check_params
from isobag.data.rows import Rows
from isobag.data.validation import as_rows
from isobag.models.calibration import discoveries
from isobag.models.group import GroupModel
from isobag.models.point import PointModel
from isobag.models.thresholds import GROUP_POWER, OWN_LEVEL, ScoreCounts, counts_of, threshold_beyond_bulk

M = TypeVar("M", PointModel, GroupModel)


class Described(BaseEstimator):
    """An estimator with a description of its parameters."""

    parameters: ClassVar[Parameters] = {}

    def check_params(self) -> None:
        """Refuse the first parameter with a value that it must not have."""
        check_params(self.get_params(deep=False), self.parameters)


class Computing(Described):
    """Parameters that say how to compute."""

    backend: str = "auto"
    n_jobs: int | None
    device: str | None = None
    parameters: ClassVar[Parameters] = {"random_state": RANDOM_STATE, "n_jobs": N_JOBS}

    @property
    def compute(self) -> Compute:
        """Backend, threads and device, as the parameters are now."""
        return Compute(self.backend, self.n_jobs, self.device)

    def compute_for(self, rows: Rows) -> Compute:
        """The same, where the rows are."""
        return self.compute.beside(rows.device)


class Storable(Computing):
    """An estimator that a model file can hold: its ``parameters``, and attributes annotated with a trailing "_"."""

    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    not_in_files: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Parameters] = {**Computing.parameters, "device": DEVICE}

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, "x0", "x1", ... where they came without."""
        return feature_names(self)

    def fitted(self) -> dict[str, Any]:
        """What a file holds beside the parameters."""
        names = [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]
        return {name: getattr(self, name) for name in names if name not in self.not_in_files}

    def resume(self, fitted: dict[str, Any]) -> None:
        """Become what ``fitted`` returned, which comes from a file; ``validate`` follows."""
        for name, value in fitted.items():
            setattr(self, name, value)

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        raise NotImplementedError

    def _check_features(self, n_features: int) -> None:
        """Refuse names that are not of so many features."""
        demand(self.n_features_in_ == n_features, f"n_features_in_={self.n_features_in_}; the model has {n_features}")
        names = self.feature_names
        fits = len(names) == n_features and all(isinstance(name, str) for name in names)
        demand(fits, "feature_names_in_ is not one name for each feature")


class Thresholded(OutlierMixin, Described):
    """Scores, higher = more normal, and a threshold on them."""

    contamination: float | str
    offset_: float
    fills_gaps = True  # takes NaN for a missing value
    parameters: ClassVar[Parameters] = {"contamination": CONTAMINATION}

    def threshold(self, counts: ScoreCounts) -> float:
        """Score below which data of such scores are odder than the tail of their bulk explains; 0 if unknown."""
        raise NotImplementedError

    def _offset(self, scores: Floats) -> float:
        """Threshold below which a score is an anomaly, from the scores of the training data: (n,)."""
        share = self.contamination
        return self.threshold(counts_of(scores)) if share == "auto" else float(np.quantile(scores, float(share)))

    def _verdicts(self, scores: Floats) -> npt.NDArray[np.int64]:
        return np.where(scores < self.offset_, -1, 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.fills_gaps
        return tags


class PointDetector(Thresholded):
    """A detector of points."""

    _accepts_sparse: ClassVar[bool] = False

    def _score_rows(self, rows: Rows) -> Floats:
        """How normal each row is: (n,)."""
        raise NotImplementedError

    def _training_rows(self, X: Any) -> Rows:
        """Input of ``fit``, once the parameters are what they may be."""
        self.check_params()
        return as_rows(self, X, reset=True, min_rows=2, accept_sparse=self._accepts_sparse)

    def score_samples(self, X: Any) -> Floats:
        """How normal each row is: (n,), higher = more normal; on the GPU if X is there."""
        rows = self._rows(X)
        return rows.give(self._score_rows(rows))

    def decision_function(self, X: Any) -> Floats:
        """Score minus ``offset_``: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies."""
        rows = self._rows(X)
        return rows.give(self._verdicts(self._score_rows(rows)))

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

    labels_: npt.NDArray[Any]
    scores_: Floats

    def _fit_groups(self, groups: Groups) -> Floats:
        """Learn from the groups, and return their scores: (g,)."""
        raise NotImplementedError

    def threshold(self, counts: ScoreCounts) -> float:
        """Score below which groups of such scores are odder than the tail of their bulk explains; 0 if unknown."""
        return threshold_beyond_bulk(counts, OWN_LEVEL, GROUP_POWER) or 0.0

    def _score_groups(self, groups: Groups) -> Floats:
        """Score of each group against the groups of ``fit``: (g,)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn from groups, and set the threshold. ``y`` is not used: pipelines pass it."""
        if y is not None and groups is None:
            raise ValueError("y is not used by a detector of groups; pass the labels as groups=.")
        self.check_params()
        grouped = self._take_groups(X, groups, reset=True)
        self.scores_ = self._fit_groups(grouped)
        self.labels_ = grouped.labels
        self.offset_ = self._offset(self.scores_)
        return self

    def score_samples(self, X: Any, groups: Any = None) -> Floats:
        """How normal each group is, new or old, against the groups of ``fit``: (g,), higher = more normal.

        Scores come in the order in which labels first appear in ``groups``, not sorted by label: that of
        ``dict.fromkeys(groups)``. Those of a list of arrays come in its order.
        """
        grouped = self._groups(X, groups)
        return grouped.rows.give(self._score_groups(grouped))

    def decision_function(self, X: Any, groups: Any = None) -> Floats:
        """Score minus ``offset_``: negative for odd groups, (g,)."""
        return self.score_samples(X, groups) - self.offset_

    def predict(self, X: Any, groups: Any = None) -> npt.NDArray[np.int64]:
        """+1 for normal groups, -1 for odd ones: (g,)."""
        grouped = self._groups(X, groups)
        return grouped.rows.give(self._verdicts(self._score_groups(grouped)))

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> npt.NDArray[np.int64]:
        """Verdicts on the groups of ``fit`` from the scores that ``fit`` computes anyway: (g,)."""
        self.fit(X, y, groups)
        return self._verdicts(self.scores_)

    def rank(self, X: Any, groups: Any = None) -> list[tuple[Any, float]]:
        """Label and score of every group, the oddest first."""
        grouped = self._groups(X, groups)
        scores = self._score_groups(grouped)
        return [(grouped.labels[g], float(scores[g])) for g in np.argsort(scores, kind="stable")]

    def _groups(self, X: Any, groups: Any) -> Groups:
        """Input of a fitted detector."""
        check_is_fitted(self)
        return self._take_groups(X, groups, reset=False)

    def _take_groups(self, X: Any, groups: Any, reset: bool) -> Groups:
        grouped: Groups = as_groups(self, X, groups, reset=reset)
        return grouped


class Modelled(Storable, Generic[M]):
    """An estimator over a model: parameters, ``model_``, all that was learned, and ``table_``, if it learned from one.

    gaps_ : what stands for missing values; the rows of a table come without any.
    table_ : how the columns of a table become features, as a text.
    """

    model_: M
    gaps_: Gaps
    table_: str
    calibrates = True  # whether ``fit`` learns what p-values need; a table that is only ranked needs none
    exact = False  # whether tables ask for exact p-values
    _params_class: ClassVar[type[Any]]

    @property
    def params(self) -> Any:
        """The parameters that learning needs, as a frozen data class."""
        params = self.get_params(deep=False)
        values = {one.name: params[one.name] for one in fields(self._params_class) if one.name in params}
        plain = {name: one.item() if isinstance(one, np.generic) else one for name, one in values.items()}
        return self._params_class(**plain)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def learned(self) -> M:
        """The model, if there is one yet."""
        check_is_fitted(self)
        return self.model_

    @property
    def calibrated(self) -> M:
        """The model, if it can compute p-values."""
        if self.learned.calibration is None:
            raise ValueError(
                "the model was learned to rank a table alone, so there is nothing to compute p-values from"
            )
        return self.model_

    def _filled(self, rows: Rows, X: Any, reset: bool) -> Rows:
        """Rows as models take them, without gaps; X is what they came as."""
        if reset:
            self.gaps_ = Gaps.none(rows.n_features) if rows is X else learn_gaps(rows)
        return rows if rows is X else fill_rows(rows, self.gaps_)

    @property
    def _filled_names(self) -> list[str]:
        """Names of the features of rows without gaps."""
        return [*self.feature_names, GAPS][: self.gaps_.n_features]

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        self._check_features(len(self.gaps_.fills))
        demand(self.gaps_.n_features == self.model_.views.n_features, "gaps_ is not of the features of the model")
        check("offset_", self.offset_, ())


def verdicts_at(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 for discoveries at a false discovery rate, else +1: (n,) -> (n,)."""
    check_params({"fdr": fdr}, {"fdr": FDR})
    return discoveries(p_values, fdr)
