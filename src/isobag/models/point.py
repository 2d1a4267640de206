"""What is learned of points: partitionings, and how many points of the training data lie in each cell.

Learned in steps: draw views, count the rows in their cells (a Tally), finish a model; see ``point_fit``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, OCTAVE, Floats, Ints, Terms
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import map_in_threads, slices
from isobag.data.labelled import LabelledRows
from isobag.data.rows import Rows
from isobag.models.averaging import (
    OVERRULED,
    Paths,
    ViewsAverage,
    exponential,
    fit_average,
    fit_views_average,
)
from isobag.models.baseline import Baseline, OwnShares, OwnSums
from isobag.models.calibration import EXTRAPOLATE, Calibration
from isobag.models.explain import Places, Shares, SharesOfAll, contribution_by_feature, far_by_feature
from isobag.models.residuals import Residuals
from isobag.models.tally import Tables, Tally
from isobag.models.views import Draw, Limits, Plan, Sums, Views
from isobag.partitionings import nested_levels

AUTO_SCALINGS = ("absolute", "normal", "asinh")
PAPER_SCALING = "minmax"
AUTO_LARGEST_SAMPLES = 512
FEW_SAMPLES = 256
"""Largest psi of models of rows that are compared with their own groups, and of streams."""
AVERAGED_ROWS = 10_000
CALIBRATION_ROWS, LEARNED_ROWS = 100_000, 10_000
LEARNED_OF_GROUP = 50
BLOCKS = "blocks"
"""Calibration by stretches of time."""
REFERENCE_ROWS = 256
_COMBINED_ROWS = 1 << 12


def largest_samples(n_rows: int, most: int) -> int:
    """Largest psi of an average over psi: at most half of the rows, or most rows would be centers, alone in a cell."""
    return max(2, min(most, n_rows // 2))


@dataclass(frozen=True)
class PointParams:
    """Parameters of IDKPointDetector that learning needs, already checked.

    largest : largest psi of an average over psi.
    """

    n_estimators: int
    max_samples: int | str
    scaling: str | None
    pool_size: int | str | None
    random_state: Any
    largest: int = AUTO_LARGEST_SAMPLES

    @property
    def averages(self) -> bool:
        """Whether the score is a mean over many psi."""
        return self.max_samples == "auto"

    @property
    def draw(self) -> Draw:
        """What is drawn."""
        return Draw(self.n_estimators, self.pool_size, "hypersphere", self.random_state)

    def plans(self, n_rows: int) -> list[Plan]:
        """One view with the paper's scaling; by default three. One psi has smaller ones in the paper's draws alone."""
        psi = largest_samples(n_rows, self.largest) if self.averages else min(int(self.max_samples), n_rows)
        levels = nested_levels(psi) if self.averages or self.pool_size is None else (psi,)
        scalings: tuple[str | None, ...] = (self.scaling,)
        if self.scaling == "auto":
            scalings = AUTO_SCALINGS if self.averages else (PAPER_SCALING,)
        return [Plan(scaling, levels) for scaling in scalings]

    def limits(self, views: Views) -> Limits | None:
        """The distance beyond which a row is far out; None where how far does not count."""
        return views.far_limits if self.averages else None

    def of_part(self, seed: int, n_parts: int) -> "PointParams":
        """The same for one of several parts of the data, which share the samples."""
        return replace(self, random_state=seed, n_estimators=-(-self.n_estimators // n_parts))


@dataclass(frozen=True)
class PointModel(Learned):
    """Views of the data, and for each a table with the score of every cell.

    views : scalings and partitionings.
    tables : (L, S) for each view: the number of rows in each cell.
    n_rows : how many rows were counted.
    reference : (m, d), some of the rows.
    limits : the distance beyond which a row is far out, for each view; None: how far does not count.
    average : how the scores at all psi of all views become one; None: the last psi alone counts.
    calibration : what p-values need; None if the model has no p-values.
    baseline : the counts of each group, where rows are compared with their own.
    residuals : what rows are less the location of their own group, where these differ, and a model of it.
    """

    views: Views
    tables: Tables
    n_rows: int
    reference: Floats
    limits: Limits | None
    average: ViewsAverage | None
    calibration: Calibration | None
    baseline: Baseline | None = None
    residuals: Residuals | None = None

    def validate(self) -> None:
        """Tables, limits and averages of the cells of the views, and parts that are models of the same rows."""
        members, levels = self.views.members, self.views.levels
        check("n_rows", self.n_rows, (), 1, MOST_ROWS)
        demand(len(self.tables) == len(members), "tables are not one for each view")
        for table, view in zip(self.tables, members, strict=True):
            check("tables", table, view.balls.sq_radii.shape, 0, min(self.n_rows, (1 << 32) - 1))
        check("reference", self.reference, (None, self.views.n_features), -FARTHEST, FARTHEST)
        demand(len(self.reference) > 0, "there are no reference rows")
        if self.average is None:
            demand(len(members) == 1, "several views need an average")
        else:
            fits = len(self.average.views) == len(members) and len(self.average.views[0].floors) == len(levels)
            demand(fits, "the average is not of these views and psi")
        if self.limits is not None:
            self._check_limits(self.limits)
        if self.baseline is not None:
            self.baseline.check_views(self._counted_views, len(self.reference))
        parts: list[Any] = [] if self.calibration is None else [*self.calibration.models]
        if self.residuals is not None:
            n_groups = 0 if self.baseline is None else len(self.baseline.sizes)
            demand(len(self.residuals.sizes) == n_groups, "residuals are of other groups")
            parts.append(replace(self.residuals.model, baseline=self.baseline))
        for part in parts:
            demand(isinstance(part, PointModel), "a part of the model is not a model of points")
            demand(part.views.n_features == self.views.n_features, "a part is of another number of features")
            demand((part.average is None) == (self.average is None), "some parts average over psi and others do not")
            sizes = [None if model.baseline is None else len(model.baseline.sizes) for model in (self, part)]
            demand(sizes[0] == sizes[1], "a part is of other groups")

    def _check_limits(self, limits: Limits) -> None:
        demand(self.average is not None and self.views.far_limits is not None, "limits where nothing is far out")
        demand(len(limits) == len(self.views.members), "limits are not one for each view")
        for view_limits in limits:
            check("limits", view_limits, (len(self.views.levels),), -1, 1 << 31)
            demand(
                np.array_equal(view_limits >= 0, limits[0] >= 0) and view_limits.max() >= 0,
                "limits are not of the same psi",
            )

    @property
    def tally(self) -> Tally:
        """The rows counted, to add others to or to subtract some from."""
        return Tally(self.tables, self.n_rows)

    @property
    def mean_map(self) -> Floats:
        """Share of the rows in each cell of the largest psi, of the samples of all views: (t, psi)."""
        psi = self.views.levels[-1]
        return np.concatenate([table[-1].reshape(-1, psi) for table in self.tables]) / self.n_rows

    @property
    def least(self) -> float:
        """What a score of 0 counts as where p-values are computed: half of the lowest that a row in a cell can have."""
        return 0.5 / (self.n_rows * int(self.views.counts[-1])) if self.average is None else 0.0

    def scores(self, rows: Rows, compute: Compute, own_sums: OwnSums | None = None) -> Floats:
        """How normal each row is: (n,) in [0, 1]; ``own_sums``: what they find in their groups, if that is known."""
        if not isinstance(rows, LabelledRows):
            return rows.map(self.scorer(compute))
        sum_at = self.sum_at(compute, only_last=self.average is None)
        if own_sums is not None:
            return rows.map_placed(lambda X, place: self.combine(sum_at(X), compute.n_jobs, own_sums.part(place)))
        own_at = self._own_at(compute)
        scores = rows.map_owned(lambda X, owners: self.combine(sum_at(X), compute.n_jobs, own_at(X, owners)))
        return scores if self.residuals is None else self.residuals.lower(scores, rows, compute)

    def scorer(self, compute: Compute) -> Callable[[Floats], Floats]:
        """A function of rows without labels: how normal each is: (n, d) -> (n,)."""
        self._check_labelled(False)
        if self.average is None:
            sum_at = self.sum_at(compute, only_last=True)
            return lambda X: self.combine(sum_at(X), compute.n_jobs)
        average, terms = self.average, self._terms
        sums_there = self.views.sum_at(self.tables, compute, self.limits, fetched=False)

        def score(X: Floats) -> Floats:
            mean = compute.fetch(average.overruled(*compute.backend.add_terms(sums_there(X), terms, compute.n_jobs)))
            map_in_threads(lambda rows: exponential(mean[rows]), slices(len(mean), _COMBINED_ROWS), compute.n_jobs)
            return mean

        return score

    @cached_property
    def _terms(self) -> Terms:
        """What a score is the sum of, the same each time, as backends keep what they make of it."""
        assert self.average is not None
        return self.average.terms(self.n_rows * self._counts, None if self.limits is None else self._octave)

    def sum_at(self, compute: Compute, only_last: bool = False) -> Callable[[Floats], Sums]:
        """A function of rows: the sums that scores are made of, of all psi or the last: (n, d) -> (n, L + 1) a view."""
        views, tables, limits = self.views, self.tables, self.limits
        if only_last:
            views, tables, limits = views.largest, tuple(table[-1:] for table in tables), None
        return views.sum_at(tables, compute, limits)

    def averaged(self, sums: Sums, own_sums: OwnSums | None = None) -> "PointModel":
        """The model with the weights that some rows give to each psi and to how far out a row is, from their sums."""
        weight = 0.0 if self.baseline is None or own_sums is None else self.baseline.mean_weight(own_sums.sizes)
        return replace(self, average=fit_views_average(self.divide(sums, own_sums), self.views.levels, weight))

    def p_values(self, rows: Rows, compute: Compute, tail: str = EXTRAPOLATE) -> Floats:
        """Conformal p-values of new rows: (n,) in (0, 1]."""
        if self.calibration is None:
            raise ValueError("the model was fitted without calibration, so it has no p-values")
        return self.calibration.p_values(self, rows, compute, tail)

    def path(self, rows: Rows, compute: Compute) -> Floats:
        """Scores at every psi: (n, L)."""
        return rows.map(self._path(compute))

    def explain(self, rows: Rows, compute: Compute) -> Floats:
        """How much each feature adds to the logarithm of (typical score / score): (n, d)."""
        self._check_labelled(isinstance(rows, LabelledRows))
        typical = self._typical_contributions(compute)
        if not isinstance(rows, LabelledRows):
            return rows.map(lambda X: self._contributions(X, None, compute) - typical)
        contributions = rows.map_owned(lambda X, owners: self._contributions(X, owners, compute) - typical)
        return contributions if self.residuals is None else self.residuals.explain(contributions, rows, self, compute)

    def log_typical(self, compute: Compute) -> float:
        """Logarithm of the typical score that explanations compare with, that of residuals aside."""
        return -float(self._typical_contributions(compute).sum())

    def _typical_contributions(self, compute: Compute) -> Floats:
        if "typical" not in self._cache:
            self._cache["typical"] = self._contributions(*self._references, compute).mean(axis=0)
        return self._cache["typical"]

    def _check_labelled(self, are_labelled: bool) -> None:
        if self.baseline is not None and not are_labelled:
            raise ValueError("the model compares rows with their own groups: need the label of each, its baseline.")

    @property
    def _references(self) -> tuple[Floats, Ints | None]:
        """The reference rows and their groups, sorted by them, if there are any."""
        if self.baseline is None:
            return self.reference, None
        order = np.argsort(self.baseline.reference, kind="stable")
        return self.reference[order], self.baseline.reference[order]

    @cached_property
    def _cache(self) -> dict[str, Floats]:
        """What explanations compare with, kept from the first: the same on every backend."""
        return {}

    def combine(self, sums: Sums, n_jobs: int | None = None, own_sums: OwnSums | None = None) -> Floats:
        """Scores from sums at every psi, or at the last: (n, L + 1) a view -> (n,); ``own_sums``: of own groups."""
        n_rows = len(sums[0])
        if n_rows <= _COMBINED_ROWS:
            return self._combine(sums, own_sums)
        scores = np.empty(n_rows)

        def work(rows: slice) -> None:
            part = tuple(each[rows] for each in sums)
            scores[rows] = self._combine(part, None if own_sums is None else own_sums.part(rows))

        map_in_threads(work, slices(n_rows, _COMBINED_ROWS), n_jobs)
        return scores

    def _combine(self, sums: Sums, own_sums: OwnSums | None) -> Floats:
        paths = self.divide(sums, own_sums)
        if self.average is not None:
            return self.average.apply(paths)
        ((path, _),) = paths  # one psi has one view
        return path[:, -1].copy()

    def divide(self, sums: Sums, own_sums: OwnSums | None = None) -> Paths:
        """For each view, scores at every psi (n, L), and how far out rows are, in octaves (n,)."""
        counts = self._counts[-(sums[0].shape[1] - 1) :]
        largest = self.n_rows * counts
        paths: Paths = [(each[:, :-1] / largest, self._far(each[:, -1])) for each in sums]
        return paths if own_sums is None or self.baseline is None else self.baseline.mix(paths, own_sums, counts)

    def _far(self, far: Ints) -> Floats | None:
        """How far out rows are, in octaves of a sample: (n,)."""
        return None if self.limits is None else far / self._octave

    @cached_property
    def _counts(self) -> Ints:
        return self.views.counts

    @cached_property
    def _octave(self) -> int:
        """An octave in all samples that say how far out a row is."""
        assert self.limits is not None
        cut = self.views.members[0].partitionings.cut
        return OCTAVE * int((cut.far_weights * cut.counts)[self.limits[0] >= 0].sum())

    def _own_at(self, compute: Compute) -> Callable[[Floats, Ints], OwnSums]:
        """A function of rows sorted by group, and of their groups: what they find in their groups' counts."""
        assert self.baseline is not None
        return partial(self.baseline.own_sums, self._counted_views, compute)

    @property
    def _counted_views(self) -> Views:
        """The views at the psi that have a weight."""
        return self.views.largest if self.average is None else self.views

    def _path(self, compute: Compute) -> Callable[[Floats], Floats]:
        sum_at = self.views.sum_at(self.tables, compute)
        return lambda X: np.mean([path for path, _ in self.divide(sum_at(X))], axis=0)

    def _contributions(self, X: Floats, owners: Ints | None, compute: Compute) -> Floats:
        """Minus the logarithm of the scores, feature by feature: (n, d); owners (n,): their groups, which ascend."""
        if self.average is None:  # one psi, the last
            path = self._last_path(compute)
            average = fit_average(path(*self._references), np.eye(len(self.views.levels))[-1])
            ((view,), (shares,)) = self.views.members, self._shares_of(owners)
            return contribution_by_feature(Places(view, X, compute), shares, average, path(X, owners))
        paths = self.divide(self.sum_at(compute)(X), None if owners is None else self._own_at(compute)(X, owners))
        contributions = self._contributions_of_psi(paths, X, owners, compute, only_coarse=False)
        mean, coarse = self.average.parts(paths)
        limit = self.average.limit(coarse)
        rows = limit < mean if self.average.n_coarse else np.zeros(len(X), dtype=bool)
        if rows.any():  # those that the small psi overrule
            overruled = [(path[rows], None) for path, _ in paths]
            their_owners = None if owners is None else owners[rows]
            others = self._contributions_of_psi(overruled, X[rows], their_owners, compute, only_coarse=True)
            sums = others.sum(axis=1, keepdims=True)
            shares = np.divide(others, sums, out=np.full(others.shape, 1 / X.shape[1]), where=sums > 0)
            contributions[rows] = (1 - OVERRULED) * contributions[rows] - OVERRULED * limit[rows, None] * shares
        return contributions

    def _last_path(self, compute: Compute) -> Callable[[Floats, Ints | None], Floats]:
        """Scores at every psi, the last of them in the maps of the own groups, if there are any: (n, L)."""
        path, sum_at = self._path(compute), self.sum_at(compute, only_last=True)

        def path_of(X: Floats, owners: Ints | None) -> Floats:
            scores = path(X)
            if owners is not None:
                scores[:, -1] = self.combine(sum_at(X), compute.n_jobs, self._own_at(compute)(X, owners))
            return scores

        return path_of

    def _contributions_of_psi(
        self, paths: Paths, X: Floats, owners: Ints | None, compute: Compute, only_coarse: bool
    ) -> Floats:
        """Minus the mean of the logarithms, or the part that small psi have in it, feature by feature: (n, d)."""
        assert self.average is not None
        contributions = np.zeros(X.shape)
        limits = self.limits or [None] * len(paths)
        parts = zip(self.average.views, paths, self.views.members, self._shares_of(owners), limits, strict=True)
        for average, (path, far), view, shares, limit in parts:
            n_counted = self.average.n_coarse if only_coarse else len(average.weights)
            weights = np.where(np.arange(len(average.weights)) < n_counted, average.weights, 0.0)
            places = Places(view, X, compute)
            contributions += contribution_by_feature(places, shares, replace(average, weights=weights), path)
            if far is not None and limit is not None:
                contributions += average.far_weight * far[:, None] * far_by_feature(places, limit)
        return contributions

    def _shares_of(self, owners: Ints | None) -> list[Shares]:
        """For each view, the mean map of the data, or of the groups of rows: owners (n,)."""
        of_all: list[Shares] = [SharesOfAll(table / self.n_rows) for table in self.tables]
        if owners is None or self.baseline is None:
            return of_all
        return [OwnShares(self.baseline, own, view, owners) for view, own in enumerate(of_all)]


def finish_point_model(
    views: Views,
    tally: Tally,
    params: PointParams,
    reference: Floats,
    average: ViewsAverage | None = None,
    calibration: Calibration | None = None,
) -> PointModel:
    """The model of the rows that were counted.

    ``reference`` (m, d) are some of them. ``average``: that of an earlier model of the same views, or ``averaged`` must
    follow where params.averages.
    """
    return PointModel(views, tally.tables, tally.n_rows, reference, params.limits(views), average, calibration)
