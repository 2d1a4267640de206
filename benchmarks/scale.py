"""isobag on Dask, measured: time per row against memory, memory of workers, scheduler and client, bytes to the client.
And the memory of one process by the number of groups, in memory and from files.

usage: python benchmarks/scale.py [rows|partitions|bytes|groups|command] [number of rows ...]

Rows are made where they are needed, anew in every pass, and never stored. Results go to benchmarks/results/scale.json.
"""

import json
import os
import pickle
import resource
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import dask.dataframe as dd
import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
from distributed import Client, LocalCluster
from pyarrow.parquet import ParquetWriter

from isobag import IDKPointDetector
from isobag.engines import dask as engine
from isobag.engines.dask.runner import Runner

N_FEATURES = 4
PARTITION_ROWS = 500_000
WARM_ROWS = 100_000
"""Enough for the engines of large tables, which are compiled or loaded when they are first needed."""
WORKERS = (1, 2, 4)
OPTIONS = {"n_estimators": 100, "max_samples": 64, "random_state": 0}
RESULTS = Path(__file__).resolve().parent / "results" / "scale.json"


def make(number, n_rows):
    """A partition: most rows around the origin, one in a thousand far from it."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[::1_000] *= 5
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(N_FEATURES)])


def table(n_partitions, n_rows=PARTITION_ROWS):
    return dd.from_map(partial(make, n_rows=n_rows), range(n_partitions), meta=make(0, 1)[:0])


def memory_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_of(client):
    return sum(client.run(time.process_time).values())


def cluster(n_workers, memory="2GB"):
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, memory_limit=memory, dashboard_address=None)


def measure_rows(sizes):
    """Seconds per million rows, fit and score: in memory, and with one, two or four worker processes."""
    found = []
    X = np.concatenate([make(i, PARTITION_ROWS).to_numpy() for i in range(4)])
    IDKPointDetector(**OPTIONS, calibrate=False, n_jobs=2).fit(X[:WARM_ROWS]).score_samples(X[:WARM_ROWS])
    for n_rows in sizes:
        start, cpu = time.perf_counter(), time.process_time()
        IDKPointDetector(**OPTIONS, calibrate=False, n_jobs=2).fit(X).score_samples(X)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        memory = {"wall": wall / len(X) * 1e6, "cpu": cpu / len(X) * 1e6}
        for n_workers in WORKERS:
            with cluster(n_workers) as own, Client(own) as client:
                warm = table(4, WARM_ROWS)
                engine.score(engine.fit(warm, **OPTIONS, calibrate=False), warm)["score"].min().compute()
                start, cpu = time.perf_counter(), cpu_of(client)
                data = table(n_rows // PARTITION_ROWS)
                model = engine.fit(data, **OPTIONS, calibrate=False)
                fitted, cpu_fitted = time.perf_counter() - start, cpu_of(client) - cpu
                lowest = float(engine.score(model, data)["score"].min().compute())
                wall, cpu = time.perf_counter() - start, cpu_of(client) - cpu
                peaks = list(client.run(memory_mb).values())
            own_row = {
                "rows": n_rows, "workers": n_workers, "lowest": lowest, "peak MB of a worker": max(peaks),
                "fit wall": fitted / n_rows * 1e6, "fit cpu": cpu_fitted / n_rows * 1e6,
                "wall": wall / n_rows * 1e6, "cpu": cpu / n_rows * 1e6, "memory": memory,
                "wall ratio": wall / n_rows * 1e6 / memory["wall"], "cpu ratio": cpu / n_rows * 1e6 / memory["cpu"],
            }  # fmt: skip
            print(own_row, flush=True)
            found.append(own_row)
    return found


def measure_partitions():
    """Memory of the scheduler and the client, which share this process, after fit over ever more partitions."""
    found = []
    with cluster(2) as own, Client(own):
        engine.fit(table(100, 20), **OPTIONS, calibrate=False)
        for n_partitions in (100, 1_000, 10_000):
            before = psutil.Process().memory_info().rss / 2**20
            start = time.perf_counter()
            engine.fit(table(n_partitions, 20), **OPTIONS, calibrate=False)
            after = psutil.Process().memory_info().rss / 2**20
            found.append(
                {
                    "partitions": n_partitions,
                    "MB before": before,
                    "MB after": after,
                    "seconds": time.perf_counter() - start,
                }
            )
            print(found[-1], flush=True)
    return found


def measure_bytes():
    """Bytes of all results that come to the client during fit."""
    found, received = [], []
    result = Runner.result

    def counting(self, future):
        thing = result(self, future)
        received.append(len(pickle.dumps(thing)))
        return thing

    Runner.result = counting
    try:
        with cluster(2) as own, Client(own):
            for n_rows in (10_000, 100_000, 1_000_000):
                received.clear()
                engine.fit(table(10, n_rows // 10), **OPTIONS, calibrate=False)
                found.append({"rows": n_rows, "bytes": sum(received), "results": len(received)})
                print(found[-1], flush=True)
    finally:
        Runner.result = result
    return found


GROUPS = ((1_000, 100), (10_000, 100), (50_000, 100), (1_000_000, 5))
"""Numbers of groups, and of points of each."""
MOST_GROUPS_MB = 1_536
GROUPS_WORK = """
import json, resource, sys, time
import numpy as np
from isobag import IDKGroupDetector
n_groups, n_points = map(int, sys.argv[1:])
X = np.random.default_rng(0).standard_normal((n_groups * n_points, 4))
groups = np.repeat(np.arange(n_groups), n_points)
start = time.process_time()
detector = IDKGroupDetector(random_state=0).fit(X, groups=groups)
fitted = time.process_time()
detector.p_values(X, groups=groups)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
row = {"groups": n_groups, "points": n_points, "peak MB": peak, "fit cpu": fitted - start,
       "p-values cpu": time.process_time() - fitted}
