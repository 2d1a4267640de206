"""The point detector: how similar a point is to the data as a whole."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from isobag.arrays import Floats, Ints
from isobag.averaging import fit_average
from isobag.detectors.base import PartitioningDetector
from isobag.detectors.conformal import Calibration, calibrated, discoveries, draw_halves
from isobag.detectors.explain import lack_by_feature
from isobag.frames import feature_names, frame_like, is_frame
from isobag.partitionings import nested_levels
from isobag.rows import ArrayRows, Rows, map_rows, spread_rows
from isobag.scaling import SCALINGS
from isobag.validation import check_flag, check_option, largest_samples, resolve_max_samples
from isobag.views import Plan, n_partitionings, sum_at_cells

SCORES = ("similarity", "norm")
AUTO_SCALINGS = ("minmax", "absolute")
AVERAGED_ROWS = 10_000
PATH_ROWS = 1 << 20
CALIBRATION_ROWS = 10_000
REFERENCE_ROWS = 256


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
        integer is the paper's method to the letter. "auto" needs no choice: the score is a weighted geometric mean of
        the scores at psi = 2, 4, ..., 256 (at most half of the rows), see docs/no_tuning.md.
    score : "similarity", or "norm" for the paper's cut-down version: the share of partitionings in which some ball,
        that of the nearest center or another, covers x.
    scaling : "minmax" (every feature to [0, 1] on the training data), "standard", "absolute", "robust" or None. "auto"
        is "minmax", the paper's, with an integer max_samples; with max_samples="auto" half of the partitionings are
        drawn on the scale of "minmax" and half on that of "absolute" (mean absolute deviation 1).
    contamination : share of anomalies in the training data, which fixes ``offset_``; "auto" needs no guess: two
        standard deviations below the mean of the logarithms of the training scores.
    calibrate : whether ``fit`` also learns what ``p_values`` needs: a second detector from half of the rows, and its
        scores of the other half (at most 10,000 rows each).
    mechanism : "hypersphere" (the paper's) or "voronoi".
    random_state : seed or numpy RandomState; all randomness is drawn in ``fit``.
    backend : "auto", "numba" or "numpy"; the results are identical.
    n_jobs : threads, as in joblib.

    Attributes
    ----------
    offset_ : threshold on the scores; mean_map_ : (t, psi), share of the training data in each cell;
    max_samples_ : psi, or the largest; path_ : psi of each column of score_path; average_ : weights of these psi, None
    with an integer max_samples; views_ : scalings and partitionings; n_features_in_, feature_names_in_.

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
        scaling: str | None = "auto",
        contamination: float | str = "auto",
        calibrate: bool = True,
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
        self.calibrate = calibrate
        self.mechanism = mechanism
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as in every scikit-learn estimator."""
        return {name: vars(self)[name] for name in self._get_param_names()}

    def _plans(self, n_rows: int) -> list[Plan]:
        """One view with the paper's scaling, or, if all is left to us, half of the partitionings on another scale."""
        check_option("scaling", self.scaling, ("auto", *SCALINGS))
        psi = resolve_max_samples(self.max_samples, n_rows, auto=largest_samples(n_rows))
        scalings: tuple[str | None, ...] = (self.scaling,)
        if self.scaling == "auto":
            scalings = AUTO_SCALINGS if self.max_samples == "auto" else AUTO_SCALINGS[:1]
        return [Plan(scaling, nested_levels(psi)) for scaling in scalings]

    def _fit_rows(self, rows: Rows) -> Floats:
        """Draw the partitionings from the rows and count the rows in every cell; their scores: (n,)."""
        score = check_option("score", self.get_params()["score"], SCORES)
        check_flag("calibrate", self.calibrate)
        self._draw(rows)  # partitionings
        self.calibration_ = self._calibrate(rows) if self.calibrate else None
        self._reference = rows.take(spread_rows(len(rows), REFERENCE_ROWS))
        self.average_ = None
        sums: Ints | None = None
        if isinstance(rows, ArrayRows) and self.max_samples != "auto" and score == "similarity":
            counts, sums = self.views_[0].count_and_sum(rows.X, *self._how())  # cells, counted and let go
            self._tables = [counts]
        else:
            self._tables = [view.count_cells(rows, *self._how()) for view in self.views_]
        self._largest = len(rows)
        self.mean_map_ = np.concatenate([counts[-1] for counts in self._tables]) / len(rows)  # mean map
        if score == "norm":
            self._tables, self._largest = [np.ones_like(counts) for counts in self._tables], 1
        if self.max_samples == "auto":
            importance, some = np.array(self.path_) ** -0.5, spread_rows(len(rows), AVERAGED_ROWS)
            if isinstance(rows, ArrayRows) and len(rows) <= PATH_ROWS:  # one pass serves average and scores
                path = self._path(rows.X)
                self.average_ = fit_average(path[some], importance)
                return self.average_.apply(path)
            self.average_ = fit_average(self._path(rows.take(some)), importance)
        if sums is not None:
            return self._as_scores(sums)
        return map_rows(rows, self._scores)  # scores

    def score_samples(self, X: Any) -> Floats:
        """Similarity of each row to the training data: (n,) in [0, 1], higher = more normal."""
        return self._scores(self._points(X))

    def predict(self, X: Any, fdr: float | None = None) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies: scores below ``offset_``.

        With ``fdr``, the rows that stand out from normal ones at this false discovery rate instead: among the alarms,
        the share of false ones is at most ``fdr`` on average (Benjamini and Hochberg, on ``p_values``).
        """
        return super().predict(X) if fdr is None else discoveries(self.p_values(X), fdr)

    def p_values(self, X: Any) -> Floats:
        """Conformal p-values of new rows: (n,) in (0, 1], small = odd.

        A row drawn like the training data has a p-value of at most alpha with a probability of at most alpha, for every
        alpha. Not so for rows of ``fit`` itself. Anomalies among the training data make p-values larger, if they score
        lower than the rest; a dense clump of them that scores higher makes p-values smaller.
        """
        return self._p_values(self._points(X))

    def explain(self, X: Any) -> Any:
        """How much each feature adds to a row's lack of similarity: (n, d), or a frame of X's kind with its names.

        A row sums to log(typical score / score of the row), where the typical score is the geometric mean over some
        rows of the training data: 0 for an ordinary row, above it for an odd one. A feature in which the row is nearer
        to the data than usual has a negative part. Scores below a thousandth of the mean count as that.
        """
        lack = self._explain(self._points(X))
        names = feature_names(self)
        return frame_like(X, dict(zip(names, lack.T, strict=True)), same_rows=True) if is_frame(X) else lack

    def score_path(self, X: Any) -> Floats:
        """Scores for every psi = 2, 4, ... up to ``max_samples_``, from nested samples in one pass: (n, number of psi).

        Column k is what a detector with max_samples = ``path_[k]``, the same scale and the same seed would say; with
        max_samples="auto" and scaling="auto" half of its partitionings are on each of two scales.
        """
        return self._path(self._points(X))

    @property
    def path_(self) -> tuple[int, ...]:
        """The psi of each column of ``score_path``."""
        check_is_fitted(self)
        return self.views_[0].partitionings.levels

    def _calibrate(self, rows: Rows) -> Calibration:
        """Learn from one half of the rows and score the other."""
        halves = draw_halves(len(rows), CALIBRATION_ROWS, self.random_state)
        detector = clone(self).set_params(calibrate=False, random_state=halves.seed)
        if self.max_samples != "auto":
            detector.set_params(max_samples=min(self.max_samples_, len(halves.learned)))
        detector._fit_rows(ArrayRows(rows.take(halves.learned)))
        aside = detector._scores(rows.take(halves.aside)) if len(halves.aside) else np.empty(0)
        return Calibration(detector, np.sort(aside))

    def _p_values(self, points: Floats) -> Floats:
        calibration = calibrated(self.calibration_)
        return calibration.p_values(calibration.detector._scores(points))

    def _explain(self, points: Floats) -> Floats:
        found: Floats = self._lack(points) - self._lack(self._reference).mean(axis=0)
        return found

    def _lack(self, points: Floats) -> Floats:
        """Minus the logarithm of the scores, feature by feature: (n, d)."""
        shares = [table / self._largest for table in self._tables]
        average = self.average_
        if average is None:  # one psi, the last
            average = fit_average(self._path(self._reference), np.eye(len(self.path_))[-1])
        return lack_by_feature(self.views_, shares, average, self._path(points), points, *self._how(), self._rule)

    def _scores(self, points: Floats) -> Floats:
        if self.average_ is not None:
            return self.average_.apply(self._path(points))
        last = tuple(view.last for view in self.views_)
        tables = [table[-1:] for table in self._tables]
        return self._as_scores(sum_at_cells(last, points, tables, *self._how(), self._rule)[:, 0])

    def _path(self, points: Floats) -> Floats:
        return self._as_scores(sum_at_cells(self.views_, points, self._tables, *self._how(), self._rule))

    @property
    def _rule(self) -> str:
        return "covering" if self.get_params()["score"] == "norm" else "nearest"

    def _as_scores(self, sums: Ints) -> Floats:
        """Sums over partitionings as shares of the most they can be."""
        return sums / (self._largest * n_partitionings(self.views_))
