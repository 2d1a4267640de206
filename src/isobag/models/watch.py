"""Entities over time: what is expected of each, and how far from it a period is.

A bag, the rows of an entity in a period, is a row of summaries x (S,). Expected is the entity's level, plus its effects
of the day and the week as far as the past carries them. What all entities have in common in a period is allowed for,
and the rest, in units of the fleet's and the entity's own errors of prediction, is z. Levels, effects, spreads and the
null distribution are learned one period after another: each is judged by those before it, whatever came in one file.

Evidence of a period is the log of the mean of exp(.4 s^2) over all s: fading sums of z over about 1, 4 and 14 periods,
so that moderate shifts add up, in units of how far such sums go by chance. The p-value is its rank among past bags.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.models.watch_null import add_evidence, benjamini_hochberg, p_values
from isobag.models.watch_state import FADES, N_SIZES, Fleet, OpenIncidents, Past, Rules, WatchState

ACCEPT, DISMISS, RETIRE = 1, 2, 3
PRIOR, MIN_PAST = 10.0, 3
"""Periods of an entity's own that weigh as much as the fleet's spread; and how many are needed to expect anything."""
CERTAIN = 1000.0
"""z of what never changed before, in any entity."""
_CLIP, _EXACT, _PHASE_MEMORY, _NOISE = 3.0, 1e-6, 12, 3.0
_FLEET_MEMORY, _MOST_Z, _IS_BACK = 50.0, 30.0, 0.45
_SHARPNESS, _MOST_SUM, _CUT_SUM, _GAUSS, _TAIL_PRIOR = 0.3, 40.0, 3.0, 1.45, 100.0
_SAMPLE = 10_000


class Details(NamedTuple):
    """Incidents that are open, or no longer: bound of p-values, is_over (k,); expected, error (k, S)."""

    incidents: OpenIncidents
    bound: Floats
    is_over: Bools
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


class _Expected(NamedTuple):
    mean: Floats
    unit: Floats
    error: Floats
    variance: Floats
    scale: Floats
    widened: Floats
    rows: Floats
    weights: list[Floats]


def advance(
    state: WatchState, x: Floats, period: int, phases: list[int], rules: Rules, feedback: Ints
) -> tuple[WatchState, JudgedPeriod]:
    """Judge a period by the past, then learn from it.

    x (E, S) : summaries, NaN where there is none; the first is log(rows + 1/2), NaN before an entity's first period.
    phases : of the period, places in the effects. feedback (E,) : of the user, 0 for none.
    """
    past, before, fleet, n_before = state.past, state.incidents, state.fleet, state.n_before
    expected, is_open = _expect(past, fleet, x, phases, rules), np.zeros(len(x), dtype=bool)
    is_open[before.entity] = True
    shift = (x - expected.mean) / expected.unit
    is_ready, is_there = past.n >= MIN_PAST, np.isfinite(shift)
    counts = is_ready & is_there & (~is_open & ~past.muted)[:, None]
    common, scatter = _common_of(shift, counts)
    error = np.maximum(expected.error, scatter)
    rest = shift - np.clip(shift, np.minimum(common, 0), np.maximum(common, 0))
    is_silent, is_moved = ~(x[:, 0] > 0), np.abs(rest) > _EXACT  # no rows: log(1/2)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.clip(np.where(is_moved, rest / error, 0.0), -CERTAIN, CERTAIN)
    has_scale = (error > 0) | ((n_before >= rules.warm_up) & is_moved)
    is_closed = is_silent & (expected.rows[:, 0] < 0.5)  # as usual
    z[~(is_ready & has_scale & is_there) | is_closed[:, None]] = np.nan
    is_judged = ~np.isnan(z[:, 0]) & ~past.muted

    is_usual = is_judged & ~is_open & (n_before > MIN_PAST)
    sums, evidence, span, fourth, n = _add_up(past, fleet, z, is_usual)
    evidence[~is_judged] = np.nan
    group = np.clip(np.log2(np.maximum(expected.rows[:, 0], 0.5)) // 2 + 1, 0, 3).astype(np.int64)
    p, bound = p_values(fleet.null, evidence, group, n_before)
    p[n_before < rules.warm_up] = np.nan

    is_settled = feedback > 0
    opened = np.flatnonzero(benjamini_hochberg(p, ~np.isnan(p) & ~is_open & ~is_settled, rules.level))
    steps = np.sqrt((1 - FADES) / (1 + FADES))  # the shift that makes such a sum
    direction = np.zeros((len(opened), x.shape[1]))
    for own, k in zip(direction, opened, strict=True):
        own[:] = np.nan_to_num(z[k]) if span[k] == 0 else steps[span[k]] * sums[span[k]][k]
    incidents = before.and_new(opened, np.clip(direction, -_MOST_Z, _MOST_Z), period)
    incidents, over = _follow(incidents, x, z, p, is_settled, period)
    inside = np.zeros(len(x), dtype=bool)
    inside[incidents.entity[~over]] = True

    learns = ~inside & ~past.muted & (feedback != RETIRE)
    seen = learns[:, None] & is_ready & is_there
    new, squares = _learn(past, expected, x, shift, phases, learns, seen, rules)
    for k in np.flatnonzero(feedback == ACCEPT):  # the new usual is what was since the incident began
        n_since, level = (own[before.entity == k].sum(axis=0) for own in (before.n, before.level))
        is_x = ~np.isnan(x[k])
        new.level[k, is_x] = ((level * n_since + np.nan_to_num(x[k])) / (n_since + 1))[is_x]
        new.n[k, is_x] = n_since[is_x] + 1
    for own in sums:
        own[np.append(incidents.entity[over], np.flatnonzero(is_settled))] = 0.0
    muted = ((past.muted | (feedback == DISMISS)) & is_silent) | (feedback == RETIRE)
    new = replace(new, sums=sums, muted=muted)
    null = add_evidence(fleet.null, evidence, group, is_usual, n_before)
    fleet = replace(_learn_fleet(fleet, expected, squares, seen), null=null, fourth=fourth, n=n)
    if n_before % max(7, *rules.cycles[:1], 1) == 0:
        fleet = replace(fleet, signal=_signals(new, fleet, rules))
    changed = counts & (np.abs(shift) > 2 * expected.error) & (np.sign(shift) == np.sign(common))
    at = incidents.entity
    details = Details(incidents, bound[at], over, expected.mean[at], (expected.error * expected.unit)[at])
    judged = JudgedPeriod(period, _rows_of(x), p, inside, changed.sum(axis=0), details)
    return WatchState(new, incidents.take(~over), fleet, n_before + 1), judged


def _rows_of(x: Floats) -> Ints:
    """Rows of bags from their first summary."""
    return np.rint(np.nan_to_num(np.exp(x[:, 0]) - 0.5)).astype(np.int64)


def _expect(past: Past, fleet: Fleet, x: Floats, phases: list[int], rules: Rules) -> _Expected:
    mean, weights, widened = past.level, [], 1 + 1 / np.maximum(past.n, 1)
    for phase, signal in zip(phases, fleet.signal, strict=True):
        n = past.effect_n[phase][:, None]
        weights.append(n * signal / (n * signal + 1))
        mean = mean + weights[-1] * past.effects[phase]
        widened = widened + weights[-1] ** 2 / np.maximum(n, 1)
    rows = np.repeat(np.nan_to_num(np.exp(x[:, :1]) - 0.5), mean.shape[1], axis=1)
    rows[:, 0] = np.exp(np.minimum(mean[:, 0], _MOST_Z)) - 0.5
    variance = _variance_of(fleet, rows)
    scale = (PRIOR + past.squares) / (PRIOR + past.n)
    error = np.sqrt(variance * scale * widened)
    error[:, 0] = np.maximum(error[:, 0], _least_error(rows[:, 0]))
    return _Expected(mean, _units_of(past, rules), error, variance, scale, widened, rows, weights)


def _units_of(past: Past, rules: Rules) -> Floats:
    """Of locations the usual spread within a bag, else 1: (E, S)."""
    return np.where(rules.units >= 0, np.exp(past.level[:, np.maximum(rules.units, 0)]), 1.0)


def _least_error(rows: Floats) -> Floats:
    """Half of what chance alone makes of log(rows + 1/2)."""
    return 0.5 / np.sqrt(np.maximum(rows, 0.0) + 0.5)


def _places(rows: Floats) -> Ints:
    """Where bags of so many rows stand in the fleet's flat tables: (..., S)."""
    sizes = np.clip(np.rint(np.log2(np.maximum(rows, 1.0))), 0, N_SIZES - 1).astype(np.int64)
    return sizes * rows.shape[-1] + np.arange(rows.shape[-1])


