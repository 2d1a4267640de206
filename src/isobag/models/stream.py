"""What is learned of a stream: a window of the last rows, balls around some of them, and the counts, kept up exactly.

Row r of the stream stands at place r mod W of the window. Center j of partitioning i is the row at a place s_ij: a
center that leaves is replaced by the row that takes its place. While the window fills, the places are the first psi of
a random permutation of the rows seen so far, which each new row extends by one exchange; once it is full they stay. So
at any moment the centers are a uniform draw without replacement from the window, as those of a model fitted to it.

Rows are learned in blocks that end at numbers of rows that depend on nothing else (``next_stop``), and each row is
scored, when it comes, by the model of the blocks before its own. The scores of the last W rows, each by a model that
had not learned it, are the reference of p-values. Every W / 4 rows the weights of all psi are learned anew, and the
scale of one view, which is kept if the new one hardly differs. Nothing depends on how rows are divided among calls.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints, Scales
from isobag.backends.learned import demand
from isobag.backends.sliding import Nearest, Sliding
from isobag.data.rows import ArrayRows, spread_rows
from isobag.data.scaling import Scaling, fit_scalings, join_scalings
from isobag.models.averaging import ViewsAverage
from isobag.models.calibration import EXTRAPOLATE, Calibration
from isobag.models.point import REFERENCE_ROWS, PointModel, PointParams, finish_point_model
from isobag.models.stream_state import StreamState
from isobag.models.tally import Tally
from isobag.models.thresholds import OWN_LEVEL, count_scores, threshold_beyond_bulk
from isobag.models.views import View, Views
from isobag.partitionings import draw_seeds, nested_levels
from isobag.partitionings.balls import RowBalls, far_limits

STOPS = 20
"""Blocks of rows that a window is learned in."""
REFRESHES = 4
"""How often weights are learned anew while the rows of a window pass; views are scaled anew in turn, each once."""
AVERAGED_ROWS = 2_000
"""Rows of the window from which weights are learned, and by which scales are compared."""
KEPT = 0.1
"""A scale stays while a new one would change no feature by more than this share of its spread."""
_PLAIN = ("n_seen", "n_learned", "n_refreshed", "n_refreshes", "first", "slots", "seeds", "scores", "levels", "average")
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Followed(NamedTuple):
    """Scores and p-values of rows, each by a model that had learned the rows before its block: (n,)."""

    scores: Floats
    p_values: Floats


class Judged(NamedTuple):
    """Rows (n, d), what the window knows of them, and their scores (n,)."""

    X: Floats
    nearest: Nearest
    scores: Floats


def next_stop(n_learned: int, window: int) -> int:
    """Number of rows after which the next block is learned: a twentieth more, at most a twentieth of the window."""
    return max(2, n_learned + max(1, min(n_learned, window) // STOPS))


def levels_at(n_rows: int, levels: tuple[int, ...]) -> tuple[int, ...]:
    """The nested psi for so many rows: those up to half of them, at least the first."""
    return tuple(psi for psi in levels if 2 * psi <= n_rows) or levels[:1]


def differ(old: Scaling, new: Scaling, X: Floats, compute: Compute | None = None) -> bool:
    """Whether two scales of rows (n, d) differ so much that a model notices.

    In some feature by more than a shift and a tenth of its spread, or by a shift of more than its spread.
    """
    before, after = old.apply(X, compute), new.apply(X, compute)
    gaps, spread = after - before, _spread(after)
    return bool(((_spread(gaps) > KEPT * spread) | (np.abs(gaps.mean(axis=0)) > spread)).any())


def _spread(values: Floats) -> Floats:
    """Mean absolute deviation of each feature: (n, d) -> (d,)."""
    deviations: Floats = np.abs(values - values.mean(axis=0)).mean(axis=0)
    return deviations


def _are_same(a: Any, b: Any) -> bool:
    """Whether two arrays, or tensors on one device, are equal to the last bit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and bool(a.tobytes() == b.tobytes())
    return bool(a.device == b.device and (a == b).all())


def exchange_at(seeds: Any, row: int) -> Ints:
    """With which of the rows 0 .. row each permutation exchanges a new row: (t,), by the row's number alone."""
    with np.errstate(over="ignore"):
        word = (seeds[:, 0] << np.uint64(32)) + seeds[:, 1] + np.uint64(row + 1) * _GOLDEN
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word ^= word >> np.uint64(31)
    places: Ints = (word % np.uint64(row + 1)).astype(np.int64)
    return places


