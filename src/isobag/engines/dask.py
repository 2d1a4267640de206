"""Dask: partitions of a dataframe, looked at by the workers of the active client, or by threads if there is none."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
from dask.utils import parse_timedelta

from isobag.engines import Frames, MakeTables, check_version, merged, own_version

T = TypeVar("T")
MERGED = 8
"""Partial results that are merged by one task."""
PATIENCE_S, LOOK_S = 30.0, 2.0
"""Seconds without any worker after which waiting ends, unless Dask is set to others, and seconds between looks."""
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1TB"}
"""A model is a part of the graph, once: so the scheduler has it still when a worker dies."""


class DaskPartitions:
    """The partitions of a Dask dataframe."""

    def __init__(self, frame: Any) -> None:
        if not isinstance(frame, dd.DataFrame):
            raise TypeError(f"The table is of type {type(frame).__name__}; need a Dask dataframe (dd.from_dask_array).")
        self.frame = frame

    @property
    def schema(self) -> pa.Schema:
        """Names of the columns, in order, and their types."""
        return pa.Schema.from_pandas(dd.utils.make_meta(self.frame).rename(columns=str), preserve_index=False)

    def persisted(self) -> "DaskPartitions":
        """The same, computed once and kept by the workers."""
        return DaskPartitions(self.frame.persist())

    def reduce(self, work: Callable[[int, Frames], T | None], combine: Callable[[T, T], T]) -> T | None:
        """What is made of all partitions, merged as a tree on the workers."""
        run = dask.delayed(_run, pure=False)
        sent, merging = _sent(work), _sent(combine)
        level = [run(own_version(), sent, number, part) for number, part in enumerate(self.frame.to_delayed())]
        while len(level) > 1:
            pieces = (level[first : first + MERGED] for first in range(0, len(level), MERGED))
            level = [dask.delayed(merged, pure=False)(merging, piece) for piece in pieces]
        result: T | None = _result(level[0])
        return result

    def map(self, work: MakeTables, schema: pa.Schema, keeps: bool = True) -> "DaskPartitions":
        """A Dask dataframe of as many partitions; with the frame's own columns it has its index, too."""
        meta = _as_pandas(schema.empty_table())
        if keeps:
            meta = pd.concat([dd.utils.make_meta(self.frame), meta.set_index(self.frame._meta.index[:0])], axis=1)  # noqa: SLF001
        with dask.config.set(_LARGE):
            sent = own_version(), _sent(work), schema, keeps
            return DaskPartitions(dd.map_partitions(_map, self.frame, *sent, meta=meta))

    def exchange(self, work: MakeTables, schema: pa.Schema) -> "DaskPartitions":
        """Tables made of the partitions, shuffled."""
        shuffled = self.map(work, schema, keeps=False).frame.shuffle(on="bucket")
        return DaskPartitions(shuffled.map_partitions(pd.DataFrame.sort_values, "bucket", meta=shuffled))


def _sent(thing: Any) -> Any:
    """A node of the graph of its own, which every worker fetches once."""
    return dask.delayed(thing, name=f"isobag-{uuid4().hex}", traverse=False)


def _run(version: str, work: Callable[[int, Frames], T], number: int, frame: pd.DataFrame) -> T:
    check_version(version, f"Dask worker {_worker()}")
    return work(number, iter([frame]))


def _map(
    frame: pd.DataFrame, version: str, work: Any, schema: pa.Schema, keeps: bool, partition_info: Any = None
) -> pd.DataFrame:
    number = 0 if partition_info is None else partition_info["number"]
    tables = _run(version, lambda *arguments: list(work(*arguments)), number, frame) if len(frame) else []
    made = _as_pandas(pa.concat_tables([schema.empty_table(), *tables]))
    return pd.concat([frame, made.set_index(frame.index)], axis=1) if keeps else made


def _as_pandas(table: pa.Table) -> pd.DataFrame:
    """Bytes stay bytes: Dask takes other objects for texts."""
    return table.to_pandas(types_mapper=lambda kind: pd.ArrowDtype(kind) if pa.types.is_binary(kind) else None)


def _worker() -> str:
    worker = _distributed("get_worker")
    return "of this process" if worker is None else f"{worker.address} ({worker.name})"


def _distributed(function: str) -> Any:
    """The active client (get_client), or the worker that runs this (get_worker); None where there is none."""
    with suppress(ValueError):
        return getattr(sys.modules["distributed"], function)() if "distributed" in sys.modules else None
    return None


def _result(node: Any) -> Any:
    """The result, waited for as long as there are workers."""
    client = _distributed("get_client")
    if client is None:
        return node.compute()
    with dask.config.set(_LARGE):
        future = client.compute(node)
    working = time.monotonic()
    patience = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout", None) or PATIENCE_S)
    try:
        while True:
            with suppress(TimeoutError):
                sys.modules["distributed"].wait(future, timeout=LOOK_S)
            if future.done():
                return future.result()
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            working = time.monotonic() if any(one["status"] == "running" for one in workers) else working
            if time.monotonic() - working > patience:
                raise RuntimeError(f"no Dask worker has been running for {patience:.0f} s; start some and try again.")
    except BaseException:
        with suppress(Exception):
            future.cancel()
        raise
