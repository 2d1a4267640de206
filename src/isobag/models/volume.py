"""How many rows an entity should have in a period, and how odd another number is.

1. phase      the place of the period in the week, or in the day: the longest cycle that has come three times
2. level      L, mean rows a period of the entity, over the last twelve cycles
3. season     S, mean rows of all entities at that phase, divided by that at all phases
4. expected   mu = (rows at that phase + 2 L S) / (periods at that phase + 2)
5. dispersion a in var = mu + a mu^2, from what was expected before with the same cycle, half the entity's own after
              ten periods; plus what ten periods cannot tell of mu, (a + 1 / mu) / periods
6. score      -log of the smaller tail of a negative binomial, twice

A period without rows of an entity counts as 0 from its first rows on. Only joined lines count, and nothing is older
than the twelve cycles.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.models.bags import MISSING, PeriodLines

N_CYCLES, LEAST_CYCLES = 12, 3
_NO_CYCLE = 28
"""Periods that count where there is no cycle."""
_SHRINKAGE, _DISPERSION_SHRINKAGE = 2.0, 10.0
_LEAST_DISPERSION, _MOST_DISPERSION = 1e-4, 1e3
_LEAST_EXPECTED = 1e-3
_TINY = float(np.finfo(float).tiny)


class Forecast(NamedTuple):
    """Of all entities, (e,) each: expected rows, -1 if unknown, and the dispersion."""

    expected: Floats
    dispersion: Floats


class Cycles(NamedTuple):
    """Of periods, the present one last: phases (cycles, periods), the longest cycle first, and the cycles' lengths."""

    phases: list[Ints]
    lengths: list[int]

    def part(self, places: Sequence[int]) -> "Cycles":
        """Those of some of the periods, and of the present one."""
        return Cycles([np.append(one[list(places)], one[-1]) for one in self.phases], self.lengths)


def forecast(periods: Sequence[PeriodLines], cycles: Cycles, n_entities: int) -> Forecast:
    """What is to be expected of every entity in the present period, from all before."""
    recent, same, cycle = choose_periods(len(periods), cycles)
    first = np.full(n_entities, len(recent))
    rows, skipped = np.zeros((2, n_entities)), np.zeros((2, n_entities))
    misfit, square = np.zeros(n_entities), np.zeros(n_entities)
    totals = np.zeros(len(recent))
    any_alike = any(periods[place].cycle == cycle and not periods[place].changed for place in recent)
    for place in range(len(recent) - 1, -1, -1):
        period = periods[recent[place]]
        joined, own = period.joined, period.entities
        sizes = np.where(joined, period.sizes, 0).astype(np.float64)
        first[own[sizes > 0]] = place
        for kind in (0, 1)[: 1 + bool(same[place])]:
            rows[kind][own] += sizes
            skipped[kind][own] += ~joined
        totals[place] = sizes.sum()
        if any_alike and (period.cycle != cycle or period.changed):
            continue
        known = joined & (period.expected > 0)
        mu, mine = period.expected[known], own[known]
        misfit[mine] += (period.sizes[known] - mu) ** 2 - mu
        square[mine] += mu**2
    spoken = first < len(recent)
    n_periods = np.maximum(len(recent) - first - skipped[0], 1)
    n_same = np.concatenate([np.cumsum(same[::-1])[::-1], [0]])[first] - skipped[1]
    level = rows[0] / n_periods
    season = 1.0
    if same.any() and totals.sum() > 0:
        season = float(totals[same].mean() / totals.mean())
    expected = (rows[1] + _SHRINKAGE * level * season) / (n_same + _SHRINKAGE) if same.any() else level
    pooled = float(np.clip(misfit.sum() / max(square.sum(), _TINY), _LEAST_DISPERSION, _MOST_DISPERSION))
    weight = _DISPERSION_SHRINKAGE * np.maximum(expected, _LEAST_EXPECTED) ** 2
    dispersion = np.clip((misfit + pooled * weight) / (square + weight), _LEAST_DISPERSION, _MOST_DISPERSION)
    seen = np.minimum(n_periods, n_same + _SHRINKAGE) if same.any() else n_periods
    unsure = (dispersion + 1 / np.maximum(expected, _LEAST_EXPECTED)) / seen
    return Forecast(np.where(spoken & (expected > 0), expected, -1.0), dispersion + unsure)


def volume_scores(sizes: Ints, expected: Floats, dispersion: Floats) -> Floats:
    """How odd numbers of rows are: (lines,), MISSING where nothing is expected."""
    known = expected > 0
    scores = np.full(len(sizes), MISSING)
    n, mu, shape = sizes[known].astype(np.float64), expected[known], 1 / dispersion[known]
    share = shape / (shape + mu)
    up_to = betainc(shape, n + 1, share)
    from_on = np.where(n > 0, 1 - betainc(shape, np.maximum(n, 1), share), 1.0)
    far = from_on < 1e-6
    from_on[far] = betainc(np.maximum(n[far], 1), shape[far], 1 - share[far])
    scores[known] = -np.log(np.clip(2 * np.minimum(up_to, from_on), _TINY, 1.0))
    return scores


def same_phase(cycles: Cycles) -> Bools:
    """Which periods have the phase of the present one, in the longest cycle that has come three times: (periods,)."""
    for phases in cycles.phases:
        same: Bools = phases[:-1] == phases[-1]
        if np.count_nonzero(same) >= LEAST_CYCLES:
            return same
    return np.zeros(max((len(phases) - 1 for phases in cycles.phases), default=0), dtype=bool)


def choose_periods(n_periods: int, cycles: Cycles) -> tuple[range, Bools, int]:
    """Periods that count, which of them have the phase of the present one, and the length of the cycle, 0 if none."""
    for phases, length in zip(cycles.phases, cycles.lengths, strict=True):
        recent = range(max(0, n_periods - N_CYCLES * length), n_periods)
        same = phases[recent.start : recent.stop] == phases[-1]
        if np.count_nonzero(same) >= LEAST_CYCLES:
            return recent, same, length
    recent = range(max(0, n_periods - max([_NO_CYCLE, *cycles.lengths])), n_periods)
    return recent, np.zeros(len(recent), dtype=bool), 0
