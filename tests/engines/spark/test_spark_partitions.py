"""Work goes to the partitions of a DataFrame and comes back merged in order, or as one sentence."""

import os
import time
from operator import add

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="no PySpark found; pip install 'isobag[spark]' to test the engine")

from pyspark.sql import functions as sql

import isobag
from isobag.engines.spark import partitions as module
from isobag.engines.spark.partitions import SparkPartitions
from isobag.engines.spark.tasks import Fingerprint

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def rows(number, frames):
    return [(number, frame["id"].to_pylist()) for frame in frames] or [(number, [])]


@pytest.fixture
def four(spark):
    """Of ten rows four partitions, the third of which is empty."""
    return SparkPartitions(spark.range(0, 10, 1, 4).where("id < 5 or id > 6"))


FOUR = [(0, [0, 1]), (1, [2, 3, 4]), (2, []), (3, [7, 8, 9])]


def test_every_partition_is_seen_once_in_order_the_empty_one_too(four):
    assert four.n_partitions == 4
    assert four.columns == ("id",)
    assert four.run(rows, add) == FOUR


def test_some_partitions_alone_are_looked_at(four):
    assert four.run(rows, add, np.array([1, 3])) == [FOUR[1], FOUR[3]]
    assert four.run(rows, add, np.array([2])) == [FOUR[2]]


def test_rows_of_the_client_are_in_partitions_too(spark):
    partitions = SparkPartitions(spark.createDataFrame(pa.table({"id": list(range(10))})))
    assert partitions.n_partitions >= 1
    seen = partitions.run(rows, add)
    assert [number for number, _ in seen] == list(range(partitions.n_partitions))
    assert [one for _, own in seen for one in own] == list(range(10))
    last = partitions.n_partitions - 1
    assert partitions.run(rows, add, np.array([last])) == [seen[last]]


@pytest.mark.parametrize("which", [None, np.array([0, 1, 2, 4, 5, 7, 8])])
def test_partial_results_merge_in_order_on_the_executors(spark, monkeypatch, which):
    monkeypatch.setattr(module, "FAN_IN", 2)  # seven or nine results in three or four levels
    driver = os.getpid()

    def merge(a, b):
        return a[0] + b[0], a[1] | b[1] | {os.getpid()}

    partitions = SparkPartitions(spark.range(0, 9, 1, 9))
    order, processes = partitions.run(lambda number, frames: ([number], set()), merge, which)
    assert order == (list(range(9)) if which is None else which.tolist())
    assert len(processes - {driver}) >= 1


def test_work_that_stops_early_leaves_nothing_behind(four):
    assert four.run(lambda number, frames: [next(frames, None) is not None], add) == [True, True, False, True]
    assert four.run(rows, add) == FOUR


@pytest.mark.parametrize("which", [None, np.array([0, 1, 3])])
def test_parts_meet_by_bucket(four, which):
    def split(number, frames):
        ids = [i for frame in frames for i in frame["id"].to_pylist()]
        return {bucket: [i for i in ids if i % 3 == bucket] for bucket in {i % 3 for i in ids}}

    def finish(bucket, ids):
        return [(bucket, ids)]

    assert four.exchange(split, add, finish, add, which) == [(0, [0, 3, 9]), (1, [1, 4, 7]), (2, [2, 8])]


def test_the_output_is_lazy_and_in_order(four):
    def double(number, frames):
        for frame in frames:
            yield pa.table({"number": [number] * len(frame), "twice": pa.compute.multiply(frame["id"], 2)})

    found = four.map(double, pa.schema([("number", pa.int32()), ("twice", pa.float64())]))
    assert found.schema.simpleString() == "struct<number:int,twice:double>"
    expected = [(number, 2.0 * i) for number, ids in FOUR for i in ids]
    assert [tuple(row) for row in found.collect()] == expected


def test_what_travels_is_unpacked_once_in_each_process(spark):
    class Heavy:
        def __reduce__(self):
            return _count_unpacking, ()

    heavy = Heavy()
    partitions = SparkPartitions(spark.range(0, 12, 1, 12))
    found = partitions.run(lambda number, frames: [(os.getpid(), heavy)], add)
    assert len({process for process, _ in found}) <= 4
    assert max(time for _, time in found) == 1


def _count_unpacking():
    os.environ["UNPACKED"] = str(int(os.environ.get("UNPACKED", "0")) + 1)
    return int(os.environ["UNPACKED"])


