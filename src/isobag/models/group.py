"""What is learned of groups: partitionings of points, partitionings of groups, and how many groups lie in each cell."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, ONE, Floats, Ints, held
from isobag.data.groups import Grouped, Groups
from isobag.models.averaging import Average, fit_average
from isobag.models.calibration import Calibration, calibrate
from isobag.models.maps import PartitionedMaps
from isobag.models.neighbours import ANCHOR_POINTS, Neighbours, bounded, fit_neighbours
from isobag.models.point import largest_samples
from isobag.models.sizes import SizeCurve, fit_size_curve
from isobag.models.views import Plan, Views, draw_views
from isobag.models.witness import separation, witness
from isobag.partitionings import Partitionings, draw_from_groups, nested_levels
from isobag.partitionings.counts import MeanMaps

AUTO_POINT_SAMPLES = (16, 64)
AUTO_GROUP_SAMPLES = (8, 256)
NEIGHBOURS = "neighbours"
"""The level 2 that draws no partitionings."""
CALIBRATION_GROUPS = 2_000
_MOST_BITS = 44


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
    size_correction: bool | str
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

    @property
    def level2_mechanism(self) -> str:
        """The mechanism of level 2: where all is left to us, none, but the distance to the nearest groups."""
        if self.group_mechanism != "auto":
            return self.group_mechanism
        return NEIGHBOURS if self.averages else "hypersphere"

    @property
    def corrects_size(self) -> bool:
        """Whether scores are compared with those of groups of similar size."""
        return self.level2_mechanism == NEIGHBOURS if self.size_correction == "auto" else bool(self.size_correction)

    def plans(self, n_points: int) -> list[Plan]:
        """The views of level 1: one, or one for each psi, with as many partitionings each."""
        if self.max_samples != "auto":
            return [Plan(self.scaling, (min(int(self.max_samples), n_points),))]
        first, last = AUTO_POINT_SAMPLES
        levels = nested_levels(largest_samples(n_points, last))
        return [Plan(self.scaling, (psi,)) for psi in levels if psi >= min(first, levels[-1])]

    def group_levels(self, n_groups: int) -> tuple[int, ...]:
        """The nested psi of level 2."""
        if self.averages:
            return nested_levels(largest_samples(n_groups, AUTO_GROUP_SAMPLES[1]))
        return (min(int(self.group_max_samples), n_groups),)

    def of_part(self, seed: int) -> "GroupParams":
        """The same for a part of the data, on which nothing is set aside."""
        return replace(self, calibrate=False, random_state=seed)


@dataclass(frozen=True, eq=False)
class GroupCells:
    """The paper's level 2: partitionings of groups, and the number of groups in each of their cells.

    counts : (L, t, psi).
    average : how the scores at all psi become one; None: the last alone counts.
    curve : what is usual at each size, if scores are corrected for it.
    """

    partitionings: Partitionings
    counts: Ints = held(3, 0, MOST_ROWS)
    n_groups: int = held(0, 1, MOST_ROWS)
    average: Average | None = held()
    curve: SizeCurve | None = held()

    def scores(self, maps: MeanMaps | PartitionedMaps, compute: Compute) -> Floats:
        """How normal each group is: (g,) in [0, 1], or around 1 if corrected for size."""
        drawn = self.partitionings
        sums = maps.map(lambda own: drawn.sum_at(drawn.prepare(own, compute), self.counts, compute))
        return self.combine(sums, maps.sizes)

    def combine(self, sums: Ints, sizes: Ints) -> Floats:
        """Scores from sums over partitionings at every psi: (g, L) -> (g,)."""
        path = self.shares(sums)
        scores = path[:, -1] if self.average is None else self.average.apply(path)
        return scores if self.curve is None else bounded(self.curve.normalise(lack_of(scores), sizes))

    def shares(self, sums: Ints) -> Floats:
        """Sums over partitionings as shares of the most they can be."""
        return sums / (self.n_groups * len(self.partitionings))


@dataclass(frozen=True)
class GroupModel:
    """Views of the points, and what is known of the groups that they make.

    views : level 1, scalings and partitionings of points.
    count_outside : whether OUTSIDE is one more cell of level 1.
    population : (columns,), mean of the mean maps of all groups.
    reference : (m, d), points that stand for cells of level 1.
    level2 : how mean maps are scored.
    calibration : what p-values need, if anything was set aside.
    """

    views: Views
    count_outside: bool = held(choices=(True, False))
    population: Floats = held(1, 0, ONE)
    reference: Floats = held(2, -FARTHEST, FARTHEST)
    level2: GroupCells | Neighbours = held()
    calibration: Calibration | None = held()

    def scores(self, groups: Grouped, compute: Compute) -> Floats:
        """How normal each group is: (g,), 0 or more."""
        return self.level2.scores(self.mean_maps(groups, compute), compute)

    def p_values(self, groups: Grouped, compute: Compute) -> Floats:
        """Conformal p-values of new groups: (g,) in (0, 1]."""
        if self.calibration is None:
            raise ValueError("nothing was set aside for p-values.")
        return self.calibration.p_values(groups, compute)

    def mean_maps(self, groups: Grouped, compute: Compute) -> Any:
        """Level 1: (g, cells) counts and sizes, MeanMaps or PartitionedMaps."""
        return self.views.mean_maps(groups, compute, self.count_outside)

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


def lack_of(scores: Floats) -> Floats:
    """Minus the logarithm of scores, cut off at a millionth: (g,) -> (g,)."""
    return -np.log(np.maximum(scores, 1e-6))


def fit_group_model(groups: Grouped, params: GroupParams, compute: Compute) -> tuple[GroupModel, Floats]:
    """Turn groups into mean maps and learn what these are like; the model, and the groups' scores: (g,)."""
    seeds = check_random_state(params.random_state).randint(2**31 - 1, size=2)
    rows = groups.rows
    plans = params.plans(len(rows))
    t = params.n_estimators * len(plans)
    views, anchors = draw_views(rows, t, plans, params.level1_mechanism, seeds[0], compute)
    maps = views.mean_maps(groups, compute, params.count_outside)
    level2: GroupCells | Neighbours
    if params.level2_mechanism == NEIGHBOURS:
        points = views.mean_maps(_single_points(groups, seeds[1]), compute, params.count_outside)
        level2, scores = fit_neighbours(maps, t, points, seeds[1], compute)
    else:
        level2, scores = _fit_cells(maps, params, seeds[1], compute)
    kept = calibrate(groups, params, compute, fit_group_model, CALIBRATION_GROUPS) if params.calibrate else None
    model = GroupModel(views, params.count_outside, _mean(maps), rows.take(anchors), level2, kept)
    return model, scores


