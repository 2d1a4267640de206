"""Clumps: tight anomalies at a place of their own, of 1 to 20 % of the rows, learned from and scored."""

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector
from study.data import THREADS, load_points
from study.harness import Section, Task, mean, table
from study.rivals import FOREST, auc_of_forest

SEEDS = (0, 1)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
REAL = ("2_annthyroid", "28_pendigits", "30_satellite")
MOST_REAL_ROWS = 3000
OURS, COARSEST = "isobag", "psi = 2 alone"


def normal_rows(name, seed):
    """Rows without anomalies: made up, or the normal ones of a set of ADBench."""
    rng = np.random.default_rng(1000 + seed)
    if name in REAL:
        X, y = load_points(name, 0)
        return X[y == 0][rng.permutation(int((y == 0).sum()))[:MOST_REAL_ROWS]]
    return MADE_UP[name](rng)


def with_clump(name, share, seed):
    """Rows and labels: the clump is four root-mean-square spreads away and a tenth of a spread wide."""
    X, rng = normal_rows(name, seed), np.random.default_rng(seed)
    n_odd, d = round(share * len(X) / (1 - share)), X.shape[1]
    direction = rng.normal(size=d)
    middle = X.mean(axis=0) + 4 * d**0.5 * X.std(axis=0) * direction / np.linalg.norm(direction)
    clump = middle + 0.1 * X.std(axis=0) * rng.normal(size=(n_odd, d))
    order = rng.permutation(len(X) + n_odd)
    return np.vstack([X, clump])[order], np.repeat([0, 1], [len(X), n_odd])[order]


def measure(name, share, seed):
    """ROC AUC of the default, of its coarsest psi alone, and of the forest."""
    X, y = with_clump(name, share, seed)
    detector = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(X)
    return {
        OURS: float(roc_auc_score(y, -detector.score_samples(X))),
        COARSEST: float(roc_auc_score(y, -detector.score_path(X)[:, 0])),
        FOREST: auc_of_forest(X, X, y, seed),
    }


def mean_auc(results, share, label=OURS):
    """Mean over bases and seeds."""
    return mean([own[label] for key, own in results.items() if key.split("|")[1] == str(share)])


def _three_clusters(rng):
    middles = 5 * rng.normal(size=(3, 5))
    return np.vstack([rng.normal(middle, 1, size=(667, 5)) for middle in middles])


def _tasks():
    return {
        f"{name}|{share}|{seed}": Task(measure, (name, share, seed))
        for name in (*MADE_UP, *REAL)
        for share in SHARES
        for seed in SEEDS
    }


def _page(results):
    yield (
        f"Mean over {len(MADE_UP) + len(REAL)} sets of normal rows and {len(SEEDS)} seeds, by the share of all rows"
        " that the clump is.\n"
    )
    rows = []
    for label in (OURS, COARSEST, FOREST):
        rows.append({"detector": label, **{f"{share:.0%}": mean_auc(results, share, label) for share in SHARES}})
    yield table(rows)


MADE_UP = {
    "normal, 5 features": lambda rng: rng.normal(size=(2000, 5)),
    "normal, 20 features": lambda rng: rng.normal(size=(2000, 20)),
    "three clusters": _three_clusters,
    "lognormal": lambda rng: rng.lognormal(size=(2000, 5)),
}

CLUMPS_SECTION = Section("clumps", "Clumps of anomalies", _tasks, _page)
