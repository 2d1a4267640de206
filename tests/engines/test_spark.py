"""DataFrames of Spark: the scores of a frame in memory, over Connect too, and what happens if a process dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isobag

HOW = {"features": ["amount", "hour", "kind", "ok"], "n_estimators": 12, "random_state": 0}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def in_order(ranked):
    return ranked.sort_values("row").reset_index(drop=True)


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_rows_learned_from_and_new_rows_score_as_in_memory(spark, cards, n_partitions):
    frame = spark.createDataFrame(cards).coalesce(n_partitions)
    ranked, expected = isobag.detect(frame, **HOW).to_frame(), in_order(isobag.detect(cards, **HOW).to_frame())
    assert type(ranked) is type(frame) and ranked.columns[:5] == frame.columns
    ranked = ranked.toArrow().to_pandas()
    assert ranked["score"].tolist() == expected["score"].tolist() and ranked["rank"].iloc[7] == 1
    assert ranked["reasons"].iloc[7].startswith("amount 900")
    model = isobag.fit(cards[:2000], **HOW)
    scored, expected = (
        model.score(frame, fdr=0.2).to_frame().toArrow().to_pandas(),
        in_order(model.score(cards, fdr=0.2).to_frame()),
    )
    for name in ("score", "p_value", "extrapolated", "flagged"):
        assert scored[name].tolist() == expected[name].tolist()


def test_what_is_wrong_is_named_with_partition_and_row(spark, cards):
    gap = cards.copy()
    gap.loc[4, "hour"] = np.nan
    with pytest.raises(ValueError, match=r"hour' \(1\) of 3,000 rows; .*row 4"):
        isobag.detect(spark.createDataFrame(gap).coalesce(1), missing="error", **HOW).to_frame()
    with pytest.raises(ValueError, match=r"partition 0 has no column|no such column"):
        isobag.detect(spark.createDataFrame(cards.drop(columns="hour")), **HOW).to_frame()


def test_the_result_after_a_process_was_killed_is_the_result(spark, cards, tmp_path):
    flag = tmp_path / "died"

    def die_once(batches):
        for batch in batches:
            if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    frame = spark.createDataFrame(cards).coalesce(2)
    killed = isobag.detect(frame.mapInArrow(die_once, frame.schema), **HOW).to_frame().toArrow().to_pandas()
    assert flag.exists()
    pd.testing.assert_frame_equal(killed, isobag.detect(frame, **HOW).to_frame().toArrow().to_pandas())


def test_an_executor_of_another_version_is_refused_by_name_and_version(spark, cards, monkeypatch):
    frame = spark.createDataFrame(cards)
    monkeypatch.setattr(isobag, "__version__", "9.9.9")  # of the driver alone
    with pytest.raises(ValueError, match=r"Spark executor on .* \(process \d+\) has isobag .*; need 9\.9\.9"):
        isobag.detect(frame, **HOW).to_frame()


def test_groups_score_as_in_memory(spark, cards):
    how = {"by": "account", "features": ["amount", "hour"], "n_estimators": 8, "random_state": 0}
    frame = spark.createDataFrame(cards).repartition(3, "hour")  # rows of an account lie in all partitions

    def by_label(ranked):
        return ranked.sort_values("account").reset_index(drop=True)

    ordered = frame.toArrow().to_pandas()
    ranked = by_label(isobag.detect(frame, **how).to_frame().toArrow().to_pandas())
    expected = by_label(isobag.detect(ordered, **how).to_frame())
    for name in ("account", "n_points", "score", "flagged", "reasons"):
        assert ranked[name].tolist() == expected[name].tolist(), name
    model = isobag.fit(frame, **how)
    scored, expected = (
        by_label(model.score(frame).to_frame().toArrow().to_pandas()),
        by_label(model.score(ordered).to_frame()),
    )
    assert scored["p_value"].tolist() == expected["p_value"].tolist()


_CONNECT = """
import warnings; warnings.simplefilter("ignore")
import pandas as pd, isobag
from conftest import session
frame = pd.read_parquet("cards.parquet")
spark = session(remote="local[2]")
own = spark.createDataFrame(frame)
assert type(own).__module__.startswith("pyspark.sql.connect")
isobag.detect(own, **HOW).to_frame().toArrow().to_pandas().to_csv("rows.csv")
groups = isobag.detect(own, by="account", **HOW).to_frame().toArrow().to_pandas()
groups.sort_values("account").to_csv("groups.csv")
"""


def test_a_frame_of_connect_is_as_good(cards, tmp_path, spark):
    pytest.importorskip("grpc")
    cards.to_parquet(tmp_path / "cards.parquet")
    path = [Path(isobag.__file__).parents[1], Path(__file__).parent]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYSPARK_PYTHON": sys.executable}
    code = f"HOW = {HOW!r}\n{_CONNECT}"  # in a process of its own: one has one kind of session
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, timeout=300)
    rows = pd.read_csv(tmp_path / "rows.csv")
    groups = isobag.detect(cards, by="account", **HOW).to_frame().sort_values("account")
    assert pd.read_csv(tmp_path / "groups.csv")["score"].tolist() == groups["score"].tolist()
    assert rows["score"].tolist() == in_order(isobag.detect(cards, **HOW).to_frame())["score"].tolist()
