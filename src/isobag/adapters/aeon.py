"""The detector of groups as aeon's: whole series that are odd in a collection of series of any lengths.

>>> import numpy as np
>>> from isobag.adapters.aeon import IDKCollection
>>> rng = np.random.default_rng(0)
>>> series = [np.sin(np.arange(n) / 5 + rng.uniform(0, 6))[None] for n in rng.integers(60, 90, 40)]
>>> series[7] = rng.permutation(series[7][0])[None]  # the same values in another order
>>> int(IDKCollection(random_state=0).fit_predict(series).argmax())
7
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from isobag.adapters.oddness import oddness
from isobag.backends.arrays import Floats
from isobag.estimators import IDKGroupDetector

try:
    from aeon.anomaly_detection.collection.base import BaseCollectionAnomalyDetector
except ModuleNotFoundError as error:
    if error.name != "aeon":
        raise
    raise ModuleNotFoundError("isobag.adapters.aeon needs aeon: pip install 'isobag[aeon]'.") from error


def bags_of_series(collection: Iterable[Any], lags: int = 1, position: bool = False) -> list[Floats]:
    """A bag of points for each series: at every time its values and by how much they have changed.

    collection : series (c, n_i), or an array (m, c, n).
    lags : of the changes: x[t] - x[t - 1], ..., x[t] - x[t - lags]; without them the order of the values is lost.
    position : whether the place in the series, from 0 to 1, is a feature too.

    Returns m arrays (n_i - lags, c (1 + lags) + position).
    """
    bags = []
    for number, values in enumerate(collection):
        series = np.atleast_2d(np.asarray(values, dtype=np.float64))
        n = series.shape[1]
        if n <= lags:
            raise ValueError(f"Series {number} has {n} time points; need more than lags={lags}.")
        parts = [series[:, lags:], *(series[:, lags:] - series[:, lags - k : n - k] for k in range(1, lags + 1))]
        if position:
            parts.append(np.linspace(0, 1, n)[None, lags:])
        bags.append(np.concatenate(parts).T)
    return bags


class IDKCollection(BaseCollectionAnomalyDetector):
    """``isobag.IDKGroupDetector`` as aeon's detector of odd series: a series is a bag of its values and changes.

    Scores are higher for odder series.

    Parameters
    ----------
    lags : int, default=1
        Changes over 1, ..., lags steps are features beside the values; 0 leaves the order of the values out.
    position : bool, default=False
        Whether the place in the series, from 0 to 1, is a feature: for series that are aligned.
    n_estimators, max_samples, group_max_samples, size, random_state, n_jobs
        As those of ``IDKGroupDetector``. size="ignore" makes the length of a series no evidence by itself.

    Attributes
    ----------
    detector_ : IDKGroupDetector
        The detector itself, fitted to the bags.
    """

    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_type": ["np-list", "numpy3D"],
        "anomaly_output_type": "anomaly_scores",
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:multithreading": True,
        "learning_type:unsupervised": True,
        "learning_type:semi_supervised": True,
        "fit_is_empty": False,
    }

    def __init__(
        self,
        lags: int = 1,
        position: bool = False,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        group_max_samples: int | str = "auto",
        size: str = "evidence",
        random_state: Any = None,
        n_jobs: int | None = 1,
    ) -> None:
        self.lags = lags
        self.position = position
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.group_max_samples = group_max_samples
        self.size = size
        self.random_state = random_state
        self.n_jobs = n_jobs
        super().__init__()

    def p_values(self, X: Any) -> Floats:
        """How probable a series as odd is among series like those of ``fit``: (m,). Not for those of ``fit``."""
        self._check_is_fitted()
        X = self._preprocess_collection(X, store_metadata=False)
        self._check_shape(X)
        return self.detector_.p_values(self._bags(X))

    def _fit(self, X: Any, y: Any = None) -> "IDKCollection":
        if isinstance(self.lags, bool) or not isinstance(self.lags, int | np.integer) or self.lags < 0:
            raise ValueError(f"lags={self.lags!r}; need an integer of 0 or more.")
        others = {name: value for name, value in self.get_params().items() if name not in ("lags", "position")}
        self.detector_ = IDKGroupDetector(**others).fit(self._bags(X))
        return self

    def _predict(self, X: Any) -> Floats:
        return oddness(self.detector_.score_samples(self._bags(X)))

    def _bags(self, X: Any) -> list[Floats]:
        return bags_of_series(X, int(self.lags), self.position)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """What aeon's checks construct it with: small, so that they are quick."""
        return {"n_estimators": 10, "random_state": 0}
