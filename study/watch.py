"""Watches on made-up logs and on recordings of speakers: days until a fault is found, and false incidents.

``python -m study.watch [SEEDS]`` prints the tables of REPORT_WATCH.md, ``python -m study.watch scale`` times 10,000,000
rows of 100,000 entities. The rival is a robust z of the entity's daily mean against its first 60 days, averaged over 7
days times their root, above 5.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import isobag
from study.data import DATA

START = 60
FAULTS = {
    "amount x 1.5": {"factor": 1.5},
    "amount x 1.25": {"factor": 1.25},
    "amount x 2": {"factor": 2.0},
    "drift to +80 %": {"factor": 1.8, "drift": 60, "days": 130},
    "missing 3 to 30 %": {"missing": 0.3},
    "card 60 to 30 %": {"card": 0.3},
    "volume -80 %, weekly": {"volume": 0.2, "is_weekly": True},
    "silence, weekly": {"volume": 0.0, "is_weekly": True},
    "clean": {},
    "clean, weekly": {"is_weekly": True},
}


def make_log(seed, days=100, entities=40, factor=1.0, drift=0, missing=0.03, card=0.6, volume=1.0, is_weekly=False):
    """Rows of 40 accounts, 19 to 33 a day or with weekly cycles; account 0 is odd from day 60 on."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(19, 34, (entities, days))
    if is_weekly:
        week = rng.uniform(0.4, 1.6, (entities, 7))[:, np.arange(days) % 7]
        counts = rng.poisson(rng.uniform(20, 60, entities)[:, None] * week)
    counts[0, START:] = rng.binomial(counts[0, START:], volume)
    account = np.repeat(np.arange(entities), counts.sum(axis=1))
    day = np.concatenate([np.repeat(np.arange(days), own) for own in counts])
    is_odd = (account == 0) & (day >= START)
    grown = np.clip((day - START + 1) / drift, 0, 1) if drift else 1.0
    amount = rng.lognormal(rng.uniform(3, 4, entities)[account], 0.5) * np.where(is_odd, 1 + (factor - 1) * grown, 1.0)
    amount[rng.random(len(day)) < np.where(is_odd, missing, 0.03)] = np.nan
    p_card, u = np.where(is_odd, card, 0.6), rng.random(len(day))
    pay = np.where(u < p_card, "card", np.where(u < p_card + (1 - p_card) * 0.7, "cash", "check"))
    time = pd.Timestamp("2026-01-01") + pd.to_timedelta(day * 86_400 + rng.integers(0, 86_400, len(day)), unit="s")
    return pd.DataFrame({"account": account, "time": time, "amount": amount, "pay": pay})


def first_and_number(flagged):
    """First flagged day from the fault on, and how many are."""
    days = np.flatnonzero(flagged)
    return (int(days[0]) + 1 if len(days) else None), len(days)


def rival(log):
    """First flagged day and number of them, by the simple thing."""
    mean = log.groupby(["account", log["time"].dt.normalize()])["amount"].mean().unstack()
    past = mean.iloc[:, :START]
    centre = past.median(axis=1)
    spread = 1.4826 * past.sub(centre, axis=0).abs().median(axis=1)
    z = mean.sub(centre, axis=0).div(spread, axis=0).T.rolling(7).mean() * np.sqrt(7)
    return first_and_number(z[0].abs().to_numpy()[START:] > 5)


def study_faults(n_seeds):
    """One line a table."""
    for name, fault in FAULTS.items():
        ours, simple, n_false, n_periods, flagged, small = [], [], 0, 0, [], []
        for seed in range(n_seeds):
            log = make_log(seed, **fault)
            incidents = isobag.watch(log, "account", "time")
            bags = incidents.bags()
            odd = bags[
                (bags["account"] == 0) & (bags["period"] >= log["time"].min().normalize() + pd.Timedelta(days=START))
            ]
            is_clean = name.startswith("clean")
            if not is_clean:
                ours.append(first_and_number(odd["flagged"].to_numpy()))
                simple.append(rival(log))
            clean = bags if is_clean else bags[bags["account"] != 0]
            table = incidents.to_frame()
            n_false += len(table if is_clean else table[table["account"] != 0])
            n_periods += bags["period"].nunique()
            flagged.append(clean["flagged"].mean())
            small.append((clean["p_value"] <= 0.01).mean())
        rest = (
            f"1 false in {n_periods / max(n_false, 1):.1f} periods, 1 of {1 / max(np.mean(flagged), 1e-9):.0f} flagged"
        )
        print(f"{name:22} {ours} rival {simple}; {rest}, p <= .01 for {np.mean(small):.4f}", flush=True)


