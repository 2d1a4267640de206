"""What is learned of points: partitionings, and how many points of the training data lie in each cell.

Learned in steps: draw views, count the rows in their cells (a Tally), finish a model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, OCTAVE, ONE, Floats, Ints, held
from isobag.backends.threads import map_in_threads, slices
from isobag.data.rows import Rows, spread_rows
from isobag.models.averaging import Average, fit_average
from isobag.models.calibration import Calibration, calibrate
from isobag.models.explain import share_out
from isobag.models.tally import Tables, Tally
from isobag.models.views import Limits, Plan, Views, draw_views
from isobag.partitionings import nested_levels

METHODS = {"similarity": "nearest", "norm": "covering"}
"""Ways to score, and the rule by which each looks for the ball of a point."""
AUTO_SCALINGS = ("absolute", "normal", "asinh")
PAPER_SCALING = "minmax"
AUTO_LARGEST_SAMPLES = 256
AVERAGED_ROWS = 10_000
CALIBRATION_ROWS = 10_000
REFERENCE_ROWS = 256
_COMBINED_ROWS = 1 << 18


def largest_samples(n_rows: int, most: int = AUTO_LARGEST_SAMPLES) -> int:
    """Largest psi of an average over psi: at most half of the rows, or most would be centers, each in a cell alone."""
    return max(2, min(most, n_rows // 2))


@dataclass(frozen=True)
class PointParams:
    """How to learn: the parameters of IDKPointDetector, already checked."""

    n_estimators: int
    max_samples: int | str
    method: str
    scaling: str | None
    mechanism: str
    calibrate: bool
    random_state: Any

    @property
    def averages(self) -> bool:
        """Whether the score is a mean over many psi."""
        return self.max_samples == "auto"

    def plans(self, n_rows: int) -> list[Plan]:
        """One view with the paper's scaling, or, if all is left to us, three with a third of the partitionings each."""
        psi = largest_samples(n_rows) if self.averages else min(int(self.max_samples), n_rows)
        scalings: tuple[str | None, ...] = (self.scaling,)
        if self.scaling == "auto":
            scalings = AUTO_SCALINGS if self.averages else (PAPER_SCALING,)
        return [Plan(scaling, nested_levels(psi)) for scaling in scalings]

    def limits(self, views: Views) -> Limits | None:
        """Beyond which distance a row is far out, None where how far does not count."""
        return views.far_limits() if self.averages and self.method != "norm" else None

    def of_part(self, seed: int) -> "PointParams":
        """The same for a part of the data, on which nothing is set aside."""
        return replace(self, calibrate=False, random_state=seed)