print(json.dumps(row))
"""


def measure_groups():
    """Peak memory and seconds of processes that learn from ever more groups, and find p-values of them."""
    found = []
    for n_groups, n_points in GROUPS:
        command = [sys.executable, "-c", GROUPS_WORK, str(n_groups), str(n_points)]
        found.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
        print(found[-1], flush=True)
        _check(found[-1], MOST_GROUPS_MB)
    return found


COMMANDS = ((120_000, 100, 12, 700), (100_000, 5, 100, 700), (1_000_000, 5, 100, MOST_GROUPS_MB))
"""Numbers of groups, of points of each, t, and the most MB that the command may have."""


def measure_command():
    """Peak memory and seconds of `isobag groups` on Parquet files."""
    found = []
    for n_groups, n_points, t, most in COMMANDS:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table.parquet"
            _write_groups(path, n_groups, n_points)
            asked = [str(path), "--by", "who", "-t", str(t), "--out", str(Path(folder) / "r.csv"), "--quiet"]
            process = subprocess.Popen([sys.executable, "-m", "isobag", "groups", *asked], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"isobag groups {' '.join(asked)} failed.")
        row = {"groups": n_groups, "points": n_points, "t": t, "cpu": used.ru_utime + used.ru_stime}
        found.append({**row, "peak MB": used.ru_maxrss / 1024})
        print(found[-1], flush=True)
        _check(found[-1], most)
    return found


def _write_groups(path, n_groups, n_points, at_once=1 << 19):
    """A table of groups one after the other, written a part at a time."""
    schema = pa.Table.from_pandas(make(0, 1).assign(who=0), preserve_index=False).schema
    with ParquetWriter(path, schema) as writer:
        for start in range(0, n_groups * n_points, at_once):
            n_rows = min(at_once, n_groups * n_points - start)
            own = make(start, n_rows).assign(who=np.arange(start, start + n_rows) // n_points)
            writer.write_table(pa.Table.from_pandas(own, preserve_index=False))


def _check(row, most):
    if row["peak MB"] > most:
        raise SystemExit(f"Above {most:,} MB: {row}")


def main():
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:2] or ["rows", "partitions", "bytes", "groups", "command"]
    sizes = [int(size) for size in sys.argv[2:]] or [1_000_000, 10_000_000, 100_000_000]
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for section in wanted:
        work = {
            "rows": partial(measure_rows, sizes),
            "partitions": measure_partitions,
            "bytes": measure_bytes,
            "groups": measure_groups,
            "command": measure_command,
        }
        known[section] = work[section]()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(known, indent=1))


if __name__ == "__main__":
    main()