def study_speakers():
    """AUC of p-values where the last takes of each speaker in turn are another's: a take a day."""
    data = np.load(DATA / "group" / "Speaker.npz")
    normal = np.flatnonzero(data["y"] == 0)
    frames = pd.DataFrame(data["X"]).add_prefix("c")
    group = data["group"]
    speaker, take = data["speaker"][group], data["take"][group]
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(take.astype(int), unit="D")
    p, is_odd = [], []
    speakers = np.unique(data["speaker"][normal])
    keep = np.isin(group, normal) & (data["digit"][group] < 5)
    for replaced, other in zip(speakers, np.roll(speakers, 1), strict=True):
        swap = np.where(
            (take >= 45) & (speaker == replaced), -1, np.where((take >= 45) & (speaker == other), replaced, speaker)
        )
        log = frames.assign(speaker=np.where(take >= 45, swap, speaker), time=day)[keep & (swap >= 0)]
        bags = isobag.watch(log, "speaker", "time", late=0).bags()
        last = bags[bags["period"] == pd.Timestamp("2026-01-01") + pd.Timedelta(days=45)]
        last = last[last["n_points"] > 0]  # the other is silent
        p += last["p_value"].tolist()
        is_odd += (last["speaker"] == replaced).tolist()
    print(f"speakers: AUC {roc_auc_score(is_odd, -np.array(p)):.3f} ({sum(is_odd)} odd of {len(p)})")


def study_hours(n_seeds=6):
    """21 days of 20 machines, open 13 hours: which is found that falls silent, or has three times the rows?"""
    hours = pd.date_range("2026-01-01", periods=21 * 24, freq="h")
    is_open, n_found, n_false = (hours.hour >= 7) & (hours.hour < 20), {"silent": 0, "x 3": 0, "": 0}, 0
    for fault in n_found:
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            counts = rng.poisson(np.where(is_open, 3 + np.arange(20)[:, None], 0))
            if fault == "silent":
                counts[5, -15:-9] = 0
            elif fault:
                counts[5, -24:] *= 3
            times = pd.concat([pd.DataFrame({"machine": k, "time": hours.repeat(own)}) for k, own in enumerate(counts)])
            incidents = isobag.watch(times, "machine", "time", "1h").to_frame()
            last_day = set(incidents.loc[incidents["last"] >= hours[-24], "machine"])
            n_found[fault] += 5 in last_day
            n_false += len(last_day - {5} if fault else last_day)
    del n_found[""]
    print(f"hours: found the same day {n_found} of {n_seeds}; {n_false} false on the last day of {3 * n_seeds} tables")


def study_scale(n_rows=10_000_000, n_entities=100_000, n_days=100):
    """Processor time of a first run and of a further day, the most memory, and the size of the state."""
    rng = np.random.default_rng(0)

    def make(n, first, days):
        second = rng.integers(first * 86_400, (first + days) * 86_400, n)
        when = np.datetime64("2026-01-01", "us") + second.astype("timedelta64[s]")
        pay = pd.Categorical.from_codes(rng.choice(3, n, p=[0.6, 0.3, 0.1]), ["card", "cash", "check"])
        amount = rng.lognormal(3, 0.5, n)
        return pd.DataFrame({"account": rng.integers(n_entities, size=n), "time": when, "amount": amount, "pay": pay})

    def memory(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1e6 for line in lines if line.startswith(name))

    monitor, log = isobag.Watch("account", "time"), make(n_rows, 0, n_days)
    before = memory("VmRSS")
    for name, frame in (("first run", log), ("a further day", make(n_rows // n_days, n_days, 1))):
        start = time.process_time(), time.perf_counter()
        monitor.update(frame)
        seconds = time.process_time() - start[0], time.perf_counter() - start[1]
        peak = f"most memory {memory('VmHWM'):.2f} GB, {before:.2f} of it before"
        print(f"{name}: {seconds[0]:.1f} s of processor, {seconds[1]:.1f} s; {peak}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        monitor.save(Path(folder) / "state")
        size = (Path(folder) / "state").stat().st_size
    n_open, n_closed = len(monitor.history_.rows), len(monitor.history_.bags)
    print(f"state {size / 1e6:.0f} MB: {n_open:,} open rows, {n_closed:,} closed bags")


if __name__ == "__main__":
    if sys.argv[1:] == ["scale"]:
        study_scale()
    else:
        study_speakers()
        study_hours()
        study_faults(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
