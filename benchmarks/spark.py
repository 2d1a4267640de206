"""Spark on two cores against the kernel in memory, per row, and the bytes that reach the driver.

usage: python benchmarks/spark.py [millions of rows]   (default: 20)

Both take part in one run. Times are processor time of all processes, the JVM and the Python workers among them.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from isobag import IDKPointDetector
from isobag.engines import spark as engine

N_PARTITIONS, N_FEATURES = 16, 4
OPTIONS = {"n_estimators": 100, "max_samples": 64, "random_state": 0, "calibrate": False}
TICKS = os.sysconf("SC_CLK_TCK")
RESULTS = Path(__file__).resolve().parent / "results"


def session():
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def rows(spark, n_rows):
    """Rows made anew by every pass, by partition."""
    columns = [sql.randn(seed).alias(f"x{seed}") for seed in range(N_FEATURES)]
    return spark.range(0, n_rows, 1, N_PARTITIONS).select(*columns)


def processor_seconds():
    """Of this process and all that descend from it."""
    children, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(folder.name))
        used[int(folder.name)] = sum(map(int, words[11:15])) / TICKS  # its own, and of children that ended
    todo, total = [os.getpid()], 0.0
    while todo:
        process = todo.pop()
        total += used.get(process, 0.0)
        todo += children.get(process, [])
    return total


def timed(work):
    wall, processor = time.perf_counter(), processor_seconds()
    work()
    return {"wall": time.perf_counter() - wall, "processor": processor_seconds() - processor}


def pass_over(frame):
    """Bring all rows to Python once and do nothing with them."""
    frame.mapInArrow(_drop, "n long").collect()


def _drop(batches):
    for batch in batches:
        del batch
    return iter(())


class Driver:
    """Counts what DataFrames bring to the driver while it is entered."""

    def __enter__(self):
        self.n_bytes, self._plain = 0, DataFrame.toArrow

        def counting(frame):
            table = self._plain(frame)
            self.n_bytes += table.nbytes
            return table

        self._owner = next(one for one in type_of(DataFrame) if "toArrow" in vars(one))
        self._plain = vars(self._owner)["toArrow"]
        self._owner.toArrow = counting
        return self

    def __exit__(self, *_):
        self._owner.toArrow = self._plain


def type_of(base):
    from pyspark.sql.classic.dataframe import DataFrame as Classic  # noqa: PLC0415

    return Classic.__mro__ if issubclass(Classic, base) else base.__mro__


def detect(frame):
    """Score every row; the results stay with the executors."""
    engine.detect_points(frame, **{name: value for name, value in OPTIONS.items() if name != "calibrate"}).write.format(
        "noop"
    ).mode("overwrite").save()


def main(n_rows):
    spark = session()
    frame = rows(spark, n_rows)
    X = np.random.default_rng(0).normal(size=(min(n_rows, 5_000_000), N_FEATURES))
    small = X[:100_000]
    IDKPointDetector(**OPTIONS, n_jobs=2).fit(small).score_samples(small)  # compile
    detect(rows(spark, 100_000))
    detector = IDKPointDetector(**OPTIONS, n_jobs=2)
    # Spark counts, scores for the threshold, and scores again when the result is asked for; so does this, but a fit in
    # memory has the scores already, and is given apart.
    fit, score = timed(lambda: detector.fit(X)), timed(lambda: detector.score_samples(X))
    memory = {kind: fit[kind] + score[kind] for kind in fit}
    transport = timed(lambda: pass_over(frame))
    with Driver() as large_driver:
        on_spark = timed(lambda: detect(frame))
    with Driver() as small_driver:
        detect(rows(spark, n_rows // 20))
    found = {"rows": n_rows, "memory_rows": len(X), "memory": memory, "transport": transport, "spark": on_spark}
    for kind in ("wall", "processor"):
        found[f"ratio_{kind}"] = (on_spark[kind] / n_rows) / (memory[kind] / len(X))
        found[f"ratio_{kind}_fit_alone"] = (on_spark[kind] / n_rows) / (fit[kind] / len(X))
    found["driver_bytes"] = {str(n_rows): large_driver.n_bytes, str(n_rows // 20): small_driver.n_bytes}
    print(json.dumps(found, indent=2))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spark.json").write_text(json.dumps(found, indent=2))
    spark.stop()


if __name__ == "__main__":
    main(int(float(sys.argv[1]) * 1_000_000) if len(sys.argv) > 1 else 20_000_000)
