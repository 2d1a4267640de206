"""Speed and accuracy against peers, as ratios in one run: prints tables, writes JSON.

usage: python benchmarks/run.py [section ...]   (sections: see SECTIONS at the end; default: all)

Data sets are read from the folder named by ISOBAG_DATA, else from ../shared/data beside the project.
Every time is the best of several, the competitors taking turns; absolute times depend on the machine. On a machine that
is busy with other things, CLOCK=cpu takes seconds of all threads instead of those of the clock.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from isotree import IsolationForest as Isotree
from pages import command_times, reports
from pyod.models.inne import INNE as PYOD_INNE
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import Compute
from isobag.backends.numba import float32_blocks as block_engine
from isobag.backends.numba import many as many_engine
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.data.scaling import fit_scaling
from isobag.datasets import make_gaussian1k, make_gaussian100, make_mix_gaussian1k, make_scale_up
from isobag.models.views import Plan, draw_views
from isobag.partitionings import draw_from_rows
from isobag.reproduce.searches import score_mean_maps

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ISOBAG_DATA", ROOT.parent / "shared" / "data"))
THREADS = 2
COMPUTE = Compute(n_jobs=THREADS)
CLOCK = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter


def load(name, kind="point"):
    with np.load(DATA / kind / f"{name}.npz") as file:
        return file["X"].astype(np.float64), file["y"]


def seconds(*works, repeat=3):
    """Best time of each piece of work, taking turns, after one warm-up each."""
    for work in works:
        work()
    best = [np.inf] * len(works)
    for _ in range(repeat):
        for i, work in enumerate(works):
            start = CLOCK()
            work()
            best[i] = min(best[i], CLOCK() - start)
    return best


def idk(X, psi, seed=0):
    return IDKPointDetector(max_samples=psi, random_state=seed, n_jobs=THREADS).fit(X).score_samples(X)


def forest(X, psi):
    return IsolationForest(max_samples=psi, random_state=0, n_jobs=THREADS).fit(X).score_samples(X)


def isotree(X, psi, ndim):
    return Isotree(ntrees=100, sample_size=psi, ndim=ndim, nthreads=THREADS, random_seed=0).fit(X).predict(X)


def pyod_inne(X, psi):
    return PYOD_INNE(n_estimators=100, max_samples=psi, random_state=0).fit(X).decision_scores_


def make_normal(n_rows, n_features):
    """Normal numbers; one row in a hundred lies three times as far out."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_features))
    X[::100] *= 3
    return X


def speed():
    """README's table: time of isobag divided by that of its peer, fit and score of all rows, best of three."""
    rows = []
    real = {name: load(name)[0] for name in ("http", "shuttle", "ForestCover", "ALOI", "MNIST_230")}
    made = {"normal, 50": make_normal(100_000, 50), "normal, 300": make_normal(20_000, 300)}
    for name, X in (real | made).items():
        ours, axis, default, theirs = seconds(
            lambda X=X: idk(X, 128),
            lambda X=X: isotree(X, 128, 1),
            lambda X=X: idk(X, "auto"),
            lambda X=X: forest(X, "auto"),
        )
        ratios = {"psi = 128 / isotree": f"{ours / axis:.2g}", "default / IsolationForest": f"{default / theirs:.2g}"}
        rows.append({"set": name, "rows": f"{len(X):,}", "features": X.shape[1], **ratios})
        print_table(rows[-1:])
    return rows


def peers():
    """fit + score of all rows, t = 100, psi = 128, against the peers on the same rows."""
    rows = []
    for name in ("http", "ForestCover", "ALOI", "MNIST_230"):
        X, _ = load(name)
        ours, theirs, axis, oblique = seconds(
            lambda X=X: idk(X, 128),
            lambda X=X: forest(X, 128),
            lambda X=X: isotree(X, 128, 1),
            lambda X=X: isotree(X, 128, 3),
        )
        pyod_inne(X[:1000], 128)
        start = time.perf_counter()
        pyod_inne(X, 128)
        inne = time.perf_counter() - start
        rows.append(
            {
                "set": name,
                "rows": len(X),
                "features": X.shape[1],
                "isobag s": ours,
                "isotree ndim=1 / isobag": axis / ours,
                "isotree ndim=3 / isobag": oblique / ours,
                "scikit-learn IsolationForest / isobag": theirs / ours,
                "PyOD INNE / isobag": inne / ours,
            }
        )
        print_table(rows[-1:])
    return rows


