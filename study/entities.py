"""Entities over time: shops whose volume or mix changes, clean ones with cycles, and speakers that are taken over."""

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag import EntityMonitor
from study.data import DATA, THREADS
from study.harness import Section, Task, mean, table

N_SHOPS, N_DAYS, N_PRODUCTS = 90, 540, 5
FIRST_JUDGED = 60
START = np.datetime64("2025-01-06")
FAULTS = {"-80 %": (3, 450, 457), "to zero": (17, 462, 469), "mix": (31, 472, 479), "drift": (57, 480, 540)}
"""Shop, first day, and the day after the last."""
REPEATS = range(20)
CLEAN_DAYS = 180
HOURS, FIRST_HOUR = 24 * 7 * 6, 24 * 7 * 4


def make_shops(seed, n_days, faulty):
    """Rows of shops: products as shares of one, and an amount; volume and mix have a weekly season."""
    rng = np.random.default_rng(seed)
    day = np.arange(n_days)
    level = np.exp(rng.normal(np.log(80), 0.5, N_SHOPS))
    week = np.array([1.0, 0.95, 0.95, 1.0, 1.3, 1.6, 0.5])[day % 7]
    volume = level[:, None] * week
    mix = rng.dirichlet(np.full(N_PRODUCTS, 2.0), N_SHOPS)
    weekend = rng.dirichlet(np.full(N_PRODUCTS, 2.0), N_SHOPS)
    shares = np.where((day % 7 >= 5)[None, :, None], weekend[:, None], mix[:, None])
    if faulty:
        shop, first, last = FAULTS["-80 %"]
        lost = 0.8 * volume[shop, first:last]
        volume[shop, first:last] -= lost
        others = np.arange(N_SHOPS) != shop
        volume[others, first:last] *= 1 + lost / volume[others, first:last].sum(axis=0)
        shop, first, last = FAULTS["to zero"]
        volume[shop, first:last] = 0
        shop, first, last = FAULTS["mix"]
        shares[shop, first:last] = _changed(shares[shop, first:last], 0.5)
        shop, first, last = FAULTS["drift"]
        part = (np.arange(last - first) + 1)[:, None] / (last - first)
        shares[shop, first:last] = _changed(shares[shop, first:last], 0.5 * part)
    sizes = rng.negative_binomial(50, 50 / (50 + volume))
    which = np.repeat(np.arange(N_SHOPS * n_days), sizes.ravel())
    bounds = shares.reshape(-1, N_PRODUCTS).cumsum(axis=1)[which, :-1]
    product = (rng.random(len(which))[:, None] > bounds).sum(axis=1)
    amount = np.exp(rng.normal(0.3 * product, 0.4))
    return np.column_stack([np.eye(N_PRODUCTS)[product], amount]), which // n_days, which % n_days


def _changed(shares, part):
    """A part of all rows become of the product that has the least share."""
    return (1 - part) * shares + part * np.eye(N_PRODUCTS)[shares[0].argmin()]


def measure_shops(seed, n_days, faulty):
    """Days until each fault is flagged, and shares of clean lines that are flagged, or have p <= .1 and .01."""
    X, shop, day = make_shops(seed, n_days, faulty)
    monitor = EntityMonitor(random_state=seed, n_jobs=THREADS)
    lines = monitor.update(X, shop, START + day, since=START + FIRST_JUDGED)
    when = (lines.period - START) // np.timedelta64(1, "D")
    is_clean = np.ones(len(lines), dtype=bool)
    delays = {}
    for name, (own, first, last) in FAULTS.items() if faulty else ():
        during = (lines.entity == own) & (when >= first) & (when < last)
        is_clean[(lines.entity == own) & (when >= first)] = False
        days = when[during & lines.flagged]
        delays[name] = int(days[0] - first + 1) if len(days) else None
    return {"delays": delays, "lines": int(is_clean.sum()), **_shares(lines, is_clean)}


def _shares(lines, which):
    p = lines.p_value[which]
    return {
        "flagged": float(lines.flagged[which].mean()),
        "p <= .1": float(np.mean(p <= 0.1)),
        "p <= .01": float(np.mean(p <= 0.01)),
        "p <= .001": float(np.mean(p <= 0.001)),
    }


