"""What runs on the executors: work on a partition, and the merging of partial results.

What is needed there travels once to each machine. A partial result travels as a row: its place among its neighbours,
the bucket it belongs to, the error that came up instead of it, the fingerprints of its partitions, and the result
itself, pickled.
"""

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from os import getpid
from socket import gethostname
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql.utils import is_remote

from isobag.backends.threads import slices
from isobag.data.partitions import Combine, Frames, Work
from isobag.engines.versions import check_version

FRAME_ROWS = 1 << 16
"""Rows of a frame that work gets at a time; Spark hands over fewer."""
PARTIAL = "bucket long, place long, error binary, fingerprints binary, value binary"
FINGERPRINT = np.dtype([("n_rows", np.int64), ("checksum", np.int64)])
REMEDY = (
    "its query gives other rows, or the same in another order, whenever it runs: sort within partitions by a key, or "
    "persist, checkpoint or write the DataFrame first."
)
_COLUMNS = ("bucket", "place", "error", "fingerprints", "value")
_TYPES = (pa.int64(), pa.int64(), pa.binary(), pa.binary(), pa.binary())
_TELLING = (ValueError, TypeError, MemoryError)
"""Errors that say what is wrong with the rows, or with their number: there is no use in trying again."""

Batches = Iterator[pa.RecordBatch]
_KEPT = 2
_unpacked: OrderedDict[str, Any] = OrderedDict()


@dataclass(frozen=True)
class Sent:
    """Something sent to the executors: a broadcast variable, or, over Spark Connect, which has none, part of the plan.

    key : its own.
    packed : its bytes, or the variable that holds them.
    """

    key: str
    packed: Any

    @property
    def value(self) -> Any:
        """What was sent; a process keeps the last few, for the tasks that follow."""
        if self.key not in _unpacked:
            packed = self.packed if isinstance(self.packed, bytes) else self.packed.value
            _unpacked[self.key] = cloudpickle.loads(packed)
        _unpacked.move_to_end(self.key)
        while len(_unpacked) > _KEPT:
            _unpacked.popitem(last=False)
        return _unpacked[self.key]

    def close(self) -> None:
        """Free it everywhere: nothing needs it any more."""
        if not isinstance(self.packed, bytes):
            self.packed.destroy()


def send(frame: Any, value: Any) -> Sent:
    """Send something to the executors of a frame."""
    packed = cloudpickle.dumps(value)
    return Sent(uuid4().hex, packed if is_remote() else frame.sparkSession.sparkContext.broadcast(packed))


class Fingerprint:
    """Number of rows and a checksum of their values in order, whatever the batches they come in.

    Columns of numbers, texts, bytes, times, and true and false count; nested ones do not.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._sums: dict[tuple[int, str], int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the rows that follow."""
        for j, column in enumerate(batch.columns):
            for what, part in _parts(column, self.n_rows):
                self._sums[j, what] = zlib.crc32(part, self._sums.get((j, what), 0))
        self.n_rows += batch.num_rows

    @property
    def checksum(self) -> int:
        """One number for all columns."""
        return zlib.crc32(repr(sorted(self._sums.items())).encode())


def _parts(column: Any, first_row: int) -> Iterator[tuple[str, Any]]:
    """The values of a column as bytes, and where none is; what lies in memory there does not count."""
    if column.null_count:
        yield "nulls", np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) + first_row
        column = column.drop_null()
    kind = column.type
    if pa.types.is_boolean(kind):
        yield "values", column.to_numpy(zero_copy_only=False)
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        yield "values", memoryview(column.buffers()[1])[column.offset * width : (column.offset + len(column)) * width]
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        yield from _texts(column, np.dtype(np.int64))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from _texts(column, np.dtype(np.int32))


def _texts(column: Any, offset: np.dtype[Any]) -> Iterator[tuple[str, Any]]:
    if len(column):
        _, offsets, values = column.buffers()
        ends = np.frombuffer(offsets, offset, len(column) + 1, column.offset * offset.itemsize)
        yield "lengths", np.diff(ends.astype(np.int64))
        if ends[-1] > ends[0]:
            yield "values", memoryview(values)[ends[0] : ends[-1]]


class Job(NamedTuple):
    """What an executor must know of a pass over the rows.

    places : the place of the result of each partition that takes part.
    known : fingerprints of all partitions in an earlier pass, if there was one.
    version : of isobag, which must be that of the driver.
    """

    work: Work[Any]
    combine: Combine[Any]
    places: dict[int, int]
    known: Any
    version: str
    finish: Callable[[int, Any], Any] | None = None


def mark(batches: Batches) -> Batches:
    """A row for each partition, whatever is in it."""
    _drain(batches)
    yield pa.RecordBatch.from_arrays([pa.array([0])], ["place"])


