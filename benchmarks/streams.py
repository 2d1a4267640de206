"""Streams, measured: prequential AUC (score, then learn) in natural order against rivals, and rows a second.

usage: python benchmarks/streams.py [accuracy|speed] [folder of ADBench's sets]

Real sets are stretches of 10,000 rows in the order of the file; the window has 1,000 rows everywhere, and rows from the
500th on count. HalfSpaceTrees is River's, behind its MinMaxScaler. Times are CPU seconds of one thread. Results go to
benchmarks/results/streams.json.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector, IDKStreamDetector

WINDOW, BLOCK, FIRST, N_ROWS = 1000, 50, 500, 10_000
REAL = {
    "http": ("16_http", 307_000),
    "smtp": ("34_smtp", 10_000),
    "shuttle": ("32_shuttle", 0),
    "cover": ("10_cover", 0),
}
RESULTS = Path(__file__).resolve().parent / "results" / "streams.json"


def made(kind, seed=0):
    """Rows of five features around one or more centers that move, one in fifty uniform in a box: (n, 5), (n,)."""
    rng = np.random.default_rng(seed)
    step = np.arange(N_ROWS) / N_ROWS
    X = rng.normal(size=(N_ROWS, 5))
    if kind == "sudden":
        X[step > 0.5] += 4
    elif kind == "gradual":
        X += 8 * step[:, None]
    elif kind == "recurring":
        X += 4 * ((step * 10).astype(int) % 2)[:, None]
    elif kind == "new cluster":
        X[(step > 0.4) & (rng.random(N_ROWS) < 0.3)] += 6
    elif kind == "rotation":
        X[:, 0] *= 5
        turn = np.pi * step
        X[:, :2] = np.column_stack(
            [X[:, 0] * np.cos(turn) - X[:, 1] * np.sin(turn), X[:, 0] * np.sin(turn) + X[:, 1] * np.cos(turn)]
        )
    odd = rng.random(N_ROWS) < 0.02
    centers = X.copy()
    X[odd] = centers[rng.permutation(N_ROWS)[: odd.sum()]] + rng.uniform(-5, 5, size=(odd.sum(), 5))
    return X, odd.astype(int)


def streams(folder):
    for name, (file, start) in REAL.items():
        path = Path(folder) / f"{file}.npz"
        if path.exists():
            stored = np.load(path)
            rows = slice(start, start + N_ROWS)
            yield name, stored["X"][rows].astype(float), stored["y"][rows]
    for kind in ("sudden", "gradual", "recurring", "new cluster", "rotation"):
        yield kind, *made(kind)


def stream(X):
    return -IDKStreamDetector(WINDOW, random_state=0).follow(X).scores


def refitted(X, make, every):
    scores = np.full(len(X), np.nan)
    for start in range(every if every >= FIRST else 100, len(X), every):
        model = make().fit(X[max(0, start - WINDOW) : start])
        scores[start : start + every] = -model.score_samples(X[start : start + every])
    return scores


def half_space_trees(X):
    from river import anomaly, preprocessing  # noqa: PLC0415, the other methods need no River

    model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(n_trees=25, height=15, window_size=250, seed=0)
    scores = np.empty(len(X))
    for k, row in enumerate(X.tolist()):
        x = dict(enumerate(row))
        scores[k] = model.score_one(x)
        model.learn_one(x)
    return scores


METHODS = {
    "isobag stream": stream,
    "isobag refitted every 50 rows": lambda X: refitted(
        X, lambda: IDKPointDetector(calibrate=False, random_state=0), BLOCK
    ),
    "IsolationForest refitted every 500 rows": lambda X: refitted(X, lambda: IsolationForest(random_state=0), 500),
    "HalfSpaceTrees": half_space_trees,
}


def accuracy(folder):
    table = {}
    for name, X, y in streams(folder):
        table[name] = {"odd": int(y[FIRST:].sum())}
        for method, scores_of in METHODS.items():
            begun = time.process_time()
            scores = scores_of(X)[FIRST:]
            seconds = time.process_time() - begun
            auc = float(roc_auc_score(y[FIRST:], scores)) if np.isfinite(scores).all() else None
            table[name][method] = {"auc": auc, "cpu_seconds": seconds}
        print(name, json.dumps(table[name]), flush=True)
        store("accuracy", table)


def speed(folder):
    """Micro-batches of 1,000 rows of 10 features, a window of 10,000: partial_fit, which scores each row as well."""
    table = {}
    X = np.random.default_rng(0).normal(size=(50_000, 10))
    for psi in (128, "auto"):
        detector = IDKStreamDetector(10_000, max_samples=psi, random_state=0).partial_fit(X[:20_000])
        begun = time.process_time()
        for start in range(20_000, 50_000, 1000):
            detector.partial_fit(X[start : start + 1000])
        table[f"psi = {psi}"] = {"cpu_microseconds_per_row": (time.process_time() - begun) / 30_000 * 1e6}
        print(psi, table, flush=True)
    store("speed", table)


def store(part, table):
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**known, part: table}, indent=1) + "\n")


if __name__ == "__main__":
    {"accuracy": accuracy, "speed": speed}[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else ".")
