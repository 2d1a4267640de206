"""A watch as a value: rows of open periods, what is learned of closed ones, and how one becomes the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.data.periods import Calendar
from isobag.models.watch import JudgedPeriod, advance
from isobag.models.watch_bags import BagRows, Schema, learn_schema, summarise
from isobag.models.watch_past import Fleet, Past, Rules, empty_fleet, empty_past, with_more


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
    bags (b, 4) : period, entity, rows and digest of closed bags, to know their rows again.
    feedback (w, 3) : of the user: what, entity and period.
    """

    rows: BagRows
    learnt: Learnt | None
    begun: Ints
    first: int
    newest: int
    closed: int
    bags: Ints
    feedback: Ints

    def validate(self) -> None:
        """Entities of rows and bags are known."""
        n = len(self.begun)
        demand(self.bags.ndim == 2 and self.bags.shape[1] == 4, "bags are not described by four numbers")
        demand(self.feedback.ndim == 2 and self.feedback.shape[1] == 3, "feedback is not three numbers")
        for ids in (self.rows.entity, self.bags[:, 1], self.feedback[:, 1]):
            demand(not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < n), "rows of an entity that is not there")
        demand(self.learnt is None or len(self.learnt.past.since) <= n, "more is learned than there are entities")


def empty_history(first: int) -> History:
    """Before any rows; first is the first period that there will be."""
    none, table = np.empty(0, dtype=np.int64), np.empty((0, 0))
    rows = BagRows(none, none, none.astype(np.int8), none, table, table.astype(np.int32))
    return History(rows, None, none, first, first, first - 1, np.empty((0, 4), np.int64), np.empty((0, 3), np.int64))


def rules_of(schema: Schema | None, calendar: Calendar, fdr: float = 0.1) -> Rules:
    """The rules of a watch with these periods."""
    units = np.empty(0, dtype=np.int64) if schema is None else schema.units
    return Rules(units, tuple(calendar.cycle_lengths[::-1]), fdr)


def judge_open(
    history: History, calendar: Calendar, fdr: float, late: int, is_chosen: tuple[bool, ...]
) -> tuple[History, list[JudgedPeriod]]:
    """Judge every open period, the earliest first, and close those that no late row can change; rows are in order."""
    rows, learnt = history.rows, history.learnt
    if learnt is None:
        warm_up = history.first + rules_of(None, calendar).warm_up
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
    for period, entity, x in _bags_by_period(rows, learnt.schema):
        if period >= closes and not is_kept:
            learnt, is_kept = replace(learnt, past=past, fleet=fleet, n_before=n_before), True
        table = np.full((len(history.begun), x.shape[1]), np.nan)
        table[history.begun <= period, 0] = np.log(0.5)
        table[entity] = x
        phases = tuple(int(own[0]) for own in calendar.phases(np.array([period]))[::-1])
        feedback, of_period = np.zeros(len(table), np.int64), history.feedback[history.feedback[:, 2] == period]
        feedback[of_period[:, 1]] = of_period[:, 0]
        past, fleet, judged = advance(past, fleet, table, period, phases, n_before, rules, feedback)
        n_before += 1
        result.append(judged)
    bags = np.concatenate([history.bags, digests_of(rows.take(is_closed))])
    open_feedback, closed = history.feedback[history.feedback[:, 2] >= closes], max(history.closed, closes - 1)
    changes: Any = {"learnt": learnt, "closed": closed, "bags": bags, "feedback": open_feedback}
    return replace(history, rows=rows.take(~is_closed), **changes), result


def _bags_by_period(rows: BagRows, schema: Schema) -> Iterator[tuple[int, Ints, Floats]]:
    """Each period that has rows: entities of its bags, and their summaries."""
    ends = np.flatnonzero(np.diff(rows.period, append=rows.period[-1:] + 1)) + 1
    start = 0
    for end in ends.tolist():
        part = rows.take(slice(start, end))
        starts = np.flatnonzero(np.diff(part.entity, prepend=-1))
        yield int(part.period[0]), part.entity[starts], summarise(schema, part, starts)
        start = end


def digests_of(rows: BagRows) -> Ints:
    """Period, entity, rows and digest of each bag, of rows in order: (b, 4)."""
    starts = np.flatnonzero((np.diff(rows.period, prepend=-1 << 60) != 0) | (np.diff(rows.entity, prepend=-1) != 0))
    sizes = np.diff(np.append(starts, len(rows)))
    digest = np.add.reduceat(rows.digest, starts) if len(starts) else rows.digest[:0]
    return np.stack([rows.period[starts], rows.entity[starts], sizes, digest], axis=1)
