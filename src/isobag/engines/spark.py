"""Spark: partitions of a DataFrame, of Connect too, which executors look at through ``mapInArrow``."""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.utils import is_remote

from isobag.engines import Frames, MakeTables, check_version, merged, own_version

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]
FRAME_ROWS, FRAME_BYTES = 1 << 16, 1 << 27
"""What is looked at together; Spark hands over fewer."""
N_MERGERS = 8
_PARTIAL = "merger int, value binary, error binary"
_SCHEMA = pa.schema({"merger": pa.int32(), "value": pa.binary(), "error": pa.binary()})


class SparkPartitions:
    """The partitions of a DataFrame, whose query is run again whenever they are looked at."""

    def __init__(self, frame: Any) -> None:
        if not isinstance(frame, DataFrame):
            raise TypeError(f"The table is of type {type(frame).__name__}; need a Spark DataFrame.")
        self.frame = frame

    @property
    def schema(self) -> pa.Schema:
        """Names of the columns, in order, and their types."""
        return to_arrow_schema(self.frame.schema)

    def persisted(self) -> "SparkPartitions":
        """The same, computed once and kept by the executors."""
        return SparkPartitions(self.frame.persist())

    def reduce(self, work: Callable[[int, Frames], T | None], combine: Callable[[T, T], T]) -> T | None:
        """What is made of all partitions, merged by a few executors and then here; an error is that of the work."""
        sent = _sent(self.frame, (own_version(), work, combine))
        parts = self.frame.mapInArrow(partial(_run, sent), _PARTIAL).repartition(N_MERGERS, "merger")
        few = parts.mapInArrow(partial(_merge, sent), _PARTIAL).toArrow()
        value, error = _merged(iter(few.to_batches()), combine)
        if error is not None:
            raise pickle.loads(error)
        result: T | None = pickle.loads(value)
        return result

    def map(self, work: MakeTables, schema: pa.Schema, keeps: bool = True) -> "SparkPartitions":
        """A DataFrame of as many partitions, in order."""
        schema = pa.schema([*(self.schema if keeps else ()), *schema])
        sent = _sent(self.frame, (own_version(), work, keeps, schema))
        return SparkPartitions(self.frame.mapInArrow(partial(_map, sent), from_arrow_schema(schema)))

    def exchange(self, work: MakeTables, schema: pa.Schema) -> "SparkPartitions":
        """Tables made of the partitions, shuffled."""
        shuffled = self.map(work, schema, keeps=False).frame.repartition("bucket")
        return SparkPartitions(shuffled.sortWithinPartitions("bucket"))


def _sent(frame: DataFrame, thing: Any) -> Any:
    """Sent once to each executor, as a broadcast variable; Connect has none: there it is a part of the plan."""
    packed = cloudpickle.dumps(thing)
    return packed if is_remote() else frame.sparkSession.sparkContext.broadcast(packed)


def _value(sent: Any) -> Any:
    return cloudpickle.loads(sent if isinstance(sent, bytes) else sent.value)


def _run(sent: Any, batches: Batches) -> Batches:
    """What is made of a partition, or the error that says what is wrong with its rows: there is no use in retries."""
    version, work, _ = _value(sent)
    number, value, error = _number(), None, None
    try:
        check_version(version, _executor())
        value = cloudpickle.dumps(work(number, _frames(batches)))
    except (ValueError, TypeError) as reason:
        error = pickle.dumps(reason)
    for _ in batches:  # Spark gives up a process that does not read to the end
        pass
    yield _row(number % N_MERGERS, value, error)


def _merge(sent: Any, batches: Batches) -> Batches:
    """Partial results of some partitions, merged."""
    value, error = _merged(batches, _value(sent)[2])
    yield _row(0, value, error)


def _merged(batches: Batches, combine: Callable[[Any, Any], Any]) -> tuple[bytes, bytes | None]:
    """Partial results merged to one, pickled, and the first error."""
    total, error = None, None
    for row in (row for batch in batches for row in batch.to_pylist()):
        error = error or row["error"]
        if error is None:
            total = merged(combine, (total, pickle.loads(row["value"])))
    return cloudpickle.dumps(total), error


def _map(sent: Any, batches: Batches) -> Batches:
    """The tables that are made of the frames of a partition, beside their own columns if these are kept."""
    version, work, keeps, schema = _value(sent)
    check_version(version, _executor())
    passed: list[pa.Table] = []

    def frames() -> Iterator[pa.Table]:
        for frame in _frames(batches):
            passed[:] = [frame]
            yield frame

    for made in work(_number(), frames()):
        columns = [*(passed[0].columns if keeps else ()), *made.columns]
        yield from pa.table(columns, names=schema.names).cast(schema).to_batches()


def _frames(batches: Batches) -> Iterator[pa.Table]:
    """The batches of Spark as tables of about FRAME_ROWS rows or FRAME_BYTES."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= FRAME_ROWS or sum(one.nbytes for one in waiting) >= FRAME_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if any(one.num_rows for one in waiting):
        yield pa.Table.from_batches(waiting)


def _number() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _executor() -> str:
    return f"Spark executor on {socket.gethostname()} (process {os.getpid()})"


def _row(merger: int, value: bytes | None, error: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"merger": pa.array([merger], pa.int32()), "value": [value], "error": [error]}, _SCHEMA)