def _variance_of(fleet: Fleet, rows: Floats) -> Floats:
    """Squared errors that are usual for bags of so many rows: (..., S)."""
    overall = fleet.squares.sum(axis=0) / np.maximum(fleet.weights.sum(axis=0), 1)
    table = (fleet.squares + PRIOR * overall) / (fleet.weights + PRIOR)
    result: Floats = table.ravel()[_places(rows)] / np.maximum(rows, 1.0)
    return result


def _common_of(errors: Floats, counts: Bools) -> tuple[Floats, Floats]:
    """What entities have in common in a period: the median error, less what chance makes of it: (S,), (S,).

    And how far errors scatter around it where most of them moved.
    """
    part = slice(None, None, 1 + len(errors) // _SAMPLE)
    common, scatter = np.zeros(errors.shape[1]), np.zeros(errors.shape[1])
    for j in range(errors.shape[1]):
        values = errors[part, j][counts[part, j]]
        median = np.median(values) if len(values) >= 8 else 0.0
        if median:
            spread = 1.4826 * np.median(np.abs(values - median))
            noise = 1.25 * spread / np.sqrt(len(values))
            common[j] = median * max(0.0, 1 - (2 * noise / median) ** 2)
            scatter[j] = spread if abs(median) > spread else 0.0
    return common, scatter


def _add_up(
    past: Past, fleet: Fleet, z: Floats, counts: Bools
) -> tuple[tuple[Floats, ...], Floats, Ints, Floats, Floats]:
    """Sums of z with a period more, their evidence (E,), the span that says most (E,), and what the fleet learns.

    By chance a sum is as large as z. How far it goes, by its fourth powers, is learned for each side: (2, spans, S).
    """
    is_there, known, fade = ~np.isnan(z), np.nan_to_num(z), 1 - 1 / _FLEET_MEMORY
    part = slice(None, None, 1 + len(z) // _SAMPLE)
    seen = counts[part, None] & is_there[part]
    tails = ((fleet.fourth + _TAIL_PRIOR * _GAUSS) / (fleet.n + _TAIL_PRIOR) / _GAUSS) ** 0.25
    sums, powers, fourth = [], [], fleet.fourth * fade
    for k, keep in enumerate(FADES):
        own = np.where(is_there, keep * past.sums[k] + np.sqrt(1 - keep**2) * known, past.sums[k])
        size = np.minimum(np.abs(own) / np.where(own > 0, tails[0, k], tails[1, k]), _MOST_SUM)
        powers.append(np.where(is_there, np.exp(_SHARPNESS * size**2), 0.0).sum(axis=1))
        fourth_power = np.where(seen, np.minimum(np.abs(own[part]), _CUT_SUM) ** 4, 0.0)
        fourth[0, k] += np.where(own[part] > 0, fourth_power, 0.0).sum(axis=0)
        fourth[1, k] += np.where(own[part] < 0, fourth_power, 0.0).sum(axis=0)
        sums.append(own)
    power, n = np.stack(powers), np.maximum(is_there.sum(axis=1) * len(FADES), 1)
    evidence = np.sqrt(np.log(np.maximum(power.sum(axis=0) / n, 1.0)))  # about as large as z, for exponential tails
    return tuple(sums), evidence, power.argmax(axis=0), fourth, fleet.n * fade + seen.sum(axis=0)


def _follow(
    past: OpenIncidents, x: Floats, z: Floats, p: Floats, is_settled: Bools, period: int
) -> tuple[OpenIncidents, Bools]:
    """Incidents with a period more, and which are over.

    An incident is over when the part of z along its direction is back: of the largest components, averaged over up to
    about three periods.
    """
    at, is_new = past.entity, (past.periods == 0)
    x, z, p = x[at], z[at], p[at]
    is_there, plain = ~np.isnan(z), np.clip(np.nan_to_num(z), -_MOST_Z, _MOST_Z)
    size = np.abs(past.direction)
    clear = np.where(size >= size.max(axis=1, keepdims=True, initial=0) / 2, past.direction, 0.0)
    power = np.where(is_there, clear**2, 0.0).sum(axis=1)
    share = np.clip((plain * clear).sum(axis=1) / np.maximum(power, 1e-9), -1, 2)
    share = np.where(power > 0, share, past.remains)
    speed = np.maximum(1 / 3, 1 - 9 / np.maximum(power, 9.0))  # a large shift that is back is over at once
    remains = np.where(is_new, 1.0, past.remains + speed * (share - past.remains))
    over = ~is_new & ((remains < _IS_BACK) | is_settled[at])
    periods = past.periods + ~over
    gain = np.where(is_new | over, 0.0, 1 / np.maximum(periods, 1))[:, None]
    has_x = ~over[:, None] & ~np.isnan(x)
    n = past.n + has_x
    incidents = replace(
        past,
        last=np.where(~over & (share > 0.5), period, past.last),
        periods=periods,
        points=past.points + np.where(over, 0, _rows_of(x)),
        p=np.where(over, past.p, np.fmin(past.p, p)),
        remains=remains,
        direction=past.direction + np.where(is_there, gain * (plain - past.direction), 0.0),
        level=np.where(has_x, past.level + (np.nan_to_num(x) - past.level) / np.maximum(n, 1), past.level),
        n=n,
    )
    return incidents, over


def _learn(
    past: Past, expected: _Expected, x: Floats, shift: Floats, phases: list[int], learns: Bools, seen: Bools,
    rules: Rules,
) -> tuple[Past, Floats]:  # fmt: skip
    """Levels and effects with a period more: means, later fading ones, of errors cut at three times the usual.

    And squared errors, of which the fleet learns.
    """
    is_added, is_ready = learns[:, None] & ~np.isnan(x), past.n >= MIN_PAST
    limit = np.where(is_ready & (expected.error > 0), _CLIP * expected.error * expected.unit, np.inf)
    n = past.n + is_added
    gain = np.where(is_added, 1 / np.clip(n, 1, rules.memory), 0.0)
    level = past.level + gain * np.clip(np.where(is_added, x - expected.mean, 0.0), -limit, limit)
    effects, effect_n = list(past.effects), list(past.effect_n)
    is_added, left = is_added & is_ready, x - past.level
    for phase, weight in zip(phases, expected.weights, strict=True):
        step, n_phase = effects[phase], np.minimum(effect_n[phase] + is_added[:, 0], _PHASE_MEMORY)
        bound = np.where(n_phase[:, None] > 2, 2 * limit, np.inf)
        change = np.clip(left - step, -bound, bound) / np.maximum(n_phase, 1)[:, None]
        effects[phase], effect_n[phase] = step + np.where(is_added, change, 0.0), n_phase
        left = left - weight * step
    squares = shift**2 / expected.widened
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(seen & (expected.variance > 0), np.minimum(squares / expected.variance, _CLIP**2), 0.0)
    fades = np.where(seen & (past.n >= rules.memory), 1 - 1 / rules.memory, 1.0)
    new = replace(
        past, level=level, n=np.minimum(n, rules.memory), effects=tuple(effects), effect_n=tuple(effect_n),
        squares=past.squares * fades + ratio,
    )  # fmt: skip
    return new, squares


def _learn_fleet(fleet: Fleet, expected: _Expected, squares: Floats, seen: Bools) -> Fleet:
    """Squared errors of a period added, the largest cut."""
    part = slice(None, None, 1 + len(seen) // _SAMPLE)
    scale, seen, squares, rows = (own[part] for own in (expected.scale, seen, squares, expected.rows))
    usual, fade = expected.variance[part] * scale, 1 - 1 / _FLEET_MEMORY
    cut = np.where(usual > 0, np.minimum(squares / scale, _CLIP**2 * usual), squares)
    values, places = (cut * np.maximum(rows, 1.0))[seen], _places(rows)[seen]
    added, weight = (
        np.bincount(places, own, fleet.squares.size).reshape(fleet.squares.shape) for own in (values, None)
    )
    return replace(fleet, squares=fleet.squares * fade + added, weights=fleet.weights * fade + weight)


def _signals(past: Past, fleet: Fleet, rules: Rules) -> Floats:
    """How much effects of each cycle vary beyond what chance makes of as many periods, in units of a period's error."""
    part = slice(None, None, 1 + len(past.n) // _SAMPLE)
    unit, scale = _units_of(past, rules)[part, None], ((PRIOR + past.squares) / (PRIOR + past.n))[part, None]
    result, starts = np.zeros(fleet.signal.shape), np.cumsum([0, *rules.cycles])
    for k, (start, end) in enumerate(pairwise(starts)):
        effect, n = (np.stack([one[part] for one in own[start:end]], 1) for own in (past.effects, past.effect_n))
        rows = np.exp(np.minimum((past.level[part, None] + effect)[..., :1], _MOST_Z))
        variance = _variance_of(fleet, np.repeat(rows, effect.shape[2], axis=2)) * scale
        variance[..., 0] = np.maximum(variance[..., 0], _least_error(rows[..., 0]) ** 2)
        weight = np.minimum(n, 3.0) * (n >= 2)
        centred = (effect - effect.mean(axis=1, keepdims=True)) / unit
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(variance > 0, centred**2 / variance, 0.0)
        chance = weight / np.maximum(n, 1)
        beyond = np.einsum("ep,eps->s", weight, np.minimum(ratio, 1e4)) - chance.sum()
        beyond -= _NOISE * np.sqrt(2 * (chance**2).sum())
        result[k] = np.maximum(beyond, 0.0) / max(float(weight.sum()), 1.0)
    return result