def run(batches: Batches, sent: Sent, splits: bool = False) -> Batches:
    """The partial result of a partition, or with ``splits`` one for each bucket; or what is wrong with it."""
    job: Job = sent.value
    number = partition_number()
    if number in job.places:
        place = job.places[number]
        value, error, own = _attempt(job, number, batches)
        if error is not None:
            yield _row(0, place, error, own, None)
        else:
            for bucket, part in value.items() if splits else ((0, value),):
                yield _row(bucket, place, None, own, cloudpickle.dumps(part))
    _drain(batches)


def merge(batches: Batches, sent: Sent) -> Batches:
    """Partial results, sorted by bucket and place: those of a bucket merged to one, whose place is the bucket's."""
    job: Job = sent.value
    check_version(job.version, executor())
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    for bucket, own in groupby(rows, key=lambda row: row["bucket"]):
        error, fingerprints, value = join(own, job.combine)
        if error is None and job.finish is not None:
            value = job.finish(bucket, value)
        yield _row(0, bucket, error, fingerprints, None if error else cloudpickle.dumps(value))


def map_tables(batches: Batches, sent: Sent) -> Batches:
    """The output of a partition, table by table."""
    work, schema, known, version = sent.value
    check_version(version, executor())
    number = partition_number()
    seen = Fingerprint()
    frames = _frames(batches, seen)
    for table in work(number, frames):
        yield from table.select(schema.names).cast(schema).to_batches()
    _drain(frames)
    check_same(number, seen, known)


def add_columns(batches: Batches, sent: Sent) -> Batches:
    """What work makes of the frames of a partition, each with columns added."""
    work, version = sent.value
    check_version(version, executor())
    for table in work(partition_number(), _frames(batches, None)):
        yield from table.to_batches()


def join(rows: Iterable[dict[str, Any]], combine: Combine[Any]) -> tuple[bytes | None, bytes, Any]:
    """Of partial results in order: the first error, if any, all fingerprints, and the results merged."""
    error, fingerprints, value, is_first = None, [], None, True
    for row in rows:
        fingerprints.append(row["fingerprints"])
        error = error if error is not None else row["error"]
        if error is None:
            own = pickle.loads(row["value"])
            value, is_first = own if is_first else combine(value, own), False
    return error, b"".join(fingerprints), value


def check_same(number: int, seen: Fingerprint, known: Any) -> None:
    """Refuse a partition that is not what it was in an earlier pass."""
    if known is None:
        return
    n_rows, checksum = known[number].tolist() if number < len(known) else (0, 0)
    if n_rows != seen.n_rows:
        raise ValueError(f"partition {number} had {n_rows:,} rows in one pass and {seen.n_rows:,} in a later; {REMEDY}")
    if checksum != seen.checksum:
        raise ValueError(f"partition {number} had other rows, or another order, in a later pass; {REMEDY}")


def executor() -> str:
    """The machine and the process that this runs in, in words."""
    return f"The Spark executor on {gethostname()} (process {getpid()})"


def partition_number() -> int:
    """Number of the partition that this process works on."""
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _attempt(job: Job, number: int, batches: Batches) -> tuple[Any, bytes | None, bytes]:
    """What work makes of a partition, the error that came up instead, and the fingerprint of the partition."""
    seen = Fingerprint()
    value, error = None, None
    try:
        check_version(job.version, executor())
        frames = _frames(batches, seen)
        value = job.work(number, frames)
        _drain(frames)
        check_same(number, seen, job.known)
    except _TELLING as reason:
        kind = next(one for one in _TELLING if isinstance(reason, one))
        words = str(reason) or "memory is not enough for its rows."
        error = pickle.dumps((kind, words if words.startswith("partition ") else f"partition {number}: {words}"))
    return value, error, np.array([(seen.n_rows, seen.checksum)], FINGERPRINT).tobytes()


def _frames(batches: Batches, seen: Fingerprint | None) -> Frames:
    """The batches of Spark as frames of about FRAME_ROWS rows, looked at in passing."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        if seen is not None:
            seen.add(batch)
        for rows in slices(batch.num_rows, FRAME_ROWS):
            piece = batch.slice(rows.start, rows.stop - rows.start)
            waiting.append(piece)
            n_waiting += piece.num_rows
            if n_waiting >= FRAME_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting, n_waiting = [], 0
    if n_waiting:
        yield pa.Table.from_batches(waiting)


def _drain(rest: Iterable[Any]) -> None:
    """Read to the end: Spark gives up a process that does not."""
    for _ in rest:
        pass


def _row(*values: Any) -> pa.RecordBatch:
    arrays = [pa.array([value], kind) for value, kind in zip(values, _TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, _COLUMNS)
