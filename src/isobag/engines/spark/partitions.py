"""A Spark DataFrame as partitions: work goes to the executors by ``mapInArrow``, and what it makes is merged there."""

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type

from isobag.backends.arrays import Ints
from isobag.data.partitions import Collection, Combine, Finish, Frames, Split, Work
from isobag.engines.spark import tasks
from isobag.engines.spark.tasks import Sent, send
from isobag.engines.versions import own_version

T = TypeVar("T")
U = TypeVar("U")

FAN_IN = 32
"""How many neighbours are merged at a time, and how many partial results reach the driver at most."""
_MANY = 1 << 20
"""More partitions than there are: coalesced to so many, rows stay where they are."""

_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_ERROR = re.compile(r"^[\w.]+(Error|Exception|Exit|Interrupt)\b")
_JAVA_ERROR = re.compile(r"^(Caused by|): ?([\w$]+\.)+[\w$]+: (?P<words>.+)")


class SparkPartitions(Collection):
    """The partitions of a DataFrame.

    Every pass over the rows runs the query of the DataFrame again, and all must see the same rows in the same order.
    That is checked: after a shuffle without a sort, say, it need not be so, and the DataFrame must be persisted first.
    """

    def __init__(self, frame: DataFrame) -> None:
        if not isinstance(frame, DataFrame):
            raise TypeError(f"The table is of type {type(frame).__name__}; need a Spark DataFrame.")
        self.frame = frame
        self.columns = tuple(frame.columns)
        self._known: Any = None

    @cached_property
    def n_partitions(self) -> int:  # type: ignore[override]  # found when first asked for: it takes a run of the query
        """How many there are; no row leaves the JVM to find out."""
        n_partitions = self._count()
        if not n_partitions:  # rows of the client itself: Spark filters them beforehand, as if all were in partition 0
            self.frame = self.frame.coalesce(_MANY)
            n_partitions = self._count()
        return n_partitions

    def _count(self) -> int:
        nothing = self.frame.where(sql.spark_partition_id() < 0)
        with in_one_sentence():
            return int(nothing.mapInArrow(tasks.mark, "place long").count())

    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the partitions, merged as a tree on the executors, and its root here."""
        frame, places = self._chosen(which)
        with closing(send(frame, tasks.Job(work, combine, places, self._known, own_version()))) as sent:
            rows, n_rows = frame.mapInArrow(lambda batches: tasks.run(batches, sent), tasks.PARTIAL), len(places)
            while n_rows > FAN_IN:
                n_rows = -(-n_rows // FAN_IN)
                rows = _merged(rows.withColumn("bucket", sql.expr(f"place div {FAN_IN}")), n_rows, sent)
            value, fingerprints = _gathered(rows, combine)
        if which is None and self._known is None:
            self._remember(fingerprints)
        return value

    def exchange(
        self, split: Split[T], combine: Combine[T], finish: Finish[T, U], join: Combine[U], which: Ints | None = None
    ) -> U:
        """Parts of all partitions brought together by bucket; what is made of the few buckets is merged here."""
        frame, places = self._chosen(which)
        with closing(send(frame, tasks.Job(split, combine, places, self._known, own_version(), finish))) as sent:
            parts = frame.mapInArrow(lambda batches: tasks.run(batches, sent, splits=True), tasks.PARTIAL)
            value, _ = _gathered(_merged(parts, min(len(places), FAN_IN), sent), join)
        return value

    def map(self, work: Callable[[int, Frames], Iterator[pa.Table]], schema: pa.Schema) -> DataFrame:
        """What ``work`` makes of each partition, table by table: a DataFrame of as many partitions, in order, lazy."""
        sent = send(self.frame, (work, schema, self._known, own_version()))
        return self.frame.mapInArrow(lambda batches: tasks.map_tables(batches, sent), from_arrow_schema(schema))

    def types(self, names: Sequence[str]) -> list[pa.DataType]:
        """Arrow types of some columns."""
        return [to_arrow_type(self.frame.schema[name].dataType) for name in names]

    def give(self, table: pa.Table) -> DataFrame:
        """A table as a DataFrame."""
        return self.frame.sparkSession.createDataFrame(table)

    def _chosen(self, which: Ints | None) -> tuple[DataFrame, dict[int, int]]:
        """The rows of some partitions, and the place of each; the others are there too, but without rows."""
        if which is None or len(which) == self.n_partitions:
            return self.frame, {number: number for number in range(self.n_partitions)}
        places = {number: place for place, number in enumerate(which.tolist())}
        return self.frame.where(sql.spark_partition_id().isin(list(places))), places

    def _remember(self, fingerprints: bytes) -> None:
        self._known = np.frombuffer(fingerprints, tasks.FINGERPRINT)
        if len(self._known) != self.n_partitions:
            raise ValueError(
                f"The DataFrame had {self.n_partitions:,} partitions in one pass and {len(self._known):,} in a later; "
                f"{tasks.REMEDY}"
            )


def _merged(rows: DataFrame, n_tasks: int, sent: Sent) -> DataFrame:
    """Partial results merged by bucket, on the executors."""
    by_bucket = rows.repartition(n_tasks, "bucket").sortWithinPartitions("bucket", "place")
    return by_bucket.mapInArrow(lambda batches: tasks.merge(batches, sent), tasks.PARTIAL)


def _gathered(rows: DataFrame, combine: Combine[T]) -> tuple[T, bytes]:
    """Partial results merged here, and the fingerprints of the partitions."""
    with in_one_sentence():
        partials = sorted(rows.toArrow().to_pylist(), key=lambda row: row["place"])
    if not partials:
        raise ValueError("The table has no rows.")
    error, fingerprints, value = tasks.join(partials, combine)
    if error is not None:
        kind, words = pickle.loads(error)
        raise kind(words)
    return value, fingerprints


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn what Spark says of a job that failed into one sentence; its log has the rest."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise RuntimeError(f"Spark failed: {sentence_of(str(error))} (see its log)") from None


def sentence_of(words: str) -> str:
    """What happened: the error of a Python traceback, else the last cause of Java with words, else the first line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()] or ["no reason given"]
    if _TRACEBACK in lines:
        return next(filter(_PYTHON_ERROR.match, lines[lines.index(_TRACEBACK) :]), lines[-1])
    causes = [match["words"] for match in map(_JAVA_ERROR.match, lines) if match is not None]
    return (causes or lines[:1])[-1]