class Stream:
    """A window that rows enter and leave, and the model of it.

    n_seen, n_learned : rows that came, and those of them in blocks that are complete.
    rows (W, d) : the window by places.
    first (W, d) : the first W rows, once they have come.
    slots (t, psi) : places of the centers, for all partitionings and the largest psi.
    scalings, levels, average : of the current views.
    scores (m,) : of the last m <= W rows, each before it was learned, the oldest first.
    """

    def __init__(self, params: PointParams, window: int, n_features: int) -> None:
        self.params, self.window = params, window
        self.plans = params.plans(window)[: params.n_estimators]
        self.all_levels = nested_levels(min(self.plans[0].levels[-1], max(2, window // 2)))
        self.seeds = draw_seeds(params.n_estimators, params.random_state)
        self.n_seen = self.n_learned = self.n_refreshed = self.n_refreshes = 0
        self.rows = np.empty((window, n_features))
        self.first: Floats | None = None
        self._waiting: list[Floats] = []
        self.slots = np.zeros((params.n_estimators, self.all_levels[-1]), dtype=np.int32)
        self.scalings: list[Scaling] = []
        self._scales: Scales | None = None
        self.levels: tuple[int, ...] = ()
        self.average: ViewsAverage | None = None
        self.scores = np.empty(0)
        self._current: PointModel | None = None  # makes scores of sums; its balls and counts may be older
        self._model: PointModel | None = None
        self._reference: Calibration | None = None
        self._limits: Ints | None = None
        self._kept: tuple[Any, Sliding, list[Nearest]] | None = None
        self._order = np.argsort(np.arange(params.n_estimators) % len(self.plans), kind="stable")  # by views
        self._owners = self._order % len(self.plans)
        self._new_scores: list[Floats] = []
        self._judged: Judged | None = None

    @property
    def has_model(self) -> bool:
        """Whether there is a model of the window: not while there are fewer than two rows."""
        return self._current is not None

    @property
    def model(self) -> PointModel | None:
        """The model of the window, which stays as it is when the window moves."""
        if self._model is None and self._current is not None:
            assert self._kept is not None
            model = self._finish(self._kept[1], lambda own: np.array(own, order="C"))
            self._model = replace(model, calibration=self._calibrate(model))
        return self._model

    @property
    def waiting(self) -> Floats:
        """Rows of the block that is not complete: (n_seen - n_learned, d)."""
        return np.concatenate([self.rows[:0], *self._waiting])

    @property
    def window_rows(self) -> Floats:
        """The rows of the window, the oldest first: (n, d)."""
        n = min(self.n_learned, self.window)
        return self.rows[np.arange(self.n_learned - n, self.n_learned) % self.window]

    @property
    def new_scores(self) -> Floats:
        """Scores of the waiting rows: (n_seen - n_learned,), none without a model."""
        return np.concatenate([self.scores[:0], *self._new_scores])

    @property
    def state(self) -> StreamState:
        """All that a stream with the same parameters goes on from."""
        parts: dict[str, Any] = {"waiting": self.waiting, "new_scores": self.new_scores}
        parts |= {"rows": self.rows[: min(self.n_learned, self.window)], "scalings": tuple(self.scalings)}
        return StreamState(**parts, **{name: getattr(self, name) for name in _PLAIN})

    def resume(self, state: StreamState, compute: Compute) -> None:
        """Go on from the state of a stream with the same parameters; ValueError: it has others."""
        n_rows = min(state.n_learned, self.window)
        demand(state.rows.shape == (n_rows, self.rows.shape[1]), "rows are not as many as were learned")
        most = len(state.scores) <= self.window and (state.first is None or len(state.first) == self.window)
        demand(most, "scores or the first rows are not of a window")
        same = state.slots.shape == self.slots.shape and len(state.scalings) in (0, len(self.plans))
        demand(same and set(state.levels) <= set(self.all_levels), "centers are not those of the parameters")
        averages = self.params.averages and bool(state.levels)
        demand((state.average is not None) == averages, "there is an average of one psi, or none of many")
        for name in _PLAIN:
            setattr(self, name, getattr(state, name))
        self.rows[:n_rows] = state.rows
        self.scalings = list(state.scalings)
        self._waiting = [state.waiting] if len(state.waiting) else []
        self._new_scores = [state.new_scores]
        if self.levels:
            self._renew(self._sliding(compute)[0], False, compute)

    def follow(self, X: Floats, compute: Compute, tail: str = EXTRAPOLATE) -> Followed:
        """Score rows in their order and learn them: (n, d). Without a model scores are nan and p-values 1.

        Here and below rows may be a tensor on a device that ``compute`` works on: they are scored there, and copied to
        host memory when they are learned, as that is where the window is.
        """
        scores, p_values = np.full(len(X), np.nan), np.ones(len(X))
        for part in self._parts(len(X)):
            if self.has_model:
                scores[part] = self.score(X[part], compute)
                p_values[part] = self.p_values(scores[part], tail)
            self._take(X[part], compute)
        return Followed(scores, p_values)

    def learn(self, X: Floats, compute: Compute) -> None:
        """Learn rows in their order: (n, d)."""
        if len(X) == 1:  # nothing to divide
            self._take(X, compute)
            return
        for part in self._parts(len(X)):
            self._take(X[part], compute)

    def score(self, X: Floats, compute: Compute) -> Floats:
        """How normal rows are by the model of the window: (n, d) -> (n,)."""
        return self._judge(X, compute).scores

    def _parts(self, n: int) -> Iterator[slice]:
        """Rows that come before the next block is complete, until all have been taken."""
        start = 0
        while start < n:
            stop = min(n, start + next_stop(self.n_learned, self.window) - self.n_seen)
            yield slice(start, stop)
            start = stop

    def _take(self, X: Floats, compute: Compute) -> None:
        """Let rows wait, and learn the block if they complete it."""
        if self.has_model:
            judged = self._judge(X, compute)
            assert self._kept is not None
            self._kept[2].append(judged.nearest)
            self._new_scores.append(judged.scores)
        self._waiting.append(X if isinstance(X, np.ndarray) else compute.fetch(X))
        self.n_seen += len(X)
        if self.n_seen == next_stop(self.n_learned, self.window):
            self._learn(compute)

    def _judge(self, X: Floats, compute: Compute) -> "Judged":
        """What the model of the window says of rows; of rows that it was asked about last, what it said."""
        sliding = self._sliding(compute)[0]
        last = self._judged
        if last is not None and len(X) == len(last.X) and _are_same(last.X, X):
            return last
        if last is not None and len(X) < len(last.X) and _are_same(last.X[: len(X)], X):
            return Judged(X, sliding.first(last.nearest, len(X)), last.scores[: len(X)])
        assert self._current is not None
        nearest, sums = sliding.find(self._scale(X, compute), self._limits, compute.n_jobs)
        copy = X.copy() if isinstance(X, np.ndarray) else X.clone()
        self._judged = Judged(copy, nearest, self._current.combine(sums, compute=compute))
        return self._judged

    def p_values(self, scores: Floats, tail: str = EXTRAPOLATE) -> Floats:
        """P-values of rows with these scores by the current model: (n,) -> (n,)."""
        if self._reference is None:
            assert self._current is not None
            self._reference = self._calibrate(self._current)
        return self._reference.compare(scores[:, None], scores, tail).p_values

    def _scale(self, X: Floats, compute: Compute) -> Sequence[Floats]:
        """Rows on the scale of each view: (n, d)."""
        if self._scales is None:
            self._scales = join_scalings(self.scalings)
        return compute.verbs.scale_views(X, self._scales, compute.n_jobs)

    def _learn(self, compute: Compute) -> None:
        """Let the waiting rows enter the window, and finish its model."""
        self._join_scores()
        before = self._sliding(compute) if self.has_model else None
        waiting = self.waiting
        places = np.arange(self.n_learned, self.n_seen) % self.window
        if self.n_learned < self.window <= self.n_seen:
            self.first = np.concatenate([self.rows[: self.n_learned], waiting])[: self.window]
        self.rows[places] = waiting
        self._draw_centers()
        self.n_learned = self.n_seen
        n_rows = min(self.n_learned, self.window)
        refreshes = self.n_learned >= self.n_refreshed + min(self.n_refreshed, max(1, self.window // REFRESHES))
        scaled_anew = self._rescale(n_rows, compute) if refreshes else set()
        self._waiting, self._judged, self._scales = [], None, None if scaled_anew else self._scales
        if before is None or len(scaled_anew) == len(self.plans):
            sliding = self._open(compute)
        else:
            sliding, parts = before
            sliding.slide(places, sliding.join(parts), self._slots, compute.n_jobs)
            for number in scaled_anew:
                sliding.rescale(number, self.scalings[number].apply(self.rows[:n_rows], compute), compute.n_jobs)
        self._kept = compute.verbs, sliding, []
        self._renew(sliding, refreshes, compute)

    def _join_scores(self) -> None:
        self.scores = np.concatenate([self.scores, self.new_scores])[-self.window :]
        self._new_scores = []

    def _draw_centers(self) -> None:
        """Extend the permutations by the rows that enter while the window is not full."""
        psi = self.slots.shape[1]
        for row in range(self.n_learned, min(self.n_seen, self.window)):
            places = exchange_at(self.seeds, row)
            if row < psi:
                self.slots[:, row] = self.slots[np.arange(len(places)), places]
            hit = np.flatnonzero(places < psi)
            self.slots[hit, places[hit]] = row

    def _rescale(self, n_rows: int, compute: Compute) -> set[int]:
        """Learn scales anew: all where psi grows or rows are few, else one in turn; views that have another one now."""
        levels = levels_at(n_rows, self.all_levels)
        levels = levels if self.params.averages else levels[-1:]
        takes_all = levels != self.levels or self.n_learned <= self.window // REFRESHES
        if levels != self.levels:
            self.levels = levels
            if not self.params.averages:  # scores at another psi are no reference; with one more in the mean they are
                self.scores = self.scores[:0]
        numbers = [k for k in range(len(self.plans)) if takes_all or k == self.n_refreshes % REFRESHES]
        names = [self.plans[number].scaling for number in numbers]
        learned = fit_scalings(ArrayRows(self.rows[:n_rows]), names, compute.n_jobs)
        if not self.scalings:
            self.scalings = [learned[name] for name in names]
            return set(numbers)
        some = self.rows[spread_rows(n_rows, AVERAGED_ROWS)]
        changed = set()
        for number, name in zip(numbers, names, strict=True):
            if takes_all or differ(self.scalings[number], learned[name], some, compute):
                self.scalings[number] = learned[name]
                changed.add(number)
        return changed

    @property
    def _slots(self) -> Any:
        """Places of the centers of each partitioning, by views: (t, psi)."""
        return self.slots[self._order, : self.levels[-1]]

    def _open(self, compute: Compute) -> Sliding:
        """The window, all its rows compared with all centers."""
        scaled = self._scale(self.rows[: min(self.n_learned, self.window)], compute)
        how = self.window, self._slots, self._owners, self.levels, compute.n_jobs
        return compute.verbs.slide_window(scaled, *how)

    def _sliding(self, compute: Compute) -> tuple[Sliding, list[Nearest]]:
        """The window, and what is known of the waiting rows; made anew for another backend or device."""
        if self._kept is None or self._kept[0] is not compute.verbs:
            self._kept, self._judged = (compute.verbs, self._open(compute), []), None
            if self._waiting:
                scaled = self._scale(self.waiting, compute)
                self._kept[2].append(self._kept[1].find(scaled, None, compute.n_jobs)[0])
        return self._kept[1:]

    def _finish(self, sliding: Sliding, take: Callable[[Any], Any]) -> PointModel:
        """A model of the window, with what a function takes of each of its arrays."""
        n_rows = min(self.n_learned, self.window)
        members, tables = [], []
        for number, scaling in enumerate(self.scalings):
            centers, sq_radii, counts = map(take, sliding.balls(number))
            slots = np.arange(centers.shape[0] * centers.shape[1], dtype=np.int32).reshape(centers.shape[:2])
            balls = RowBalls(centers.reshape(-1, centers.shape[2]), slots, self.levels, sq_radii)
            members.append(View(scaling, balls))
            tables.append(counts)
        reference = self.rows[spread_rows(n_rows, REFERENCE_ROWS)]
        tally = Tally(tuple(tables), n_rows)
        return finish_point_model(Views(tuple(members)), tally, self.params, reference, self.average)

    def _renew(self, sliding: Sliding, refreshes: bool, compute: Compute) -> None:
        """Let the current model be that of the window, its weights learned anew where they are due."""
        self._model = self._reference = None
        if refreshes or self._current is None or self._current.largest != min(self.n_learned, self.window):
            self._current = self._finish(sliding, lambda own: own)
            limits = self._current.limits
            self._limits = None if limits is None else np.array(limits)
        elif self._limits is not None:  # scores are made of sums as before: only what is far out has changed
            views = range(len(self.scalings))
            self._limits = np.array([far_limits(sliding.balls(view)[1], self.levels, compute) for view in views])
        if refreshes:
            self.n_refreshed, self.n_refreshes = self.n_learned, self.n_refreshes + 1
            if self.params.averages:
                places = spread_rows(min(self.n_learned, self.window), AVERAGED_ROWS)
                sums = sliding.sum_at_places(places, self._limits, compute.n_jobs)
                self._current = self._current.averaged(tuple(sums))
                self.average = self._current.average

    def _calibrate(self, model: PointModel) -> Calibration:
        """The scores of rows that came before they were learned, as the reference of p-values.

        Without those of rows that are beyond the tail of the bulk: one odd row would hide the next.
        """
        scores = np.sort(self.scores)
        if len(scores):
            scores = scores[np.searchsorted(scores, threshold_beyond_bulk(count_scores(scores), OWN_LEVEL) or 0.0) :]
        return Calibration((model,), np.empty(0, dtype=np.int64), np.array([len(scores)]), scores, 0.0)

    def __getstate__(self) -> dict[str, Any]:
        """All but what can be computed from the rest."""
        model = self.model
        derived = dict.fromkeys(("_reference", "_kept", "_judged", "_scales"))
        return {**vars(self), "_model": model, "_current": model, **derived}