def measure_cycles(seed):
    """Clean entities by the hour, whose volume and values have daily and weekly cycles."""
    rng = np.random.default_rng(seed)
    hour = np.arange(HOURS)
    level = np.exp(rng.normal(np.log(12), 0.5, 40))
    phase = rng.uniform(0, 3, 40)
    daily = 1 + 0.8 * np.sin(2 * np.pi * (hour + phase[:, None]) / 24)
    weekly = np.where(hour // 24 % 7 >= 5, 0.5, 1.0)
    sizes = rng.poisson(level[:, None] * daily * weekly)
    which = np.repeat(np.arange(40 * HOURS), sizes.ravel())
    entity, at = which // HOURS, which % HOURS
    X = rng.normal(size=(len(which), 3)) + np.column_stack([daily.ravel()[which], weekly[at], entity % 5])
    monitor = EntityMonitor(every="1h", random_state=seed, n_jobs=THREADS)
    lines = monitor.update(
        X, entity, START + at.astype("timedelta64[h]"), since=START + np.timedelta64(FIRST_HOUR, "h")
    )
    return {"lines": len(lines), **_shares(lines, np.ones(len(lines), dtype=bool))}


def measure_speakers(seed):
    """AUC of takeovers: 9 speakers, 40 recordings of the past, 40 new, every tenth another speaker's."""
    given = np.load(DATA / "group" / "Speaker.npz")
    starts = np.searchsorted(given["group"], np.arange(len(given["speaker"]) + 1))
    rng = np.random.default_rng(seed)
    speakers = np.flatnonzero(np.bincount(given["speaker"]) >= 80)
    rows, entity, period = [], [], []
    odd = np.zeros((len(speakers), 80), dtype=bool)
    for place, speaker in enumerate(speakers):
        own = rng.permutation(np.flatnonzero(given["speaker"] == speaker))[:80]
        odd[place, 40 + place % 10 :: 10] = True
        for k in np.flatnonzero(odd[place]):
            other = rng.choice(speakers[speakers != speaker])
            own[k] = rng.choice(np.flatnonzero(given["speaker"] == other))
        for k, recording in enumerate(own):
            rows.append(np.arange(starts[recording], starts[recording + 1]))
            entity += [place] * len(rows[-1])
            period += [k] * len(rows[-1])
    times = START + np.array(period)
    monitor = EntityMonitor(random_state=seed, n_jobs=THREADS)
    X = given["X"][np.concatenate(rows)].astype(np.float64)
    lines = monitor.update(X, np.array(entity), times, since=START + 40)
    truth = odd[lines.entity, (lines.period - START) // np.timedelta64(1, "D")]
    columns = {"p_past": -lines.p_past, "p_peers": -lines.p_peers, "p_volume": -lines.p_volume, "p_value": -lines.score}
    return {name: float(roc_auc_score(truth, values)) for name, values in columns.items()}


def _tasks():
    tasks = {f"shops|{seed}": Task(measure_shops, (seed, N_DAYS, True)) for seed in range(3)}
    tasks |= {f"clean shops|{seed}": Task(measure_shops, (100 + seed, CLEAN_DAYS, False)) for seed in REPEATS}
    tasks |= {f"cycles|{seed}": Task(measure_cycles, (seed,)) for seed in range(3)}
    return tasks | {f"speakers|{seed}": Task(measure_speakers, (seed,)) for seed in REPEATS}


def _page(results):
    def of(kind):
        return [one for key, one in results.items() if key.split("|")[0] == kind]

    yield (
        f"{N_SHOPS} shops, {N_DAYS} days, {N_PRODUCTS} products, weekly seasons in volume and mix, judged from day"
        f" {FIRST_JUDGED} on at a false discovery rate of .1. One shop loses 80 % of its rows for a week, with the"
        " total preserved; one all; in one half of the rows become of its rarest product, at once; in one the same over"
        " 60 days. The day on which each is first flagged:\n"
    )
    yield table([one["delays"] for one in of("shops")])
    yield (
        f"Lines where nothing happens: {len(REPEATS)} copies of the shops without faults, {CLEAN_DAYS} days each, and"
        f" copies of 40 entities by the hour with daily and weekly cycles, {HOURS // 168} weeks each, judged from week"
        f" {FIRST_HOUR // 168 + 1} on:\n"
    )
    names = ("p <= .1", "p <= .01", "p <= .001")
    yield table(
        [
            {
                "data": kind,
                "copies": len(of(kind)),
                "lines": sum(one["lines"] for one in of(kind)),
                "flagged": round(sum(one["lines"] * one["flagged"] for one in of(kind))),
                **{name: mean([one[name] for one in of(kind)]) for name in names},
            }
            for kind in ("clean shops", "cycles")
        ]
    )
    yield "Speakers, every tenth new recording another speaker's, mean AUC and the least over draws:\n"
    own = of("speakers")
    yield table(
        [
            {"of": name, "mean": mean([one[name] for one in own]), "least": min(one[name] for one in own)}
            for name in own[0]
        ]
    )


ENTITIES_SECTION = Section("entities", "Entities over time", _tasks, _page)