@dataclass(frozen=True)
class PointModel:
    """Views of the data, and in each a table of what a point in a cell scores.

    views : scalings and partitionings.
    tables : (L, t, psi) for each view: the number of rows in each cell, or ones.
    largest : what a point would score in a cell that holds everything.
    rule : which ball a point is looked up in.
    mean_map : (t, psi), share of the rows in each cell of the last level.
    reference : (m, d), some of the rows.
    limits : beyond which distance a row is far out, for each view; None: how far does not count.
    average : how the scores at all psi become one; None: the last alone counts.
    calibration : what p-values need, if anything was set aside.
    """

    views: Views
    tables: Tables = held(3, 0, MOST_ROWS)
    largest: int = held(0, 1, MOST_ROWS)
    rule: str = held(choices=tuple(METHODS.values()))
    mean_map: Floats = held(2, 0, ONE)
    reference: Floats = held(2, -FARTHEST, FARTHEST)
    limits: Limits | None = held(1, -1, 1 << 31)
    average: Average | None = held()
    calibration: Calibration | None = held()

    @property
    def tally(self) -> Tally:
        """The rows counted, to add others to or to subtract some from."""
        if self.rule != METHODS["similarity"]:
            raise ValueError("method='norm' keeps no counts of rows; fit with method='similarity'.")
        return Tally(self.tables, self.largest)

    def scores(self, rows: Rows, compute: Compute) -> Floats:
        """How normal each row is: (n,) in [0, 1]."""
        sum_at = self.sum_at(compute, only_last=self.average is None)
        return rows.map(lambda X: self.combine(sum_at(X), compute.n_jobs))

    def sum_at(self, compute: Compute, only_last: bool = False) -> Callable[[Floats], Ints]:
        """A function of rows: the sums that scores are made of, of all psi or of the last: (n, d) -> (n, L)."""
        views, tables = self.views, self.tables
        if only_last:
            views, tables = views.at(-1), tuple(table[-1:] for table in tables)
        return views.sum_at(tables, compute, self.rule, self.limits)

    def averaged(self, sums: Ints) -> "PointModel":
        """The model with the weights that some rows give to each psi and to how far out a row is, from their sums."""
        path, far = self.divide(sums)
        return replace(self, average=fit_average(path, np.array(self.views.levels) ** -0.5, far))

    def path(self, rows: Rows, compute: Compute) -> Floats:
        """Scores at every psi: (n, L)."""
        return rows.map(self._path(compute))

    def p_values(self, rows: Rows, compute: Compute) -> Floats:
        """Conformal p-values of new rows: (n,) in (0, 1]."""
        if self.calibration is None:
            raise ValueError("nothing was set aside for p-values.")
        return self.calibration.p_values(rows, compute)

    def explain(self, rows: Rows, compute: Compute) -> Floats:
        """How much each feature adds to the logarithm of (typical score / score): (n, d)."""
        if "typical" not in self._known:
            self._known["typical"] = self._lack(self.reference, compute).mean(axis=0)
        typical = self._known["typical"]
        return rows.map(lambda X: self._lack(X, compute) - typical)

    @cached_property
    def _known(self) -> dict[str, Floats]:
        """What explanations compare with, kept from the first: the same on every backend."""
        return {}

    def shares(self, sums: Ints) -> Floats:
        """Sums over partitionings as shares of the most they can be."""
        return sums / (self.largest * len(self.views))

    def combine(self, sums: Ints, n_jobs: int | None = None) -> Floats:
        """Scores from sums at every psi, or at the last alone: (n, L) -> (n,)."""
        scores = np.empty(len(sums))

        def work(rows: slice) -> None:
            if self.average is None:
                scores[rows] = self.shares(sums[rows, -1])
            else:
                path, far = self.divide(sums[rows])
                scores[rows] = self.average.apply(path, far)

        map_in_threads(work, slices(len(sums), _COMBINED_ROWS), n_jobs)
        return scores

    def divide(self, sums: Ints) -> tuple[Floats, Floats | None]:
        """Scores at every psi (n, L) and how far out rows are, in octaves (n,), from their sums over partitionings."""
        if self.limits is None:
            return self.shares(sums), None
        n_levels = int(np.count_nonzero(self.limits[0] >= 0))
        return self.shares(sums[:, :-1]), sums[:, -1] / (OCTAVE * n_levels * len(self.views))

    def _path(self, compute: Compute) -> Any:
        sum_at = self.views.sum_at(self.tables, compute, self.rule)
        return lambda X: self.shares(sum_at(X))

    def _lack(self, X: Floats, compute: Compute) -> Floats:
        """Minus the logarithm of the scores, feature by feature: (n, d)."""
        average = self.average
        if average is None:  # one psi, the last
            average = fit_average(self._path(compute)(self.reference), np.eye(len(self.views.levels))[-1])
        path, far = self.divide(self.sum_at(compute)(X))
        shares = share_out(self.views, self.tables, self.largest, average, path, self.limits, X, compute, self.rule)
        return shares.lacks if far is None else shares.lacks + average.far_weight * far[:, None] * shares.far


def fit_point_model(rows: Rows, params: PointParams, compute: Compute) -> tuple[PointModel, Floats]:
    """Draw views of the rows, count the rows in their cells, finish a model; also the scores of the rows: (n,)."""
    reference, averaged = (spread_rows(len(rows), most) for most in (REFERENCE_ROWS, AVERAGED_ROWS))
    later = [reference, averaged] if params.averages else [reference]
    plans = params.plans(len(rows))
    views, _ = draw_views(rows, params.n_estimators, plans, params.mechanism, params.random_state, compute, later)
    calibration = calibrate(rows, params, compute, fit_point_model, CALIBRATION_ROWS) if params.calibrate else None
    tally, sums = _tally_and_sum(views, rows, params, compute)
    model = finish_point_model(views, tally, params, rows.take(reference), calibration=calibration)
    if params.averages:
        model = model.averaged(model.sum_at(compute)(rows.take(averaged)) if sums is None else sums[averaged])
    return model, model.scores(rows, compute) if sums is None else model.combine(sums, compute.n_jobs)


def _tally_and_sum(views: Views, rows: Rows, params: PointParams, compute: Compute) -> tuple[Tally, Ints | None]:
    """The tally, and the sums of its tables at the rows, where rows in memory make both in one search."""
    whole = rows.whole
    if whole is None or params.method == "norm":
        return views.tally_rows(rows, compute), None
    return views.count_and_sum(whole, compute, not params.averages, params.limits(views))


def finish_point_model(
    views: Views,
    tally: Tally,
    params: PointParams,
    reference: Floats,
    average: Average | None = None,
    calibration: Calibration | None = None,
) -> PointModel:
    """The model of the rows that were counted.

    ``reference`` (m, d) are some of them. ``average``: that of an earlier model of the same views, or ``averaged`` must
    follow where params.averages.
    """
    is_norm = params.method == "norm"
    return PointModel(
        views,
        tuple(np.ones_like(own) for own in tally.tables) if is_norm else tally.tables,
        1 if is_norm else tally.n_rows,
        METHODS[params.method],
        tally.mean_map,
        reference,
        params.limits(views),
        average,
        calibration,
    )
