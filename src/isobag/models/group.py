"""What is learned of groups: partitionings of points, partitionings of groups, and how many groups lie in each cell."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, ONE, Floats, Ints, held
from isobag.data.groups import Groups
from isobag.models.averaging import Average, fit_average
from isobag.models.calibration import Calibration, calibrate
from isobag.models.point import largest_samples
from isobag.models.views import Plan, Views, draw_views
from isobag.models.witness import separation, witness
from isobag.partitionings import Partitionings, draw_from_groups, nested_levels
from isobag.partitionings.counts import GroupQueries, MeanMaps

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
    reference : (m, d), points of the groups of ``fit`` that stand for cells. A frame if X is one. With
        ``count_outside=True`` one more, of NaN, stands for what lies OUTSIDE.
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


@dataclass(frozen=True)
class GroupParams:
    """How to learn: the parameters of IDKGroupDetector, already checked."""

    n_estimators: int
    max_samples: int | str
    group_max_samples: int | str
    point_mechanism: str
    group_mechanism: str
    count_outside: bool
    scaling: str | None
    calibrate: bool
    random_state: Any

    @property
    def averages(self) -> bool:
        """Whether the score is a mean over many psi of level 2."""
        return self.group_max_samples == "auto"

    @property
    def level1_mechanism(self) -> str:
        """The mechanism of level 1: where all is left to us, one by which no point is OUTSIDE."""
        if self.point_mechanism != "auto":
            return self.point_mechanism
        return "voronoi" if self.max_samples == "auto" else "hypersphere"

    def point_levels(self, n_points: int) -> tuple[int, ...]:
        """The psi that the partitionings of level 1 take in turn."""
        if self.max_samples == "auto":
            return nested_levels(largest_samples(n_points, AUTO_POINT_SAMPLES))
        return (min(int(self.max_samples), n_points),)

    def group_levels(self, n_groups: int) -> tuple[int, ...]:
        """The nested psi of level 2."""
        if self.averages:
            return nested_levels(largest_samples(n_groups, AUTO_GROUP_SAMPLES[1]))
        return (min(int(self.group_max_samples), n_groups),)

    def of_part(self, seed: int) -> "GroupParams":
        """The same for a part of the data, on which nothing is set aside."""
        return replace(self, calibrate=False, random_state=seed)


@dataclass(frozen=True)
class GroupModel:
    """Views of the points, partitionings of the groups, and the number of groups in each of their cells.

    views : level 1, scalings and partitionings of points.
    count_outside : whether OUTSIDE is one more cell of level 1.
    population : (columns,), mean of the mean maps of all groups.
    reference : (m, d), points that stand for cells of level 1.
    partitionings : level 2, of groups.
    counts : (L, t, psi), number of groups in each cell of level 2.
    n_groups : number of groups.
    average, calibration : as in PointModel.
    """

    views: Views
    count_outside: bool = held(choices=(True, False))
    population: Floats = held(1, 0, ONE)
    reference: Floats = held(2, -FARTHEST, FARTHEST)
    partitionings: Partitionings = held()
    counts: Ints = held(3, 0, MOST_ROWS)
    n_groups: int = held(0, 1, MOST_ROWS)
    average: Average | None = held()
    calibration: Calibration | None = held()

    def scores(self, groups: Groups, compute: Compute) -> Floats:
        """How normal each group is: (g,) in [0, 1]."""
        path = self.path(groups, compute)
        return path[:, -1] if self.average is None else self.average.apply(path)

    def path(self, groups: Groups, compute: Compute) -> Floats:
        """Share of the groups of ``fit`` in the cell of each group, for each psi of level 2: (g, L)."""
        queries = self.partitionings.prepare(self.mean_maps(groups, compute), compute)
        return self.shares(self.partitionings.sum_at(queries, self.counts, compute))

    def p_values(self, groups: Groups, compute: Compute) -> Floats:
        """Conformal p-values of new groups: (g,) in (0, 1]."""
        if self.calibration is None:
            raise ValueError("nothing was set aside for p-values.")
        return self.calibration.p_values(groups, compute)

    def mean_maps(self, groups: Groups, compute: Compute) -> MeanMaps:
        """Level 1: (g, cells) counts and sizes."""
        return self.views.mean_maps(groups, compute, self.count_outside)

    def shares(self, sums: Ints) -> Floats:
        """Sums over partitionings as shares of the most they can be."""
        return sums / (self.n_groups * len(self.partitionings))

    @property
    def reference_masses(self) -> Floats:
        """Share of the population that each point of ``reference`` stands for, times t; at the end that of no point."""
        anchors = self.views.anchors_in_columns(self.count_outside)
        return np.bincount(anchors, weights=self.population, minlength=len(self.reference)).astype(np.float64)

    def explain(self, groups: Groups, compute: Compute) -> GroupExplanation:
        """Which points carry what sets each group apart, where it has too few, and in which features."""
        anchors = self.views.anchors_in_columns(self.count_outside)
        columns = groups.rows.map(lambda X: self.views.columns(X, compute, self.count_outside))
        reference = self.reference
        if anchors.max() == len(reference):  # a cell that no point stands for
            reference = np.vstack([reference, np.full(reference.shape[1], np.nan)])
        t, n_groups, known = columns.shape[1], len(groups), np.isfinite(reference[:, 0])
        masses = self.reference_masses
        differences, lacking = np.empty(n_groups), np.empty((n_groups, len(reference)))
        points, features = np.empty(len(groups.ids)), np.empty((n_groups, reference.shape[1]))
        order = np.argsort(groups.ids, kind="stable")
        for g, rows in enumerate(np.split(order, np.cumsum(groups.sizes)[:-1])):
            counts = np.bincount(columns[rows].ravel(), minlength=len(anchors) + 1)[:-1]
            apart = counts / len(rows) - self.population
            differences[g] = apart @ apart / t
            points[rows] = witness(columns[rows], apart) / len(rows)
            lacking[g] = np.bincount(anchors, weights=-apart * self.population / t, minlength=len(reference))
            carrying = np.maximum(points[rows], 0)
            features[g] = separation(groups.rows.take(rows), carrying, reference[known], masses[known])
        return GroupExplanation(groups.labels, differences, points, lacking, reference, features)


def fit_group_model(groups: Groups, params: GroupParams, compute: Compute) -> tuple[GroupModel, Floats]:
    """Turn groups into mean maps, draw partitionings from these and count; the model, and the groups' scores: (g,)."""
    seeds = check_random_state(params.random_state).randint(2**31 - 1, size=2)
    t, rows = params.n_estimators, groups.rows
    plans = [Plan(params.scaling, (psi,)) for psi in params.point_levels(len(rows))]
    views, anchors = draw_views(rows, t, plans, params.level1_mechanism, seeds[0], compute)
    maps = views.mean_maps(groups, compute, params.count_outside)
    queries = GroupQueries(maps)
    levels = params.group_levels(len(groups))
    partitionings = draw_from_groups(queries, t, levels, params.group_mechanism, seeds[1], compute)
    counts, sums = partitionings.count_and_sum(queries, compute)
    model = GroupModel(
        views,
        params.count_outside,
        maps.shares.mean(axis=0),
        rows.take(anchors),
        partitionings,
        counts,
        len(groups),
        None,
        None,
    )
    path = model.shares(sums)
    if params.averages:
        fine = np.array(levels) >= min(AUTO_GROUP_SAMPLES[0], levels[-1])
        model = replace(model, average=fit_average(path, fine.astype(float)))
    if params.calibrate:
        model = replace(model, calibration=calibrate(groups, params, compute, fit_group_model, CALIBRATION_GROUPS))
    return model, path[:, -1] if model.average is None else model.average.apply(path)
