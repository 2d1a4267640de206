"""Spark DataFrames are scored as the same rows in memory, bit for bit, whatever their partitions."""

from itertools import pairwise

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
import roads
from reading import read_table

pytest.importorskip("pyspark", reason="no PySpark found; pip install 'isobag[spark]' to test the engine")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import SQLTransformer

import isobag
from isobag.data.rows import ArrayRows
from isobag.engines import spark as engine
from isobag.engines.spark.partitions import SparkPartitions
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.judgement import judge_new

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
OPTIONS = {"features": ["height", "kind", "price"], "n_estimators": 9, "max_samples": 8, "random_state": 5}


def table(n_rows=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "key": np.arange(n_rows) * 7,
            "height": rng.normal(170, 10, n_rows),
            "kind": rng.choice(["oak", "ash", "elm"], n_rows),
            "price": rng.integers(1, 50, n_rows),
            "group": [f"g{i % 13}" for i in range(n_rows)],  # in all partitions
        }
    )
    frame.loc[3, "height"] = 400.0
    return frame


def cut(spark, frame, n_partitions):
    """Rows in unequal partitions, in order: of three or more the first has one row, and the second none."""
    edges = [0, len(frame)]
    if n_partitions > 1:
        edges = [0, 1, 1, *np.linspace(1, len(frame), n_partitions - 1).astype(int)[1:]]
    parts = [list(frame[start:stop].itertuples(index=False, name=None)) for start, stop in pairwise(edges)]
    rows = spark.sparkContext.parallelize(parts, n_partitions).flatMap(list)
    return spark.createDataFrame(rows, "key long, height double, kind string, price long, group string")


def collected(frame):
    return frame.toArrow().to_pandas()


@pytest.fixture(scope="module")
def points(spark):
    return isobag.detect_points(table(), id_column="key", **OPTIONS).sort_values("row")


@pytest.mark.parametrize("n_partitions", [1, 3, 5])
def test_points_score_as_in_memory(spark, points, n_partitions):
    found = engine.detect_points(cut(spark, table(), n_partitions), id_column="key", **OPTIONS)
    assert found.columns == ["key", "row", "score", "flagged", "reasons"]
    got = collected(found)
    for name in found.columns:
        assert got[name].tolist() == points[name].tolist(), name


def test_groups_score_as_in_memory(spark):
    expected = isobag.detect_groups(table(), by="group", **OPTIONS)
    found = collected(engine.detect_groups(cut(spark, table(), 4), by="group", **OPTIONS))
    assert list(found.columns) == list(expected.columns)
    for name in found.columns:
        assert found[name].tolist() == expected[name].tolist(), name


def test_a_model_is_fitted_saved_and_scores_new_rows_lazily(spark, tmp_path):
    frame = cut(spark, table(), 3)
    model = engine.fit(frame, **OPTIONS)
    isobag.save(model, tmp_path / "model.isobag")
    model = isobag.load(tmp_path / "model.isobag")
    found = engine.score(model, frame, id_column="key")
    assert found.columns == ["key", "row", "score", "p_value", "extrapolated", "flagged"]
    assert found.rdd.getNumPartitions() == 3
    got = collected(found)
    again = isobag.IDKPointDetector(n_estimators=9, max_samples=8, random_state=5)
    X = features(model, table())
    again.fit(X)
    assert np.array_equal(got["score"], judge_new(again, ArrayRows(X)).scores)
    assert np.array_equal(got["p_value"], again.p_values(X))


def features(model, frame):
    """The features of the rows, as a model makes them."""
    source = FrameSource(nw.from_native(frame, eager_only=True))
    return read_table(source, encoding=Encoding.from_text(model.table_)).rows.whole


def test_a_cell_without_a_value_is_named_in_one_sentence(spark):
    frame = table()
    frame.loc[399, "height"] = np.nan
    with pytest.raises(ValueError, match="'height'") as caught:
        engine.detect_points(cut(spark, frame, 3), **OPTIONS, missing="error")
    assert "the first is in row 398 of partition 2, column 'height'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_dataframe_is_refused():
    with pytest.raises(TypeError, match=r"^The table is of type DataFrame; need a Spark DataFrame.$"):
        engine.fit(table())


def test_the_estimator_scores_in_a_pipeline_and_is_saved_and_loaded(spark, tmp_path):
    twice = SQLTransformer(statement="SELECT *, price * 2 AS twice FROM __THIS__")
    estimator = engine.IDKPointEstimator(
        inputCols=["height", "twice"], nEstimators=9, maxSamples=8, seed=5, scoreCol="normality"
    )
    frame = cut(spark, table(), 3)
    model = Pipeline(stages=[twice, estimator]).fit(frame)
    found = model.transform(frame)
    assert found.columns == [*frame.columns, "twice", "normality", "p_value", "extrapolated", "flagged"]
    got = collected(found)
    own = table()
    X = np.column_stack([own["height"], own["price"] * 2.0])
    plain = isobag.IDKPointDetector(n_estimators=9, max_samples=8, random_state=5).fit(X)
    assert np.array_equal(got["normality"], judge_new(plain, ArrayRows(X)).scores)
    assert np.array_equal(got["p_value"], plain.p_values(X))
    assert got["key"].tolist() == own["key"].tolist()
    model.write().overwrite().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline"))
    assert again.stages[1].getOrDefault("scoreCol") == "normality"
    assert again.stages[1].detector.offset_ == plain.offset_
    pd.testing.assert_frame_equal(collected(again.transform(frame)), got)


def test_rows_that_lack_values_get_no_score_from_the_model(spark):
    frame = table()
    frame.loc[5, "height"] = np.nan
    given = cut(spark, frame, 3)
    estimator = engine.IDKPointEstimator(inputCols=["height"], missing="drop", nEstimators=9, maxSamples=8)
    got = estimator.fit(given).transform(given).collect()
    assert [row["key"] for row in got if row["score"] is None] == [35]
    assert [row["key"] for row in got if row["flagged"] is None] == [35]


def test_an_estimator_is_saved_with_its_parameters(spark, tmp_path):
    estimator = engine.IDKPointEstimator(inputCols=["a"], maxSamples=16, contamination=0.1, scaling=None)
    estimator.save(str(tmp_path / "estimator"))
    again = engine.IDKPointEstimator.load(str(tmp_path / "estimator"))
    assert again.extractParamMap() == estimator.extractParamMap()
    with pytest.raises(TypeError):
        engine.IDKPointEstimator(maxSamples="many")


@pytest.mark.parametrize("asked", roads.ASKED)
def test_a_dataframe_gives_the_same_ranking_reasons_and_summary_as_a_frame(spark, asked):
    frame = roads.table()
    partitions = SparkPartitions(spark.createDataFrame(frame).repartitionByRange(3, "number"))
    expected = roads.told(roads.ROADS["frame"](frame, None), roads.ASKED[asked])
    assert roads.told(partitions, roads.ASKED[asked]) == expected
