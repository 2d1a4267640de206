"""The group detector: every group becomes one point, its mean map, and odd ones among these points are odd groups."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats
from isobag.backends.learned import check, demand
from isobag.data.frames import frame_like, is_frame, own_name
from isobag.data.groups import Groups
from isobag.data.params import (
    MAX_SAMPLES,
    N_ESTIMATORS,
    POOL_SIZE,
    Parameters,
    check_max_samples,
    one_of,
)
from isobag.data.scaling import SCALINGS
from isobag.estimators.base import GroupDetector, Modelled, Storable, Thresholded, verdicts_at
from isobag.models.calibration import EXACT, EXTRAPOLATE
from isobag.models.cells import GroupCells
from isobag.models.group import GroupExplanation, GroupModel, GroupParams, fit_group_model
from isobag.models.neighbours import Neighbours
from isobag.models.views import Views


class IDKGroupDetector(GroupDetector, Modelled[GroupModel]):
    """Group anomalies: groups whose distribution of points is unlike that of other groups.

    Level 1 draws partitionings from all points of all groups and turns each group into its mean map, the share of its
    points in each cell. Level 2 scores the mean maps. By default, the score of a group follows from its distances to
    the ten nearest other groups, to a twentieth and to a quarter of all groups, compared with what is usual at its
    size; from single columns; and from the number of its points: around 1 for a usual group, towards 0 for an odd one.
    With integers for ``max_samples`` and ``group_max_samples``, and pool_size=None, the detector is the paper's IDK^2:
    level 2 is the point detector on mean maps, with scores in [0, 1]. Higher = more normal in either case.
    New groups are scored against the groups of ``fit``, each on its own.

    A group can be odd although each of its points is ordinary: too many points here, too few there.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of samples of psi points, the paper's t, with an integer ``max_samples``; with "auto", the most samples
        of a psi, see IDKPointDetector. Also the number of partitionings of level 2, with an integer
        ``group_max_samples``.
    max_samples : int or "auto", default="auto"
        psi of level 1, the number of points of each sample. "auto" takes psi = 16, 32 and 64 (at most half of the
        points), each with Voronoi cells, by which no point is OUTSIDE; an integer, hyperspheres as in the paper.
    group_max_samples : int or "auto", default="auto"
        psi of level 2, the number of groups drawn for each partitioning, as in the paper. With "auto" level 2 is the
        distance to near and far groups.
    size : {"evidence", "ignore"}, default="evidence"
        Whether an unusual number of points makes a group odd by itself. "evidence": a group with far fewer or far more
        points than usual scores low, whatever its points are; where sizes extend over decades, none is unusual. So
        does a group that has a value more or less often than most groups, which have it equally often, as sessions
        have one end. "ignore": points alone count, as they always do with an integer ``group_max_samples``.
    scaling : {"minmax", "standard", "absolute", "robust", "normal", "asinh"} or None, default="minmax"
        Scale of the features, learned from all points; see IDKPointDetector.
    contamination : float or "auto", default="auto"
        Share of odd groups, above 0 and at most 0.5, which fixes ``offset_``; "auto" as in IDKPointDetector.
    pool_size : int, "auto" or None, default="auto"
        Points that samples are cut from; see IDKPointDetector.
    random_state : int, RandomState instance or None, default=None
        All randomness is drawn in ``fit``.
    n_jobs : int or None, default=None
        Number of threads, as in joblib.
    device : str or None, default=None
        Where to compute: "cuda" (also "cuda:1", ...), "auto" for a GPU if there is one, None for the processor, or the
        GPU if X is there. The results are identical. See docs/gpu.md.

    Attributes
    ----------
    labels_ : ndarray of shape (g,)
        Labels of the groups of ``fit``, in order of first appearance.
    scores_ : ndarray of shape (g,)
        Scores of these groups.
    offset_ : float
        Threshold on the scores: groups that score below it are predicted to be odd.
    model_ : GroupModel
        All that was learned, as a frozen data class.
    max_samples_ : int
        psi of level 1, or the largest.
    group_max_samples_ : int or None
        psi of level 2, or the largest; None where level 2 draws no partitionings.
    point_views_ : Views
        Level 1: scalings and partitionings.
    level2_ : Neighbours or GroupCells
        Level 2: the reference groups and what is usual at each size, or partitionings of groups and their counts.
    population_ : ndarray of shape (cells,)
        Mean of the mean maps of the groups, or of the 4,096 that stand for more.
    reference_ : ndarray of shape (m, d)
        Points that stand for the cells of level 1.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of str
        Names of the features, if ``fit`` was given a frame with names.

    See Also
    --------
    IDKPointDetector : Finds odd points.
    isobag.detect : From a frame to a ranking with reasons.

    Notes
    -----
    With more than 4,096 groups the nearest groups are looked for among 4,096 of them, drawn the same way for every
    seed. Sizes beyond those of most groups of ``fit`` are judged as the nearest of these are; see ``size``.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IDKGroupDetector
    >>> rng = np.random.default_rng(0)
    >>> wide = [rng.normal(0, 1, size=(60, 2)) for _ in range(100)]
    >>> narrow = [rng.normal(0, 0.1, size=(60, 2))]  # in the middle of all, where every point is ordinary
    >>> detector = IDKGroupDetector(random_state=0).fit(wide + narrow)
    >>> int(detector.scores_.argmin())
    100
    """

    model_: GroupModel
    _params_class = GroupParams
    parameters: ClassVar[Parameters] = {
        "n_estimators": N_ESTIMATORS,
        "max_samples": MAX_SAMPLES,
        "group_max_samples": MAX_SAMPLES,
        "size": one_of(("evidence", "ignore")),
        "scaling": one_of(SCALINGS),
        **Thresholded.parameters,
        "pool_size": POOL_SIZE,
        **Storable.parameters,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        group_max_samples: int | str = "auto",
        *,
        size: str = "evidence",
        scaling: str | None = "minmax",
        contamination: float | str = "auto",
        pool_size: int | str | None = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.group_max_samples = group_max_samples
        self.size = size
        self.scaling = scaling
        self.contamination = contamination
        self.pool_size = pool_size
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    def _take_groups(self, X: Any, groups: Any, reset: bool) -> Groups:
        grouped = super()._take_groups(X, groups, reset)
        rows = self._filled(grouped.rows, X.rows if isinstance(X, Groups) else X, reset)
        return grouped if rows is grouped.rows else Groups(rows, grouped.ids, grouped.labels)

    def _fit_groups(self, groups: Groups) -> Floats:
        check_max_samples(self.max_samples, len(groups.rows))
        check_max_samples(self.group_max_samples, len(groups), "group_max_samples", "group")
        self.model_, scores = fit_group_model(groups, self.params, self.compute_for(groups.rows), self.calibrates)
        return scores

    def _score_groups(self, groups: Groups) -> Floats:
        return self.model_.scores(groups, self.compute_for(groups.rows))

    def predict(
        self, X: Any, groups: Any = None, fdr: float | None = None, *, exact: bool = False
    ) -> npt.NDArray[np.int64]:
        """+1 for normal groups, -1 for odd ones: scores below ``offset_``, (g,).

        With ``fdr``, the groups that stand out from normal ones at this false discovery rate instead: among the alarms,
        the share of false ones is at most ``fdr`` on average over such batches (Benjamini and Hochberg, on
        ``p_values``).
        """
        if fdr is None:
            return super().predict(X, groups)
        grouped = self._groups(X, groups)
        return grouped.rows.give(verdicts_at(self._p_values(grouped, exact), fdr))

    def p_values(self, X: Any, groups: Any = None, *, exact: bool = False) -> Floats:
        """Conformal p-values of new groups: (g,) in (0, 1], small = odd; as in IDKPointDetector.

        With 400 groups or more, a group is compared with those of about its size: up to five classes, with 200 groups
        or more in each on average, so that p-values are valid within every class.
        """
        grouped = self._groups(X, groups)
        return grouped.rows.give(self._p_values(grouped, exact))

    def _p_values(self, groups: Groups, exact: bool) -> Floats:
        return self.calibrated.p_values(groups, self.compute_for(groups.rows), EXACT if exact else EXTRAPOLATE)

    def p_shape(self, X: Any, groups: Any = None) -> Floats:
        """P-values of new groups from their points alone, as if no number of points were unusual: (g,) in (0, 1]."""
        grouped = self._groups(X, groups)
        self.calibrated  # noqa: B018, an error that says what is missing
        return grouped.rows.give(self.calibrated.p_shape(grouped, self.compute_for(grouped.rows)))

    def p_size(self, X: Any, groups: Any = None) -> Floats | None:
        """P-values of new groups from their numbers of points alone: (g,) in (0, 1]; None with size="ignore".

        The share of groups of ``fit`` with at most as many points, or with at least as many, whichever is less, twice.
        """
        grouped = self._groups(X, groups)
        p_values = self.learned.p_size(grouped.sizes)
        return None if p_values is None else grouped.rows.give(p_values)

    def explain(self, X: Any, groups: Any = None) -> GroupExplanation:
        """Which points make each group differ, where it has too few points, and in which features."""
        grouped = self._groups(X, groups)
        compute = self.compute_for(grouped.rows)
        on_host = Groups(grouped.rows.on_host, grouped.ids, grouped.labels)
        explanation = self.model_.explain(on_host, compute)
        return self._with_names(explanation, X, grouped) if is_frame(X) else explanation

    def _with_names(self, explanation: GroupExplanation, X: Any, grouped: Groups) -> GroupExplanation:
        """The same explanation with frames of X's kind."""
        names = self._filled_names
        group, difference = own_name("group", names), own_name("difference", names)
        points = {"group": grouped.labels[grouped.ids], "contribution": explanation.points}
        features = {group: explanation.labels, difference: explanation.differences}
        return explanation._replace(
            points=frame_like(X, points, same_rows=True),
            reference=frame_like(X, dict(zip(names, explanation.reference.T, strict=True)), same_rows=False),
            features=frame_like(X, features | dict(zip(names, explanation.features.T, strict=True)), same_rows=False),
        )

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        super().validate()
        check("scores_", self.scores_, (None,), 0)
        demand(self.labels_.shape == self.scores_.shape, "labels_ is not one label for each group")

    @property
    def max_samples_(self) -> int:
        """Psi of level 1, or the largest."""
        return max(view.partitionings.levels[-1] for view in self.point_views_.members)

    @property
    def level2_(self) -> Neighbours | GroupCells:
        """Level 2: how the mean maps of groups are scored."""
        return self.learned.level2

    @property
    def group_max_samples_(self) -> int | None:
        """Psi of level 2, or the largest; None where no partitionings of groups are drawn."""
        return self.level2_.max_samples if isinstance(self.level2_, GroupCells) else None

    @property
    def point_views_(self) -> Views:
        """Level 1: scalings and partitionings."""
        return self.learned.views

    @property
    def population_(self) -> Floats:
        """Mean of the mean maps of the groups: (cells,)."""
        return self.learned.population

    @property
    def reference_(self) -> Floats:
        """Points that stand for cells of level 1: (m, d)."""
        return self.learned.reference
