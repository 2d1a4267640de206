"""What a watch has learned, as values: of each entity, of its open incident, and of the fleet."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.models.watch_null import Null

FADES = np.array([0.3, 0.7, 0.9])
"""What sums of z keep from one period to the next: they span about 1, 4 and 14 periods."""
N_SIZES = 24


@dataclass(frozen=True)
class Fleet(Learned):
    """What is learned of all entities.

    squares, weights (sizes, S) : squared errors times rows, and their number, at 1, 2, 4, 8, ... rows of a bag.
    signal (cycles, S) : variance of the effects of each cycle in units of the error of one period.
    fourth (2, spans, S), n (S,) : fourth powers of sums of z above 0, and below, and their number.
    """

    squares: Floats
    weights: Floats
    signal: Floats
    fourth: Floats
    n: Floats
    null: Null

    def validate(self) -> None:
        """Tables of the same summaries."""
        s = len(self.n)
        demand(self.squares.shape == self.weights.shape == (N_SIZES, s), "squares without weights")
        demand(self.fourth.shape == (2, len(FADES), s) and self.signal.shape[1:] == (s,), "sums are not of all")


@dataclass(frozen=True)
class OpenIncidents(Learned):
    """The k open incidents, of an entity each.

    since, last (k,) : its first period, and the latest in which the deviation was there.
    periods, points, p (k,) : how many periods and rows it has, and its smallest p-value.
    remains (k,) : how much of the deviation is still there.
    direction, level, n (k, S) : mean z, mean summaries, and of how many periods these are.
    """

    entity: Ints
    since: Ints
    last: Ints
    periods: Ints
    points: Ints
    p: Floats
    remains: Floats
    direction: Floats
    level: Floats
    n: Floats

    def take(self, incidents: Bools) -> "OpenIncidents":
        """Some of them."""
        return OpenIncidents(*(getattr(self, one.name)[incidents] for one in fields(self)))

    def and_new(self, entity: Ints, direction: Floats, period: int) -> "OpenIncidents":
        """These and then new ones, before their first period is added."""
        none, zero, one, since = np.zeros(direction.shape), 0 * entity, np.ones(len(entity)), period + 0 * entity
        new = entity, since, since, zero, zero, one, one, direction, none, none
        olds = (getattr(self, one.name) for one in fields(self))
        return OpenIncidents(*(np.concatenate(own) for own in zip(olds, new, strict=True)))


@dataclass(frozen=True)
class Past(Learned):
    """What is learned of each of E entities; 0 where nothing is.

    level, n (E, S) : usual summaries, and from how many periods.
    effects, effect_n : of each phase of all cycles, one cycle after another, (E, S) and (E,).
    squares (E, S) : sum of squared errors in units of the fleet's.
    sums : of z over each span (E, S), each as large by chance as z.
    muted (E,) : whether silence was dismissed, or the entity retired, until rows come again.
    """

    level: Floats
    n: Floats
    effects: tuple[Floats, ...]
    effect_n: tuple[Floats, ...]
    squares: Floats
    sums: tuple[Floats, ...]
    muted: Bools

    def validate(self) -> None:
        """As many entities and summaries everywhere."""
        demand(self.level.ndim == 2, "levels are not by entity and summary")
        tables, rows = (self.n, self.squares, *self.sums, *self.effects), (self.muted, *self.effect_n)
        is_of_all = all(table.shape == self.level.shape for table in tables) and len(self.sums) == len(FADES)
        is_of_all &= all(row.shape == self.level.shape[:1] for row in rows)
        demand(is_of_all and len(self.effects) == len(self.effect_n), "what is learned is not of all entities")

    def grown(self, n_entities: int) -> "Past":
        """The same with new entities at the end."""

        def padded(own: Any) -> Any:
            if isinstance(own, tuple):
                return tuple(map(padded, own))
            return np.concatenate([own, np.zeros((n_entities - len(own), *own.shape[1:]), own.dtype)])

        is_more = n_entities > len(self.level)
        return Past(*(padded(getattr(self, one.name)) for one in fields(self))) if is_more else self


@dataclass(frozen=True)
class WatchState(Learned):
    """All that is learned, from n_before periods."""

    past: Past
    incidents: OpenIncidents
    fleet: Fleet
    n_before: int

    def validate(self) -> None:
        """Incidents of entities that are there, in the same summaries."""
        (e, s), incidents = self.past.level.shape, self.incidents
        shapes = {getattr(incidents, one.name).shape for one in fields(incidents)}
        demand(shapes == {(len(incidents.entity),), (len(incidents.entity), s)}, "incidents differ in length")
        demand(not ((incidents.entity < 0) | (incidents.entity >= e)).any(), "an incident of no entity")
        demand(self.fleet.n.shape == (s,), "the fleet has other summaries")


class Rules(NamedTuple):
    """How a watch learns and alarms.

    units (S,) : for each summary, which one's level is the log of its unit; -1 for none.
    cycles : periods of a day and of a week, as far as these are several.
    """

    units: Ints
    cycles: tuple[int, ...]
    fdr: float = 0.1

    @property
    def memory(self) -> float:
        """Periods over which the past fades."""
        return float(max(50, 50, *(4 * cycle for cycle in self.cycles)))

    @property
    def warm_up(self) -> int:
        """Periods that are only learned from."""
        return max(14, 14, *self.cycles)

    @property
    def level(self) -> float:
        """False discovery rate of a period; of periods shorter than a day, one as strict as for a whole day."""
        return self.fdr / (self.cycles[0] if len(self.cycles) > 1 else 1)


def empty_state(rules: Rules) -> WatchState:
    """Before any period."""
    s, n_phases = len(rules.units), sum(rules.cycles)
    table, row, none, sizes = np.zeros((0, s)), np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((N_SIZES, s))
    sums, muted = (table,) * len(FADES), np.zeros(0, dtype=bool)
    past = Past(table, table, (table,) * n_phases, (row,) * n_phases, table, sums, muted)
    incidents = OpenIncidents(none, none, none, none, none, row, row, table, table, table)
    fourth, signal = np.zeros((2, len(FADES), s)), np.zeros((len(rules.cycles), s))
    return WatchState(past, incidents, Fleet(sizes, sizes, signal, fourth, np.zeros(s), Null(row, none, none, none)), 0)
