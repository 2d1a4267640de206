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
    """The open incident of each of E entities.

    since, last (E,) : its first period, -1 for none, and the latest in which the deviation was there.
    periods, points, p (E,) : how many periods and rows it has, and its smallest p-value.
    remains (E,) : how much of the deviation is still there.
    direction, level, n (E, S) : mean z, mean summaries, and of how many periods these are.
    """

    since: Ints
    last: Ints
    periods: Ints
    points: Ints
    p: Floats
    remains: Floats
    direction: Floats
    level: Floats
    n: Floats

    def take(self, entities: Ints) -> "OpenIncidents":
        """Those of some entities."""
        return OpenIncidents(*(getattr(self, one.name)[entities] for one in fields(self)))


@dataclass(frozen=True)
class Past(Learned):
    """What is learned of each of E entities.

    level, n (E, S) : usual summaries, and from how many periods.
    effects (E, phases, S), effect_n (E, phases) : of the phases of all cycles, one cycle after another.
    squares (E, S) : sum of squared errors in units of the fleet's.
    sums (E, spans, S) : of z over several periods, each as large by chance as z.
    muted (E,) : whether silence was dismissed, or the entity retired, until rows come again.
    """

    level: Floats
    n: Floats
    effects: Floats
    effect_n: Floats
    squares: Floats
    sums: Floats
    muted: Bools
    incidents: OpenIncidents

    def validate(self) -> None:
        """As many entities and summaries everywhere."""
        e, s = self.level.shape
        phases, open_ = self.effect_n.shape[1:], self.incidents
        tables = self.n, self.squares, open_.direction, open_.level, open_.n
        rows = self.muted, open_.since, open_.last, open_.periods, open_.points, open_.p, open_.remains
        of_all = all(table.shape == (e, s) for table in tables) and all(row.shape == (e,) for row in rows)
        of_all &= self.sums.shape == (e, len(FADES), s) and self.effects.shape == (e, *phases, s)
        demand(of_all and len(self.effect_n) == e, "what is learned is not of all entities")


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
    e, s, phases = n_entities, len(rules.units), sum(rules.cycles)
    table, zero, none = np.zeros((e, s)), np.zeros(e, dtype=np.int64), np.full(e, -1)
    incidents = OpenIncidents(none, none, zero, zero, np.ones(e), np.zeros(e), table, table, table)
    effects, sums = (np.zeros((e, phases, s)), np.zeros((e, phases))), np.zeros((e, len(FADES), s))
    return Past(table, table, *effects, table, sums, np.zeros(e, dtype=bool), incidents)


def empty_fleet(rules: Rules) -> Fleet:
    """Before any period."""
    s = len(rules.units)
    table, fourth, signal = np.zeros((N_SIZES, s)), np.zeros((2, len(FADES), s)), np.zeros((len(rules.cycles), s))
    return Fleet(table, table, signal, fourth, np.zeros(s), empty_null())


def with_more(past: Past, rules: Rules, n_entities: int) -> Past:
    """The same with new entities at the end."""

    def join(a: Any, b: Any) -> Any:
        if isinstance(a, Learned):
            return type(a)(*(join(getattr(a, one.name), getattr(b, one.name)) for one in fields(a)))  # type: ignore[arg-type]
        return np.concatenate([a, b])

    result: Past = join(past, empty_past(rules, n_entities - len(past.level)))
    return result
