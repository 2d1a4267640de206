"""Entities over time: which behaves unlike itself, or unlike its peers, in this period."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from isobag.backends import Compute
from isobag.backends.arrays import Array, Ints
from isobag.backends.learned import demand
from isobag.backends.pairs import MOST_COLUMNS
from isobag.data.groups import as_labels
from isobag.data.log import BagCounts, BagOrder, Log, log_in_memory
from isobag.data.params import (
    EVERY,
    FDR,
    KEEP,
    LATE,
    N_ESTIMATORS,
    TIME_ZONE,
    Parameters,
)
from isobag.data.periods import Calendar, as_times, length_of
from isobag.data.rows import ArrayRows
from isobag.data.validation import as_rows
from isobag.estimators.base import Storable
from isobag.estimators.findings import Findings, findings_of, join_findings, shown_time
from isobag.models.arrivals import Harvest, count_arrivals, known_rows, sample_rows
from isobag.models.bags import CONFIRMED, DISMISSED, Bags, PeriodLines
from isobag.models.cohorts import UNKNOWN, find_cohorts, join_cohorts
from isobag.models.contents import Content, content_again, merge_contents, some_bags
from isobag.models.entities import Pairs, estimate_between, variance_of_row
from isobag.models.point import largest_samples
from isobag.models.timeline import Timeline, judge_content, keep_words
from isobag.models.views import Plan, Views, draw_views
from isobag.models.volume import Cycles

N_CELLS = 32
SCALING, MECHANISM = "normal", "voronoi"
AUTO = "auto"
_NEVER = 1 << 60
_SAMPLED_ROWS, _SAMPLED_ENTITIES = 1 << 16, 1_000


class EntityMonitor(Storable):
    """Judge every period of every entity by the entity's own past, its peers and its usual number of rows.

    Each period of an entity (an account, a machine, a shop) is a bag of rows. ``update`` judges new periods in the
    order of time, each by what was known before it, and then adds it to what is known; flagged periods stay out until
    ``dismiss``. See ``isobag.models.timeline`` for the rules and formulas.

    Parameters
    ----------
    every : length of a period, "15m", "1h", "1d", "1w" and the like.
    time_zone : name of the zone whose days and weeks count; None is UTC.
    fdr : share of flagged lines that may be false.
    n_estimators : number of partitionings, t.
    keep : how much of the past is kept, a number of periods or a length such as "90d"; None: all of it.
    late : how many periods before the newest one late rows are still added to.
    random_state, backend, n_jobs, device : as in all detectors.

    Fitted
    ------
    entities_ : labels of the entities, in the order in which they came.
    periods_ : start of each period that is kept, as clocks of the time zone show it.
    state : all that was learned.

    Examples
    --------
    >>> import numpy as np, isobag
    >>> rng = np.random.default_rng(0)
    >>> shop, day = np.divmod(np.arange(20 * 40 * 30) // 30, 40)
    >>> amount = rng.normal(shop % 4, 1.0)
    >>> amount[(shop == 7) & (day == 39)] += 3
    >>> times = np.datetime64("2026-01-01") + day
    >>> monitor = isobag.EntityMonitor(random_state=0)
    >>> findings = monitor.update(amount[:, None], shop, times, since=np.datetime64("2026-02-09"))
    >>> findings.entity[findings.flagged], findings.kind[findings.flagged]
    (array([7]), array(['unlike its past'], dtype=object))
    """

    entities_: npt.NDArray[Any]
    model_: Timeline
    table_: str
    parameters: ClassVar[Parameters] = {
        "every": EVERY,
        "time_zone": TIME_ZONE,
        "fdr": FDR,
        "n_estimators": N_ESTIMATORS,
        "keep": KEEP,
        "late": LATE,
        **Storable.parameters,
    }

    def __init__(
        self,
        every: str = "1d",
        time_zone: str | None = None,
        fdr: float = 0.1,
        n_estimators: int = 32,
        keep: int | str | None = None,
        late: int = 2,
        *,
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.every = every
        self.time_zone = time_zone
        self.fdr = fdr
        self.n_estimators = n_estimators
        self.keep = keep
        self.late = late
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs
        self.device = device

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def calendar(self) -> Calendar:
        """The periods."""
        return Calendar(self.every, self.time_zone)

    @property
    def state(self) -> Timeline:
        """All that was learned."""
        check_is_fitted(self)
        return self.model_

    @property
    def periods_(self) -> Array:
        """Start of each period that is kept, as clocks of the time zone show it: datetime64[us]."""
        return self.calendar.dates(np.array([one.number for one in self.state.periods], dtype=np.int64))

    def update(
        self, X: Any, entities: Any, times: Any, *, learn: bool = True, since: Any = None, peers: Any = None
    ) -> Findings:
        """Judge the periods of new rows, and add them to what is known.

        X (n, d): rows of numbers, or ``Rows``; entities (n,): their labels; times (n,): datetime64 in UTC, or
        microseconds since 1970. ``learn=False`` judges and adds nothing. Periods before that of ``since``, a date as
        clocks of the zone show it or microseconds, are past only; with None, all periods are judged that have enough of
        a past. ``peers`` (n,): labels of cohorts; entities are then compared with those of their cohort, the one they
        first came with. With "auto" cohorts are found, see ``isobag.models.cohorts``.

        Rows that come again change nothing. Late rows of the newest periods (see ``late``) are added, and the periods
        from there on are judged again; rows that come later are left out, and a note says how many.
        """
        self.check_params()
        return self.follow(self._log(X, entities, times, peers), learn=learn, since=since)

    def follow(self, log: Log, *, learn: bool = True, since: Any = None) -> Findings:
        """The same as ``update`` for a log, wherever its rows are; those in memory are given up."""
        self.check_params()
        return self._follow(log, learn, None if since is None else self.calendar.number_at(since))

    def _log(self, X: Any, entities: Any, times: Any, peers: Any = None) -> Log:
        """Rows in memory as a log."""
        rows = as_rows(self, X, reset=not hasattr(self, "model_"))
        moments, labels = as_times(times), as_labels(entities)
        is_auto = isinstance(peers, str)
        if is_auto and peers != AUTO:
            raise ValueError(f"peers={peers!r}; need a label for each row, or 'auto'.")
        cohorts = None if peers is None or is_auto else as_labels(peers)
        for name, given in (("times", moments), ("entities", labels), ("peers", cohorts)):
            if given is not None and len(given) != len(rows):
                raise ValueError(f"{name} has {len(given)} entries and X has {len(rows)} rows; need one for each row.")
        return replace(log_in_memory(rows, labels, moments, self.calendar, cohorts), finds_cohorts=is_auto)

    def _follow(self, log: Log, learn: bool, first_judged: int | None) -> Findings:
        is_first = not hasattr(self, "model_")
        as_rows(self, ArrayRows(np.empty((0, log.n_features)), log.features), reset=is_first, min_rows=0)
        counts = log.count()
        order, everyone = counts.in_order(None if is_first else self.entities_)
        cohorts = self._cohorts(counts, order, len(everyone), log.finds_cohorts)
        numbers = np.unique(order.numbers)
        past, periods = numbers, () if is_first else self.model_.periods
        if is_first:
            n_past = self._n_past_bags(order, first_judged)
            past, views = np.unique(order.numbers[:n_past]), self._draw_views(log, order, n_past)
        else:
            views = self.model_.views
        notes, order = list(_notes(counts)), replace(order, keys=order.keys[:0].copy(), sizes=order.sizes[:0].copy())
        del counts  # of all bags, and no longer needed
        known = known_rows(periods, numbers, self.late)
        oldest = int(numbers[-1]) - self.late if is_first else None
        count = partial(count_arrivals, known=known, oldest=oldest, views=views, compute=self.compute)
        new = log.gather(order, count)
        log.release()
        if is_first:
            before = self._begin(views, [one for one in new.contents if one.number <= past[-1]], cohorts)
        else:
            before = replace(self.model_, cohorts=cohorts)
        notes += _notes_on_rows(new, self.late)
        after, parts, gaps = self._judge(before, new.contents, everyone, first_judged, learn)
        if learn:
            self.model_, self.entities_ = after, everyone
        elif is_first:
            self.model_, self.entities_ = replace(before, cohorts=cohorts[:0]), everyone[:0]
        return join_findings(parts, everyone, [*notes, *gaps])

    def fit(self, X: Any, entities: Any, times: Any) -> Self:
        """Forget all, and learn from rows as in ``update``, without judging them."""
        self.check_params()
        for name in ("model_", "entities_"):
            if hasattr(self, name):
                delattr(self, name)
        self._follow(self._log(X, entities, times), True, _NEVER)
        return self

    def confirm(self, entity: Any, period: Any) -> None:
        """An alarm was right: the entity's period never becomes part of its past."""
        self._say(entity, period, CONFIRMED)

    def dismiss(self, entity: Any, period: Any) -> None:
        """An alarm was false: the entity's period becomes part of its past."""
        self._say(entity, period, DISMISSED)

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        self._check_features(self.model_.views.n_features)
        demand(len(self.entities_) == len(self.model_.cohorts), "entities_ is not one label for each entity")

    def _say(self, entity: Any, period: Any, status: int) -> None:
        state = self.state
        number = self.calendar.number_at(period)
        labels = self.entities_.tolist()  # of any type, tuples among them
        changed = state.with_status(labels.index(entity), number, status) if entity in labels else None
        if changed is None:
            raise ValueError(f"there is no line of the entity {entity!r} in the period of {period}.")
        self.model_ = changed

    def _n_past_bags(self, order: BagOrder, first_judged: int | None) -> int:
        """How many bags are in periods of the past; all if these have not two rows."""
        n_bags = len(order.keys) if first_judged is None else int(np.searchsorted(order.numbers, first_judged))
        n_bags = n_bags if order.sizes[:n_bags].sum() >= 2 else len(order.keys)
        n_rows = int(order.sizes[:n_bags].sum())
        if n_rows < 2:
            raise ValueError(f"X has {n_rows} row; need at least 2 to begin with.")
        return n_bags

    def _draw_views(self, log: Log, order: BagOrder, n_past: int) -> Views:
        """Views of the rows of the first bags."""
        if self.n_estimators * N_CELLS > MOST_COLUMNS:
            raise ValueError(
                f"n_estimators={self.n_estimators}; need {MOST_COLUMNS // N_CELLS} or fewer: a cell has two bytes."
            )
        sample = sample_rows(log, order, n_past, _SAMPLED_ROWS)
        plan = Plan(SCALING, (largest_samples(len(sample), N_CELLS),))
        rows = ArrayRows(sample, None)
        return draw_views(rows, self.n_estimators, [plan], MECHANISM, self.random_state, self.compute)[0]

    def _begin(self, views: Views, past: Sequence[Content], cohorts: Ints) -> Timeline:
        """A timeline without periods: how much bags vary, and which cohorts there are, by those of some entities."""
        step = max(1, len(cohorts) // _SAMPLED_ENTITIES)
        bags = [one for one in (some_bags(content, step) for content in past) if len(one.sizes)]
        own, others = _estimates(bags, len(views), views.n_columns, self.compute)
        if len(cohorts) and cohorts[0] == UNKNOWN:
            cohorts = find_cohorts(bags, len(cohorts), views.n_columns)
        return Timeline(views, own, others, cohorts, (), None)

    def _cohorts(self, counts: BagCounts, order: BagOrder, n_entities: int, finds_cohorts: bool) -> Ints:
        """The cohort of each entity: as it was, or the least that its rows name; one for all if they name none."""
        known = self.model_.cohorts if hasattr(self, "model_") else np.empty(0, dtype=np.int64)
        cohorts = np.full(n_entities, UNKNOWN if finds_cohorts else 0, dtype=np.int64)
        if counts.cohorts is not None:
            cohorts[order.ids] = counts.cohorts
        cohorts[: len(known)] = known
        return cohorts

    def _judge(
        self,
        state: Timeline,
        contents: list[Content],
        labels: npt.NDArray[Any],
        first_judged: int | None,
        learn: bool,
    ) -> tuple[Timeline, list[Findings], list[str]]:
        """Judge all periods that have new rows, which are given up, and known ones that come after the first such."""
        if not contents:
            return state, [], []
        first, new = contents[0].number, {one.number: one for one in contents}
        contents.clear()
        again = {one.number: one for one in state.periods if one.number >= first}
        every = np.unique([*(one.number for one in state.all_periods), *new]).astype(np.int64)
        phases = self.calendar.phases(every)
        state = state.before(first)
        parts, gaps = [], []
        for number in sorted({*again, *new}):
            content = _content(new.pop(number, None), again.get(number), state.n_columns)
            cohorts = join_cohorts(state.cohorts, content.bags, state.periods, state.n_columns)
            state = replace(state, cohorts=cohorts)
            is_judged = first_judged is None or number >= first_judged
            places = np.searchsorted(every, [*(one.number for one in state.all_periods), number])
            given = Cycles([own[places] for own in phases], self.calendar.cycle_lengths)
            lines, verdict = judge_content(state, content, given, self.fdr, is_judged, self.compute)
            if number in again:
                lines = keep_words(again[number], lines)
            if verdict is not None:
                parts.append(findings_of(lines, verdict, state, labels, self.feature_names, self.calendar))
            if state.periods and number > state.periods[-1].number + 1 and learn:
                gaps.append(self._gap(state.periods[-1].number, number))
            if learn:
                state = state.after(lines, self.late, self._n_kept)
        return state, parts, gaps

    def _gap(self, before: int, after: int) -> str:
        first, last = (shown_time(one) for one in self.calendar.dates(np.array([before + 1, after - 1])))
        return f"no entity has rows {f'on {first}' if first == last else f'from {first} to {last}'}: a gap, no alarm."

    @property
    def _n_kept(self) -> int | None:
        if not isinstance(self.keep, str):
            return self.keep
        return max(2, length_of(self.keep, "keep") // self.calendar.length)


def _content(new: Content | None, known: PeriodLines | None, n_columns: int) -> Content:
    """A period with its new rows, and those that were known."""
    if known is None:
        assert new is not None
        return new
    again = content_again(known)
    return again if new is None else merge_contents(again, new, n_columns)


def _estimates(bags: Sequence[Bags], t: int, n_columns: int, compute: Compute) -> tuple[float, float]:
    """How much bags of an entity, and bags of different ones, vary beyond the noise of their rows."""
    within = variance_of_row(bags, t)
    own = []
    for before, after in pairwise(bags):
        _, old, new = np.intersect1d(before.entities, after.entities, assume_unique=True, return_indices=True)
        own.append(Pairs(before, old, after, new))
    others = [Pairs(one, np.arange(len(one.sizes) - 1), one, np.arange(1, len(one.sizes))) for one in bags]
    return estimate_between(own, within, n_columns, compute), estimate_between(others, within, n_columns, compute)


def _notes(counts: BagCounts) -> Iterator[str]:
    if counts.n_untimed:
        n_rows = counts.n_untimed + int(counts.sizes.sum())
        yield f"{counts.n_untimed:,} of {n_rows:,} rows are left out: they have no time."


def _notes_on_rows(new: Harvest, late: int) -> Iterator[str]:
    if new.n_repeated:
        yield f"{new.n_repeated:,} rows came before and were left out."
    if new.n_late:
        yield (
            f"{new.n_late:,} rows came too late, for periods more than {late} before the newest, and were left out;"
            " late= says how long they are waited for."
        )
