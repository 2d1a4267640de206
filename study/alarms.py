"""Alarms: whether gross rows raise one, how often clean batches do, and how many alarms are false."""

import numpy as np

from isobag import IDKGroupDetector, IDKPointDetector
from study.data import THREADS
from study.harness import Section, Task, mean, table

FDR = 0.1
N_FEATURES = 3
N_GROSS = 5
SIZES = ((2_000, 1_000), (20_000, 10_000), (60_000, 10_000))
"""Rows learned from, rows in a batch."""
GROSS = ((50, "all", 3), (8, "all", 3), (8, "all", 10), (8, "one", 3), (8, "one", 10))
"""Standard deviations, in how many features, of how many."""
POWER_SEEDS = range(6)
CLEAN_BATCHES, CHUNK = 300, 25
SHARES = (0.0, 0.01, 0.05, 0.2)
FALSE_BATCHES = 20
N_ROWS = 500
N_GROUP_BATCHES = 12


def _normal(rng, n, d=N_FEATURES):
    return rng.standard_normal((n, d))


def _mixture(rng, n):
    return rng.standard_normal((n, N_FEATURES)) * np.where(rng.random((n, 1)) < 0.1, 3.0, 1.0)


LAWS = {
    "normal": _normal,
    "t3": lambda rng, n: rng.standard_t(3, size=(n, N_FEATURES)),
    "Cauchy": lambda rng, n: rng.standard_cauchy((n, N_FEATURES)),
    "lognormal": lambda rng, n: rng.lognormal(size=(n, N_FEATURES)),
    "mixture of spreads": _mixture,
    "counts": lambda rng, n: rng.poisson(3, size=(n, N_FEATURES)).astype(float),
}


def measure_power(n_learned, batch, sds, where, d, seed):
    """Share of five gross rows that are flagged, and the number of false alarms."""
    rng = np.random.default_rng(seed)
    detector = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(_normal(rng, n_learned, d))
    X = _normal(rng, batch, d)
    X[:N_GROSS, : d if where == "all" else 1] += sds
    flagged = detector.predict(X, fdr=FDR) == -1
    return [float(flagged[:N_GROSS].mean()), int(flagged[N_GROSS:].sum())]


def measure_clean(law, first):
    """Whether clean batches have an alarm, one after another."""
    alarms = []
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        detector = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(LAWS[law](rng, N_ROWS))
        alarms.append(int((detector.predict(LAWS[law](rng, N_ROWS), fdr=FDR) == -1).any()))
    return alarms


def measure_false(law, share, seed):
    """Share of the alarms that are false (0 without any), and of the anomalies that are found."""
    rng = np.random.default_rng(10_000 + seed)
    train = LAWS[law](rng, 2 * N_ROWS)
    X = LAWS[law](rng, N_ROWS)
    n_odd = round(share * N_ROWS)
    X[:n_odd] = np.median(X, axis=0) + 10 * np.subtract(*np.quantile(X, [0.75, 0.25], axis=0))
    flagged = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(train).predict(X, fdr=FDR) == -1
    false = flagged[n_odd:].sum() / max(flagged.sum(), 1)
    return [float(false), float(flagged[:n_odd].mean()) if n_odd else None]


def measure_groups(seed):
    """The same of 6 odd groups among 100, after 200: share found, number of false alarms."""
    rng = np.random.default_rng(seed)
    sizes = np.rint(np.exp(rng.uniform(np.log(20), np.log(200), 300))).astype(int)
    groups = [0.3 * rng.standard_normal(N_FEATURES) + _normal(rng, n) for n in sizes]
    for odd in groups[200:206]:
        odd[:] = 0.2 * odd + 2
    detector = IDKGroupDetector(random_state=seed, n_jobs=THREADS).fit(groups[:200])
    flagged = detector.predict(groups[200:], fdr=FDR) == -1
    return [float(flagged[:6].mean()), int(flagged[6:].sum())]


def _tasks():
    tasks = {
        f"power|{n}|{m}|{sds}|{where}|{d}|{seed}": Task(measure_power, (n, m, sds, where, d, seed))
        for n, m in SIZES
        for sds, where, d in GROSS
        for seed in POWER_SEEDS
    }
    tasks |= {f"groups|{seed}": Task(measure_groups, (seed,)) for seed in range(N_GROUP_BATCHES)}
    starts = range(0, CLEAN_BATCHES, CHUNK)
    tasks |= {f"clean|{law}|{first}": Task(measure_clean, (law, first)) for law in LAWS for first in starts}
    return tasks | {
        f"false|{law}|{share}|{seed}": Task(measure_false, (law, share, seed))
        for law in LAWS
        for share in SHARES
        for seed in range(FALSE_BATCHES)
    }


def _page(results):
    yield (
        f"`predict(X, fdr={FDR})`. Normal rows, and {N_GROSS} rows moved by so many standard deviations: share found,"
        f" and the most false alarms in a batch, of {len(POWER_SEEDS)} seeds.\n"
    )
    rows = []
    for n, m in SIZES:
        for sds, where, d in GROSS:
            batches = [results[f"power|{n}|{m}|{sds}|{where}|{d}|{seed}"] for seed in POWER_SEEDS]
            moved = f"{sds} sd in {where} of {d} features"
            rows.append({"learned from": n, "batch": m, "rows": moved, "found": mean([one[0] for one in batches])})
            rows[-1]["most false"] = max(one[1] for one in batches)
    yield table(rows)
    yield (
        f"Clean: share of {CLEAN_BATCHES} clean batches of {N_ROWS} rows, after as many, with any alarm. Then the share"
        f" of false alarms among {N_ROWS} rows after {2 * N_ROWS}, {FALSE_BATCHES} batches each, by the share of"
        " anomalies, ten interquartile ranges from the median in every feature; in brackets the share found.\n"
    )
    rows = []
    for law in LAWS:
        alarms = [one for first in range(0, CLEAN_BATCHES, CHUNK) for one in results[f"clean|{law}|{first}"]]
        row = {"law": law, "clean": mean(alarms)}
        for share in SHARES:
            batches = [results[f"false|{law}|{share}|{seed}"] for seed in range(FALSE_BATCHES)]
            power = mean([one[1] for one in batches])
            row[f"{share:.0%}"] = f"{mean([one[0] for one in batches]):.3f}" + (
                "" if power is None else f" ({power:.2f})"
            )
        rows.append(row)
    yield table(rows)
    batches = [results[f"groups|{seed}"] for seed in range(N_GROUP_BATCHES)]
    yield (
        f"Groups: 6 odd among 100, after 200, {N_GROUP_BATCHES} batches: {mean([one[0] for one in batches]):.3f}"
        f" found, at most {max(one[1] for one in batches)} false alarms.\n"
    )


ALARMS_SECTION = Section("alarms", "Alarms", _tasks, _page)
