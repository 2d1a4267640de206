"""Structured Streaming: each micro-batch of a file source is learned exactly once, whatever fails on the way."""

import os

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="no PySpark found; pip install 'isobag[spark]' to test the engine")

from isobag import IDKStreamDetector
from isobag.engines.spark import StreamUpdate
from isobag.storage.streamfile import load_stream, save_stream

N_BATCHES, N_ROWS = 5, 120
ROWS = np.random.default_rng(0).normal(size=(N_BATCHES * N_ROWS, 2))
ROWS[500] = 60.0
DETECTOR = IDKStreamDetector(200, 30, fdr=0.2, random_state=0)


class BrokenError(RuntimeError):
    """What a driver that dies would leave behind."""


@pytest.fixture
def folder(tmp_path):
    """A file for each micro-batch, the older ones first."""
    source = tmp_path / "source"
    source.mkdir()
    for number, rows in enumerate(np.split(ROWS, N_BATCHES)):
        path = source / f"{number}.parquet"
        own = np.arange(len(rows)) + number * len(rows)
        frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "number": own})
        frame.sample(frac=1, random_state=0).to_parquet(path)
        os.utime(path, (1e9 + number, 1e9 + number))
    return tmp_path


def run(spark, folder, update, checkpoint="checkpoint"):
    """All files that are there, one a micro-batch."""
    source = spark.readStream.schema("a double, b double, number long").option("maxFilesPerTrigger", 1)
    stream = source.parquet(str(folder / "source")).writeStream.foreachBatch(update)
    query = stream.option("checkpointLocation", str(folder / checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def updating(folder, **how):
    return StreamUpdate(folder / "state.isobag", ["a", "b"], DETECTOR, order_by="number", **how)


def expected_state(folder):
    """The state that the same rows leave without Spark."""
    detector = IDKStreamDetector(**DETECTOR.get_params())
    for rows in np.split(ROWS, N_BATCHES):
        followed = detector.follow(rows)
        detector.alarms(followed.p_values[np.isfinite(followed.scores)])
    save_stream(detector, folder / "expected.isobag", {"batch": N_BATCHES - 1, "features": ["a", "b"]})
    return (folder / "expected.isobag").read_bytes()


def test_the_state_is_that_of_the_same_rows_in_memory_and_odd_rows_are_told(spark, folder):
    alarms = []
    run(spark, folder, updating(folder, on_alarms=lambda table, number: alarms.append((number, table.to_pandas()))))
    assert (folder / "state.isobag").read_bytes() == expected_state(folder)
    odd = pd.concat([table.assign(batch=number) for number, table in alarms])
    (row,) = odd[odd["number"] == 500].to_dict("records")
    assert row["batch"] == 4
    assert row["a"] == 60.0
    assert row["p_value"] < 0.01


@pytest.mark.parametrize("is_learned", [False, True])
def test_a_driver_that_dies_before_or_after_the_state_is_written_counts_no_row_twice(spark, folder, is_learned):
    for dies_at in (1, 3):
        update = updating(folder)

        def dying(batch, number, update=update, dies_at=dies_at):
            if number == dies_at and not is_learned:
                raise BrokenError
            update(batch, number)
            if number == dies_at:
                raise BrokenError

        with pytest.raises(Exception, match="BrokenError"):
            run(spark, folder, dying)
        assert load_stream(folder / "state.isobag")[1]["batch"] == dies_at - (not is_learned)
    run(spark, folder, updating(folder))
    assert (folder / "state.isobag").read_bytes() == expected_state(folder)


def test_one_function_goes_on_after_a_failure(spark, folder):
    failures = [BrokenError()]

    def fail_once(table, number):
        if failures:
            raise failures.pop()

    update = updating(folder, on_alarms=fail_once)
    with pytest.raises(Exception, match="BrokenError"):
        run(spark, folder, update)
    run(spark, folder, update)
    assert (folder / "state.isobag").read_bytes() == expected_state(folder)


def test_a_state_of_another_checkpoint_is_refused(spark, folder):
    run(spark, folder, updating(folder))
    before = (folder / "state.isobag").read_bytes()
    with pytest.raises(Exception, match="micro-batch 0 cannot follow 4"):
        run(spark, folder, updating(folder), checkpoint="another")
    assert (folder / "state.isobag").read_bytes() == before


def test_a_column_that_is_not_there_is_named(spark, folder):
    with pytest.raises(Exception, match="no column 'c'; there are"):
        run(spark, folder, StreamUpdate(folder / "state.isobag", ["a", "c"], DETECTOR))
