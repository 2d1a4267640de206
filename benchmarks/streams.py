"""Streams, measured: rows a second in micro-batches and one by one, memory over a long stream.

usage: python -m benchmarks.streams [batches|rows|memory|memory=100000000]

``memory=N`` is a stream of N rows. Times of ``rows`` are CPU seconds, others wall seconds. Results go to
benchmarks/results/streams.json. ``python -m study.streams`` measures accuracy.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest

from isobag import IDKStreamDetector
from study.data import DATA

RESULTS = Path(__file__).resolve().parent / "results" / "streams.json"
WINDOW, BATCH = 10_000, 1_000
REPEATS = 3


def batches():
    """100,000 rows of http in batches of 1,000, scored and learned, over fit and score of IsolationForest, by turns."""
    with np.load(DATA / "point" / "http.npz") as file:
        X = file["X"][:100_000].astype(np.float64)
    ours, theirs = [], []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        detector = IDKStreamDetector(WINDOW, random_state=0).partial_fit(X[:BATCH])
        for start in range(BATCH, len(X), BATCH):
            detector.score_samples(X[start : start + BATCH])
            detector.partial_fit(X[start : start + BATCH])
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        IsolationForest().fit(X).score_samples(X)
        theirs.append(time.perf_counter() - begun)
    return {"seconds": min(ours), "ratio": float(np.median(np.divide(ours, theirs)))}


def rows():
    """Single rows of 9 features through River's interface, scored and learned, beside HalfSpaceTrees, by turns."""
    from river import anomaly  # noqa: PLC0415, the other parts need no River

    from isobag.adapters.river import IDK  # noqa: PLC0415

    X = [dict(enumerate(row)) for row in np.random.default_rng(0).random((3_000, 9)).tolist()]
    models = {
        "HalfSpaceTrees": anomaly.HalfSpaceTrees(n_trees=25, height=15, seed=0),
        "default": IDK(seed=0, n_jobs=1),
        "window of 10,000": IDK(WINDOW, seed=0, n_jobs=1),
        "psi = 16": IDK(n_estimators=100, max_samples=16, seed=0, n_jobs=1),
    }
    times = {name: [] for name in models}
    for number in range(1 + REPEATS):  # by turns; in the first round windows fill
        for name, model in models.items():
            begun = time.process_time()
            for x in X[1_500:] if number else X[:1_500]:
                model.score_one(x)
                model.learn_one(x)
            times[name].append(time.process_time() - begun)
    return {name: {"rows_per_second": 1_500 / min(own[1:])} for name, own in times.items()}


def memory(n_rows=10_000_000):
    """Memory of the process in MB, now and at its largest, along a stream of 5 features that is made as it goes.

    Micro-batches of 5,000 rows get scores and p-values and are learned. Window of 20,000, 5 partitionings, psi = 16,
    and one thread, so that 10^8 rows take minutes. Looked at after each power of ten and each twentieth of the stream.
    """
    rng, size = np.random.default_rng(0), 5_000
    detector = IDKStreamDetector(20_000, 5, 16, random_state=0, n_jobs=1)
    stops = {10**k for k in range(4, 20)} | {n_rows * k // 20 for k in range(1, 21)}
    table, begun = {}, time.perf_counter()
    for n_seen in range(size, n_rows + 1, size):
        detector.follow(rng.normal(size=(size, 5)))
        if n_seen in stops:
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
            largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            table[f"{n_seen}"] = {"resident": resident, "largest": largest, "seconds": time.perf_counter() - begun}
            print(n_seen, {name: round(value, 1) for name, value in table[f"{n_seen}"].items()}, flush=True)
    return table


PARTS = {"batches": batches, "rows": rows, "memory": memory}

if __name__ == "__main__":
    for argument in sys.argv[1:] or PARTS:
        part, _, n_rows = argument.partition("=")
        table = PARTS[part](int(n_rows)) if n_rows else PARTS[part]()
        print(part, json.dumps(table, indent=1), flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps({**saved, part: table}, indent=1) + "\n")
