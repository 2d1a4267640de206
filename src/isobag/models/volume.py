"""How many rows an entity should have in a period, and how odd another number is.

1. phase      the place of the period in the week, or in the day: the longest cycle that has come three times
2. level      L, mean rows a period of the entity, over the last twelve cycles, or over as many as 504 periods hold
3. season     S, mean rows of all entities at that phase, divided by that at all phases
4. expected   mu = (rows at that phase + 2 L S) / (periods at that phase + 2)
5. dispersion a in var = mu + a mu^2, from what was expected before with the same cycle, half the entity's own after
              ten periods; plus what ten periods cannot tell of mu, (a + 1 / mu) / periods
6. thinning   f = sum of (n - mu)^2 / sum of mu, at most 1, with the same shrinkage: where numbers vary less than those
              of a Poisson law, n / f and mu / f are compared
7. score      -log of the smaller tail of a negative binomial, twice; where the period before was off to the same
              side and not flagged, that of both periods' rows together if it is rarer, and either probability doubled

A period without rows of an entity counts as 0 from its first rows on. Only joined lines count, dismissed ones for
their own entity alone, and nothing is older than the twelve cycles. Of periods older than the 504 latest only those of
the same phase count: the work for one period has a bound, however long the past is.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.models.bags import MISSING, ORDINARY, PeriodLines

N_CYCLES, LEAST_CYCLES = 12, 3
MOST_PERIODS = 504
"""Periods that levels are from, in whole cycles: three weeks of hours."""
MOST_NEARBY, MOST_SAME_PHASE = 168, 52
"""Periods that a new one is compared with: so many of the latest, and of older ones of the same phase."""
_NO_CYCLE = 28
"""Periods that count where there is no cycle."""
_SHRINKAGE, _DISPERSION_SHRINKAGE = 2.0, 10.0
_LEAST_DISPERSION, _MOST_DISPERSION = 1e-4, 1e3
_LEAST_EXPECTED = 1e-3
_LEAST_THINNING = 0.02
_TINY = float(np.finfo(float).tiny)


class Forecast(NamedTuple):
    """Of all entities, (e,) each: expected rows, -1 if unknown, the dispersion, and the thinning."""

    expected: Floats
    dispersion: Floats
    thinning: Floats


class Chosen(NamedTuple):
    """Periods that count, in the order of time.

    places : (m,) of ints, among all periods.
    recent, same : (m,), those that levels are from, and those that have the phase of the present one.
    cycle : length of the cycle, 0 if none.
    """

    places: Ints
    recent: Bools
    same: Bools
    cycle: int


class Cycles(NamedTuple):
    """Of periods, the present one last: phases (cycles, periods), the longest cycle first, and the cycles' lengths."""

    phases: list[Ints]
    lengths: list[int]

    def part(self, places: Iterable[int]) -> "Cycles":
        """Those of some of the periods, and of the present one."""
        return Cycles([one[[*places, -1]] for one in self.phases], self.lengths)


def forecast(periods: Sequence[PeriodLines], cycles: Cycles, n_entities: int) -> Forecast:
    """What is to be expected of every entity in the present period, from all before."""
    chosen = choose_periods(len(periods), cycles)
    same = chosen.same
    kinds = np.array([chosen.recent, same])
    first = np.full(n_entities, len(same))
    rows, skipped = np.zeros((2, n_entities)), np.zeros((2, n_entities))
    totals = np.zeros(len(same))
    spread = _Spread(n_entities)
    past = [periods[place] for place in chosen.places.tolist()]
    any_alike = any(one.cycle == chosen.cycle and not one.changed for one in past)
    for place in range(len(past) - 1, -1, -1):
        period = past[place]
        joined, own = period.joined, period.entities
        sizes = np.where(joined, period.sizes, 0).astype(np.float64)
        first[own[sizes > 0]] = place
        for kind in np.flatnonzero(kinds[:, place]):
            rows[kind][own] += sizes
            skipped[kind][own] += ~joined
        totals[place] = sizes.sum()
        if not any_alike or (period.cycle == chosen.cycle and not period.changed):
            spread.add(period)
    spoken = first < len(past)
    since_first = np.column_stack([np.cumsum(kinds[:, ::-1], axis=1)[:, ::-1], [0, 0]])[:, first]
    n_periods, n_same = np.maximum(since_first[0] - skipped[0], 1), since_first[1] - skipped[1]
    level = rows[0] / n_periods
    season = 1.0
    if same.any() and totals[chosen.recent].sum() > 0:
        season = float(totals[chosen.recent & same].mean() / totals[chosen.recent].mean())
    expected = (rows[1] + _SHRINKAGE * level * season) / (n_same + _SHRINKAGE) if same.any() else level
    dispersion, thinning = spread.estimates(np.maximum(expected, _LEAST_EXPECTED))
    seen = np.minimum(n_periods, n_same + _SHRINKAGE) if same.any() else n_periods
    unsure = (dispersion + thinning / np.maximum(expected, _LEAST_EXPECTED)) / seen
    return Forecast(np.where(spoken & (expected > 0), expected, -1.0), dispersion + unsure, thinning)