def memory():
    """Peak memory of fit + score on http at psi = 128, in a process of its own."""
    code = (
        "import numpy as np, resource, sys\n"
        "from isobag import IDKPointDetector\n"
        f"X = np.load({str(DATA / 'point' / 'http.npz')!r})['X'].astype(float)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"IDKPointDetector(max_samples=128, random_state=0, n_jobs={THREADS}).fit(X).score_samples(X)\n"
        "print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    before, peak = map(
        int, subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    return [{"set": "http", "psi": 128, "peak MB": peak / 1024, "of which before fit MB": before / 1024}]


def scaling():
    """Larger psi on http, as ratios; all psi = 2 ... 4096 by score_path against psi = 4096 alone."""
    X, _ = load("http")

    def path():
        return IDKPointDetector(max_samples=4096, random_state=0, n_jobs=THREADS).fit(X).score_path(X)

    small, medium, large, whole = seconds(
        lambda: idk(X, 128), lambda: idk(X, 1024), lambda: idk(X, 4096), path, repeat=2
    )
    return [
        {
            "set": "http",
            "psi=128 s": small,
            "psi=1024 s": medium,
            "psi=4096 s": large,
            "fit + score_path s": whole,
            "1024 / 128": medium / small,
            "path / 4096 alone": whole / large,
        }
    ]


def products():
    """MNIST_230 (784 features), psi = 128: share of the machine's own single-precision matrix-product rate."""
    X, _ = load("MNIST_230")
    detector = IDKPointDetector(max_samples=128, random_state=0, n_jobs=THREADS).fit(X)
    A = np.random.default_rng(0).random((4096, X.shape[1])).astype(np.float32)
    n_points = len(detector.views_.members[0].partitionings.points)
    score, product = seconds(lambda: detector.score_samples(X), lambda: A @ A.T)
    ours = 2 * len(X) * n_points * X.shape[1] / score
    machine = 2 * len(A) ** 2 * X.shape[1] / product
    return [
        {
            "distinct centers": n_points,
            "score_samples s": score,
            "GFLOP/s": ours / 1e9,
            "sgemm GFLOP/s": machine / 1e9,
            "share": ours / machine,
        }
    ]


def engines():
    """Time of scoring 20,000 rows by the engine for many features over that by blocks of neighbours."""
    rows = []
    for name in ("http", "mammography", "shuttle", "ForestCover", "EEG_eye", "ALOI"):
        X, _ = load(name)
        X = fit_scaling(X, "minmax").apply(X[:: max(1, len(X) // 20000)][:20000])
        row = {"set": name, "features": X.shape[1]}
        for psi in (16, 128, 1024):
            drawn = draw_from_rows(ArrayRows(X), 100, (psi,), "hypersphere", 0, COMPUTE)
            arrays = (drawn, np.ones(drawn.sq_radii.shape, dtype=np.int64), "nearest", THREADS)
            # Queries anew each time: ordering them is part of the work.
            by_blocks, by_many = seconds(
                lambda X=X, arrays=arrays: block_engine.sum_at_cells(COMPUTE.prepare(X), *arrays),
                lambda X=X, arrays=arrays: many_engine.sum_at_cells(COMPUTE.prepare(X), *arrays),
                repeat=2,
            )
            row[f"many / blocks, psi={psi}"] = by_many / by_blocks
        rows.append(row)
        print_table(rows[-1:])
    return rows


PAPER = {
    "mammography": 0.88,
    "smtp": 0.95,
    "shuttle": 0.98,
    "EEG_eye": 0.88,
    "ForestCover": 0.97,
    "http": 0.99,
    "ALOI": 0.82,
}


def accuracy():
    """ROC AUC with the best psi = 2 ... 4096 (ForestCover: 1024), chosen with the labels as in the paper; 3 seeds."""
    rows = []
    for name, published in PAPER.items():
        X, y = load(name)
        largest = 1024 if name == "ForestCover" else min(4096, len(X) // 2)
        paths = []
        for seed in range(3):
            detector = IDKPointDetector(max_samples=largest, random_state=seed, n_jobs=THREADS).fit(X)
            paths.append([roc_auc_score(y, -column) for column in detector.score_path(X).T])
        means = np.mean(paths, axis=0)
        rows.append(
            {
                "set": name,
                "paper": published,
                "here": means.max(),
                "best psi": detector.path_[means.argmax()],
                "seed spread": float(np.ptp(paths, axis=0)[means.argmax()]),
                "difference": means.max() - published,
            }
        )
        print_table(rows[-1:])
    return rows


GROUP_SETS = {
    "covtype": 0.99,
    "Gaussian100": 0.97,
    "Gaussian1K": 1.00,
    "MixGaussian1K": 0.99,
    "MNIST_4": 0.94,
    "MNIST_8": 0.92,
    "Speaker": 0.99,
}
SYNTHETIC = {"Gaussian100": make_gaussian100, "Gaussian1K": make_gaussian1k, "MixGaussian1K": make_mix_gaussian1k}


def load_groups(name, seed=0):
    if name in SYNTHETIC:
        return SYNTHETIC[name](random_state=seed)
    with np.load(DATA / "group" / f"{name}.npz") as file:
        return file["X"].astype(np.float64), file["group"], file["y"]


def grid_scores(X, groups, point_mechanism, seed):
    """Scores of the paper's IDK^2 over its grid up to psi = 256, nested in psi2: {(psi, psi2): (g,)}."""
    labels, ids = np.unique(groups, return_inverse=True)
    given = Groups(ArrayRows(X), ids, labels)
    levels = tuple(2**k for k in range(1, 11) if 2**k <= len(labels) // 2)
    found = {}
    for psi in (2**k for k in range(1, 9)):
        views, _ = draw_views(given.rows, 100, [Plan("minmax", (psi,))], point_mechanism, seed, COMPUTE)
        path = score_mean_maps(views.mean_maps(given, COMPUTE), levels, seed + 1000, COMPUTE)
        found |= {(psi, psi2): scores for psi2, scores in zip(levels, path.T, strict=True)}
    return found


def group_accuracy():
    """ROC AUC of IDK^2 with the best (psi, psi2) of the paper's grid up to psi = 256: mean of 3 seeds for each pair."""
    rows = []
    for name, target in GROUP_SETS.items():
        grids = []
        for seed in range(3):
            X, groups, y = load_groups(name, seed)
            grid = grid_scores(X, groups, "hypersphere", seed)
            grids.append({pair: roc_auc_score(y, -scores) for pair, scores in grid.items()})
        means = {pair: float(np.mean([grid[pair] for grid in grids])) for pair in grids[0]}
        best = max(means, key=means.__getitem__)
        row = {"set": name, "bar": target, "here": means[best], "psi": best[0], "psi2": best[1]}
        rows.append({**row, "seed spread": float(np.ptp([grid[best] for grid in grids]))})
        print_table(rows[-1:])
    return rows


def group_speed():
    """fit, which scores the groups of fit, for many groups; and fit + score_samples of all of them again."""
    rows = []

    def measured(name, X, groups, psi, psi2, again):
        detector = IDKGroupDetector(100, psi, psi2, random_state=0, n_jobs=THREADS)
        detector.fit(X[: len(X) // 10], groups=groups[: len(X) // 10]).score_samples(
            X[:1000], groups[:1000]
        )  # compiled code
        once = np.inf
        for _ in range(3 if psi2 < 100 else 1):
            start = time.perf_counter()
            detector.fit(X, groups=groups)
            once = min(once, time.perf_counter() - start)
        row = {"set": name, "points": len(X), "psi": psi, "psi2": psi2, "fit s": once}
        if again:
            start = time.perf_counter()
            detector.score_samples(X, groups)
            row["score_samples s"] = time.perf_counter() - start
        row["peak MB so far"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(row)
        print_table(rows[-1:])
        return once

    small, large = (make_scale_up(n, random_state=0) for n in (1000, 10000))
    first = measured("1,000 groups x 100", small.X, small.groups, 256, 16, True)
    second = measured("10,000 groups x 100", large.X, large.groups, 256, 16, True)
    print(f"10,000 groups take {second / first:.1f} times 1,000 groups at psi2 = 16")
    measured("10,000 groups x 100", large.X, large.groups, 256, 256, True)
    many = make_gaussian1k(random_state=0)
    measured("Gaussian1K", many.X, many.groups, 16, 32, True)
    return [{"set": "", "10,000 / 1,000 groups": second / first}, *rows]


def print_table(rows):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    for row in rows:
        print(
            "| " + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()) + " |", flush=True
        )


def shown(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def command():
    """`isobag points` on http as Parquet, psi = 128, against detect_points in memory; and on ten rows, its start."""
    X, _ = load("http")
    in_memory, by_command, start = command_times(X, THREADS)
    row = {"set": "http", "in memory s": in_memory, "command s": by_command, "ratio": by_command / in_memory}
    return [{**row, "ten rows s": start}]


def report():
    """Reports of many rows and groups: size, and how soon they are open in Chromium."""
    return reports(load("http")[0], THREADS)


SECTIONS = {
    f.__name__: f
    for f in (speed, peers, memory, scaling, products, engines, accuracy, group_speed, group_accuracy, command, report)
}


def main(names):
    if not DATA.is_dir():
        sys.exit(f"No data sets in {DATA}: set ISOBAG_DATA to the folder that holds point/ and group/.")
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    for name in names or SECTIONS:
        print(f"\n{SECTIONS[name].__doc__}\n", flush=True)
        rows = SECTIONS[name]()
        print()
        print_table(rows)
        about = {"machine": platform.processor() or platform.machine(), "threads": THREADS, "section": name}
        (results / f"{name}.json").write_text(json.dumps({**about, "rows": rows}, default=float, indent=1))
    print(f"\nPeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
