import os
import shutil
import sys
import warnings
from importlib.util import find_spec

import pytest


def lacking():
    """What keeps Spark from running here, None if nothing does."""
    if find_spec("pyspark") is None:
        return "no PySpark found; pip install 'isobag[spark]' to test the engine"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no Java found; install one (on Debian: apt-get install default-jre-headless) to test on Spark"
    return None


@pytest.fixture(scope="session")
def spark():
    """One session on two cores for all tests: it takes seconds to start. With CI_SPARK=1 there must be one."""
    reason = lacking()
    if reason is not None:
        if os.environ.get("CI_SPARK") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "4")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
