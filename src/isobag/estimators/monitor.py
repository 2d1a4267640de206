"""Entities over time: which behaves unlike itself, or unlike its peers, in this period."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from isobag.backends import Compute
from isobag.backends.arrays import Array, Floats, Ints
from isobag.backends.pairs import MOST_COLUMNS
from isobag.data.frames import feature_names
from isobag.data.groups import as_labels, number_labels
from isobag.data.params import (
    EVERY,
    FDR,
    KEEP,
    LATE,
    N_ESTIMATORS,
    TIME_ZONE,
    Option,
    ParameterError,
    Parameters,
)
from isobag.data.periods import Calendar, as_times, length_of
from isobag.data.rows import ArrayRows
from isobag.data.validation import as_rows
from isobag.estimators.base import Storable
from isobag.estimators.findings import Findings, findings_of, join_findings, shown_time
from isobag.models.arrivals import Checked, Sorted, arrive, check_arrivals, sort_arrivals
from isobag.models.bags import CONFIRMED, DISMISSED, PeriodLines
from isobag.models.cohorts import UNKNOWN, find_cohorts, join_cohorts
from isobag.models.contents import Content, NewRows, content_again, content_of, merge_contents
from isobag.models.entities import Pairs, estimate_between, variance_of_row
from isobag.models.point import largest_samples
from isobag.models.timeline import Timeline, judge_content, keep_words
from isobag.models.views import Plan, draw_views
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

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, "x0", "x1", ... where they came without."""
        return feature_names(self)

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
        first_judged = None if since is None else self.calendar.number_at(since)
        return self._update(X, entities, times, learn, first_judged, peers)

    def _update(self, X: Any, entities: Any, times: Any, learn: bool, first_judged: int | None, peers: Any) -> Findings:
        is_first = not hasattr(self, "model_")
        values = as_rows(self, X, reset=is_first).map(np.asarray)
        moments, labels = as_times(times), as_labels(entities)
        is_auto = isinstance(peers, str)
        if is_auto and peers != AUTO:
            raise ValueError(f"peers={peers!r}; need a label for each row, or 'auto'.")
        for name, given in (("times", moments), ("entities", labels), ("peers", None if is_auto else peers)):
            if given is not None and len(given) != len(values):
                raise ValueError(
                    f"{name} has {len(given)} entries and X has {len(values)} rows; need one for each row."
                )
        numbers = self.calendar.numbers(moments)
        known = np.empty(0, dtype=labels.dtype) if is_first else self.entities_
        ids, everyone = _number_entities(labels, numbers, known)
        arrivals = arrive(values, moments, numbers, ids)
        cohorts = _cohorts(None if is_first else self.model_.cohorts, len(everyone), ids, peers)
        if is_first:
            checked = check_arrivals(arrivals, (), self.late)
            rows = sort_arrivals(arrivals)
            before = self._begin(rows, first_judged, cohorts)
        else:
            checked = check_arrivals(arrivals, self.model_.periods, self.late)
            rows = sort_arrivals(arrivals.part(checked.fresh))
            before = replace(self.model_, cohorts=cohorts)
        del arrivals, numbers, ids, moments  # of each row, and no longer needed
        after, parts, gaps = self._follow(before, rows, everyone, first_judged, learn)
        if learn:
            self.model_, self.entities_ = after, everyone
        elif is_first:
            self.model_, self.entities_ = replace(before, cohorts=cohorts[:0]), everyone[:0]
        return join_findings(parts, everyone, [*_notes(checked, self.late), *gaps])

    def fit(self, X: Any, entities: Any, times: Any) -> Self:
        """Forget all, and learn from rows as in ``update``, without judging them."""
        self.check_params()
        for name in ("model_", "entities_"):
            if hasattr(self, name):
                delattr(self, name)
        self._update(X, entities, times, True, _NEVER, None)
        return self

    def confirm(self, entity: Any, period: Any) -> None:
        """An alarm was right: the entity's period never becomes part of its past."""
        self._say(entity, period, CONFIRMED)

    def dismiss(self, entity: Any, period: Any) -> None:
        """An alarm was false: the entity's period becomes part of its past."""
        self._say(entity, period, DISMISSED)

    def problems(self) -> Iterator[str]:
        """What does not fit together, of a monitor that comes from a file."""
        yield from (f"model_.{problem}" for problem in self.model_.problems(self.n_features_in_, len(self.entities_)))
        yield from self._problems_of_features(self.model_.views.n_features)

    def _say(self, entity: Any, period: Any, status: int) -> None:
        state = self.state
        number = self.calendar.number_at(period)
        labels = self.entities_.tolist()  # of any type, tuples among them
        changed = state.with_status(labels.index(entity), number, status) if entity in labels else None
        if changed is None:
            raise ValueError(f"there is no line of the entity {entity!r} in the period of {period}.")
        self.model_ = changed

    def _begin(self, rows: Sorted, first_judged: int | None, cohorts: Ints) -> Timeline:
        """Draw views of the rows of the past, or of all if there are not two rows of it."""
        if self.n_estimators * N_CELLS > MOST_COLUMNS:
            reason = f"; need {MOST_COLUMNS // N_CELLS} or fewer: a cell has two bytes."
            raise ParameterError(Option("n_estimators", self.n_estimators), reason)
        numbers = rows.numbers if first_judged is None else rows.numbers[rows.numbers < first_judged]
        n_past = int(rows.starts[len(numbers)])
        if n_past < 2:
            numbers, n_past = rows.numbers, len(rows.order)
        if n_past < 2:
            raise ValueError(f"X has {n_past} row; need at least 2 to begin with.")
        step = -(-n_past // _SAMPLED_ROWS)
        sample = _every_nth(rows, numbers, step)
        plan = Plan(SCALING, (largest_samples(len(sample), N_CELLS),))
        views, _ = draw_views(
            ArrayRows(sample, None), self.n_estimators, [plan], MECHANISM, self.random_state, self.compute
        )
        every = max(1, len(cohorts) // _SAMPLED_ENTITIES)
        few = ((number, _some_entities(rows, number, every)) for number in numbers.tolist())
        contents = [content_of(number, given, views, self.compute) for number, given in few if len(given.X)]
        own, others = _estimates(contents, len(views), views.n_columns, self.compute)
        if len(cohorts) and cohorts[0] == UNKNOWN:
            cohorts = find_cohorts([one.bags for one in contents], len(cohorts), views.n_columns)
        return Timeline(views, own, others, cohorts, (), None)

    def _follow(
        self, state: Timeline, rows: Sorted, labels: npt.NDArray[Any], first_judged: int | None, learn: bool
    ) -> tuple[Timeline, list[Findings], list[str]]:
        """Judge all periods that have new rows, and those known ones that come after the first such."""
        if not len(rows.numbers):
            return state, [], []
        first = int(rows.numbers[0])
        again = {one.number: one for one in state.periods if one.number >= first}
        earlier = (*(state.firsts or ()), *state.periods)
        every = np.union1d([one.number for one in earlier], rows.numbers).astype(np.int64)
        cycles = _AllCycles(every, self.calendar)
        state = state.before(first)
        parts, gaps = [], []
        for number in sorted({*again, *rows.numbers.tolist()}):
            content = self._content(number, rows, again.get(number), state)
            cohorts = join_cohorts(state.cohorts, content.bags, state.periods, state.n_columns)
            state = replace(state, cohorts=cohorts)
            is_judged = first_judged is None or number >= first_judged
            given = cycles.until([*(one.number for one in (*(state.firsts or ()), *state.periods)), number])
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

    def _content(self, number: int, rows: Sorted, known: PeriodLines | None, state: Timeline) -> Content:
        given = rows.rows_of(number)
        if given is None:
            assert known is not None
            return content_again(known)
        content = content_of(number, given, state.views, self.compute)
        return content if known is None else merge_contents(content_again(known), content, state.n_columns)

    def _gap(self, before: int, after: int) -> str:
        first, last = (shown_time(one) for one in self.calendar.dates(np.array([before + 1, after - 1])))
        return f"no entity has rows {f'on {first}' if first == last else f'from {first} to {last}'}: a gap, no alarm."

    @property
    def _n_kept(self) -> int | None:
        if not isinstance(self.keep, str):
            return self.keep
        return max(2, length_of(self.keep, "keep") // self.calendar.length)


def _every_nth(rows: Sorted, numbers: Ints, step: int) -> Floats:
    """Every n-th row of some periods, in order of periods, entities and hashes."""
    parts, n_before = [], 0
    for number in numbers.tolist():
        given = rows.rows_of(number)
        assert given is not None
        parts.append(given.X[-n_before % step :: step].copy())
        n_before += len(given.X)
    return np.concatenate(parts)


def _some_entities(rows: Sorted, number: int, step: int) -> NewRows:
    """The rows of every n-th entity in a period."""
    given = rows.rows_of(number)
    assert given is not None
    some = given.entities % step == 0
    return NewRows(given.X[some], given.entities[some], given.hashes[some])


class _AllCycles:
    """Phases of all periods of an update, found once."""

    def __init__(self, numbers: Ints, calendar: Calendar) -> None:
        self.numbers, self.phases = numbers, calendar.phases(numbers)
        self.lengths = calendar.cycle_lengths

    def until(self, numbers: list[int]) -> Cycles:
        places = np.searchsorted(self.numbers, numbers)
        return Cycles([phases[places] for phases in self.phases], self.lengths)


def _number_entities(labels: npt.NDArray[Any], numbers: Ints, known: npt.NDArray[Any]) -> tuple[Ints, npt.NDArray[Any]]:
    """The number of each row's entity, and all labels: new ones by their first period, and then in their order."""
    if labels.dtype.kind in "iu":  # without an object for each row
        names, ids = np.unique(labels, return_inverse=True)
    else:
        ids, names = number_labels(labels)
    places = {label: place for place, label in enumerate(known.tolist())}
    new = np.array([label not in places for label in names.tolist()], dtype=bool)
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, ids, numbers)
    order = np.flatnonzero(new)[np.lexsort((_ranks(names[new]), first[new]))]
    of_names = np.array([places.get(label, -1) for label in names.tolist()], dtype=np.int64)
    of_names[order] = len(known) + np.arange(len(order))
    everyone = np.concatenate([known, names[order]]) if len(order) else known
    return of_names[ids], everyone


def _ranks(labels: npt.NDArray[Any]) -> Ints:
    """Rank of each label among all, of any kinds."""
    listed = labels.tolist()
    try:
        order = sorted(range(len(listed)), key=listed.__getitem__)
    except TypeError:  # of kinds that have no order among each other
        order = sorted(range(len(listed)), key=lambda place: (type(listed[place]).__name__, str(listed[place])))
    ranks = np.empty(len(listed), dtype=np.int64)
    ranks[order] = np.arange(len(listed))
    return ranks


def _cohorts(known: Ints | None, n_entities: int, ids: Ints, peers: Any) -> Ints:
    """The cohort of each entity: as it was, or that of its rows; one for all without labels."""
    cohorts = np.zeros(n_entities, dtype=np.int64)
    n_known = 0 if known is None else len(known)
    if known is not None:
        cohorts[:n_known] = known
    if isinstance(peers, str):
        cohorts[n_known:] = UNKNOWN
    elif peers is not None:
        numbers, names = number_labels(as_labels(peers))
        hashes = np.array([_hash_label(label) for label in names.tolist()], dtype=np.int64)
        given = np.full(n_entities, np.iinfo(np.int64).max)
        np.minimum.at(given, ids, hashes[numbers])  # of several, always the same one
        cohorts[n_known:] = given[n_known:]
    return cohorts


def _hash_label(label: Any) -> int:
    """62 bits of a label, the same in every process: cohorts need no list of their names."""
    text = f"{type(label).__name__} {label!r}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 2


def _estimates(contents: Sequence[Content], t: int, n_columns: int, compute: Compute) -> tuple[float, float]:
    """How much bags of an entity, and bags of different ones, vary beyond the noise of their rows."""
    bags = [one.bags for one in contents]
    within = variance_of_row(bags, t)
    own = []
    for before, after in pairwise(bags):
        _, old, new = np.intersect1d(before.entities, after.entities, assume_unique=True, return_indices=True)
        own.append(Pairs(before, old, after, new))
    others = [Pairs(one, np.arange(len(one.sizes) - 1), one, np.arange(1, len(one.sizes))) for one in bags]
    return estimate_between(own, within, n_columns, compute), estimate_between(others, within, n_columns, compute)


def _notes(checked: Checked, late: int) -> Iterator[str]:
    if checked.n_repeated:
        yield f"{checked.n_repeated:,} rows came before and were left out."
    if checked.n_late:
        yield (
            f"{checked.n_late:,} rows came too late, for periods more than {late} before the newest, and were left out;"
            " late= says how long they are waited for."
        )
