"""Watches on made-up logs and on recordings of speakers: days until a fault is found, and false incidents.

``python -m study.watch [SEEDS]`` prints the tables of REPORT_WATCH.md. The rival is a robust z of the entity's daily
mean against its first 60 days, averaged over 7 days times their root, above 5.
"""

import sys

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


if __name__ == "__main__":
    study_speakers()
    study_faults(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
