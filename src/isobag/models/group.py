"""What is learned of groups: partitionings of points, partitionings of groups, and how many groups lie in each cell."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, ONE, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.data.groups import Groups
from isobag.data.rows import Rows
from isobag.models.calibration import EXTRAPOLATE, Calibration, calibrate
from isobag.models.cells import GroupCells, fit_cells
from isobag.models.counted import CountedGroups, Counter
from isobag.models.maps import AnyMaps
from isobag.models.neighbours import MARGIN, Neighbours, bounded, choose_references, fit_neighbours
from isobag.models.point import PointParams, largest_samples
from isobag.models.reasons import reasons_of
from isobag.models.sizes import SizeEvidence
from isobag.models.summaries import ColumnScores, Summaries, fit_column_scores, fit_summaries
from isobag.models.views import Draw, Plan, Views, draw_views
from isobag.models.witness import separation, witness
from isobag.partitionings import nested_levels

AUTO_POINT_SAMPLES = (16, 64)
CALIBRATION_GROUPS, LEARNED_GROUPS = 10_000, 2_000
_UNIT = 2.0**44


class GroupExplanation(NamedTuple):
    """Where groups differ from the population: from the mean of the mean maps of the groups of ``fit``.

    labels : (g,) of the groups explained.
    differences : (g,), squared distance of each group's mean map from the population's, divided by t.
    points : (n,), what each row of X carries of the difference of its group. Positive: its group has too many points
        there; negative: it has some there, but fewer than usual. As a frame: columns "group" and "contribution".
    lacking : (g, m), what each of the points of ``reference`` carries: positive where the group has too few points.
    reference : (m, d), points of the groups of ``fit`` that stand for cells. A frame if X is one.
    features : (g, d), how far each feature sets the points of which the group has too many apart from the population:
        distance of the two distribution functions, negative if these points have the lower values. As a frame: columns
        "group", "difference" and the names of the features; "group_" if a feature has that name.

    reasons : (g,), of each group a list of GroupReason, the strongest first: which value was never seen, which mean,
        spread, count or relation of columns is odd, beside the usual one. Empty with the paper's level 2.

    For every group the parts of its points and of all reference points add up to its difference.
    """

    labels: npt.NDArray[Any]
    differences: Floats
    points: Any
    lacking: Floats
    reference: Any
    features: Any
    reasons: npt.NDArray[np.object_]


@dataclass(frozen=True)
class GroupParams:
    """Parameters of IDKGroupDetector that learning needs, already checked."""

    n_estimators: int
    max_samples: int | str
    group_max_samples: int | str
    size: str
    scaling: str | None
    pool_size: int | str | None
    random_state: Any

    @property
    def averages(self) -> bool:
        """Whether level 1 has several psi."""
        return self.max_samples == "auto"

    @property
    def is_paper(self) -> bool:
        """Whether level 2 is the paper's, cells of groups, in place of distances to groups."""
        return self.group_max_samples != "auto"

    def draw(self, seed: Any) -> Draw:
        """What level 1 draws; by default cells by which no point is OUTSIDE."""
        return Draw(self.n_estimators, self.pool_size, "voronoi" if self.averages else "hypersphere", seed)

    def plan(self, n_points: int) -> Plan:
        """Level 1: one psi, or 16, 32 and 64, at most half of the points."""
        if not self.averages:
            return Plan(self.scaling, (min(int(self.max_samples), n_points),))
        first, last = AUTO_POINT_SAMPLES
        levels = nested_levels(largest_samples(n_points, last))
        return Plan(self.scaling, tuple(psi for psi in levels if psi >= min(first, levels[-1])))

    def of_part(self, seed: int, n_parts: int) -> "GroupParams":
        """The same for one of several parts of the data, which share the partitionings."""
        return replace(self, random_state=seed, n_estimators=-(-self.n_estimators // n_parts))


@dataclass(frozen=True)
class GroupModel(Learned):
    """Views of the points, and how groups are scored by their mean maps.

    views : level 1, scalings and partitionings of points.
    population : (columns,), mean of the mean maps of the groups, or of those that stand for all.
    reference : (m, d), points that stand for cells of level 1.
    level2 : how mean maps are scored.
    calibration : what p-values need; None if the model has no p-values.
    summaries : what columns say of a group; None with the paper's level 2.
    size : what the number of points says of a group; None where it is ignored.

    Level 2, summaries and size each have a score, and the lowest counts: log scores are asinh of an oddness in robust
    spreads, of which single columns and size have two less.
    """

    views: Views
    population: Floats
    reference: Floats
    level2: Neighbours | GroupCells
    calibration: Calibration | None
    summaries: Summaries | None = None
    size: SizeEvidence | None = None

    def validate(self) -> None:
        """A column for each cell of the views, and parts that are models of the same points."""
        members, n_features, n_columns = self.views.members, self.views.n_features, self.views.n_columns
        check("population", self.population, (n_columns,), 0, ONE)
        demand(self.level2.width == n_columns, f"level 2 is of {self.level2.width} columns; need {n_columns}")
        n_centers = sum(len(view.balls.pool) for view in members)
        check("reference", self.reference, (n_centers, n_features), -FARTHEST, FARTHEST)
        is_same = self.summaries is None or self.summaries.scores.scaling.n_features == n_features
        demand(is_same, "summaries are of another number of features")
        for part in () if self.calibration is None else self.calibration.models:
            is_same = isinstance(part, GroupModel) and part.views.n_features == n_features
            demand(is_same, "the calibration is not of such groups")

    def scores(self, groups: Groups, compute: Compute) -> Floats:
        """How normal each group is: (g,), 0 or more."""
        scores = self.level2.scores(self.views.maps_of(groups, compute), compute)
        if self.summaries is not None:
            sums = self.summaries.scores.sums_of(groups, compute)
            scores = np.minimum(scores, bounded(self.summaries.oddness(sums, compute)))
        return self.with_size(scores, groups.sizes)

    def counters(self, compute: Compute) -> list[Counter]:
        """What counts the points of groups for scores and p-values, see ``CountedGroups``."""
        counters = [self.views.counter(compute)]
        if self.summaries is not None:
            counters.append(self.summaries.scores.counter(compute))
        models = () if self.calibration is None else self.calibration.models
        return counters + [counter for model in models for counter in model.counters(compute)]

    @property
    def _calibrated(self) -> Calibration:
        if self.calibration is None:
            raise ValueError(
                "the model was learned to rank a table alone, so there is nothing to compute p-values from"
            )
        return self.calibration

    def p_shape(self, groups: Groups, compute: Compute, tail: str = EXTRAPOLATE) -> Floats:
        """P-values of new groups from their points alone, however many there are: (g,) in (0, 1].

        Scores without size are never below scores with it, so a comparison with the latter keeps the promise.
        """
        blind = tuple(replace(model, size=None) for model in self._calibrated.models)
        return replace(self._calibrated, models=blind).p_values(self, groups, compute, tail)

    def p_size(self, sizes: Ints) -> Floats | None:
        """P-values of new groups from their numbers of points alone: (g,) in (0, 1]; None where size is ignored."""
        return None if self.size is None else self.size.p_values(sizes)

    def with_size(self, scores: Floats, sizes: Ints) -> Floats:
        """Scores that take sizes into account, unless they are ignored: (g,) -> (g,)."""
        return scores if self.size is None else np.minimum(scores, bounded(self.size.oddness(sizes) - MARGIN))

    def p_values(self, groups: Groups, compute: Compute, tail: str = EXTRAPOLATE) -> Floats:
        """Conformal p-values of new groups: (g,) in (0, 1]."""
        return self._calibrated.p_values(self, groups, compute, tail)

    @property
    def reference_masses(self) -> Floats:
        """Share of the population in the cells of each point of ``reference``, times t."""
        anchors = self.views.anchors_in_columns()
        return np.bincount(anchors, weights=self.population, minlength=len(self.reference)).astype(np.float64)

    def explain(self, groups: Groups, compute: Compute) -> GroupExplanation:
        """Which points make each group differ, where it has too few points, and in which features."""
        anchors = self.views.anchors_in_columns()
        reference, masses = self.reference, self.reference_masses
        t, n_groups = self.views.n_samples, len(groups)
        differences, lacking = np.empty(n_groups), np.empty((n_groups, len(reference)))
        points, features = np.empty(len(groups.ids)), np.empty((n_groups, reference.shape[1]))
        order = np.argsort(groups.ids, kind="stable")
        for g, rows in enumerate(np.split(order, np.cumsum(groups.sizes)[:-1])):
            X = groups.rows.take(rows)
            columns = self.views.columns(X, compute)
            counts = np.bincount(columns.ravel(), minlength=len(anchors) + 1)[:-1]
            apart = counts / len(rows) - self.population
            differences[g] = apart @ apart / t
            points[rows] = witness(columns, apart) / len(rows)
            lacking[g] = np.bincount(anchors, weights=-apart * self.population / t, minlength=len(reference))
            features[g] = separation(X, np.maximum(points[rows], 0), reference, masses)
        reasons = np.empty(n_groups, dtype=object)
        reasons[:] = [[] for _ in range(n_groups)]
        if self.summaries is not None:
            reasons[:] = reasons_of(self.summaries, groups, reference, compute)
        return GroupExplanation(groups.labels, differences, points, lacking, reference, features, reasons)


class DrawnLevel1(NamedTuple):
    """What is drawn of the points of groups before these are counted; ``seed`` for level 2."""

    views: Views
    reference: Floats
    scores: ColumnScores | None
    seed: int

    def counters(self, compute: Compute) -> list[Counter]:
        """What counts the points of groups."""
        counters = [self.views.counter(compute)]
        return counters if self.scores is None else [*counters, self.scores.counter(compute)]


def draw_level1(rows: Rows, params: GroupParams, compute: Compute) -> DrawnLevel1:
    """Draw views of the points, and learn scores of their columns where the default level 2 asks for them."""
    seeds = check_random_state(params.random_state).randint(2**31 - 1, size=2)
    views, pools = draw_views(rows, [params.plan(len(rows))], params.draw(seeds[0]), compute, params.averages)
    scores = None if params.is_paper else fit_column_scores(rows)
    return DrawnLevel1(views, rows.take(np.concatenate(pools)), scores, int(seeds[1]))


def fit_group_model(
    groups: Groups, params: GroupParams, compute: Compute, calibrated: bool = False
) -> tuple[GroupModel, Floats]:
    """Draw views of the points, count each group in their cells, finish a model; also the groups' scores: (g,)."""
    if isinstance(groups, CountedGroups):
        drawn: DrawnLevel1 = groups.drawn[params.random_state]
    else:
        drawn = draw_level1(groups.rows, params, compute)
    views, reference, of_columns, seed = drawn
    model, scores = finish_group_model(views, views.maps_of(groups, compute), reference, params, seed, compute)
    if of_columns is not None:
        has_size = params.size == "evidence"
        of_witness = PointParams(params.n_estimators, "auto", "auto", "auto", seed)
        summaries, oddness = fit_summaries(groups, of_columns, has_size, of_witness, compute)
        model, scores = replace(model, summaries=summaries), np.minimum(scores, bounded(oddness))
        if has_size:
            model = replace(model, size=SizeEvidence(np.sort(groups.sizes)))
            scores = model.with_size(scores, groups.sizes)
    if calibrated:
        folds = calibrate(groups, params, compute, fit_group_model, CALIBRATION_GROUPS, LEARNED_GROUPS)
        model = replace(model, calibration=folds)
    return model, scores


def finish_group_model(
    views: Views, maps: AnyMaps, reference: Floats, params: GroupParams, seed: int, compute: Compute
) -> tuple[GroupModel, Floats]:
    """The model of groups that were counted, of level 2 alone; also their scores: (g,)."""
    level2: Neighbours | GroupCells
    if params.is_paper:
        psi = min(int(params.group_max_samples), len(maps))
        level2, scores = fit_cells(maps, params.n_estimators, psi, seed, compute)
        references = maps[choose_references(len(maps))]
    else:
        level2, scores = fit_neighbours(maps, views.n_samples, compute)
        references = level2.references
    # A sum in whole numbers, so in whatever order.
    total = references.total(np.rint(_UNIT / references.sizes).astype(np.int64))
    return GroupModel(views, np.minimum(total / (_UNIT * len(references)), 1.0), reference, level2, None), scores
