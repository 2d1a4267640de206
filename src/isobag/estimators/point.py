"""The point detector: how similar a point is to the data as a whole."""

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.backends.learned import demand
from isobag.data.frames import frame_like, is_frame
from isobag.data.groups import as_labels, number_labels
from isobag.data.labelled import UNSEEN, LabelledRows
from isobag.data.params import (
    MAX_ROWS,
    MAX_SAMPLES,
    N_ESTIMATORS,
    POOL_SIZE,
    Parameters,
    check_max_samples,
    one_of,
    warn_of_many_samples,
)
from isobag.data.rows import MOST_LEARNED, RangedRows, Rows, sample_of
from isobag.data.scaling import SCALINGS
from isobag.estimators.base import Modelled, PointDetector, Storable, Thresholded, verdicts_at
from isobag.models.averaging import ViewsAverage
from isobag.models.calibration import EXACT, EXTRAPOLATE
from isobag.models.point import BLOCKS, PointModel, PointParams
from isobag.models.point_fit import fit_to_bulk
from isobag.models.thresholds import OWN_LEVEL, ScoreCounts
from isobag.models.units import unit_numbers
from isobag.models.views import Views


class IDKPointDetector(PointDetector, Modelled[PointModel]):
    """Point anomalies by the Isolation Distributional Kernel of a point and the training data.

    score(x) = K({x}, D) = (1/t) sum_i Phi_hat_i(D)[cell_i(x)]

    the share of the training data that falls into the same cell as x, averaged over t partitionings; 0 where x is
    OUTSIDE. Scores lie in [0, 1]; higher = more normal.

    The default combines the scores at psi = 2, 4, ..., 512 with how far out a row is, and needs no tuning. With an
    integer ``max_samples``, pool_size=None and max_rows=None the detector is the paper's method to the letter.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of samples of psi rows, the paper's t, with an integer ``max_samples``. With "auto", the most samples of
        a psi on a scale: as often as a pool is cut as a whole, which by default is once, into 64 of up to 32 rows, 32
        of 64, ..., 4 of 512.
    max_samples : int or "auto", default="auto"
        psi, the number of centers of each partitioning: small values find global anomalies, large ones local anomalies.
        "auto" takes psi = 2, 4, ..., 512 (at most half of the rows) together: the score is a weighted geometric mean of
        the scores at each psi on each scale, multiplied by a factor that falls with the distance of a row from the
        balls that it lies OUTSIDE of. So rows that are OUTSIDE everywhere are still ranked by how far out they are.
        Where psi = 2, 4 and 8 find a row much odder than all together do, they overrule: anomalies that are many and
        alike have each other for neighbours at a large psi.
    scaling : {"auto", "minmax", "standard", "absolute", "robust", "normal", "asinh"} or None, default="auto"
        "minmax" maps every feature to [0, 1]; "standard", "absolute" and "robust" divide by the standard deviation, the
        mean absolute deviation and the interquartile range; "normal" maps ranks to a normal distribution; "asinh" is
        asinh((x - median) / median absolute deviation), linear near the median and logarithmic far out; None leaves the
        features as they are. All are learned from the training data. "auto" is "minmax", the paper's choice, with an
        integer ``max_samples``; with max_samples="auto" there is a pool on each of the scales "absolute", "normal"
        and "asinh". A value never seen in a feature that was constant is as far out as can be.
    contamination : float or "auto", default="auto"
        Share of anomalies in the training data, above 0 and at most 0.5, which fixes ``offset_``. "auto": rows are
        flagged that the tail of the bulk does not explain, by Benjamini and Hochberg's procedure on p-values at a level
        of .1 among as many rows as ``fit`` was given: in about one of ten tables without anomalies there is some.
    pool_size : int, "auto" or None, default="auto"
        Rows that samples are cut from, drawn once for each scale: 2,048, or four times psi if that is more, and half as
        many of more than 32 features. None draws every sample from all rows, as the paper does.
    max_rows : int, "auto" or None, default="auto"
        Most rows to learn from, drawn at random: 32,768. The range of each feature is that of all rows. None learns
        from all rows.
    random_state : int, RandomState instance or None, default=None
        All randomness is drawn in ``fit``.
    n_jobs : int or None, default=None
        Number of threads, as in joblib.
    device : str or None, default=None
        Where to compute: "cuda" (also "cuda:1", ...), "auto" for a GPU if there is one, None for the processor, or the
        GPU if X is there. The results are identical. See docs/gpu.md.

    Attributes
    ----------
    offset_ : float
        Threshold on the scores: rows that score below it are predicted to be anomalies.
    scores_ : ndarray of shape (n,)
        Scores of the rows of ``fit``, where these were all learned from or ``contamination`` is a share.
    model_ : PointModel
        All that was learned, as a frozen data class.
    max_samples_ : int
        psi, or the largest.
    path_ : tuple of int
        psi of each column of ``score_path``.
    mean_map_ : ndarray of shape (t, psi)
        Share of the training data in each cell.
    average_ : ViewsAverage or None
        Weights of the psi and of how far out a row is; None with an integer ``max_samples``.
    views_ : Views
        Scalings, and the partitionings drawn on each scale.
    within_labels_ : ndarray of shape (n_groups,)
        Labels of the groups, if ``fit`` was given ``within``.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of str
        Names of the features, if ``fit`` was given a frame with names.

    See Also
    --------
    IDKGroupDetector : Finds odd groups instead of odd points.
    isobag.detect : From a frame to a ranking with reasons.

    Notes
    -----
    X may be an array, a frame of pandas, polars or Arrow, or a sparse matrix, which is never made dense as a whole;
    scores of sparse and dense input are the same bit for bit.

    NaN is a missing value: the median stands for it, and one more feature says how surprising the gaps of a row are. A
    gap in a feature that had none in ``fit`` is a value never seen, as far out as can be. So a row without any value
    has the score of a row of medians with so surprising gaps. Without gaps in ``fit`` nothing is added.

    With ``fit(X, within=labels)`` a row is compared with the rows of its own group g first: instead of the mean map m
    of all rows, it is looked up in lambda m_g + (1 - lambda) m at every psi, lambda = q n_g / (1 + q n_g), where n_g is
    the number of rows of the group and q the variance between groups divided by the variance within, estimated from the
    data. The rows of a large group are compared with each other, those of a new one with all. What is usual in a map of
    one's own is more than in that of all, so each is divided by what is usual for its lambda. With
    ``max_samples="auto"`` a second model compares rows column by column: less the median of their group, divided by its
    median deviation, both shrunk towards those of all. A row has the lower of both scores. The scores that ``fit``
    computes leave each row out of its own group; ``score_samples`` takes all rows for new.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IDKPointDetector
    >>> X = np.vstack([np.random.default_rng(0).normal(size=(500, 2)), [[6.0, 6.0]]])
    >>> detector = IDKPointDetector(random_state=0).fit(X)
    >>> int(detector.score_samples(X).argmin()), int(detector.predict(X)[-1])
    (500, -1)
    >>> far = detector.score_samples([[60.0, 6.0], [600.0, 6.0]])  # both far out, one farther
    >>> bool(far[0] > far[1])
    True
    """

    model_: PointModel
    scores_: Floats
    within_labels_: npt.NDArray[Any]
    not_in_files = ("scores_",)
    _params_class = PointParams
    _accepts_sparse = True
    parameters: ClassVar[Parameters] = {
        "n_estimators": N_ESTIMATORS,
        "max_samples": MAX_SAMPLES,
        "scaling": one_of(("auto", *SCALINGS)),
        **Thresholded.parameters,
        "pool_size": POOL_SIZE,
        "max_rows": MAX_ROWS,
        **Storable.parameters,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        scaling: str | None = "auto",
        contamination: float | str = "auto",
        pool_size: int | str | None = "auto",
        max_rows: int | str | None = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.scaling = scaling
        self.contamination = contamination
        self.pool_size = pool_size
        self.max_rows = max_rows
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, within: Any = None) -> Self:
        """Learn what the rows of X (n, d) are like, and where odd ones begin.

        ``groups`` (n,): what each row belongs to, such as an account. It only matters for p-values: whole groups are
        set aside, and one row of each counts, so that p-values hold for rows of new groups. "blocks": rows are in the
        order of time and autocorrelated; stretches of time are set aside as a whole.

        ``within`` (n,): the group whose rows each row is compared with, such as an account; see Notes. All other
        methods then need it too.
        """
        self._fit_within(X, groups, within)
        return self

    def fit_predict(self, X: Any, y: Any = None, *, within: Any = None) -> npt.NDArray[np.int64]:
        """Verdicts on the training data, +1 or -1: (n,)."""
        rows = self._fit_within(X, None, within)
        if hasattr(self, "scores_"):
            return rows.give(self._verdicts(self.scores_))
        return rows.give(self._verdicts(self._score_rows(rows)))

    def _fit_within(self, X: Any, groups: Any, within: Any) -> Rows:
        """Learn; the rows."""
        rows = self._filled(self._training_rows(X), X, reset=True)
        labels = units = None
        if groups is not None:
            units = groups if isinstance(groups, str) and groups == BLOCKS else unit_numbers(groups, len(rows))
        if within is not None:
            owners, labels = number_labels(self._labels(within, rows), "within")
            rows = LabelledRows(rows, owners, len(labels))
        scores, threshold = self._learn(rows, units)
        sampled = len(scores) < len(rows)
        for name in ("within_labels_", "scores_"):
            if hasattr(self, name):
                delattr(self, name)
        if labels is not None:
            self.within_labels_ = labels
        if sampled and self.contamination != "auto":  # a share of all rows
            sampled, scores = False, self._score_rows(rows)
        share = self.contamination
        self.offset_ = threshold if share == "auto" else float(np.quantile(scores, float(share)))
        if not sampled:
            self.scores_ = rows.give(scores)
        return rows

    def _learn(self, rows: Rows, units: Ints | str | None) -> tuple[Floats, float]:
        """Learn from rows, or a sample of them; the scores of these, and the threshold for as many rows as came."""
        check_max_samples(self.max_samples, len(rows))
        most = MOST_LEARNED if self.max_rows == "auto" else len(rows) if self.max_rows is None else int(self.max_rows)
        if len(rows) <= most or isinstance(rows, LabelledRows):
            sample = rows
        else:
            check_max_samples(self.max_samples, most)
            numbers = sample_of(len(rows), most, self.random_state)
            units = units[numbers] if isinstance(units, np.ndarray) else units
            sample = RangedRows(rows.part(numbers), *rows.extremes())
        compute = self.compute_for(rows)
        self.model_, scores, threshold = fit_to_bulk(sample, self.params, compute, units, len(rows))
        return scores, threshold

    def threshold(self, counts: ScoreCounts) -> float:
        """Score below which p-values are too small for as many rows; 0 where the tail of scores is unknown."""
        calibration = self.calibrated.calibration
        assert calibration is not None
        return calibration.threshold(counts, OWN_LEVEL, counts.n, self.model_.least)

    def _score_rows(self, rows: Rows) -> Floats:
        return self.model_.scores(rows, self.compute_for(rows))

    def _rows(self, X: Any, within: Any = None) -> Rows:
        """Input of a fitted detector, with the number of each row's group if it was fitted with groups."""
        if isinstance(X, LabelledRows):  # as ``labelled`` has returned them
            return X
        rows = self._filled(super()._rows(X), X, reset=False)
        if self.model_.baseline is None:
            if within is not None:
                raise ValueError("the detector was fitted without within; pass within to fit as well.")
            return rows
        if within is None:
            raise ValueError("the detector was fitted with within; pass within, one label for each row.")
        places, labels = number_labels(self._labels(within, rows), "within")
        numbers = {label: number for number, label in enumerate(self.within_labels_.tolist())}
        owners = np.array([numbers.get(label, UNSEEN) for label in labels.tolist()], dtype=np.int64)
        return LabelledRows(rows, owners[places], len(numbers))

    def labelled(self, X: Any, within: Any) -> Rows:
        """Rows as models take them: with the number of each row's group, if the detector was fitted with groups."""
        return self._rows(X, within)

    def _labels(self, within: Any, rows: Rows) -> npt.NDArray[Any]:
        labels = as_labels(within, "within")
        if len(labels) != len(rows):
            raise ValueError(
                f"within has {len(labels)} labels and X has {len(rows)} rows; need one label for each row."
            )
        return labels

    def score_samples(self, X: Any, *, within: Any = None) -> Floats:
        """How normal each row is: (n,), higher = more normal; on the GPU if X is there.

        ``within`` (n,): the group of each row, if ``fit`` was given one; rows of new groups are compared with all.
        """
        rows = self._rows(X, within)
        return rows.give(self._score_rows(rows))

    def decision_function(self, X: Any, *, within: Any = None) -> Floats:
        """Score minus ``offset_``: negative for anomalies."""
        return self.score_samples(X, within=within) - self.offset_

    def predict(
        self, X: Any, fdr: float | None = None, *, within: Any = None, exact: bool = False
    ) -> npt.NDArray[np.int64]:
        """+1 for normal rows, -1 for anomalies: scores below ``offset_``.

        With ``fdr``, the rows that stand out from normal ones at this false discovery rate instead: among the alarms,
        the share of false ones is at most ``fdr`` on average over such batches (Benjamini and Hochberg, on
        ``p_values``). In a batch without anomalies every alarm is false, and one such batch in 1 / ``fdr`` has one.
        """
        rows = self._rows(X, within)
        return rows.give(
            self._verdicts(self._score_rows(rows)) if fdr is None else verdicts_at(self._p_values(rows, exact), fdr)
        )

    def p_values(self, X: Any, *, within: Any = None, exact: bool = False) -> Floats:
        """Conformal p-values of new rows: (n,) in (0, 1], small = odd.

        A row drawn like the training data has a p-value of at most alpha with a probability of at most alpha, for every
        alpha down to 1 / (1 + number of rows set aside). Rows that score below all of these get smaller ones from the
        tail of their scores, unless ``exact``. This does not hold for the rows of ``fit`` themselves, nor where rows
        depend on each other, in time or otherwise: see ``groups`` of ``fit``. Anomalies in the training data make
        p-values larger if they score lower than the rest; a dense clump of them that scores higher makes p-values
        smaller.

        With ``within`` it holds for rows of the groups of ``fit``, drawn as those of ``fit`` were. Rows of new groups
        are compared with rows set aside that were scored without their groups.
        """
        rows = self._rows(X, within)
        return rows.give(self._p_values(rows, exact))

    def _p_values(self, rows: Rows, exact: bool) -> Floats:
        calibration = self.calibrated.calibration
        assert calibration is not None
        warn_of_many_samples(self.max_samples, sum(calibration.sizes))
        return self.model_.p_values(rows, self.compute_for(rows), EXACT if exact else EXTRAPOLATE)

    def explain(self, X: Any, *, within: Any = None) -> Any:
        """What each feature contributes to a row being odd: (n, d), or a frame of X's kind with its names.

        A row sums to log(typical score / score of the row), where the typical score is the geometric mean over some
        rows of the training data: 0 for an ordinary row, above 0 for an odd one. A feature in which the row is nearer
        to the data than usual contributes a negative part. With an integer ``max_samples``, a score below a thousandth
        of the mean counts as that.
        """
        rows = self._rows(X, within)
        contributions = self.model_.explain(rows.on_host, self.compute_for(rows))
        if contributions.shape[1] > len(self.gaps_.fills):
            contributions = self.gaps_.hand_back(contributions, rows.map(np.asarray))
        names = self.feature_names
        return (
            frame_like(X, dict(zip(names, contributions.T, strict=True)), same_rows=True)
            if is_frame(X)
            else rows.give(contributions)
        )

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        super().validate()
        model = self.model_
        demand((model.average is not None) == self.params.averages, "the model does not average as max_samples says")
        n_labels = len(self.within_labels_) if hasattr(self, "within_labels_") else None
        n_groups = None if model.baseline is None else len(model.baseline.sizes)
        demand(n_labels == n_groups, "within_labels_ is not one label for each group")

    def score_path(self, X: Any) -> Floats:
        """Scores for every psi = 2, 4, ... up to ``max_samples_``, from nested samples in one pass: (n, number of psi).

        With pool_size=None, column k is what a detector with max_samples = ``path_[k]``, the same scale and the same
        seed would say; on several scales it is their mean. How far out a row is does not enter the path. With an
        integer ``max_samples`` and a pool the path is that psi alone; with ``within`` there is none.
        """
        if self.learned.baseline is not None:
            raise ValueError("the detector was fitted with within, so it has no path of scores; see score_samples.")
        rows = self._rows(X)
        return rows.give(self.model_.path(rows, self.compute_for(rows)))

    @property
    def path_(self) -> tuple[int, ...]:
        """The psi of each column of ``score_path``."""
        return self.learned.views.levels

    @property
    def max_samples_(self) -> int:
        """psi, or the largest."""
        return self.path_[-1]

    @property
    def mean_map_(self) -> Floats:
        """Share of the training data in each cell: (t, psi)."""
        return self.learned.mean_map

    @property
    def average_(self) -> ViewsAverage | None:
        """Weights of the psi, None with an integer max_samples."""
        return self.learned.average

    @property
    def views_(self) -> Views:
        """Scalings and partitionings."""
        return self.learned.views
