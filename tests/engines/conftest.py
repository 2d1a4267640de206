import os
import shutil
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

N_ROWS = 3000


@pytest.fixture(scope="session")
def cards():
    """Amounts of 60 accounts, one of which is far beyond all others."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "account": [f"a{i}" for i in rng.integers(0, 60, N_ROWS)],
            "amount": rng.lognormal(size=N_ROWS).round(3),
            "hour": rng.integers(0, 24, N_ROWS),
            "kind": rng.choice(["card", "cash", "wire"], p=[0.6, 0.3, 0.1], size=N_ROWS),
            "ok": rng.random(N_ROWS) < 0.9,
        }
    )
    frame.loc[7, "amount"] = 900.0
    return frame


def session(**how):
    """A Spark session on two cores; with CI_SPARK=1 there must be one."""
    absent = "PySpark" if find_spec("pyspark") is None else None
    if absent is None and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        absent = "Java (on Debian: apt-get install default-jre-headless)"
    if absent is not None:
        (pytest.fail if os.environ.get("CI_SPARK") == "1" else pytest.skip)(f"no {absent} found")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
    }.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (builder.remote if "remote" in how else builder.master)(*how.values()).getOrCreate()


@pytest.fixture(scope="session")
def spark():
    """One session for all tests, as it takes seconds to start; tasks are tried twice."""
    started = session(master="local[2,2]")
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()
