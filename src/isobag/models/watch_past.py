"""What a watch has learned of the fleet and of each entity, as values."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.models.watch_null import Null, empty_null

FADES = np.array([0.0, 2 / 3, 6 / 7, 13 / 14])
"""What sums of z keep from one period to the next: nothing, or that of about 3, 7 and 14 periods."""
N_SIZES = 24


@dataclass(frozen=True)
class Fleet(Learned):
    """What is learned of all entities.

    squares, weights (sizes, S) : squared errors times rows, and their number, at 1, 2, 4, 8, ... rows of a bag.
    signal : for each cycle (S,), variance of its effects in units of the error of one period.
    """

    squares: Floats
    weights: Floats
    signal: tuple[Floats, ...]
    null: Null

    def validate(self) -> None:
        """One shape of both tables."""
        demand(self.squares.shape == self.weights.shape and len(self.squares) == N_SIZES, "squares without weights")


@dataclass(frozen=True)
class Past(Learned):
    """What is learned of each of E entities.

    level, n (E, S) : usual summaries, and from how many periods.
    effects, effect_n : of each cycle (E, phases, S) and (E, phases).
    squares (E, S) : sum of squared errors in units of the fleet's.
    sums, weights (E, memories, S) : of z over several periods, and the variance that these have by chance.
    since, last (E,) : first period of the open incident, -1 for none, and the latest in which it was there.
    direction (E, S), remains (E,) : its z, and how much of it is still there.
    new_level, new_n (E, S) : what summaries are on average since then.
    periods, points, p (E,) : how many periods and rows it has, and its smallest p-value.
    muted (E,) : whether silence was dismissed, or the entity retired, until rows come again.
    """

    level: Floats
    n: Floats
    effects: tuple[Floats, ...]
    effect_n: tuple[Floats, ...]
    squares: Floats
    sums: Floats
    weights: Floats
    since: Ints
    last: Ints
    direction: Floats
    remains: Floats
    new_level: Floats
    new_n: Floats
    periods: Ints
    points: Ints
    p: Floats
    muted: Bools

    def validate(self) -> None:
        """As many entities and summaries everywhere."""
        demand(self.level.ndim == 2, "levels are not by entity and summary")
        n_entities, n_summaries = self.level.shape
        for name in ("n", "squares", "direction", "new_level", "new_n"):
            demand(getattr(self, name).shape == self.level.shape, f"{name} is not of all entities")
        for name in ("since", "last", "remains", "periods", "points", "p", "muted"):
            demand(getattr(self, name).shape == (n_entities,), f"{name} is not of all entities")
        shape = (n_entities, len(FADES) - 1, n_summaries)
        demand(self.sums.shape == self.weights.shape == shape, "sums are not of all entities")
        demand(len(self.effects) == len(self.effect_n), "effects differ in their cycles")
        for effect, n in zip(self.effects, self.effect_n, strict=True):
            demand(effect.shape == (*n.shape, n_summaries) and len(n) == n_entities, "effects are not of all entities")


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
    e, s = n_entities, len(rules.units)
    table, row, sums = np.zeros((e, s)), np.zeros(e), np.zeros((e, len(FADES) - 1, s))
    effects = tuple(np.zeros((e, cycle, s)) for cycle in rules.cycles)
    effect_n, none = tuple(np.zeros((e, cycle)) for cycle in rules.cycles), np.full(e, -1)
    zero = np.zeros(e, dtype=np.int64)
    incident = (none, none, table, row, table, table, zero, zero, np.ones(e), np.zeros(e, dtype=bool))
    return Past(table, table, effects, effect_n, table, sums, sums, *incident)


def empty_fleet(rules: Rules) -> Fleet:
    """Before any period."""
    table, signal = np.zeros((N_SIZES, len(rules.units))), tuple(np.zeros(len(rules.units)) for _ in rules.cycles)
    return Fleet(table, table, signal, empty_null(2 * len(FADES)))


def with_more(past: Past, rules: Rules, n_entities: int) -> Past:
    """The same with new entities at the end."""
    new = empty_past(rules, n_entities - len(past.since))

    def join(a: Any, b: Any) -> Any:
        return tuple(map(join, a, b)) if isinstance(a, tuple) else np.concatenate([a, b])

    return Past(*(join(getattr(past, one.name), getattr(new, one.name)) for one in fields(Past)))
