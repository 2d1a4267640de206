"""What is learned of a stream: the last W rows and the model of them, kept up exactly.

Steps and formulas: study/FORMULAS.md, "Streams".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, Bools, Floats
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import slices
from isobag.data.gaps import fill_rows, learn_gaps
from isobag.data.rows import ArrayRows, spread_rows
from isobag.models.averaging import FLOOR, fit_views_average
from isobag.models.calibration import EXTRAPOLATE, Calibration
from isobag.models.point import REFERENCE_ROWS, PointModel, PointParams
from isobag.models.thresholds import OWN_LEVEL, count_scores, threshold_beyond_bulk
from isobag.models.views import View, Views, draw_views

BLOCKS = 20
"""Blocks of rows that a window is learned in."""
RENEWALS = 4
"""How often pools are drawn anew while the rows of a window pass."""
AVERAGED_ROWS = 1_000
"""Rows of the window from which weights are learned."""
FLOOR_OF_ONE = 0.3
"""Of a single psi, the least score that counts, as a share of the mean: below, how far out a row is decides."""
_STEP_ROWS = 256
"""Rows that are counted for the next model with each row that comes."""


class Followed(NamedTuple):
    """Scores and p-values of rows, each by a model that had learned the rows before its block: (n,)."""

    scores: Floats
    p_values: Floats


@dataclass(eq=False)
class Stream(Learned):
    """A window that rows enter and leave, and the model of it.

    rows (m, d) : the m <= W rows of the window, by places.
    waiting (k, d) : rows of the block that is not complete.
    n_learned, n_renewed : rows that were learned, and how many there were when the last pools were drawn.
    first (W, d) : the first W rows, once they have come.
    scores : of the last rows that were learned, W at most, each before it was learned, the oldest first.
    """

    window: int
    n_estimators: int
    max_samples: int | str
    scaling: str | None
    seed: int
    rows: Floats
    waiting: Floats
    n_learned: int = 0
    n_renewed: int = 0
    first: Floats | None = None
    scores: Floats = field(default_factory=lambda: np.empty(0))
    model: PointModel | None = None

    def __post_init__(self) -> None:
        self._scorers: dict[Compute, Callable[[Floats], Floats]] = {}
        self._reference: Calibration | None = None
        self._steps: Iterator[PointModel | None] | None = None
        self._next: PointModel | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # what follows from the fields is made anew

    def validate(self) -> None:
        """Rows of the same features, as many as there can be, and a model of them."""
        check("numbers of rows", (self.n_renewed, self.n_learned), (2,), 0, MOST_ROWS)
        n_rows, d = min(self.n_learned, self.window), self.waiting.shape[-1]
        for name, values, m in (("rows", self.rows, n_rows), ("waiting", self.waiting, None)):
            check(name, np.nan_to_num(values, posinf=np.inf, neginf=-np.inf), (m, d), -FARTHEST, FARTHEST)
        demand(self.n_seen < self.next_stop, "more rows wait than there are in a block")
        check("scores", self.scores, (None,), 0)
        demand(len(self.scores) <= self.window, "there are more scores than rows")
        if self.first is not None:
            first = np.nan_to_num(self.first, posinf=np.inf, neginf=-np.inf)
            check("first", first, (self.window, d), -FARTHEST, FARTHEST)
        demand((self.model is None) == (n_rows == 0), "there are rows and no model of them, or a model of no rows")
        if self.model is not None:
            gaps = self.model.views.gaps
            demand(gaps is not None and len(gaps.fills) == d, "the model does not say what stands for gaps")
            demand(self.model.n_rows == n_rows, "the model is not of these rows")
            demand(self.model.average is not None, "the model does not say how far out rows are")

    @property
    def n_seen(self) -> int:
        """Number of rows that came."""
        return self.n_learned + len(self.waiting)

    @property
    def next_stop(self) -> int:
        """Number of rows after which the next block is learned; the first model needs two."""
        return max(2, self.n_learned + max(1, len(self.rows) // BLOCKS))

    @property
    def window_rows(self) -> Floats:
        """The rows of the window, the oldest first: (m, d)."""
        return np.roll(self.rows, -(self.n_learned % self.window), axis=0)

    def follow(self, X: Floats, compute: Compute) -> Followed:
        """Score rows in their order and learn them: (n, d). Without a model scores are nan and p-values 1."""
        scores, p_values = np.full(len(X), np.nan), np.ones(len(X))
        for part in self._parts(len(X)):
            if self.model is not None:
                scores[part] = self.score(X[part], compute)
                p_values[part] = self.p_values(scores[part])
            self._take(X[part], compute)
        return Followed(scores, p_values)

    def learn(self, X: Floats, compute: Compute) -> None:
        """Learn rows in their order: (n, d)."""
        for part in self._parts(len(X)):
            self._take(X[part], compute)

    def score(self, X: Floats, compute: Compute) -> Floats:
        """How normal rows are by the model of the window: (n, d) -> (n,)."""
        scorer = self._scorers.get(compute)
        if scorer is None:
            assert self.model is not None
            scorer = self._scorers[compute] = self.model.scorer(compute)
        return scorer(X)

    def p_values(self, scores: Floats) -> Floats:
        """P-values of rows with these scores by the current model: (n,) -> (n,)."""
        return self.calibration.compare(scores[:, None], scores, EXTRAPOLATE).p_values

    @property
    def threshold(self) -> float:
        """Score below which rows of the window are odder than the tail of their bulk explains; 0 if unknown."""
        n = len(self.scores)
        return self.calibration.threshold(count_scores(self.scores), OWN_LEVEL, n) if n else 0.0

    @property
    def calibration(self) -> Calibration:
        """The reference of p-values.

        Rows that are beyond the tail of the others are no part of it: one odd row would hide the next.
        """
        if self._reference is None:
            bulk = np.sort(self.scores[in_bulk(self.scores)])
            self._reference = Calibration((), np.empty(0, dtype=np.int64), np.array([len(bulk)]), bulk, 0.0)
        return self._reference

    def _parts(self, n: int) -> Iterator[slice]:
        """Rows that come before the next block is complete, until all have been taken."""
        start = 0
        while start < n:
            stop = min(n, start + self.next_stop - self.n_seen)
            yield slice(start, stop)
            start = stop

    def _take(self, X: Floats, compute: Compute) -> None:
        """Let rows wait, go on with the next model, and learn the block if they complete it."""
        self.waiting = np.concatenate([self.waiting, compute.fetch(X)])
        if self._steps is None and self.n_renewed == self.n_learned > 0:
            self._steps = self._renewal(compute)
        if self._steps is not None:
            for _ in range(len(X)):
                self._next = next(self._steps, self._next)
        if self.n_seen == self.next_stop:
            self._learn(compute)

    def _learn(self, compute: Compute) -> None:
        """Let the waiting rows enter the window: those that enter are counted, those that leave no more."""
        waiting, model = self.waiting, self.model
        if model is not None:
            self.scores = np.concatenate([self.scores, self.score(waiting, compute)])[-self.window :]
        if self._steps is not None:
            model = [self._next, *self._steps][-1]
            if self.max_samples != "auto" and self.model and model and self.model.views.levels != model.views.levels:
                self.scores = self.scores[:0]  # those at another psi are no reference
            self._steps = self._next = None
        places = np.arange(self.n_learned, self.n_seen) % self.window
        leaving = self.rows[places[places < len(self.rows)]]
        self.rows = np.concatenate([self.rows, waiting[: self.window - len(self.rows)]])
        if self.first is None and len(self.rows) == self.window:
            self.first = self.rows.copy()
        self.rows[places] = waiting
        self.n_learned, self.waiting = self.n_seen, waiting[:0]
        if model is None:
            *_, model = self._renewal(compute)
        else:
            tally = model.tally + model.views.tally(waiting, compute) - model.views.tally(leaving, compute)
            model = replace(model, tables=tally.tables, n_rows=tally.n_rows)
        if self.n_learned >= self.n_renewed + max(1, min(self.n_renewed, self.window) // RENEWALS):
            self.n_renewed = self.n_learned
        self.model, self._scorers, self._reference = model, {}, None

    def _renewal(self, compute: Compute) -> Iterator[PointModel | None]:
        """Steps to a model of the window as it is, with new pools; the last step has it."""
        gaps, n = learn_gaps(ArrayRows(self.rows)), len(self.rows)
        rows = fill_rows(ArrayRows(self.rows), gaps)
        params = PointParams(self.n_estimators, self.max_samples, self.scaling, "auto", None)
        members: list[View] = []
        for number, plan in enumerate(params.plans(n)):
            seed = int(np.random.SeedSequence((self.seed, self.n_learned, number)).generate_state(1)[0])
            levels = plan.levels if params.averages else (max(2, min(plan.levels[-1], n // 2)),)
            plans, draw = [plan._replace(levels=levels)], replace(params, random_state=seed).draw
            members += draw_views(rows, plans, draw, compute, params.averages)[0].members
            yield None
        views = Views(tuple(members), gaps)
        tally = views.tally(self.rows[:0], compute)
        for part in slices(n, _STEP_ROWS):
            tally += views.tally(self.rows[part], compute)
            yield None
        reference, averaged = (rows.take(spread_rows(n, most)) for most in (REFERENCE_ROWS, AVERAGED_ROWS))
        model = PointModel(views, tally.tables, n, reference, views.far_limits, None, None)
        sums = []
        for part in slices(len(averaged), _STEP_ROWS):
            sums.append(model.views.sum_at(model.tables, compute, model.limits)(averaged[part]))
            yield None
        floor = FLOOR if params.averages else FLOOR_OF_ONE
        joined = tuple(map(np.concatenate, zip(*sums, strict=True)))
        for _ in range(2):  # gross rows would widen all spreads: the second time without them
            average = fit_views_average(model.divide(joined), views.levels, floor=floor)
            model = replace(model, average=average)
            bulk = in_bulk(model.combine(joined))
            joined = tuple(each[bulk] for each in joined)
            yield model


def in_bulk(scores: Floats) -> Bools:
    """Which scores are not beyond the tail of the others: (n,)."""
    threshold = threshold_beyond_bulk(count_scores(scores), OWN_LEVEL) if len(scores) else None
    return scores >= (threshold or 0.0)
