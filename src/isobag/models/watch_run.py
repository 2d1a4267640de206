"""A watch as a value: rows of open periods, what is learned of closed ones, and how one becomes the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.data.periods import Calendar
from isobag.models.watch import Verdict, Words, advance
from isobag.models.watch_bags import BagRows, Schema, learn_schema, summarise
from isobag.models.watch_past import Fleet, Past, Rules, empty_fleet, empty_past, with_more

ACCEPT, DISMISS, RETIRE = "accept", "dismiss", "retire"


@dataclass(frozen=True)
class Word(Learned):
    """Feedback of the user: accept, dismiss or retire an entity, in a period."""

    what: str
    entity: int
    period: int


@dataclass(frozen=True)
class Learnt(Learned):
    """What is known once the warm-up is over: of the schema, the entities and the fleet; n_before periods learned."""

    schema: Schema
    left_out: tuple[str, ...]
    past: Past
    fleet: Fleet
    n_before: int


@dataclass(frozen=True)
class History(Learned):
    """Everything a watch knows.

    rows : of open periods, in order. learnt : by all closed periods; None during the warm-up.
    begun (E,) : first period of each entity. first, newest, closed : periods; closed is the last that is.
    bag_period, bag_entity, bag_rows, bag_digest (b,) : closed bags, to know their rows again.
    """

    rows: BagRows
    learnt: Learnt | None
    begun: Ints
    first: int
    newest: int
    closed: int
    bag_period: Ints
    bag_entity: Ints
    bag_rows: Ints
    bag_digest: Ints
    words: tuple[Word, ...] = ()

    def validate(self) -> None:
        """Entities of rows and bags are known."""
        n = len(self.begun)
        for ids in (self.rows.entity, self.bag_entity, np.array([word.entity for word in self.words], dtype=np.int64)):
            demand(not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < n), "rows of an entity that is not there")
        demand(self.learnt is None or len(self.learnt.past.since) <= n, "more is learned than there are entities")
        same = len(self.bag_period) == len(self.bag_entity) == len(self.bag_rows) == len(self.bag_digest)
        demand(same, "bags are not described one by one")


class Details(NamedTuple):
    """Of entities that are in an incident, or no longer: since, last, p, bound, periods, points, is_over (k,).

    direction, new_level, expected, error (k, S).
    """

    entity: Ints
    since: Ints
    last: Ints
    p: Floats
    bound: Floats
    periods: Ints
    points: Ints
    is_over: Bools
    direction: Floats
    new_level: Floats
    expected: Floats
    error: Floats


class JudgedPeriod(NamedTuple):
    """One period judged: rows, p_value (E,), NaN if not judged; inside (E,); n_changed (S,); details of incidents."""

    period: int
    rows: Ints
    p_value: Floats
    inside: Bools
    n_changed: Ints
    details: Details


def _judged(period: int, rows: Ints, verdict: Verdict, past: Past) -> JudgedPeriod:
    at = np.flatnonzero(verdict.inside | verdict.over)
    of_past = (past.p, verdict.bound, past.periods, past.points, verdict.over, past.direction, past.new_level)
    parts: Any = (verdict.since, past.last, *of_past, verdict.expected, verdict.error)
    details = Details(at, *(own[at] for own in parts))
    return JudgedPeriod(period, rows, verdict.p_value, verdict.inside, verdict.n_changed, details)


def rules_of(schema: Schema, calendar: Calendar, fdr: float) -> Rules:
    """The rules of a watch with these periods."""
    return Rules(schema.units, tuple(calendar.cycle_lengths[::-1]), fdr)


def warm_up_of(calendar: Calendar) -> int:
    """Periods that are only learned from: two weeks of days, one week of shorter periods, 14 of longer ones."""
    return Rules(np.empty(0, dtype=np.int64), tuple(calendar.cycle_lengths[::-1])).warm_up


def judge_open(
    history: History, calendar: Calendar, fdr: float, late: int, is_chosen: tuple[bool, ...]
) -> tuple[History, list[JudgedPeriod]]:
    """Judge every open period, the earliest first, and close those that no late row can change; rows are in order."""
    rows, learnt = history.rows, history.learnt
    if learnt is None:
        warm_up = history.first + warm_up_of(calendar)
        if history.newest < warm_up:
            return history, []
        has_hours = calendar.length % 86_400_000_000 == 0
        schema, left_out = learn_schema(rows.take(rows.period < warm_up), is_chosen, has_hours)
        rules = rules_of(schema, calendar, fdr)
        learnt = Learnt(schema, left_out, empty_past(rules), empty_fleet(rules), 0)
    rules = rules_of(learnt.schema, calendar, fdr)
    past, fleet, n_before = with_more(learnt.past, rules, len(history.begun)), learnt.fleet, learnt.n_before
    closes = history.newest - late
    result, is_kept, is_closed = [], False, rows.period < closes
    for period, bags, x in _bags_by_period(rows, learnt.schema):
        if period >= closes and not is_kept:
            learnt, is_kept = replace(learnt, past=past, fleet=fleet, n_before=n_before), True
        n_rows = np.zeros(len(history.begun), dtype=np.int64)
        table = np.full((len(history.begun), x.shape[1]), np.nan)
        table[history.begun <= period, 0] = np.log(0.5)
        n_rows[bags.entity], table[bags.entity] = bags.rows, x
        phases = tuple(int(own[0]) for own in calendar.phases(np.array([period]))[::-1])
        words = _words_in(history, period)
        past, fleet, verdict = advance(past, fleet, table, period, phases, n_before, rules, words)
        n_before += 1
        result.append(_judged(period, n_rows, verdict, past))
    ended = _digests_of(rows.take(is_closed))
    names = ("bag_period", "bag_entity", "bag_rows", "bag_digest")
    joined: Any = {name: np.concatenate([getattr(history, name), own]) for name, own in zip(names, ended, strict=True)}
    still = tuple(word for word in history.words if word.period >= closes)
    closed = max(history.closed, closes - 1)
    return replace(history, rows=rows.take(~is_closed), learnt=learnt, closed=closed, words=still, **joined), result


class _PeriodBags(NamedTuple):
    entity: Ints
    rows: Ints


def _bags_by_period(rows: BagRows, schema: Schema) -> Iterator[tuple[int, _PeriodBags, Floats]]:
    """Each period that has rows: its bags, and their summaries."""
    ends = np.flatnonzero(np.diff(rows.period, append=rows.period[-1:] + 1)) + 1
    start = 0
    for end in ends.tolist():
        of_period = rows.take(slice(start, end))
        starts = np.flatnonzero(np.diff(of_period.entity, prepend=-1))
        sizes = np.diff(np.append(starts, len(of_period)))
        yield (
            int(of_period.period[0]),
            _PeriodBags(of_period.entity[starts], sizes),
            summarise(schema, of_period, starts),
        )
        start = end


def _words_in(history: History, period: int) -> Words:
    masks = []
    for what in (ACCEPT, DISMISS, RETIRE):
        mask = np.zeros(len(history.begun), dtype=bool)
        mask[[word.entity for word in history.words if word.what == what and word.period == period]] = True
        masks.append(mask)
    return Words(*masks)


def _digests_of(rows: BagRows) -> tuple[Ints, Ints, Ints, Ints]:
    starts = np.flatnonzero((np.diff(rows.period, prepend=-1 << 60) != 0) | (np.diff(rows.entity, prepend=-1) != 0))
    sizes = np.diff(np.append(starts, len(rows)))
    digest = np.add.reduceat(rows.digest, starts) if len(starts) else rows.digest[:0]
    return rows.period[starts], rows.entity[starts], sizes, digest
