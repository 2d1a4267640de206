"""Entities over time: what is expected of each, and how far from it a period is.

A bag, the rows of an entity in a period, is a row of summaries x (S,). Expected is the entity's level, plus its effects
of the day and the week as far as the past carries them. What all entities have in common in a period is allowed for,
and the rest, in units of the fleet's and the entity's own errors of prediction, is z. Levels, effects, spreads and the
null distribution are learned one period after another: each is judged by those before it, whatever came in one file.

Evidence of a period is the mean of log(1 + z^2), and the largest |z|; both also of z summed up over about 3, 7 and 14
periods, so that moderate shifts add up. The p-value is the rank of the smallest of these among past bags.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.models.watch_null import add_evidence, benjamini_hochberg, p_values
from isobag.models.watch_past import FADES, N_SIZES, Fleet, Past, Rules

ACCEPT, DISMISS, RETIRE = 1, 2, 3
PRIOR, MIN_PAST = 10.0, 3
"""Periods of an entity's own that weigh as much as the fleet's spread; and how many are needed to expect anything."""
CERTAIN = 1000.0
"""z of what never changed before, in any entity."""
_CLIP, _EXACT, _PHASE_MEMORY, _NOISE = 3.0, 1e-6, 12, 3.0
_FLEET_MEMORY, _MOST_Z, _IS_BACK = 50.0, 30.0, 0.55
_SIGNAL_ENTITIES = 2_000


class Details(NamedTuple):
    """Of entities that are in an incident, or no longer: since, last, p, bound, periods, points, is_over (k,).

    direction, new_level, expected, error (k, S).
    """

    entity: Ints
    since: Ints
    last: Ints
    p: Floats
    bound: Floats
    periods: Ints
    points: Ints
    is_over: Bools
    direction: Floats
    new_level: Floats
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
    size: Floats
    rows: Floats
    steps: list[Floats]
    weights: list[Floats]


def advance(
    past: Past,
    fleet: Fleet,
    x: Floats,
    period: int,
    phases: tuple[int, ...],
    n_before: int,
    rules: Rules,
    feedback: Ints,
) -> tuple[Past, Fleet, JudgedPeriod]:
    """Judge a period by the past, then learn from it.

    x (E, S) : summaries, NaN where there is none; the first is log(rows + 1/2), NaN before an entity's first period.
    phases : of the period in each cycle. n_before : periods learned from before. feedback (E,) : 0 for none.
    """
    expected = _expect(past, fleet, x, phases, rules)
    error_of_x = (x - expected.mean) / expected.unit
    is_ready, is_open = past.n >= MIN_PAST, past.since >= 0
    counts = is_ready & (~is_open & ~past.muted)[:, None] & np.isfinite(error_of_x)
    common, scatter = _common_of(error_of_x, counts)
    error = np.maximum(expected.error, scatter)
    rest = error_of_x - np.clip(error_of_x, np.minimum(common, 0), np.maximum(common, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.clip(np.where(error > 0, rest / error, np.sign(rest) * CERTAIN), -CERTAIN, CERTAIN)
    has_scale = (error > 0) | ((n_before >= rules.warm_up) & (np.abs(rest) > _EXACT))
    z = np.where(is_ready & has_scale & np.isfinite(rest), np.where(np.abs(rest) > _EXACT, z, 0.0), np.nan)
    is_silent = ~(x[:, 0] > 0)  # no rows: log(1/2)
    z[is_silent & (expected.rows < 0.5)] = np.nan  # closed, as usual
    is_judged = ~np.isnan(z[:, 0]) & ~past.muted

    is_there = ~np.isnan(z)[:, None]
    sums = past.sums * FADES[1:, None] + np.nan_to_num(z)[:, None]
    weights = past.weights * FADES[1:, None] ** 2 + is_there
    spans = np.concatenate([z[:, None], np.where(is_there, sums / np.sqrt(np.maximum(weights, 1)), np.nan)], axis=1)
    evidence = np.full((len(z), 2 * len(FADES)), np.nan)
    evidence[is_judged] = _evidence_of(spans[is_judged])
    group = np.clip(np.log2(np.maximum(expected.rows, 0.5)) // 2 + 1, 0, 3).astype(np.int64)
    p, kind, bound = p_values(fleet.null, evidence, group, n_before)
    p[~is_judged | (n_before < rules.warm_up)] = np.nan

    is_settled = feedback > 0
    opened = benjamini_hochberg(p, ~np.isnan(p) & ~is_open & ~is_settled, rules.level)
    span = kind % len(FADES)  # z of a shift, from a sum over a span
    chosen = np.nan_to_num(spans[np.arange(len(z)), span]) * np.sqrt((1 - FADES) / (1 + FADES))[span, None]
    incident, over, inside = _follow(past, x, z, p, opened, chosen, is_settled, period)

    learns = ~inside & ~past.muted & (feedback != RETIRE)
    level, n, effects, effect_n = _learn_levels(past, expected, x, phases, learns, rules)
    seen = learns[:, None] & is_ready & np.isfinite(error_of_x)
    squares = error_of_x**2 / expected.widened
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(seen & (expected.variance > 0), np.minimum(squares / expected.variance, _CLIP**2), 0.0)
    fades = np.where(seen & (past.n >= rules.memory), 1 - 1 / rules.memory, 1.0)
    restart = (over | is_settled)[:, None, None]
    n_since = np.where(is_open[:, None], past.new_n, 0.0)  # the new usual is what was since the incident began
    taken = (feedback == ACCEPT)[:, None] & ~np.isnan(x)
    new_level = (past.new_level * n_since + np.nan_to_num(x)) / (n_since + 1)
    new = replace(
        past,
        level=np.where(taken, new_level, level),
        n=np.where(taken, n_since + 1, n),
        effects=effects,
        effect_n=effect_n,
        squares=past.squares * fades + ratio,
        sums=np.where(restart, 0.0, sums),
        weights=np.where(restart, 0.0, weights),
        muted=((past.muted | (feedback == DISMISS)) & is_silent) | (feedback == RETIRE),
        **incident,
    )
    null = add_evidence(fleet.null, evidence, group, is_judged & ~is_open & (n_before > MIN_PAST), n_before)
    fleet = replace(_learn_fleet(fleet, expected, squares, seen), null=null)
    if n_before % max(7, *rules.cycles[:1], 1) == 0:
        fleet = replace(fleet, signal=_signals(new, fleet, rules))
    changed = counts & (np.abs(error_of_x) > 2 * expected.error) & (np.sign(error_of_x) == np.sign(common))
    at, since = np.flatnonzero(inside | over), np.where(opened, period, past.since)
    of_incidents = (since, new.last, new.p, bound, new.periods, new.points, over, new.direction, new.new_level)
    parts: Any = (own[at] for own in (*of_incidents, expected.mean, expected.error * expected.unit))
    return new, fleet, JudgedPeriod(period, _rows_of(x), p, inside, changed.sum(axis=0), Details(at, *parts))


def _rows_of(x: Floats) -> Ints:
    """Rows of bags from their first summary."""
    return np.rint(np.nan_to_num(np.exp(x[:, 0]) - 0.5)).astype(np.int64)


def _expect(past: Past, fleet: Fleet, x: Floats, phases: tuple[int, ...], rules: Rules) -> _Expected:
    mean, steps, weights, widened = past.level, [], [], 1 + 1 / np.maximum(past.n, 1)
    for effect, n, signal, phase in zip(past.effects, past.effect_n, fleet.signal, phases, strict=True):
        n_phase = n[:, phase, None]
        weights.append(n_phase * signal / (n_phase * signal + 1))
        steps.append(effect[:, phase])
        mean = mean + weights[-1] * steps[-1]
        widened = widened + weights[-1] ** 2 / np.maximum(n_phase, 1)
    rows = np.exp(np.minimum(mean[:, 0], _MOST_Z)) - 0.5
    size = np.repeat(_size_of(np.nan_to_num(np.exp(x[:, :1]) - 0.5)), mean.shape[1], axis=1)
    size[:, 0] = _size_of(rows)
    variance = _variance_of(fleet, size)
    scale = (PRIOR + past.squares) / (PRIOR + past.n)
    error = np.sqrt(variance * scale * widened)
    error[:, 0] = np.maximum(error[:, 0], _least_error(rows))
    return _Expected(mean, _units_of(past, rules), error, variance, scale, widened, size, rows, steps, weights)


def _units_of(past: Past, rules: Rules) -> Floats:
    """Of locations the usual spread within a bag, else 1: (E, S)."""
    return np.where(rules.units >= 0, np.exp(past.level[:, np.maximum(rules.units, 0)]), 1.0)


def _least_error(rows: Floats) -> Floats:
    """Half of what chance alone makes of log(rows + 1/2)."""
    return 0.5 / np.sqrt(np.maximum(rows, 0.0) + 0.5)


def _size_of(rows: Floats) -> Floats:
    return np.clip(np.log2(np.maximum(rows, 1.0)), 0, N_SIZES - 2)


def _variance_of(fleet: Fleet, size: Floats) -> Floats:
    """Squared errors that are usual for bags of 2^size rows: (E, S)."""
    overall = fleet.squares.sum(axis=0) / np.maximum(fleet.weights.sum(axis=0), 1)
    table = (fleet.squares + PRIOR * overall) / (fleet.weights + PRIOR)
    low = size.astype(np.int64)
    columns = np.arange(size.shape[1])
    between: Floats = table[low, columns] + (size - low) * (table[low + 1, columns] - table[low, columns])
    return between / 2.0**size


def _common_of(errors: Floats, counts: Bools) -> tuple[Floats, Floats]:
    """What entities have in common in a period: the median error, less what chance makes of it: (S,), (S,).

    And how far errors scatter around it where most of them moved.
    """
    common, scatter = np.zeros(errors.shape[1]), np.zeros(errors.shape[1])
    for j in range(errors.shape[1]):
        values = errors[counts[:, j], j]
        median = np.median(values) if len(values) >= 8 else 0.0
        if median:
            spread = 1.4826 * np.median(np.abs(values - median))
            noise = 1.25 * spread / np.sqrt(len(values))
            common[j] = median * max(0.0, 1 - (2 * noise / median) ** 2)
            scatter[j] = spread if abs(median) > spread else 0.0
    return common, scatter


def _evidence_of(z: Floats) -> Floats:
    """mean(log(1 + z^2)) and max |z| over summaries that are there: (E, memories, S) -> (E, 2 memories)."""
    size = np.abs(np.nan_to_num(z))
    n = np.maximum((~np.isnan(z)).sum(axis=2), 1)
    return np.concatenate([np.log1p(size**2).sum(axis=2) / n, size.max(axis=2)], axis=1)


def _follow(
    past: Past, x: Floats, z: Floats, p: Floats, opened: Bools, chosen: Floats, is_settled: Bools, period: int
) -> tuple[dict[str, Any], Bools, Bools]:
    """Incidents opened, continued and ended: fields of the past; which are over, and which entities are in one.

    An incident is over when the part of z along its direction is back: of the largest components, averaged over up to
    about three periods.
    """
    is_open, is_there = past.since >= 0, ~np.isnan(z)
    plain = np.clip(np.nan_to_num(z), -_MOST_Z, _MOST_Z)
    direction = np.where(opened[:, None], np.clip(chosen, -_MOST_Z, _MOST_Z), past.direction)
    clear = np.where(np.abs(direction) >= np.abs(direction).max(axis=1, keepdims=True, initial=0) / 2, direction, 0.0)
    power = np.where(is_there, clear**2, 0.0).sum(axis=1)
    share = np.clip((plain * clear).sum(axis=1) / np.maximum(power, 1e-9), -1, 2)
    share = np.where(power > 0, share, past.remains)
    speed = np.maximum(1 / 3, 1 - 9 / np.maximum(power, 9.0))  # a large shift that is back is over at once
    remains = np.where(opened, 1.0, past.remains + speed * (share - past.remains))
    over = is_open & ((remains < _IS_BACK) | is_settled)
    inside = opened | (is_open & ~over)
    periods = np.where(opened, 1, past.periods + inside)
    gain = np.where(is_open & inside, 1 / np.maximum(periods, 1), 0.0)[:, None]
    has_x = inside[:, None] & ~np.isnan(x)
    new_n = np.where(opened[:, None], 0.0, past.new_n) + has_x
    before = np.where(new_n > 1, past.new_level, 0.0)
    fields_of_incident = {
        "direction": direction + np.where(is_there, gain * (plain - direction), 0.0),
        "remains": remains,
        "since": np.where(opened, period, np.where(over, -1, past.since)),
        "last": np.where(opened | (inside & (share > 0.5)), period, past.last),
        "periods": periods,
        "points": np.where(opened, 0, past.points) + np.where(inside, _rows_of(x), 0),
        "p": np.where(opened, p, np.where(inside, np.fmin(past.p, p), past.p)),
        "new_n": new_n,
        "new_level": np.where(has_x, before + (np.nan_to_num(x) - before) / np.maximum(new_n, 1), past.new_level),
    }
    return fields_of_incident, over, inside


def _learn_levels(
    past: Past, expected: _Expected, x: Floats, phases: tuple[int, ...], learns: Bools, rules: Rules
) -> tuple[Floats, Floats, tuple[Floats, ...], tuple[Floats, ...]]:
    """Levels and effects with a period more: means, later fading ones, of errors cut at three times the usual."""
    seen = learns[:, None] & ~np.isnan(x)
    is_ready = past.n >= MIN_PAST
    limit = np.where(is_ready & (expected.error > 0), _CLIP * expected.error * expected.unit, np.inf)
    n = past.n + seen
    gain = np.where(seen, 1 / np.clip(n, 1, rules.memory), 0.0)
    level = past.level + gain * np.clip(np.where(seen, x - expected.mean, 0.0), -limit, limit)
    effects, effect_n, left = [], [], np.where(seen & is_ready, x - past.level, 0.0)
    for effect, n_phases, phase, step, weight in zip(
        past.effects, past.effect_n, phases, expected.steps, expected.weights, strict=True
    ):
        effect, n_phases = effect.copy(), n_phases.copy()  # noqa: PLW2901, changed in one phase
        n_phases[:, phase] = np.minimum(n_phases[:, phase] + (seen & is_ready)[:, 0], _PHASE_MEMORY)
        n_phase = n_phases[:, phase, None]
        bound = np.where(n_phase > 2, 2 * limit, np.inf)
        change = np.clip(left - step, -bound, bound) / np.maximum(n_phase, 1)
        effect[:, phase] += np.where(seen & is_ready, change, 0.0)
        left = left - weight * step
        effects.append(effect)
        effect_n.append(n_phases)
    return level, np.minimum(n, rules.memory), tuple(effects), tuple(effect_n)


def _learn_fleet(fleet: Fleet, expected: _Expected, squares: Floats, seen: Bools) -> Fleet:
    """Squared errors of a period added, the largest cut, each shared by the two nearest sizes."""
    usual = expected.variance * expected.scale
    cut = np.where(usual > 0, np.minimum(squares / expected.scale, _CLIP**2 * usual), squares)
    added, weight = np.zeros_like(fleet.squares), np.zeros_like(fleet.weights)
    low = expected.size.astype(np.int64)
    for j in range(cut.shape[1]):
        here = np.flatnonzero(seen[:, j])
        at, part = low[here, j], (expected.size - low)[here, j]
        values = cut[here, j] * 2.0 ** expected.size[here, j]
        for k, share in ((at, 1 - part), (at + 1, part)):
            added[:, j] += np.bincount(k, share * values, N_SIZES)
            weight[:, j] += np.bincount(k, share, N_SIZES)
    fade = 1 - 1 / _FLEET_MEMORY
    return replace(fleet, squares=fleet.squares * fade + added, weights=fleet.weights * fade + weight)


def _signals(past: Past, fleet: Fleet, rules: Rules) -> tuple[Floats, ...]:
    """How much effects of each cycle vary beyond what chance makes of as many periods, in units of a period's error."""
    part = slice(None, None, 1 + len(past.n) // _SIGNAL_ENTITIES)
    unit, scale = _units_of(past, rules)[part, None], ((PRIOR + past.squares) / (PRIOR + past.n))[part, None]
    result = []
    for effect, n in zip((one[part] for one in past.effects), (one[part] for one in past.effect_n), strict=True):
        rows = np.exp(np.minimum((past.level[part, None] + effect)[..., 0], _MOST_Z))
        size = np.repeat(_size_of(rows).reshape(-1, 1), effect.shape[2], axis=1)
        variance = _variance_of(fleet, size).reshape(effect.shape) * scale
        variance[..., 0] = np.maximum(variance[..., 0], _least_error(rows) ** 2)
        weight = np.minimum(n, 3.0) * (n >= 2)
        centred = (effect - effect.mean(axis=1, keepdims=True)) / unit
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(variance > 0, centred**2 / variance, 0.0)
        chance = weight / np.maximum(n, 1)
        beyond = np.einsum("ep,eps->s", weight, np.minimum(ratio, 1e4)) - chance.sum()
        beyond -= _NOISE * np.sqrt(2 * (chance**2).sum())
        result.append(np.maximum(beyond, 0.0) / max(float(weight.sum()), 1.0))
    return tuple(result)
