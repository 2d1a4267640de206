"""What a watch has learned of the fleet and of each entity, as values."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.models.watch_null import Null, empty_null

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
        n_summaries = len(self.n)
        demand(self.squares.shape == self.weights.shape == (N_SIZES, n_summaries), "squares without weights")
        demand(self.fourth.shape == (2, len(FADES), n_summaries), "fourth powers are not of all sums")
        demand(self.signal.shape[1:] == self.n.shape, "signal is not of all summaries")


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


@dataclass(frozen=True)
class Past(Learned):
    """What is learned of each of E entities.

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
        is_of_all = all(table.shape == self.level.shape for table in tables)
        is_of_all &= all(row.shape == self.level.shape[:1] for row in rows)
        demand(is_of_all and len(self.effects) == len(self.effect_n), "what is learned is not of all entities")


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
        return float(max(50, *(4 * cycle for cycle in self.cycles))) if self.cycles else 50.0

    @property
    def warm_up(self) -> int:
        """Periods that are only learned from."""
        return max(14, *self.cycles) if self.cycles else 14

    @property
    def level(self) -> float:
        """False discovery rate of a period; of periods shorter than a day, one as strict as for a whole day."""
        return self.fdr / (self.cycles[0] if len(self.cycles) > 1 else 1)


def empty_past(rules: Rules, n_entities: int = 0) -> Past:
    """Of entities of which nothing is known."""
    table, row, n_phases = np.zeros((n_entities, len(rules.units))), np.zeros(n_entities), sum(rules.cycles)
    sums, muted = (table,) * len(FADES), np.zeros(n_entities, dtype=bool)
    return Past(table, table, (table,) * n_phases, (row,) * n_phases, table, sums, muted)


def no_incidents(rules: Rules) -> OpenIncidents:
    """None at all."""
    none, table = np.empty(0, dtype=np.int64), np.empty((0, len(rules.units)))
    return OpenIncidents(none, none, none, none, none, np.empty(0), np.empty(0), table, table, table)


def empty_fleet(rules: Rules) -> Fleet:
    """Before any period."""
    s = len(rules.units)
    table, fourth, signal = np.zeros((N_SIZES, s)), np.zeros((2, len(FADES), s)), np.zeros((len(rules.cycles), s))
    return Fleet(table, table, signal, fourth, np.zeros(s), empty_null())


def joined(a: Any, b: Any) -> Any:
    """Values of the same class one behind the other."""
    if isinstance(a, Learned):
        names = [one.name for one in fields(a)]  # type: ignore[arg-type]  # a data class
        return type(a)(*(joined(getattr(a, name), getattr(b, name)) for name in names))
    return tuple(map(joined, a, b)) if isinstance(a, tuple) else np.concatenate([a, b])


def with_more(past: Past, rules: Rules, n_entities: int) -> Past:
    """The same with new entities at the end."""
    more = n_entities - len(past.level)
    result: Past = joined(past, empty_past(rules, more)) if more else past
    return result