def _mean(maps: MeanMaps | PartitionedMaps) -> Floats:
    """Mean of the mean maps of all groups, from whole numbers, so in whatever order: (columns,)."""
    unit = 2.0 ** min(_MOST_BITS, 62 - len(maps).bit_length())
    total: Ints = maps.map_reduce(lambda own: own.total(np.rint(unit / own.sizes).astype(np.int64)), np.add)
    found: Floats = np.minimum(total / (unit * len(maps)), 1.0)
    return found


def _fit_cells(
    maps: MeanMaps | PartitionedMaps, params: GroupParams, seed: int, compute: Compute
) -> tuple[GroupCells, Floats]:
    """Draw partitionings from the groups and count them; also their scores: (g,)."""
    queries, levels = maps.prepare(), params.group_levels(len(maps))
    drawn = draw_from_groups(queries, params.n_estimators, levels, params.level2_mechanism, seed, compute)
    counts, sums = queries.count_and_sum(drawn, compute)
    cells = GroupCells(drawn, counts, len(maps), None, None)
    if params.averages:
        fine = np.array(levels) >= min(AUTO_GROUP_SAMPLES[0], levels[-1])
        cells = replace(cells, average=fit_average(cells.shares(sums), fine.astype(float)))
    if params.corrects_size:
        lacks = lack_of(cells.combine(sums, maps.sizes))
        cells = replace(cells, curve=fit_size_curve(lacks, maps.sizes, np.empty(0)))
    return cells, cells.combine(sums, maps.sizes)


def _single_points(groups: Grouped, seed: int) -> Groups:
    """A random point of each of some groups, as groups of their own."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(groups), min(ANCHOR_POINTS, len(groups)), replace=False))
    return groups.single_points(chosen, (rng.random(len(chosen)) * groups.sizes[chosen]).astype(np.int64))
