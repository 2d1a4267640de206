"""Speed and accuracy against peers, as ratios in one run: prints tables, writes JSON.

usage: python benchmarks/run.py [section ...]   (sections: see SECTIONS at the end; default: all)

Data sets are read from the folder named by ISOBAG_DATA, else from ../shared/data beside the project.
Every time is the best of several, the competitors taking turns; absolute times depend on the machine.
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
from pyod.models.inne import INNE as PYOD_INNE
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ISOBAG_DATA", ROOT.parent / "shared" / "data"))
THREADS = 2


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
            start = time.perf_counter()
            work()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def idk(X, psi, seed=0):
    return IDKPointDetector(max_samples=psi, random_state=seed, n_jobs=THREADS).fit(X).score_samples(X)


def forest(X, psi):
    return IsolationForest(max_samples=psi, random_state=0, n_jobs=THREADS).fit(X).score_samples(X)


def isotree(X, psi, ndim):
    return Isotree(ntrees=100, sample_size=psi, ndim=ndim, nthreads=THREADS, random_seed=0).fit(X).predict(X)


def pyod_inne(X, psi):
    return PYOD_INNE(n_estimators=100, max_samples=psi, random_state=0).fit(X).decision_scores_


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
    n_points = len(detector.partitionings_.points)
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
    """ROC AUC with the best psi = 2 ... 4096, chosen with the labels as the paper does: mean of 3 seeds a psi."""
    rows = []
    for name, published in PAPER.items():
        X, y = load(name)
        paths = []
        for seed in range(3):
            detector = IDKPointDetector(max_samples=min(4096, len(X) // 2), random_state=seed, n_jobs=THREADS).fit(X)
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


def print_table(rows):
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    for row in rows:
        print(
            "| " + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()) + " |", flush=True
        )


SECTIONS = {f.__name__: f for f in (peers, memory, scaling, products, accuracy)}


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
