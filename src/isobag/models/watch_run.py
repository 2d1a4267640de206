"""A watch as a value: rows of open periods, what is learned of closed ones, and how one becomes the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.data.periods import Calendar
from isobag.models.watch import JudgedPeriod, advance
from isobag.models.watch_bags import BagRows, Schema, summarise
from isobag.models.watch_state import Rules, WatchState, empty_state


@dataclass(frozen=True)
class History(Learned):
    """Everything a watch knows.

    rows : of open periods, in order. schema, state : learned of closed periods; None during the warm-up.
    begun (E,) : first period of each entity. first, newest, closed : periods; closed is the last that is.
    bags (b,) : digests of closed bags, to know their rows again.
    feedback (w, 3) : of the user: what, entity and period.
    """

    rows: BagRows
    schema: Schema | None
    state: WatchState | None
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
        if self.schema is not None or self.state is not None:
            demand(self.schema is not None and self.state is not None, "what is learned has no schema")
            past = self.state.past
            demand(past.level.shape[1] == len(self.schema.summaries), "what is learned is of other summaries")
            demand(len(past.level) <= n, "more is learned than there are entities")


def empty_history(first: int) -> History:
    """Before any rows; first is the first period that there will be."""
    none, table = np.empty(0, dtype=np.int64), np.empty((0, 0))
    rows = BagRows(none, none, none, table, table.astype(np.int16))
    return History(rows, None, None, none, first, first, first - 1, none, np.empty((0, 3), dtype=np.int64))


def rules_of(schema: Schema | None, calendar: Calendar, fdr: float = 0.1) -> Rules:
    """The rules of a watch with these periods."""
    units = np.empty(0, dtype=np.int64) if schema is None else schema.units
    return Rules(units, tuple(calendar.cycle_lengths[::-1]), fdr)


def judge_open(
    history: History, schema: Schema, rules: Rules, calendar: Calendar, late: int
) -> tuple[History, list[JudgedPeriod]]:
    """Judge every open period, the earliest first, and close those that no late row can change; rows are in order."""
    rows, closes, judged, after_closed = history.rows, history.newest - late, [], None
    state = history.state or empty_state(rules)
    state = replace(state, past=state.past.grown(len(history.begun)))
    starts, n_closed = np.cumsum([0, *rules.cycles]), int(np.searchsorted(rows.period, closes))
    for period, entity, x in _bags_by_period(rows, schema):
        if period >= closes and after_closed is None:
            after_closed = state
        table = np.full((len(history.begun), x.shape[1]), np.nan)
        table[history.begun <= period, 0] = np.log(0.5)
        table[entity] = x
        places = calendar.phases(np.array([period]))[::-1]
        phases = [int(start + own[0]) for start, own in zip(starts, places, strict=False)]
        feedback, of_period = np.zeros(len(table), np.int64), history.feedback[history.feedback[:, 2] == period]
        feedback[of_period[:, 1]] = of_period[:, 0]
        state, judged_period = advance(state, table, period, phases, rules, feedback)
        judged.append(judged_period)
    bags = np.concatenate([history.bags, digests_of(rows.take(slice(n_closed)))[1]])
    feedback, closed = history.feedback[history.feedback[:, 2] >= closes], max(history.closed, closes - 1)
    rows = rows.take(np.arange(n_closed, len(rows)))
    new = History(
        rows, schema, after_closed or state, history.begun, history.first, history.newest, closed, bags, feedback
    )
    return new, judged


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
