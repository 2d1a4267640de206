"""Over Spark Connect, where the driver is elsewhere; in a process of its own, which has no other kind of session."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from isobag.engines import __file__ as engines_file  # the process must find the same isobag

SCRIPT = """
import warnings
warnings.simplefilter("ignore")
import isobag
from isobag.engines import spark as engine
from pyspark.sql import SparkSession

session = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = session.range(0, 1_500, 1, 4).selectExpr(
    "double(id * 7919 % 3001) / 100 as x", "double(id * 104729 % 2999) / 50 as y", "id % 60 as who"
)
here = frame.toPandas()
options = {"features": ["x", "y"], "n_estimators": 8, "random_state": 0}
points = engine.detect_points(frame, **options).toPandas()
assert points["score"].tolist() == isobag.detect_points(here, **options).sort_values("row")["score"].tolist()
groups = engine.detect_groups(frame, by="who", **options).toPandas()
plain = isobag.detect_groups(here, by="who", **options)
assert groups["who"].tolist() == plain["who"].tolist() and groups["score"].tolist() == plain["score"].tolist()
scored = engine.score(engine.fit(frame, **options), frame).toPandas()
assert scored["row"].tolist() == list(range(1_500)) and scored["p_value"].between(0, 1).all()
try:
    engine.detect_points(frame.selectExpr("x", "if(who = 7, double('nan'), y) as y"), missing="error")
except ValueError as error:
    assert "row 7 of partition 0, column 'y'" in str(error), error
else:
    raise AssertionError("a missing value was let through")
print("the same over Connect")
session.stop()
"""


@pytest.mark.slow
def test_over_spark_connect_scores_are_those_in_memory(spark, tmp_path):
    if find_spec("grpc") is None and os.environ.get("CI_SPARK") != "1":
        pytest.skip("no gRPC found; pip install 'pyspark[connect]' to test over Spark Connect")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.dirname(engines_file)))
    script = tmp_path / "connect.py"
    script.write_text(SCRIPT)
    found = subprocess.run(
        [sys.executable, script],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=tmp_path,
    )
    assert found.returncode == 0 and "the same over Connect" in found.stdout, found.stderr[-3_000:]
