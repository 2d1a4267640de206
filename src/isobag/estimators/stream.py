"""The stream detector: a point detector whose training data are the last rows of a stream."""

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from isobag.backends.arrays import Floats
from isobag.backends.learned import demand
from isobag.data.frames import frame_like, is_frame
from isobag.data.gaps import Gaps, fill_rows, learn_gaps
from isobag.data.params import FDR, MAX_SAMPLES, N_ESTIMATORS, Parameter, Parameters, at_least, check_params, one_of
from isobag.data.rows import ArrayRows, Rows
from isobag.data.scaling import SCALINGS
from isobag.data.validation import as_rows
from isobag.estimators.base import Computing, Storable, Thresholded
from isobag.models.drift import Drift, measure_drift
from isobag.models.online import Lord
from isobag.models.point import PointModel
from isobag.models.stream import Followed, Stream

WINDOW = at_least(4, "psi is at most half of the rows")
OPTIONAL_FDR = Parameter("need None or a share between 0 and 1", (None,), FDR.accepts)
_OF_STREAM = ("window", "n_estimators", "max_samples", "scaling")


class IDKStreamDetector(Thresholded, Storable):
    """Point anomalies of a stream, by the Isolation Distributional Kernel of a row and the last ``window`` rows.

    The score is that of ``IDKPointDetector`` for the window. Rows that enter and leave are counted in and out exactly;
    pools are drawn anew, and scales and weights learned anew, when a quarter of the window has passed.

    Rows are learned in blocks of a twentieth of the window (of the rows seen, while these are fewer); rows of a block
    that is not complete wait. Scores, p-values and all that is learned depend on the rows and their order alone, never
    on how they are divided among calls of ``partial_fit``.

    Parameters
    ----------
    window : int, default=10000
        Number of rows that are remembered, W.
    n_estimators : int, default=100
        As of ``IDKPointDetector``.
    max_samples : int or "auto", default="auto"
        psi, as of ``IDKPointDetector``; at most half of the rows seen. With an integer, rows that are in no ball are
        told apart by how far out they are.
    scaling : {"auto", "minmax", "standard", "absolute", "robust", "normal", "asinh"} or None, default="auto"
        As of ``IDKPointDetector``.
    fdr : float or None, default=None
        False discovery rate of ``predict``; None: rows that score below ``offset_`` are anomalies.
    reference : {None, "first"} or fitted IDKPointDetector, default=None
        What ``drift_`` compares the window with: the first ``window`` rows, which are kept, or the rows that a detector
        keeps of those it was fitted to.
    random_state : int, RandomState instance or None, default=None
        Drawn from once, when the first rows come.
    n_jobs : int or None, default=None
        Number of threads, as in joblib.

    Attributes
    ----------
    window_ : ndarray of shape (n, d)
        The rows that the model is of, the oldest first: at most ``window``, without those that wait.
    n_seen_ : int
        Number of rows seen.
    model_ : PointModel
        The model of the window, as a frozen data class.
    offset_ : float
        Threshold on the scores, from those that the last ``window`` rows had before they were learned.
    drift_ : Drift
        How far the window is from ``reference``, with p-values, and the number of the row where that began; computed
        when it is asked for.
    online_ : Lord
        What ``predict`` with a false discovery rate remembers.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if the first rows came in a frame with names.

    See Also
    --------
    IDKPointDetector : The same for rows that are all there.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IDKStreamDetector
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> detector = IDKStreamDetector(window=500, random_state=0)
    >>> for batch in np.split(X, 10):
    ...     detector = detector.partial_fit(batch)
    >>> len(detector.window_), bool(detector.p_values([[6.0, 6.0]])[0] < 0.01)
    (500, True)
    """

    stream_: Stream
    online_: Lord
    parameters: ClassVar[Parameters] = {
        "window": WINDOW,
        "n_estimators": N_ESTIMATORS,
        "max_samples": MAX_SAMPLES,
        "scaling": one_of(("auto", *SCALINGS)),
        "fdr": OPTIONAL_FDR,
        "reference": one_of((None, "first"), lambda value: isinstance(getattr(value, "model_", None), PointModel)),
        **Computing.parameters,
    }

    def __init__(
        self,
        window: int = 10_000,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        scaling: str | None = "auto",
        fdr: float | None = None,
        reference: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.window = window
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.scaling = scaling
        self.fdr = fdr
        self.reference = reference
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything, and learn the rows of X (n, d) in their order."""
        if hasattr(self, "stream_"):
            del self.stream_
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn the rows of X (n, d) in their order; the oldest rows leave the window."""
        rows = self._rows_to_learn(X)
        for block in rows.blocks():
            self.stream_.learn(block, self.compute_for(rows))
        return self

    def follow(self, X: Any) -> Followed:
        """``partial_fit``; returns scores and p-values of each row before it is learned: (n,) each.

        Scores are nan and p-values 1 for the first rows, before there is a model.
        """
        rows = self._rows_to_learn(X)
        parts = [self.stream_.follow(block, self.compute_for(rows)) for block in rows.blocks()]
        return Followed(*(rows.give(np.concatenate(own)) for own in zip(*parts, strict=True)))

    def score_samples(self, X: Any) -> Floats:
        """How normal each row is: (n,) in [0, 1], higher = more normal. Nothing is learned."""
        rows = self._rows(X)
        return rows.give(self._scores(rows))

    def decision_function(self, X: Any) -> Floats:
        """Score minus ``offset_``: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def p_values(self, X: Any) -> Floats:
        """Conformal p-values of rows that have not been learned: (n,) in (0, 1], small = odd.

        p(x) = (1 + number of scores in the reference that are not above the score of x) / (1 + their number)

        The reference are the scores that the last ``window`` rows had before they were learned, without those that are
        beyond the tail of the others, so that one odd row does not hide the next; below all of them p-values go on from
        their tail. If these rows and x are exchangeable, P(p(x) <= alpha) <= alpha holds but for the little by which
        the model has moved since: each score is that of a model whose window shares all but the newer rows. While the
        stream changes, p-values are of the mixture of old and new rows in the window. P-values of
        autocorrelated rows are autocorrelated too: each is valid, but small ones may come in runs.
        """
        rows = self._rows(X)
        return rows.give(self.stream_.p_values(self._scores(rows)))

    def predict(self, X: Any, fdr: float | None = None) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies: scores below ``offset_``.

        With ``fdr``, here or as a parameter, an alarm where the p-value is below the level of LORD++ instead: of all
        alarms of all calls so far, the share of false ones is at most ``fdr`` on average, if p-values of normal rows
        are independent; and ``fdr`` more in every window of rows, as the level does not fall below fdr / window.
        ``online_`` remembers the alarms; another ``fdr`` begins anew.
        """
        rate, rows = self.fdr if fdr is None else fdr, self._rows(X)
        scores = self._scores(rows)
        return rows.give(self._verdicts(scores) if rate is None else self.alarms(self.stream_.p_values(scores), rate))

    def alarms(self, p_values: Floats, fdr: float | None = None) -> npt.NDArray[np.int64]:
        """-1 for the alarms that p-values raise in their order, else +1; ``online_`` goes on: (n,) -> (n,)."""
        check_params({"fdr": fdr if fdr is not None else self.online_.fdr}, {"fdr": FDR})
        if fdr is not None and fdr != self.online_.fdr:
            self.online_ = Lord(float(fdr), least=float(fdr) / self.window)
        self.online_, are_alarms = self.online_.alarms_of(p_values)
        return np.where(are_alarms, -1, 1)

    def explain(self, X: Any) -> Any:
        """What each feature contributes to a row being odd against the window: (n, d), as of IDKPointDetector."""
        rows = self._rows(X)
        gaps = self._gaps
        filled = fill_rows(rows.on_host, gaps)
        contributions = gaps.hand_back(self.model_.explain(filled, self.compute_for(rows)), filled.map(np.asarray))
        names = self.feature_names
        return (
            frame_like(X, dict(zip(names, contributions.T, strict=True)), same_rows=True)
            if is_frame(X)
            else rows.give(contributions)
        )

    @property
    def _gaps(self) -> Gaps:
        gaps = self.model_.views.gaps
        assert gaps is not None  # of every stream
        return gaps

    @property
    def window_(self) -> Floats:
        """The rows that the model is of, the oldest first: (n, d)."""
        check_is_fitted(self)
        return self.stream_.window_rows

    @property
    def n_seen_(self) -> int:
        """Number of rows seen."""
        check_is_fitted(self)
        return self.stream_.n_seen

    @property
    def model_(self) -> PointModel:
        """The model of the window."""
        check_is_fitted(self)
        if self.stream_.model is None:
            raise ValueError(f"{self.stream_.n_seen} row has been seen; need at least 2.")
        return self.stream_.model

    @property
    def offset_(self) -> float:  # type: ignore[override]  # it moves with the window
        """Threshold on the scores: those of the last rows, before they were learned, are rarely below by chance."""
        check_is_fitted(self)
        return self.stream_.threshold

    @property
    def drift_(self) -> Drift:
        """How far the window is from the reference; ``began`` is the number of a row of the stream, from 0.

        A change that began before the window was, and so nowhere in it, is reported to begin near its first row.
        """
        window, stream = self.window_, self.stream_
        if self.reference is None:
            raise ValueError("reference=None, so there is nothing to compare the window with; use reference='first'.")
        rows = stream.first if isinstance(self.reference, str) else self.reference.model_.reference
        if rows is None:
            raise ValueError(f"{stream.n_learned} rows have been learned; the first {self.window} are the reference.")
        if rows.shape[1] != window.shape[1]:
            raise ValueError(f"reference has {rows.shape[1]} features; need {window.shape[1]}, those of the stream.")
        gaps, d = learn_gaps(ArrayRows(np.concatenate([rows, window]))), window.shape[1]
        rows, window = gaps.fill(rows)[:, :d], gaps.fill(window)[:, :d]
        drift = measure_drift(rows, window, stream.seed, self.compute)
        return drift._replace(began=stream.n_learned - len(window) + drift.began)

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        self._check_features(self.stream_.waiting.shape[1])
        demand(isinstance(self.online_, Lord), "online_ is missing")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stream_")

    def _rows_to_learn(self, X: Any) -> Rows:
        """Rows to be learned; with the first of them the stream begins."""
        is_first = not hasattr(self, "stream_")
        self.check_params()
        params = {name: getattr(self, name) for name in _OF_STREAM}
        params = {name: own.item() if isinstance(own, np.generic) else own for name, own in params.items()}
        for name, value in params.items():
            if not is_first and value != getattr(self.stream_, name):
                raise ValueError(
                    f"{name}={value!r}, but the stream was begun with {getattr(self.stream_, name)!r}; fit begins anew."
                )
        rows = as_rows(self, X, reset=is_first)
        if is_first:
            none = np.empty((0, rows.n_features))
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.stream_ = Stream(**params, seed=seed, rows=none, waiting=none)
            fdr = self.fdr if self.fdr is not None else 0.1
            self.online_ = Lord(fdr, least=fdr / self.window)
        return rows

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return as_rows(self, X, reset=False)

    def _scores(self, rows: Rows) -> Floats:
        """How normal rows are, in host memory: (n,)."""
        assert self.model_ is not None  # or there are no scores yet
        compute = self.compute_for(rows)
        return np.concatenate([self.stream_.score(block, compute) for block in rows.blocks()])