class _Spread:
    """How far numbers of rows were from what was expected: of each entity, and of all but dismissed lines."""

    def __init__(self, n_entities: int) -> None:
        self.misfit, self.square, self.expected = np.zeros((3, n_entities))
        self.of_all = np.zeros(3)

    def add(self, period: PeriodLines) -> None:
        known = period.joined & (period.expected > 0)
        own, mu = period.entities[known], period.expected[known]
        parts = np.array([(period.sizes[known] - mu) ** 2 - mu, mu**2, mu])
        for total, part in zip((self.misfit, self.square, self.expected), parts, strict=True):
            total[own] += part
        self.of_all += parts[:, period.status[known] == ORDINARY].sum(axis=1)

    def estimates(self, mu: Floats) -> tuple[Floats, Floats]:
        """Dispersion and thinning of each entity, of which mu rows are expected: (e,) each."""
        misfit, square, expected = self.of_all
        pooled = float(np.clip(misfit / max(square, _TINY), _LEAST_DISPERSION, _MOST_DISPERSION))
        weight = _DISPERSION_SHRINKAGE * mu**2
        dispersion = (self.misfit + pooled * weight) / (self.square + weight)
        lacking = min(misfit / max(expected, _TINY), 0.0)
        weight = _DISPERSION_SHRINKAGE * mu
        thinning = 1 + (self.misfit + lacking * weight) / (self.expected + weight)
        return np.clip(dispersion, _LEAST_DISPERSION, _MOST_DISPERSION), np.clip(thinning, _LEAST_THINNING, 1.0)


def volume_scores(sizes: Ints, expected: Floats, dispersion: Floats, thinning: Floats | float = 1.0) -> Floats:
    """How odd numbers of rows are: (lines,), MISSING where nothing is expected."""
    known = expected > 0
    scores = np.full(len(sizes), MISSING)
    part = np.broadcast_to(thinning, sizes.shape)[known]
    n, mu, shape = sizes[known] / part, expected[known] / part, 1 / dispersion[known]
    share = shape / (shape + mu)
    up_to = betainc(shape, n + 1, share)
    from_on = np.where(n > 0, 1 - betainc(shape, np.maximum(n, 1), share), 1.0)
    far = from_on < 1e-6
    from_on[far] = betainc(np.maximum(n[far], 1), shape[far], 1 - share[far])
    scores[known] = -np.log(np.clip(2 * np.minimum(up_to, from_on), _TINY, 1.0))
    return scores


def run_scores(sizes: Ints, usual: Forecast, last: PeriodLines | None, entities: Ints) -> Floats:
    """The scores of lines (lines,), each by itself or together with that of the period before, whichever is odder.

    Only where both have too few rows, or both too many, and the one before was an ordinary line. Numbers of rows are
    taken for independent: where they are not, scores are ranked among such ones all the same.
    """
    mu, dispersion, thinning = (part[entities] for part in usual)
    alone = volume_scores(sizes, mu, dispersion, thinning)
    if last is None or not len(last):
        return np.where(alone > MISSING, np.maximum(alone - np.log(2), 0), alone)
    lines = last.places(entities)
    before, mu_before = last.sizes[lines], last.expected[lines]
    is_run = (lines >= 0) & (last.status[lines] == ORDINARY) & (mu > 0) & (mu_before > 0)
    is_run &= (sizes < mu) == (before < mu_before)
    total = np.where(is_run, mu + mu_before, -1.0)
    both = dispersion * (mu**2 + mu_before**2) / np.where(is_run, total, 1.0) ** 2
    together = volume_scores(sizes + before, total, np.where(is_run, both, 1.0), thinning)
    return np.where(alone > MISSING, np.maximum(np.maximum(alone, together) - np.log(2), 0), alone)


def same_phase(cycles: Cycles) -> Bools:
    """Which periods have the phase of the present one, in the longest cycle that has come three times: (periods,)."""
    for phases in cycles.phases:
        same: Bools = phases[:-1] == phases[-1]
        if np.count_nonzero(same) >= LEAST_CYCLES:
            return same
    return np.zeros(max((len(phases) - 1 for phases in cycles.phases), default=0), dtype=bool)


def nearby_periods(n_periods: int, cycles: Cycles) -> Bools:
    """Periods whose bags a new one is compared with: the latest, and older ones of its phase in the longest cycle."""
    near = np.arange(n_periods) >= n_periods - MOST_NEARBY
    for phases in cycles.phases[:1]:
        older = np.flatnonzero(~near & (phases[:-1] == phases[-1]))
        near[older[-MOST_SAME_PHASE:]] = True
    return near


def choose_periods(n_periods: int, cycles: Cycles) -> Chosen:
    """Periods that count, by the longest cycle that has come three times."""
    for phases, length in zip(cycles.phases, cycles.lengths, strict=True):
        places = np.arange(max(0, n_periods - N_CYCLES * length), n_periods)
        same = phases[places] == phases[-1]
        if np.count_nonzero(same) >= LEAST_CYCLES:
            recent = places >= n_periods - max(MOST_PERIODS // length, 1) * length
            kept = recent | same
            return Chosen(places[kept], recent[kept], same[kept], length)
    places = np.arange(max(0, n_periods - max([_NO_CYCLE, *cycles.lengths])), n_periods)
    return Chosen(places, np.ones(len(places), dtype=bool), np.zeros(len(places), dtype=bool), 0)