def fail(error):
    def work(number, frames):
        n_rows = sum(len(frame) for frame in frames)
        if number in (1, 3):
            raise error(f"partition {number}, row 2, column 'id': {n_rows} is wrong.")
        return [n_rows]

    return work


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_the_first_wrong_cell_comes_back_as_one_sentence(four, error):
    with pytest.raises(error) as caught:
        four.run(fail(error), add)
    assert str(caught.value) == "partition 1, row 2, column 'id': 3 is wrong."
    assert four.run(rows, add) == FOUR  # and Spark stays usable


def test_an_error_is_not_lost_in_the_tree(spark, monkeypatch):
    monkeypatch.setattr(module, "FAN_IN", 2)
    with pytest.raises(ValueError, match=r"^partition 1, row 2, column 'id': 1 is wrong.$"):
        SparkPartitions(spark.range(0, 6, 1, 6)).run(fail(ValueError), add)


def test_memory_that_is_not_enough_names_the_partition(four):
    def work(number, frames):
        if number == 3:
            raise MemoryError
        return []

    with pytest.raises(MemoryError, match=r"^partition 3: memory is not enough for its rows.$"):
        four.run(work, add)


def test_a_wrong_part_of_an_exchange_is_one_sentence(four):
    with pytest.raises(ValueError, match=r"^partition 1, row 2, column 'id': 3 is wrong.$"):
        four.exchange(lambda number, frames: {0: fail(ValueError)(number, frames)}, add, lambda b, v: v, add)


def test_what_else_goes_wrong_is_one_sentence_too(four):
    with pytest.raises(RuntimeError) as caught:
        four.run(lambda number, frames: 1 // number, add)
    assert str(caught.value).startswith("Spark failed: ZeroDivisionError: ")
    assert "\n" not in str(caught.value)
    with pytest.raises(RuntimeError, match=r"^Spark failed: .*Python worker exited unexpectedly.*"):
        four.run(lambda number, frames: os._exit(1), add)
    assert four.run(rows, add) == FOUR


def test_a_query_that_gives_other_rows_each_time_is_refused(spark):
    clock = sql.udf(lambda i: time.time() + i, "double").asNondeterministic()
    partitions = SparkPartitions(spark.range(0, 9, 1, 3).withColumn("at", clock("id")))
    count = [3, 3, 3]
    assert partitions.run(lambda number, frames: [sum(map(len, frames))], add) == count
    with pytest.raises(ValueError, match=r"^partition 0 had other rows, or another order, in a later pass; .*persist"):
        partitions.run(lambda number, frames: [sum(map(len, frames))], add)


def test_a_shuffle_that_is_persisted_passes(spark):
    frame = spark.range(0, 1_000, 1, 4).repartition(5).persist()
    partitions = SparkPartitions(frame)
    first = partitions.run(rows, add)
    assert partitions.run(rows, add) == first
    frame.unpersist()


BATCH = pa.table(
    {
        "x": pa.array([1.5, None, -0.0, 4.0, 5.0]),
        "word": ["a", "", None, "bcd", "e"],
        "yes": [True, None, False, True, False],
        "day": pa.array([1, 2, None, 4, 5], pa.date32()),
        "one": pa.array([1, 2, 3, 4, 5], pa.int8()),
        "cash": pa.array([1, 2, 3, 4, 5], pa.decimal128(9, 2)),
        "bytes": pa.array([b"a", b"b", b"", b"d", b"e"]),
        "long": pa.array(["a", "b", "c", "d", None], pa.large_string()),
    }
)


def checksum(table, *sizes):
    found, start = Fingerprint(), 0
    for size in sizes:
        for batch in table.slice(start, size).combine_chunks().to_batches():
            found.add(batch)
        start += size
    return found.n_rows, found.checksum


def test_a_fingerprint_does_not_depend_on_batches():
    assert checksum(BATCH, 5) == checksum(BATCH, 2, 3) == checksum(BATCH, 1, 1, 1, 2)


@pytest.mark.parametrize("name", BATCH.column_names)
def test_a_fingerprint_tells_other_rows_and_another_order(name):
    alone = BATCH.select([name])
    assert (
        len({checksum(alone, 5), checksum(alone.take([1, 0, 2, 3, 4]), 5), checksum(alone.take([0, 1, 2, 3, 3]), 5)})
        == 3
    )


def test_an_executor_of_another_version_is_an_error_that_names_it(four, monkeypatch):
    monkeypatch.setattr(module, "own_version", lambda: "0.0.1")
    sentence = rf"The Spark executor on \S+ \(process \d+\) has isobag {isobag.__version__}; need 0\.0\.1, as here"
    with pytest.raises(ValueError, match=sentence):
        four.run(rows, add)
    tables = four.map(lambda number, frames: iter(frames), pa.schema([("id", pa.int64())]))
    with pytest.raises(Exception, match=sentence):
        tables.collect()
