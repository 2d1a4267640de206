"""A watch as a value: rows of open periods, what is learned of closed ones, and how one becomes the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.data.periods import Calendar
from isobag.models.watch import JudgedPeriod, advance
from isobag.models.watch_bags import BagRows, Schema, summarise
from isobag.models.watch_past import Fleet, OpenIncidents, Past, Rules, empty_fleet, empty_past, no_incidents, with_more


@dataclass(frozen=True)
class Learnt(Learned):
    """What is known once the warm-up is over: of the schema, the entities and the fleet; n_before periods learned."""

    schema: Schema
    past: Past
    incidents: OpenIncidents
    fleet: Fleet
    n_before: int


@dataclass(frozen=True)
class History(Learned):
    """Everything a watch knows.

    rows : of open periods, in order. learnt : by all closed periods; None during the warm-up.
    begun (E,) : first period of each entity. first, newest, closed : periods; closed is the last that is.
    bags (b,) : digests of closed bags, to know their rows again.
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
        demand(self.bags.ndim == 1, "bags have more than a digest each")
        demand(self.feedback.ndim == 2 and self.feedback.shape[1] == 3, "feedback is not three numbers")
        for ids in (self.rows.entity, self.feedback[:, 1]):
            demand(not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < n), "rows of an entity that is not there")
        of_learnt = 0 if self.learnt is None else len(self.learnt.past.level)
        demand(of_learnt <= n, "more is learned than there are entities")


def empty_history(first: int) -> History:
    """Before any rows; first is the first period that there will be."""
    none, table = np.empty(0, dtype=np.int64), np.empty((0, 0))
    rows = BagRows(none, none, none, table, table.astype(np.int16))
    return History(rows, None, none, first, first, first - 1, none, np.empty((0, 3), dtype=np.int64))


def rules_of(schema: Schema | None, calendar: Calendar, fdr: float = 0.1) -> Rules:
    """The rules of a watch with these periods."""
    units = np.empty(0, dtype=np.int64) if schema is None else schema.units
    return Rules(units, tuple(calendar.cycle_lengths[::-1]), fdr)


def start_learning(history: History, schema: Schema, rules: Rules) -> History:
    """The same with a schema, and nothing learned yet."""
    return replace(history, learnt=Learnt(schema, empty_past(rules), no_incidents(rules), empty_fleet(rules), 0))


def judge_open(
    history: History, learnt: Learnt, rules: Rules, calendar: Calendar, late: int
) -> tuple[History, list[JudgedPeriod]]:
    """Judge every open period, the earliest first, and close those that no late row can change; rows are in order."""
    rows, closes = history.rows, history.newest - late
    past, incidents, fleet = with_more(learnt.past, rules, len(history.begun)), learnt.incidents, learnt.fleet
    n_before, judged_periods, closed_learnt, n_closed = (
        learnt.n_before,
        [],
        None,
        int(np.searchsorted(rows.period, closes)),
    )
    starts = np.cumsum([0, *rules.cycles]).tolist()[:-1]
    for period, entity, x in _bags_by_period(rows, learnt.schema):
        if period >= closes and closed_learnt is None:
            closed_learnt = Learnt(learnt.schema, past, incidents, fleet, n_before)
        table = np.full((len(history.begun), x.shape[1]), np.nan)
        table[history.begun <= period, 0] = np.log(0.5)
        table[entity] = x
        phases = [
            int(own[0]) + start for own, start in zip(calendar.phases(np.array([period]))[::-1], starts, strict=True)
        ]
        feedback, of_period = np.zeros(len(table), np.int64), history.feedback[history.feedback[:, 2] == period]
        feedback[of_period[:, 1]] = of_period[:, 0]
        past, incidents, fleet, judged = advance(
            past, incidents, fleet, table, period, phases, n_before, rules, feedback
        )
        n_before += 1
        judged_periods.append(judged)
    new = replace(
        history,
        rows=rows.take(np.arange(n_closed, len(rows))),
        learnt=closed_learnt or learnt,
        closed=max(history.closed, closes - 1),
        bags=np.concatenate([history.bags, digests_of(rows.take(slice(n_closed)))[1]]),
        feedback=history.feedback[history.feedback[:, 2] >= closes],
    )
    return new, judged_periods


def _bags_by_period(rows: BagRows, schema: Schema) -> Iterator[tuple[int, Ints, Floats]]:
    """Each period that has rows: entities of its bags, and their summaries."""
    ends = np.flatnonzero(np.diff(rows.period, append=rows.period[-1:] + 1)) + 1
    start = 0
    for end in ends.tolist():
        part = rows.take(slice(start, end))
        starts = np.flatnonzero(np.diff(part.entity, prepend=-1))
        yield int(part.period[0]), part.entity[starts], summarise(schema, part, starts)
        start = end


def digests_of(rows: BagRows) -> tuple[Ints, Ints]:
    """Number of rows and digest of each bag, of rows in order: (b,), (b,)."""
    starts = np.flatnonzero((np.diff(rows.period, prepend=-1 << 60) != 0) | (np.diff(rows.entity, prepend=-1) != 0))
    sizes = np.diff(np.append(starts, len(rows)))
    return sizes, np.add.reduceat(rows.digest, starts) if len(starts) else rows.digest[:0]
