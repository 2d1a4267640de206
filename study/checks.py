"""What the default costs, and whether its p-values hold."""

import time

import numpy as np
from data import DATA, THREADS, adbench_sets, load_points

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.datasets import make_scale_up

ALPHAS = (0.01, 0.05, 0.1)
REPEATS = 20


def cost():
    """Fit and score of all rows by the default, divided by the same with the largest psi it uses, best of three."""
    rows = []
    for name in ("http", "ForestCover", "ALOI", "MNIST_230"):
        with np.load(DATA / "point" / f"{name}.npz") as file:
            X = file["X"].astype(np.float64)
        auto, one = _seconds(
            lambda X=X: IDKPointDetector(random_state=0, n_jobs=THREADS).fit(X).score_samples(X),
            lambda X=X: IDKPointDetector(max_samples=256, random_state=0, n_jobs=THREADS).fit(X).score_samples(X),
        )
        rows.append({"set": name, "rows or groups": len(X), "default s": auto, "default / largest psi": auto / one})
        print(rows[-1], flush=True)
    for n_groups in (1_000, 10_000):
        X, groups, _ = make_scale_up(n_groups, random_state=0)
        auto, one = _seconds(
            lambda X=X, g=groups: IDKGroupDetector(random_state=0, n_jobs=THREADS).fit(X, groups=g),
            lambda X=X, g=groups: IDKGroupDetector(100, 64, 256, random_state=0, n_jobs=THREADS).fit(X, groups=g),
        )
        name = f"{n_groups:,} groups of 100"
        rows.append({"set": name, "rows or groups": n_groups, "default s": auto, "default / largest psi": auto / one})
        print(rows[-1], flush=True)
    return rows


def _seconds(*works, repeat=3):
    best = [np.inf] * len(works)
    for _ in range(repeat):
        for i, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def p_values():
    """Share of normal rows, split off before ``fit``, with a p-value of at most alpha: mean over 20 splits."""
    rows = []
    for name in adbench_sets():
        X, y = load_points(name, 0)
        normal = X[y == 0]
        found = []
        for seed in range(REPEATS):
            order = np.random.default_rng(seed).permutation(len(normal))[:1000]
            train, test = np.array_split(normal[order], 2)
            p = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(train).p_values(test)
            found.append([np.mean(p <= alpha) for alpha in ALPHAS])
        rows.append({"set": name, **dict(zip(map(str, ALPHAS), np.mean(found, axis=0), strict=True))})
        errors = np.std(found, axis=0, ddof=1) / np.sqrt(REPEATS)
        held = np.mean(found, axis=0) <= np.array(ALPHAS) + 3 * errors
        rows[-1]["within three standard errors"] = "yes" if held.all() else "NO"
    rows.append({"set": "mean", **{str(a): np.mean([row[str(a)] for row in rows]) for a in ALPHAS}})
    return rows
