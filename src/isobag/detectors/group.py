"""The group detector IDK^2: every group becomes one point, and odd ones among these points are odd groups."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from isobag.arrays import Cells, Floats
from isobag.averaging import fit_average
from isobag.detectors.base import GroupDetector
from isobag.detectors.conformal import Calibration, calibrated, discoveries, draw_halves
from isobag.embeddings import count_cells, sum_at_cells
from isobag.frames import feature_names, frame_like, is_frame, own_name
from isobag.groups import Bags, check_groups
from isobag.partitionings import MECHANISMS, nested_levels
from isobag.partitionings.of_groups import MeanMaps, draw_group_partitionings
from isobag.rows import ArrayRows
from isobag.scaling import SCALINGS
from isobag.validation import (
    check_flag,
    check_how,
    check_n_estimators,
    check_option,
    largest_samples,
    resolve_max_samples,
)
from isobag.views import Plan, assign_cells, count_groups_in_views, draw_views, original_centers
from isobag.witness import centers_in_columns, columns_of_cells, separation, witness

AUTO_POINT_SAMPLES = 64
AUTO_GROUP_SAMPLES = (8, 256)
CALIBRATION_GROUPS = 2_000


class GroupExplanation(NamedTuple):
    """Where groups differ from the population: from the mean of the mean maps of the groups of ``fit``.

    labels : (g,) of the groups explained.
    differences : (g,), squared distance of each group's mean map from the population's, divided by t.
    points : (n,), what each row of X carries of the difference of its group. Positive: its group has too many points
        there; negative: it has some there, but fewer than usual. As a frame: columns "group" and "contribution".
    lacking : (g, m), what each of the points of ``reference`` carries: positive where the group has too few points.
    reference : (m, d), points of the groups of ``fit`` that are centers of cells. A frame if X is one. With
        ``outside=True`` one more, of NaN, stands for what lies OUTSIDE.
    features : (g, d), how far each feature sets the points of which the group has too many apart from the population:
        distance of the two distribution functions, negative if these points have the lower values. As a frame: columns
        "group", "difference" and the names of the features; "group_" if a feature has that name.

    For every group the parts of its points and of all reference points add up to its difference.
    """

    labels: npt.NDArray[Any]
    differences: Floats
    points: Any
    lacking: Floats
    reference: Any
    features: Any


class IDKGroupDetector(GroupDetector):
    """Group anomalies by two levels of the Isolation Distributional Kernel (IDK^2).

    Level 1 draws partitionings from all points of all groups and turns every group into its mean map, the share of its
    points in each cell. Level 2 is the point detector on these mean maps: it draws partitionings from the groups, and
    the score of a group is the share of the groups in its cell, as a mean over partitionings. In [0, 1]; higher = more
    normal. New groups are scored against the groups of ``fit``, each on its own.

    A group can be odd although each of its points is ordinary: too many points here, too few there.

    Parameters
    ----------
    n_estimators : t, the number of partitionings, at both levels.
    max_samples : psi of level 1, points drawn for each partitioning. "auto" needs no choice: the partitionings take
        psi = 2, 4, ..., 64 in turn (at most half of the points).
    group_max_samples : psi of level 2, groups drawn for each partitioning. "auto" needs no choice: the score is a
        geometric mean of the scores at psi = 8, 16, ..., 256 (at most half of the groups), see docs/no_tuning.md.
        Integers at both levels are the paper's method to the letter.
    point_mechanism : "hypersphere" (the paper's) or "voronoi" at level 1. Where many points lie OUTSIDE the balls, as
        in many dimensions, groups look alike to hyperspheres; "auto" is "voronoi" if max_samples is "auto".
    group_mechanism : "hypersphere" or "voronoi" at level 2.
    outside : whether OUTSIDE counts as one more cell of level 1. Not in the paper.
    scaling : "minmax" (every feature to [0, 1] over all points), "standard", "robust" or None.
    contamination : share of odd groups, which fixes ``offset_``; "auto" needs no guess, as in IDKPointDetector.
    calibrate : whether ``fit`` also learns what ``p_values`` needs: a second detector from half of the groups, and its
        scores of the other half (at most 2,000 groups each).
    random_state : seed or numpy RandomState; all randomness is drawn in ``fit``.
    backend : "auto", "numba" or "numpy"; the results are identical.
    n_jobs : threads, as in joblib.

    Attributes
    ----------
    labels_, scores_ : labels and scores of the groups of ``fit``, in order of first appearance; offset_;
    max_samples_, group_max_samples_ : psi, or the largest; average_ : weights of the psi of level 2, None with an
    integer group_max_samples; point_mechanism_; point_views_, group_partitionings_; population_ : mean of all mean
    maps; reference_ : points that are centers; n_features_in_, feature_names_in_.

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

    _lowest_score = 0.0

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        group_max_samples: int | str = "auto",
        *,
        point_mechanism: str = "auto",
        group_mechanism: str = "hypersphere",
        outside: bool = False,
        scaling: str | None = "minmax",
        contamination: float | str = "auto",
        calibrate: bool = True,
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.group_max_samples = group_max_samples
        self.point_mechanism = point_mechanism
        self.group_mechanism = group_mechanism
        self.outside = outside
        self.scaling = scaling
        self.contamination = contamination
        self.calibrate = calibrate
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs

    def _fit_groups(self, bags: Bags) -> Floats:
        check_option("scaling", self.scaling, SCALINGS)
        check_option("point_mechanism", self.point_mechanism, ("auto", *MECHANISMS))
        check_option("group_mechanism", self.group_mechanism, MECHANISMS)
        check_flag("outside", self.outside)
        check_flag("calibrate", self.calibrate)
        check_how(self.backend, self.n_jobs)
        t = check_n_estimators(self.n_estimators)
        n_groups = len(bags.labels)
        point_levels, group_levels = self._point_levels(len(bags.X)), self._group_levels(n_groups)
        self.max_samples_, self.group_max_samples_ = point_levels[-1], group_levels[-1]
        self.point_mechanism_ = self.point_mechanism
        if self.point_mechanism == "auto":
            self.point_mechanism_ = "voronoi" if self.max_samples == "auto" else "hypersphere"
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        plans = [Plan(self.scaling, (psi,)) for psi in point_levels]
        self.point_views_ = draw_views(
            ArrayRows(bags.X), t, plans, self.point_mechanism_, seeds[0], *self._how()
        )  # level 1
        self.reference_ = original_centers(self.point_views_, ArrayRows(bags.X), seeds[0])
        maps = self._mean_maps(bags)
        self.population_ = maps.shares.mean(axis=0)
        self.group_partitionings_, cells = draw_group_partitionings(
            maps, t, group_levels, self.group_mechanism, seeds[1], *self._how()
        )  # level 2
        self._counts = [count_cells(own, psi) for own, psi in zip(cells, group_levels, strict=True)]
        self.n_groups_fit_ = n_groups
        path = self._as_path(cells)
        self.average_ = None
        if self.group_max_samples == "auto":
            fine = np.array(group_levels) >= min(AUTO_GROUP_SAMPLES[0], group_levels[-1])
            self.average_ = fit_average(path, fine.astype(float))
        self.calibration_ = self._calibrate(bags) if self.calibrate else None
        return self._as_scores(path)

    def predict(self, X: Any, groups: Any = None, fdr: float | None = None) -> npt.NDArray[np.int64]:
        """+1 for normal groups, -1 for odd ones: scores below ``offset_``, (g,).

        With ``fdr``, the groups that stand out from normal ones at this false discovery rate instead: among the alarms,
        the share of false ones is at most ``fdr`` on average (Benjamini and Hochberg, on ``p_values``).
        """
        return super().predict(X, groups) if fdr is None else discoveries(self.p_values(X, groups), fdr)

    def p_values(self, X: Any, groups: Any = None) -> Floats:
        """Conformal p-values of new groups: (g,) in (0, 1], small = odd; as in IDKPointDetector."""
        check_is_fitted(self)
        return self._p_values(check_groups(self, X, groups, reset=False))

    def explain(self, X: Any, groups: Any = None) -> GroupExplanation:
        """Which points carry what sets each group apart, where it has too few, and in which features."""
        check_is_fitted(self)
        bags = check_groups(self, X, groups, reset=False)
        found = self._explain(bags)
        return self._with_names(found, X, bags) if is_frame(X) else found

    def _p_values(self, bags: Bags) -> Floats:
        calibration = calibrated(self.calibration_)
        return calibration.p_values(calibration.detector._score_groups(bags))

    def _explain(self, bags: Bags) -> GroupExplanation:
        outside = bool(self.outside)
        columns = columns_of_cells(self.point_views_, assign_cells(self.point_views_, bags.X, *self._how()), outside)
        centers, reference = centers_in_columns(self.point_views_, outside), self.reference_
        if outside:
            reference = np.vstack([reference, np.full(reference.shape[1], np.nan)])
        t, n_groups, known = columns.shape[1], len(bags.labels), np.isfinite(reference[:, 0])
        masses = np.bincount(centers, weights=self.population_, minlength=len(reference)).astype(np.float64)
        differences, lacking = np.empty(n_groups), np.empty((n_groups, len(reference)))
        points, features = np.empty(len(bags.X)), np.empty((n_groups, bags.X.shape[1]))
        for g in range(n_groups):
            rows = np.flatnonzero(bags.ids == g)
            counts = np.bincount(columns[rows].ravel(), minlength=len(centers) + 1)[:-1]
            apart = counts / len(rows) - self.population_
            differences[g] = apart @ apart / t
            points[rows] = witness(columns[rows], apart) / len(rows)
            lacking[g] = np.bincount(centers, weights=-apart * self.population_ / t, minlength=len(reference))
            carrying = np.maximum(points[rows], 0)
            features[g] = separation(bags.X[rows], carrying, reference[known], masses[known])
        return GroupExplanation(bags.labels, differences, points, lacking, reference, features)

    def _with_names(self, found: GroupExplanation, X: Any, bags: Bags) -> GroupExplanation:
        """The same explanation with frames of X's kind."""
        names = feature_names(self)
        group, difference = own_name("group", names), own_name("difference", names)
        points = {"group": bags.labels[bags.ids], "contribution": found.points}
        features = {group: found.labels, difference: found.differences}
        return found._replace(
            points=frame_like(X, points, same_rows=True),
            reference=frame_like(X, dict(zip(names, found.reference.T, strict=True)), same_rows=False),
            features=frame_like(X, features | dict(zip(names, found.features.T, strict=True)), same_rows=False),
        )

    def _calibrate(self, bags: Bags) -> Calibration:
        """Learn from one half of the groups and score the other."""
        halves = draw_halves(len(bags.labels), CALIBRATION_GROUPS, self.random_state)
        learned = bags.take(halves.learned)
        detector = clone(self).set_params(calibrate=False, random_state=halves.seed)
        if self.max_samples != "auto":
            detector.set_params(max_samples=min(self.max_samples_, len(learned.X)))
        if self.group_max_samples != "auto":
            detector.set_params(group_max_samples=min(self.group_max_samples_, len(halves.learned)))
        detector._fit_groups(learned)
        aside = detector._score_groups(bags.take(halves.aside)) if len(halves.aside) else np.empty(0)
        return Calibration(detector, np.sort(aside))

    def _point_levels(self, n_points: int) -> tuple[int, ...]:
        """The psi that the partitionings of level 1 take in turn."""
        psi = resolve_max_samples(self.max_samples, n_points, auto=min(AUTO_POINT_SAMPLES, largest_samples(n_points)))
        return nested_levels(psi) if self.max_samples == "auto" else (psi,)

    def _group_levels(self, n_groups: int) -> tuple[int, ...]:
        """The nested psi of level 2."""
        psi = resolve_max_samples(
            self.group_max_samples,
            n_groups,
            "group_max_samples",
            "number of groups",
            min(AUTO_GROUP_SAMPLES[1], largest_samples(n_groups)),
        )
        return nested_levels(psi) if self.group_max_samples == "auto" else (psi,)

    def _score_groups(self, bags: Bags) -> Floats:
        return self._as_scores(
            self._as_path(self.group_partitionings_.assign_groups(self._mean_maps(bags), *self._how()))
        )

    def _as_path(self, cells: Cells) -> Floats:
        """Share of the groups of ``fit`` in the cell of each group, for each psi: cells (L, g, t) -> (g, L)."""
        sums = [sum_at_cells(own, counts) for own, counts in zip(cells, self._counts, strict=True)]
        return np.stack(sums, axis=1) / (self.n_groups_fit_ * len(self.group_partitionings_.slots))

    def _as_scores(self, path: Floats) -> Floats:
        return path[:, -1] if self.average_ is None else self.average_.apply(path)

    def _mean_maps(self, bags: Bags) -> MeanMaps:
        """Level 1: (g, cells) counts and sizes."""
        return count_groups_in_views(self.point_views_, bags.X, bags.ids, bags.sizes, bool(self.outside), *self._how())

    def _how(self) -> tuple[str, int | None]:
        return self.backend, self.n_jobs
