"""The stream detector as one of River's: rows are dictionaries, one at a time, and high = anomalous.

>>> from isobag.adapters.river import IDK
>>> detector = IDK(window=200, seed=0)
>>> for k in range(300):
...     detector.learn_one({"a": k % 7, "b": k % 5})
>>> detector.score_one({"a": 60, "b": -60}) > detector.score_one({"a": 3, "b": 2})
True
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from isobag.adapters.oddness import oddness_of_one
from isobag.backends.arrays import FARTHEST, Floats
from isobag.estimators import IDKStreamDetector

try:
    from river import base
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("isobag.adapters.river needs River: pip install 'isobag[river]'.") from error


class IDK(base.AnomalyDetector):
    """``isobag.IDKStreamDetector`` as a detector of River.

    The features are those of the first row, in the order of their names. A feature that a later row lacks counts as 0,
    as in all of River, and one that the first row did not have is left out. Scores are -log of those of
    ``IDKStreamDetector``, 0 for the first two rows.

    Parameters
    ----------
    window : int, default=2000
        Number of rows that are remembered.
    n_estimators : int, default=30
        As that of ``IDKStreamDetector``. Fewer: rows that come one by one take less time, and are told apart as well.
    max_samples, scaling, n_jobs
        As those of ``IDKStreamDetector``. ``max_samples=16`` is several times faster and less accurate.
    seed : int or None, default=None
        Seed of all that is drawn.

    ``detector`` is the stream detector itself, whose p-values and explanations River has no names for.
    """

    def __init__(
        self,
        window: int = 2000,
        n_estimators: int = 30,
        max_samples: int | str = "auto",
        scaling: str | None = "auto",
        seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.window = window
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.scaling = scaling
        self.seed = seed
        self.n_jobs = n_jobs
        self.detector = IDKStreamDetector(
            window, n_estimators, max_samples, scaling=scaling, random_state=seed, n_jobs=n_jobs
        )
        self.features: tuple[Any, ...] = ()
        self._compute = self.detector.compute
        self._values: tuple[Any, ...] = ()
        self._last = np.empty((1, 0))

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a row."""
        if self.features:
            self.detector.stream_.learn(self._row(x, self.features), self._compute)
        elif x:
            features = tuple(sorted(x, key=str))
            self.detector.partial_fit(self._row(x, features))
            self.features = features

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame of pandas in their order."""
        features = self.features or tuple(sorted(X.columns, key=str))
        self.detector.partial_fit(X.reindex(columns=list(features), fill_value=0.0).to_numpy(dtype=np.float64))
        self.features = features

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """How odd a row is: 0 or more, high = anomalous."""
        if not self.features or self.detector.stream_.model is None:
            return 0.0
        return oddness_of_one(float(self.detector.stream_.score(self._row(x, self.features), self._compute)[0]))

    def _row(self, x: Mapping[Any, Any], features: tuple[Any, ...]) -> Floats:
        """The features of a row in their order, (1, d): the same array if it is asked for once more, to be learned."""
        try:
            values = tuple(map(x.__getitem__, features))
        except KeyError:
            values = tuple(x.get(name, 0.0) for name in features)
        if values != self._values:
            try:
                is_fit = sum(map(abs, values)) <= FARTHEST
            except (TypeError, OverflowError):
                is_fit = False
            for name, value in zip(features, () if is_fit else values, strict=False):
                if not _is_number(value):
                    raise ValueError(f"{name!r} is {value!r:.40}; need finite numbers of at most 1e150.")
            self._values, self._last = values, np.array([values], dtype=np.float64)
        return self._last


def _is_number(value: Any) -> bool:
    try:
        return bool(abs(float(value)) <= FARTHEST)
    except (TypeError, ValueError, OverflowError):
        return False
