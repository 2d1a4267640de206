"""Entities over time in Spark DataFrames: the lines and the state of the rows in memory, bit for bit."""

import pandas as pd
import pytest
from logs import make_log, watched
from roads import ROADS

pytest.importorskip("pyspark", reason="no PySpark found; pip install 'isobag[spark]' to test the engine")

import isobag
from isobag.engines import spark as engine
from isobag.engines.spark.partitions import SparkPartitions

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def test_updates_of_dataframes_give_the_same_lines_and_the_same_state(spark, tmp_path):
    def in_spark(frame, folder):
        return SparkPartitions(spark.createDataFrame(frame).repartitionByRange(3, "amount").persist())

    assert watched(in_spark, tmp_path) == watched(ROADS["frame"], tmp_path)


def test_watch_gives_the_lines_of_the_frame(spark):
    how = {"by": ["region", "shop"], "time": "ts", "features": ["amount"], "n_estimators": 8, "since": "2026-01-17"}
    log = make_log()
    lines = isobag.watch(log, **how)
    found = engine.watch(spark.createDataFrame(log).repartitionByRange(3, "ts").persist(), **how).toArrow().to_pandas()
    assert len(found) == 28 and found["flagged"].sum() == lines["flagged"].sum()
    pd.testing.assert_frame_equal(found, lines, check_dtype=False)
