"""Whether the p-values of points hold."""

import numpy as np

from isobag import IDKPointDetector
from study.data import THREADS, adbench_sets, load_points
from study.harness import Section, Task, mean, table

ALPHAS = (0.01, 0.05, 0.1)
SPLITS = 5
MOST_ROWS = 1000


def measure(name):
    """Shares of p-values up to each alpha, for each split: (splits, alphas)."""
    X, y = load_points(name, 0)
    normal, shares = X[y == 0], []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(normal))[:MOST_ROWS]
        train, test = np.array_split(normal[order], 2)
        p = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(train).p_values(test)
        shares.append([float(np.mean(p <= alpha)) for alpha in ALPHAS])
    return shares


def _tasks():
    return {name: Task(measure, (name,)) for name in adbench_sets()}


def _page(results):
    yield (
        f"Share of normal rows of ADBench's sets, split off before `fit`, with a p-value of at most alpha: mean over"
        f" {SPLITS} splits of at most {MOST_ROWS:,} rows.\n"
    )
    rows = []
    for name, by_split in results.items():
        shares, errors = np.mean(by_split, axis=0), np.std(by_split, axis=0, ddof=1) / np.sqrt(SPLITS)
        held = (shares <= np.array(ALPHAS) + 3 * errors).all()
        rows.append({"set": name, **dict(zip(map(str, ALPHAS), shares.tolist(), strict=True))})
        rows[-1]["within three standard errors"] = "yes" if held else "NO"
    rows.append({"set": "mean", **{str(alpha): mean([row[str(alpha)] for row in rows]) for alpha in ALPHAS}})
    yield table(rows)


P_VALUES_SECTION = Section("p_values", "P-values of rows", _tasks, _page)
