"""Frames of Dask and Spark: what an engine must do. It does not depend on columns, labels or results.

An engine brings what is made of its partitions together, and maps a function over them. All else is written once, in
``isobag.tables.clusters``.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol, TypeVar

import pyarrow as pa

T = TypeVar("T")
Frames = Iterator[Any]
"""Rows of a partition in order, as frames of pandas or Arrow; there may be none."""
MakeTables = Callable[[int, Frames], Iterator[pa.Table]]
"""Makes a table of each frame of a partition."""
ENGINES = {"dask": "DaskPartitions", "pyspark": "SparkPartitions"}
"""Classes in this folder, by the library whose frames they open."""


class Partitions(Protocol):
    """A ``frame`` of an engine. What it is asked to do with a partition gets its number and its rows, and pickles."""

    frame: Any

    @property
    def schema(self) -> pa.Schema:
        """Names of the columns, in order, and their types."""
        ...

    def persisted(self) -> "Partitions":
        """The same, computed once and kept by the workers."""
        ...

    def reduce(self, work: Callable[[int, Frames], T | None], combine: Callable[[T, T], T]) -> T | None:
        """What is made of all partitions, as ``merged`` does it, where they are; ``combine`` is commutative."""
        ...

    def map(self, work: MakeTables, schema: pa.Schema, keeps: bool = True) -> "Partitions":
        """The tables that are made of the frames of all partitions, lazily, beside their own columns if wanted."""
        ...

    def exchange(self, work: MakeTables, schema: pa.Schema) -> "Partitions":
        """The tables that are made of the partitions; sorted by the numbers in "bucket", each in one."""
        ...


def partitions_of(frame: Any) -> Partitions | None:
    """The partitions of a frame of Dask or Spark; None of any other."""
    library = type(frame).__module__.partition(".")[0]
    if library not in ENGINES:
        return None
    module = import_module(f"isobag.engines.{library.removeprefix('py')}")
    opened: Partitions = getattr(module, ENGINES[library])(frame)
    return opened


def merged(combine: Callable[[T, T], T], values: Iterable[T | None]) -> T | None:
    """All values that are not None, merged one after the other; None if there are none."""
    total: T | None = None
    for value in values:
        total = value if total is None else total if value is None else combine(total, value)
    return total


def own_version() -> str:
    """The version of isobag in this process."""
    version: str = import_module("isobag").__version__
    return version


def check_version(needed: str, worker: str) -> None:
    """Refuse to compute with another version of isobag than the caller."""
    if own_version() != needed:
        raise ValueError(f"{worker} has isobag {own_version()}; need {needed}, as on the client.")
