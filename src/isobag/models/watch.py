"""Entities over time: what is expected of each, and how far from it a period is.

A bag, the rows of an entity in a period, is a row of summaries x (S,). Expected is the entity's level, plus its effects
of the week and of the day as far as the past carries them. What all entities have in common in a period is allowed for,
and the rest, in units of the fleet's and the entity's own errors of prediction, is z. Levels, effects, spreads and the
null distribution are learned one period after another: a period is judged by those before it, whatever came in one file.

Evidence of a period is mean(log(1 + z^2)) + log(1 + max z^2) / 2; likewise of z summed up over about 3, 7 and 14
periods, so that moderate shifts add up. Its p-value is its rank among past evidence of all entities.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.models.watch_null import Null, add_evidence, benjamini_hochberg, empty_null, p_values

MEMORIES = (1.0, 1 / 3, 1 / 7, 1 / 14)
"""Weight of the newest period in sums of z: a period alone, and about 3, 7 and 14 of them."""
PRIOR = 10.0
"""Periods of an entity's own that weigh as much as the fleet's spread."""
CERTAIN = 1000.0
"""z of what never changed before, in any entity."""
MIN_PAST = 3
_CLIP, _N_SIZES = 3.0, 24


@dataclass(frozen=True)
class Fleet(Learned):
    """What is learned of all entities: squared errors by size of bag (sums and weights), and the null distribution.

    squares, weights : (sizes, S), at 1, 2, 4, 8, ... rows.
    signal : for each cycle (S,), variance of its effects in units of the error of one period.
    """

    squares: Floats
    weights: Floats
    signal: tuple[Floats, ...]
    null: Null


@dataclass(frozen=True)
class Past(Learned):
    """What is learned of each of E entities.

    level, n (E, S) : usual summaries, and from how many periods.
    effects, effect_n : of each cycle (E, phases, S) and (E, phases).
    squares (E, S) : sum of squared errors in units of the fleet's.
    sums, weights (E, memories - 1, S) : of z over several periods.
    map, map_n (E, D), (E,) : usual mean map.
    since (E,) : first period of the open incident, -1 if there is none; last : the latest in which it was odd.
    direction, remains (E, S), (E,) : its mean z, and how much of it is still there.
    new_level, new_n (E, S) : what summaries are since then; periods (E,) of the incident, p (E,) its least p-value.
    muted (E,) : whether silence was dismissed, or the entity retired, until rows come again.
    """

    level: Floats
    n: Floats
    effects: tuple[Floats, ...]
    effect_n: tuple[Floats, ...]
    squares: Floats
    sums: Floats
    weights: Floats
    map: Floats
    map_n: Floats
    since: Ints
    last: Ints
    direction: Floats
    remains: Floats
    new_level: Floats
    new_n: Floats
    periods: Ints
    p: Floats
    muted: Bools

    def validate(self) -> None:
        """As many entities and summaries everywhere."""
        demand(self.level.ndim == 2, "levels are not by entity and summary")
        n_entities, n_summaries = self.level.shape
        for name in ("n", "squares", "direction", "new_level", "new_n"):
            demand(getattr(self, name).shape == self.level.shape, f"{name} is not of all entities")
        for name in ("map_n", "since", "last", "remains", "periods", "p", "muted"):
            demand(getattr(self, name).shape == (n_entities,), f"{name} is not of all entities")
        shape = (n_entities, len(MEMORIES) - 1, n_summaries)
        demand(self.sums.shape == self.weights.shape == shape, "sums are not of all entities")
        demand(self.map.ndim == 2 and len(self.map) == n_entities, "maps are not of all entities")
        demand(len(self.effects) == len(self.effect_n), "effects differ in their cycles")
        for effect, n in zip(self.effects, self.effect_n, strict=True):
            demand(effect.shape == (*n.shape, n_summaries) and len(n) == n_entities, "effects are not of all entities")


class Layout(NamedTuple):
    """What summaries are: the first is log(rows + 1/2).

    unit (S,) : number of the summary whose level is the log of this one's unit, -1 for none.
    floor (S,) : least standard error.
    shape : number of the summary that is the distance of mean maps, -1 for none.
    """

    unit: Ints
    shape: int
    n_map: int

    @property
    def n_summaries(self) -> int:
        return len(self.unit)


class Rules(NamedTuple):
    """cycles : phases of each cycle; memory : periods over which the past fades; warm_up : periods only learned."""

    cycles: tuple[int, ...]
    fdr: float = 0.1

    @property
    def memory(self) -> float:
        return float(max((MEMORY, *(4 * one for one in self.cycles))))

    @property
    def warm_up(self) -> int:
        return max((14, *(one for one in self.cycles)))


class Verdict(NamedTuple):
    """What was found of a period: p_value (E,), NaN if not judged; z, expected, error (E, S); opened, in_incident, over (E,)."""

    p_value: Floats
    z: Floats
    x: Floats
    expected: Floats
    error: Floats
    common: Floats
    n_common: int
    opened: Bools
    in_incident: Bools
    over: Bools


def empty_past(layout: Layout, rules: Rules, n_entities: int = 0) -> Past:
    """Of entities of which nothing is known."""
    e, s = n_entities, layout.n_summaries
    table = np.zeros((e, s))
    return Past(
        table, table, tuple(np.zeros((e, c, s), np.float32) for c in rules.cycles),
        tuple(np.zeros((e, c), np.float32) for c in rules.cycles), table,
        np.zeros((e, len(MEMORIES) - 1, s), np.float32), np.zeros((e, len(MEMORIES) - 1, s), np.float32),
        np.zeros((e, layout.n_map), np.float32), np.zeros(e),
        np.full(e, -1, np.int64), np.full(e, -1, np.int64), table, np.zeros(e), table, table,
        np.zeros(e, np.int64), np.ones(e), np.zeros(e, bool),
    )  # fmt: skip


def empty_fleet(layout: Layout, rules: Rules) -> Fleet:
    """Before any period."""
    table = np.zeros((_N_SIZES, layout.n_summaries))
    return Fleet(table, table, tuple(np.zeros(layout.n_summaries) for _ in rules.cycles), empty_null(2 * len(MEMORIES)))


def with_more(past: Past, layout: Layout, rules: Rules, n_entities: int) -> Past:
    """The same with new entities at the end."""
    new = empty_past(layout, rules, n_entities - len(past.since))

    def join(a, b):
        return tuple(map(join, a, b)) if isinstance(a, tuple) else np.concatenate([a, b])

    return Past(*(join(getattr(past, name), getattr(new, name)) for name in past.__dataclass_fields__))


def advance(
    past: Past, fleet: Fleet, period: int, phases: tuple[int, ...], x: Floats, maps: Floats, n_seen: int,
    layout: Layout, rules: Rules, dismissed: Bools, accepted: Bools, retired: Bools,
) -> tuple[Past, Fleet, Verdict]:  # fmt: skip
    """Judge a period by the past, then learn from it.

    x (E, S) : summaries, NaN where there is none; the first is log(rows + 1/2), NaN where the entity does not count.
    maps (E, D) : mean maps, NaN for none.  n_seen : periods before this one.
    """
    x = x.copy()
    if layout.shape >= 0:
        with np.errstate(divide="ignore"):
            distance = np.log(((maps - past.map) ** 2).sum(axis=1) + 1e-6)
        x[:, layout.shape] = np.where(past.map_n > MIN_PAST, distance, np.nan)
    memory = rules.memory
    unit = units_of(past, layout)
    steps, shrunk = [], []
    expected = past.level
    for effect, n, signal, phase in zip(past.effects, past.effect_n, fleet.signal, phases, strict=True):
        n_phase = n[:, phase, None]
        weight = n_phase * signal / (n_phase * signal + 1)
        steps.append(effect[:, phase])
        shrunk.append(weight**2 / np.maximum(n_phase, 1))
        expected = expected + weight * effect[:, phase]
    error_of_x = (x - expected) / unit
    rows = np.exp(x[:, :1]) - 0.5
    usual_rows = np.exp(expected[:, :1]) - 0.5
    size = np.log2(np.maximum(np.where(np.arange(x.shape[1]) == 0, usual_rows, rows), 1.0))
    size = np.clip(np.nan_to_num(size), 0, _N_SIZES - 2)
    fleet_variance = variance_of(fleet, size)
    own = (PRIOR + past.squares) / (PRIOR + past.n)
    widened = 1 + 1 / np.maximum(past.n, 1) + sum(shrunk)
    error = np.sqrt(fleet_variance * own * widened)
    error[:, 0] = np.maximum(error[:, 0], 0.5 / np.sqrt(np.maximum(usual_rows[:, 0], 0) + 0.5))
    is_ready = past.n >= MIN_PAST
    is_free = (past.since < 0) & ~past.muted
    common, n_common = common_of(error_of_x, error, is_ready & is_free[:, None] & np.isfinite(error_of_x))
    rest = error_of_x - np.clip(error_of_x, np.minimum(common, 0), np.maximum(common, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = rest / error
    z = np.where(np.abs(rest) <= 1e-6, 0.0, np.where(error > 0, z, np.sign(rest) * CERTAIN))
    has_scale = (error > 0) | ((n_seen >= rules.warm_up) & (np.abs(rest) > 1e-6))
    z = np.where(is_ready & has_scale & np.isfinite(rest), np.clip(z, -CERTAIN, CERTAIN), np.nan)
    is_closed = (rows[:, 0] < 0.25) & (usual_rows[:, 0] < 0.5)
    z[is_closed] = np.nan
    is_judged = ~np.isnan(z[:, 0]) & ~past.muted

    # evidence
    is_there = ~np.isnan(z)
    plain = np.where(is_there, z, 0.0)
    fade = 1 - np.array(MEMORIES[1:])[:, None]
    sums = past.sums * fade + plain[:, None]
    weights = past.weights * fade**2 + is_there[:, None]
    total = (1 - np.sqrt(np.maximum(1 - weights * (1 - fade**2), 0))) / (1 - fade)
    drag = total**2 / np.maximum(past.n, 1)[:, None]  # the level's own error stays the same while it lasts
    spans = np.concatenate([z[:, None], np.where(is_there[:, None], sums / np.sqrt(np.maximum(weights + DRAG * drag, 1)), np.nan)], axis=1)
    evidence = np.full((len(z), 2 * len(MEMORIES)), np.nan)
    evidence[is_judged] = evidence_of(spans[is_judged])
    group = np.clip(np.log2(np.maximum(usual_rows[:, 0], 0.5)) // 2 + 1, 0, 3).astype(np.int64)
    p, kind = p_values(fleet.null, evidence, group, n_seen)
    p = np.where(is_judged & (n_seen >= rules.warm_up), p, np.nan)

    # incidents
    is_open = past.since >= 0
    can_open = ~np.isnan(p) & ~is_open & ~dismissed & ~accepted & ~retired
    opened = benjamini_hochberg(p, can_open, rules.fdr / max(1, min([c for c in rules.cycles if c > 7] or [1])))
    top_span = kind % len(MEMORIES)
    chosen = spans[np.arange(len(z)), top_span]
    direction = np.where(opened[:, None], np.clip(np.nan_to_num(chosen * np.sqrt(np.array([1, 0.2, 1/13, 1/27]))[top_span, None]), -30, 30), past.direction)
    clear = np.where(np.abs(direction) >= np.abs(direction).max(axis=1, keepdims=True) / 2, direction, 0.0)
    still = np.clip(plain, -30, 30) * clear
    power = np.where(is_there, clear**2, 0).sum(axis=1)
    share = np.clip(still.sum(axis=1) / np.maximum(power, 1e-9), -1, 2)
    share = np.where(power > 0, share, past.remains)
    remains = np.where(opened, 1.0, past.remains + (share - past.remains) / 3)
    over = is_open & ((remains < END) | dismissed | accepted | retired)
    inside = opened | (is_open & ~over)
    odd_today = opened | (inside & (share > 0.5))
    periods = np.where(opened, 1, past.periods + inside)
    gain = np.where(opened, 0.0, 1 / np.maximum(periods, 1))[:, None]
    direction = np.where(is_open[:, None] & is_there, direction + gain * (np.clip(plain, -30, 30) - direction), direction)
    new_n = np.where(opened[:, None], 0, past.new_n)
    new_n = new_n + (inside[:, None] & ~np.isnan(x))
    new_level = np.where(inside[:, None] & ~np.isnan(x), past.new_level * (new_n > 1) + (np.nan_to_num(x) - past.new_level * (new_n > 1)) / np.maximum(new_n, 1), past.new_level)

    # learning
    learns = ~inside & ~past.muted & ~retired
    seen = learns[:, None] & ~np.isnan(x)
    limit = np.where(is_ready & (error > 0), _CLIP * error, np.inf) * unit
    count = np.where(seen, past.n + 1, past.n)
    gain = np.where(seen, 1 / np.clip(count, 1, memory), 0.0)
    left = np.where(seen, x - expected, 0.0)
    level = past.level + gain * np.clip(left, -limit, limit)
    effects, effect_n = [], []
    base = x - past.level
    for effect, n, phase, step, signal in zip(past.effects, past.effect_n, phases, steps, fleet.signal, strict=True):
        n = n.copy(); effect = effect.copy()
        n[:, phase] = np.minimum(n[:, phase] + (learns & is_ready[:, 0] & ~np.isnan(x[:, 0])), 12)
        g = np.where(seen & is_ready, 1 / np.maximum(n[:, phase, None], 1), 0.0)
        bound = np.where(n[:, phase, None] > 2, 2 * limit, np.inf)
        effect[:, phase] += g * np.clip(np.where(seen, base - step, 0.0), -bound, bound)
        effects.append(effect); effect_n.append(n)
        n_phase = n[:, phase, None]
        base = base - n_phase * signal / (n_phase * signal + 1) * step
    counts = is_ready & seen & np.isfinite(error_of_x)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = error_of_x**2 / widened
        ratio = np.where(counts & (fleet_variance > 0), np.minimum(squares / fleet_variance, _CLIP**2), 0.0)
    fades = np.where(counts & (past.n >= memory), 1 - 1 / memory, 1.0)
    own_squares = past.squares * fades + ratio
    fleet = learn_fleet(fleet, squares, size, counts, own, FLEET)
    not_inside = is_judged & ~is_open & (n_seen >= MIN_PAST + 1)
    fleet = replace(fleet, null=add_evidence(fleet.null, evidence, group, not_inside, n_seen))
    has_map = learns & ~np.isnan(maps).any(axis=1)
    map_n = past.map_n + has_map
    map_gain = np.where(has_map, 1 / np.clip(map_n, 1, memory), 0.0)[:, None]
    restart = (over | accepted)[:, None, None]
    result = Past(
        level, np.minimum(count, memory), tuple(effects), tuple(effect_n), own_squares,
        np.where(restart, 0, sums).astype(np.float32), np.where(restart, 0, weights).astype(np.float32),
        (past.map + map_gain * np.nan_to_num(maps - past.map)).astype(np.float32), map_n,
        np.where(opened, period, np.where(over, -1, past.since)),
        np.where(odd_today, period, past.last), direction, remains, new_level, new_n, periods,
        np.where(opened, p, np.where(is_open & ~np.isnan(p), np.minimum(past.p, np.nan_to_num(p, nan=1)), past.p)),
        past.muted & ~(rows[:, 0] > 0.25) | retired,
    )  # fmt: skip
    if n_seen % max((7, *rules.cycles[:1])) == 0:
        fleet = replace(fleet, signal=signals(result, fleet, layout))
    return result, fleet, Verdict(p, z, x, expected, error * unit, common, n_common, opened, inside, over)

END = 0.55
NOISE = 3.0
DRAG = 0.0
MEMORY = 50
FLEET = 50.0

def units_of(past: Past, layout: Layout) -> Floats:
    """Of locations the usual spread within a bag, else 1: (E, S)."""
    unit = np.exp(past.level[:, np.maximum(layout.unit, 0)])
    return np.where(layout.unit >= 0, unit, 1.0)


def variance_of(fleet: Fleet, size: Floats) -> Floats:
    """Squared errors that are usual for bags of 2^size rows: (E, S)."""
    total = fleet.weights.sum(axis=0)
    overall = fleet.squares.sum(axis=0) / np.maximum(total, 1)
    table = (fleet.squares + PRIOR * overall) / (fleet.weights + PRIOR)
    low = size.astype(np.int64)
    part = size - low
    columns = np.arange(size.shape[1])
    return (1 - part) * table[low, columns] + part * table[low + 1, columns]


def learn_fleet(fleet: Fleet, squares: Floats, size: Floats, counts: Bools, own: Floats, memory: float) -> Fleet:
    """Add squared errors of a period, with the farthest cut."""
    usual = variance_of(fleet, size) * own
    cut = np.where(usual > 0, np.minimum(squares / own, _CLIP**2 * usual), squares)
    low = size.astype(np.int64)
    part = size - low
    added, weight = np.zeros_like(fleet.squares), np.zeros_like(fleet.weights)
    for j in range(size.shape[1]):
        here = counts[:, j]
        for at, share in ((low[here, j], 1 - part[here, j]), (low[here, j] + 1, part[here, j])):
            added[:, j] += np.bincount(at, share * cut[here, j], _N_SIZES)
            weight[:, j] += np.bincount(at, share, _N_SIZES)
    fade = 1 - 1 / memory
    return replace(fleet, squares=fleet.squares * fade + added, weights=fleet.weights * fade + weight)


def signals(past, fleet, layout):
    """How much effects of each cycle vary beyond what chance makes of as many periods, in units of a period's error.

    Of many entities, some are looked at.
    """
    some = slice(None, None, 1 + len(past.n) // 2000)
    unit = units_of(past, layout)[some]
    own = ((PRIOR + past.squares) / (PRIOR + past.n))[some]
    result, base = [], past.level[some, None]
    for effect, n in zip(past.effects, past.effect_n, strict=True):
        effect, n = effect[some], n[some]
        base = base + effect
        rows = np.exp(np.minimum(base[..., 0], 50.0))
        size = np.clip(np.log2(np.maximum(rows, 1.0)), 0, _N_SIZES - 2)
        variance = variance_of(fleet, np.repeat(size.reshape(-1, 1), base.shape[2], axis=1)).reshape(effect.shape)
        variance = variance * own[:, None]
        variance[..., 0] = np.maximum(variance[..., 0], 0.25 / (rows + 0.5))
        weight = np.minimum(n, 3.0) * (n >= 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = (effect - effect.mean(axis=1, keepdims=True)) / unit[:, None]
            ratio = np.where(variance > 0, centred**2 / variance, 0.0)
        beyond = np.einsum("ep,eps->s", weight, np.minimum(ratio, 1e4)) - (weight / np.maximum(n, 1)).sum()
        noise = NOISE * np.sqrt(2 * (weight**2 / np.maximum(n, 1) ** 2).sum())
        result.append(np.maximum(beyond - noise, 0.0) / max(float(weight.sum()), 1.0))
        base = base.mean(axis=1, keepdims=True) if False else past.level[some, None]
    return tuple(result)


def common_of(errors: Floats, scale: Floats, counts: Bools) -> tuple[Floats, int]:
    """What entities have in common in a period: the median error, less what chance makes of it: (S,)."""
    common = np.zeros(errors.shape[1])
    for j in range(errors.shape[1]):
        values = errors[counts[:, j], j]
        if len(values) >= 8:
            median = np.median(values)
            spread = 1.4826 * np.median(np.abs(values - median)) + 1e-12
            noise = 1.25 * spread / np.sqrt(len(values))
            common[j] = median * max(0.0, 1 - (2 * noise / median) ** 2) if median else 0.0
    n_moved = 0
    return common, n_moved


def evidence_of(z: Floats) -> Floats:
    """mean(log(1 + z^2)) + log(1 + max z^2) / 2 over summaries that are there: (E, memories, S) -> (E, memories)."""
    size = np.where(np.isnan(z), 0.0, np.abs(z))
    n = np.maximum((~np.isnan(z)).sum(axis=2), 1)
    return np.concatenate([np.log1p(size**2).sum(axis=2) / n, size.max(axis=2)], axis=1)
