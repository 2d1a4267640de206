"""The detectors as PyOD's: high = anomalous, labels 0 and 1, a threshold by the share of anomalies.

>>> import numpy as np
>>> from isobag.adapters.pyod import IDK
>>> X = np.vstack([np.random.default_rng(0).normal(size=(200, 2)), [[9.0, 9.0]]])
>>> detector = IDK(contamination=0.01, random_state=0).fit(X)
>>> int(detector.decision_scores_.argmax()), int(detector.predict([[8.0, 8.0]])[0])
(200, 1)
"""

from typing import Any, Self

import numpy as np

from isobag.adapters.oddness import oddness
from isobag.backends.arrays import Floats
from isobag.estimators import IDKGroupDetector, IDKPointDetector

try:
    from pyod.models.base import BaseDetector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("isobag.adapters.pyod needs PyOD: pip install 'isobag[pyod]'.") from error


class IDK(BaseDetector):
    """``isobag.IDKPointDetector`` as a detector of PyOD.

    Parameters
    ----------
    contamination : float, default=0.1
        Share of anomalies, which sets ``threshold_``, as everywhere in PyOD.
    n_estimators, max_samples, scaling, random_state, n_jobs
        As those of ``IDKPointDetector``.

    Fitted: ``decision_scores_`` (n,), ``threshold_``, ``labels_``, and ``detector_``, the detector itself, whose
    ``p_values`` and ``explain`` PyOD has no names for.
    """

    def __init__(
        self,
        contamination: float = 0.1,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        scaling: str | None = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(contamination=contamination)
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.scaling = scaling
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the rows of X (n, d)."""
        self._set_n_classes(y)
        detector = IDKPointDetector(**_without_contamination(self))
        self.decision_scores_ = oddness(detector.fit(X).score_samples(X))
        self.detector_ = detector
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Floats:
        """How anomalous each row is: (n,)."""
        return oddness(self.detector_.score_samples(X))


class IDKGroups(BaseDetector):
    """``isobag.IDKGroupDetector`` as a detector of PyOD: X is a list of arrays, one for each group.

    Parameters
    ----------
    contamination : float, default=0.1
        Share of odd groups, which sets ``threshold_``.
    n_estimators, max_samples, group_max_samples, random_state, n_jobs
        As those of ``IDKGroupDetector``.
    """

    def __init__(
        self,
        contamination: float = 0.1,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        group_max_samples: int | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(contamination=contamination)
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.group_max_samples = group_max_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the groups of X: a list of arrays (n, d)."""
        self._set_n_classes(y)
        detector = IDKGroupDetector(**_without_contamination(self)).fit(X)
        self.decision_scores_ = oddness(detector.scores_)
        self.detector_ = detector
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Floats:
        """How anomalous each group is: (g,)."""
        return oddness(self.detector_.score_samples(list(X)))

    def predict_proba(self, X: Any, method: str = "linear", return_confidence: bool = False) -> Any:
        """Probability that a group is normal, and that it is odd: (g, 2), as PyOD has it of rows."""
        groups = np.empty(len(X), dtype=object)  # PyOD asks X for its shape
        groups[:] = list(X)
        return super().predict_proba(groups, method, return_confidence)


def _without_contamination(detector: BaseDetector) -> dict[str, Any]:
    """The parameters that isobag's detectors have as well."""
    return {name: value for name, value in detector.get_params().items() if name != "contamination"}
