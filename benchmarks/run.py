"""Speed and accuracy against peers, as ratios in one run: prints tables, writes JSON.

usage: python -m benchmarks.run [section ...]   (sections: see SECTIONS at the end; default: all)

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
from pyod.models.inne import INNE as PYOD_INNE
from sklearn.ensemble import IsolationForest

from benchmarks.pages import command_times, reports
from isobag import IDKGroupDetector, IDKPointDetector
from isobag.datasets import make_gaussian1k, make_scale_up

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ISOBAG_DATA", ROOT.parent / "shared" / "data"))
THREADS = 2
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
        paper = {"pool_size": None, "max_rows": None}
        return IDKPointDetector(max_samples=4096, **paper, random_state=0, n_jobs=THREADS).fit(X).score_path(X)

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
    """`isobag detect` on http as Parquet, psi = 128, against detect in memory; and on ten rows, its start."""
    X, _ = load("http")
    in_memory, by_command, start = command_times(X, THREADS)
    row = {"set": "http", "in memory s": in_memory, "command s": by_command, "ratio": by_command / in_memory}
    return [{**row, "ten rows s": start}]


def report():
    """Reports of many rows and groups: size, and how soon they are open in Chromium."""
    return reports(load("http")[0], THREADS)


SECTIONS = {f.__name__: f for f in (speed, peers, memory, scaling, group_speed, command, report)}


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
