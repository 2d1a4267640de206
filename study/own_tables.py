"""A table's own rows: how often clean tables have a flag, and which planted rows are flagged."""

import numpy as np

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.tables.judgement import judge_own
from study.alarms import LAWS
from study.data import THREADS, adbench_sets, load_points, load_table, table_sets
from study.harness import Section, Task, mean, table

SIZES = (100, 500, 2000)
CLEAN, TABLES, ADBENCH = "clean", "tables", "ADBench"
PLANTED = {
    "one, 20 sd in all": (1, 20, "all"),
    "one, 20 sd in one": (1, 20, "one"),
    "1 %, 6 sd": (0.01, 6, "some"),
    "1 %, 20 sd": (0.01, 20, "some"),
    "5 %, 6 sd": (0.05, 6, "some"),
    "5 %, 20 sd": (0.05, 20, "some"),
}
"""How many rows, moved by how many standard deviations, in which features."""
N_CLEAN, N_PLANTED = 30, 6
MOST_ROWS, MOST_FEATURES = 3000, 100
GROUPS = (30, 100, 300)


def plant(X, rng, share, sds, where):
    """Move the first rows by so many standard deviations, half the difference of two quantiles; their number."""
    n_odd, d = share if share >= 1 else max(1, round(share * len(X))), X.shape[1]
    sd = np.subtract(*np.quantile(X, (0.84, 0.16), axis=0)) / 2
    sd = np.where(sd > 0, sd, X.std(axis=0))
    if where == "some":  # each in features of its own, to either side
        moved = rng.random((n_odd, d)) < 0.5
        moved[~moved.any(axis=1), 0] = True
        X[:n_odd] += sds * sd * moved * rng.choice([-1, 1], size=(n_odd, d))
    else:
        X[:n_odd, : d if where == "all" else 1] = (np.median(X, axis=0) + sds * sd)[: d if where == "all" else 1]
    return n_odd


def _flagged(X, seed):
    detector = IDKPointDetector(random_state=seed, n_jobs=THREADS)
    judged = judge_own(detector, detector.fit(X).scores_)
    return judged.scores < judged.threshold


def measure_clean(law, n):
    """Whether clean tables have a flag, one after another."""
    return [int(_flagged(LAWS[law](np.random.default_rng([seed, n]), n), seed).any()) for seed in range(N_CLEAN)]


def measure_planted(law, n, kind):
    """Share of the planted rows that are flagged and number of others, table by table."""
    by_table = []
    for seed in range(N_PLANTED):
        rng = np.random.default_rng([seed, n])
        X = LAWS[law](rng, n)
        n_odd = plant(X, rng, *PLANTED[kind])
        flagged = _flagged(X, seed)
        by_table.append([float(flagged[:n_odd].mean()), int(flagged[n_odd:].sum())])
    return by_table


def measure_real(kind, name):
    """Number of flags among normal rows; whether one gross row is flagged, in every feature and in one."""
    if kind == TABLES:
        X = load_table(name, "clean")[0]
    else:
        X, y = load_points(name, 0)
        X = X[y == 0]
    X = np.ascontiguousarray(X[:MOST_ROWS, :MOST_FEATURES])
    flags = [int(_flagged(X, 0).sum())]
    for planted in ("one, 20 sd in all", "one, 20 sd in one"):
        planted_rows = X.copy()
        plant(planted_rows, np.random.default_rng(0), *PLANTED[planted])
        flags.append(int(_flagged(planted_rows, 0)[0]))
    return flags


def measure_groups(n, n_odd):
    """Share of odd groups that are flagged (None without any) and number of others, table by table."""
    by_table = []
    for seed in range(N_PLANTED):
        rng = np.random.default_rng([seed, n])
        sizes = np.rint(np.exp(rng.uniform(np.log(15), np.log(80), n))).astype(int)
        groups = [0.3 * rng.standard_normal(3) + rng.standard_normal((size, 3)) for size in sizes]
        for odd in groups[:n_odd]:
            odd[:] = 0.2 * odd + 2
        detector = IDKGroupDetector(random_state=seed, n_jobs=THREADS)
        judged = judge_own(detector, detector.fit(groups).scores_)
        flagged = judged.scores < judged.threshold
        by_table.append([float(flagged[:n_odd].mean()) if n_odd else None, int(flagged[n_odd:].sum())])
    return by_table


def _tasks():
    tasks = {f"{CLEAN}|{law}|{n}": Task(measure_clean, (law, n)) for law in LAWS for n in SIZES}
    tasks |= {f"{k}|{law}|{n}": Task(measure_planted, (law, n, k)) for k in PLANTED for law in LAWS for n in SIZES}
    for kind, names in ((TABLES, table_sets()), (ADBENCH, adbench_sets())):
        tasks |= {f"{kind}|{name}": Task(measure_real, (kind, name)) for name in names}
    return tasks | {f"groups|{n}|{odd}": Task(measure_groups, (n, odd)) for n in GROUPS for odd in (0, 1, 3)}


def _page(results):
    yield (
        f"What `detect` flags of a table's own rows. Share of {N_CLEAN} clean tables with any flag, and the"
        f" share of planted rows that are flagged, means over {N_PLANTED} tables; in brackets flags of other rows in a"
        " table."
        f" 3 features; moved rows of 1 and 5 % are each moved in features of their own, to either side.\n"
    )
    rows = []
    for law in LAWS:
        for n in SIZES:
            row = {"law": law, "rows": n, CLEAN: f"{mean(results[f'{CLEAN}|{law}|{n}']):.2f}"}
            for kind in PLANTED:
                share, others = np.mean(results[f"{kind}|{law}|{n}"], axis=0)
                row[kind] = f"{share:.2f} ({others:.1f})"
            rows.append(row)
    yield table(rows)
    yield (
        f"Normal rows of real sets, at most {MOST_ROWS:,} rows and {MOST_FEATURES} features: share of the sets with any"
        " flag, and with flags of more than five rows; share in which one gross row is flagged.\n"
    )
    rows = []
    for kind in (TABLES, ADBENCH):
        flags = np.array([one for key, one in results.items() if key.startswith(f"{kind}|")])
        row = {"sets": f"{len(flags)} {kind}", "any flag": float((flags[:, 0] > 0).mean())}
        row |= {"more than five": float((flags[:, 0] > 5).mean())}
        row |= {"20 sd in all features": float(flags[:, 1].mean()), "20 sd in one": float(flags[:, 2].mean())}
        rows.append(row)
    yield table(rows)
    yield (
        f"Groups of 15 to 80 points, which differ by .3 standard deviations; odd ones are moved by two and have a fifth"
        f" of the spread. {N_PLANTED} tables each: share found, and flags of others in a table.\n"
    )
    rows = []
    for n in GROUPS:
        row = {"groups": n}
        for odd in (0, 1, 3):
            by_table = results[f"groups|{n}|{odd}"]
            share = "" if not odd else f"{mean([one[0] for one in by_table]):.2f} "
            row[f"{odd} odd"] = f"{share}({mean([one[1] for one in by_table]):.1f})"
        rows.append(row)
    yield table(rows)


OWN_SECTION = Section("own", "A table's own rows and groups", _tasks, _page)
