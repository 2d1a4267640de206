"""A Dask dataframe as partitions: a few windows of them at a time, merged as a tree."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from operator import call, getitem
from typing import Any, TypeVar
from uuid import uuid4

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa

from isobag.backends.arrays import Ints
from isobag.data.partitions import Collection, Combine, Frames, Work
from isobag.data.spool import Tick
from isobag.engines.dask.runner import WINDOWS, Runner, checked
from isobag.engines.dask.workers import Say
from isobag.engines.versions import own_version

T = TypeVar("T")
U = TypeVar("U")
WINDOW = 64
"""Partitions in a window; the scheduler has WINDOWS windows at once."""
FORGOTTEN = 16
"""Windows whose result comes here at a time: until then the scheduler keeps their tasks, to be able to repeat them."""


class DaskPartitions(Collection):
    """The partitions of a Dask dataframe, or the blocks of rows of a Dask array, whose columns are x0, x1, ...

    client : of distributed; without one the active one, and if there is none, threads.
    tick : called with the number of finished partitions, for a progress bar.
    say : takes remarks about workers; by default they are warnings.
    """

    def __init__(self, data: Any, client: Any = None, tick: Tick | None = None, say: Say | None = None) -> None:
        self._frame = _as_frame(data)
        self.columns = [str(name) for name in self._frame.columns]
        twice = {name for name in self.columns if self.columns.count(name) > 1}
        if twice:
            raise ValueError(f"Two columns are called {min(twice)!r}; rename one: reasons go by names.")
        self.n_partitions = int(self._frame.npartitions)
        self.objects = [str(name) for name, kind in self._frame.dtypes.items() if kind.kind == "O"]
        self._runner = Runner(client, tick, say)

    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the partitions, merged on the workers, and some thousand partitions at a time here."""
        with self._runner.cancelling_on_error():
            combining = self._runner.send(combine)
            windows = self._by_window(work, combining, which)
            merged: T = reduce(combine, [self._merged(first, windows, combining) for first in windows])
            return merged

    def exchange(
        self,
        split: Work[dict[int, T]],
        combine: Combine[T],
        finish: Callable[[int, T], U],
        join: Combine[U],
        which: Ints | None = None,
    ) -> U:
        """Parts of neighbours merged bucket by bucket; then every bucket brought to one worker, and finished there."""
        runner = self._runner
        with runner.cancelling_on_error():
            merge = runner.send(_MergeBuckets(combine))
            finishing, joining, combining = runner.send(finish), runner.send(join), runner.send(combine)
            windows = list(self._by_window(split, merge, which))
            buckets = [runner.result(runner.submit(sorted, parts)) for parts in windows]

            def finished(bucket: int) -> Any:
                holders = (parts for parts, own in zip(windows, buckets, strict=True) if bucket in own)
                merged = runner.merged(combining, (runner.submit(getitem, parts, bucket) for parts in holders))
                return runner.submit(call, finishing, bucket, merged)

            numbers = sorted({bucket for own in buckets for bucket in own})
            joined: U = runner.result(runner.merged(joining, map(finished, numbers)))
            return joined

    def map(self, work: Callable[[int, Frames], Iterator[pa.Table]], schema: pa.Schema) -> Any:
        """What ``work`` makes of each partition: a Dask dataframe of as many partitions, in order, lazy."""
        numbers = dd.from_map(_numbered, range(self.n_partitions), meta=_numbered(0))
        sent = dask.delayed(work, name=f"isobag-{uuid4().hex}", traverse=False)
        meta = schema.empty_table().to_pandas()
        given = (numbers, sent, schema, own_version())
        return dd.map_partitions(_made, self._frame, *given, meta=meta, clear_divisions=True)

    def give(self, table: pa.Table) -> Any:
        """A table as a Dask dataframe of one partition."""
        return dd.from_pandas(table.to_pandas(), npartitions=1, sort=False)

    def types(self, names: Sequence[str]) -> list[pa.DataType]:
        """Arrow types of some columns."""
        by_text = {str(name): name for name in self._frame.columns}
        empty = dd.utils.make_meta(self._frame)[[by_text[name] for name in names]]
        schema = pa.Schema.from_pandas(empty, preserve_index=False)
        return [pa.string() if pa.types.is_null(kind) else kind for kind in schema.types]

    def _merged(self, first: Any, windows: Iterator[Any], combining: Any) -> Any:
        """This window and some that follow it, merged; fetched, so that the scheduler forgets how they were made."""
        following = chain([first], islice(windows, FORGOTTEN - 1))
        return self._runner.result(self._runner.merged(combining, following))

    def _by_window(self, work: Any, combining: Any, which: Ints | None) -> Iterator[Any]:
        """What work makes of each window of partitions, merged within it, a few windows at a time."""
        runner = self._runner
        sent = runner.send(work)
        under_way: deque[Any] = deque()
        numbers = np.arange(self.n_partitions) if which is None else which
        runner.begin(len(numbers))
        for window in self._cut(numbers):
            if len(under_way) == WINDOWS:
                runner.wait(under_way.popleft())
            graph, keys = self._graph(window)
            result = runner.run(graph, keys, window, sent, combining)
            under_way.append(result)
            yield result
        for result in under_way:
            runner.wait(result)

    def _cut(self, numbers: Ints) -> list[Ints]:
        """Windows of partitions; all in one if partitions come of each other, as after a shuffle."""
        windows = np.split(numbers, range(WINDOW, len(numbers), WINDOW))
        if len(windows) > 1 and self._graph(windows[0])[0].keys() & self._graph(windows[1])[0].keys():
            return [numbers]
        return windows

    def _graph(self, numbers: Ints) -> tuple[dict[Any, Any], list[Any]]:
        chosen = self._frame.partitions[numbers.tolist()].to_delayed()
        return dict(chosen[0].dask), [one.key for one in chosen]


def _as_frame(data: Any) -> Any:
    if isinstance(data, dd.DataFrame):
        return data
    array = sys.modules.get("dask.array")
    if array is not None and isinstance(data, array.Array):
        if data.ndim != 2:
            raise ValueError(f"The array has shape {data.shape}; need (rows, columns).")
        return dd.from_dask_array(data.rechunk({1: -1}), columns=[f"x{j}" for j in range(data.shape[1])])
    raise TypeError(f"The table is of type {type(data).__name__}; need a Dask dataframe or a Dask array.")


class _MergeBuckets:
    def __init__(self, combine: Combine[Any]) -> None:
        self._combine = combine

    def __call__(self, first: dict[int, Any], later: dict[int, Any]) -> dict[int, Any]:
        both = {bucket: self._combine(first[bucket], later[bucket]) for bucket in first.keys() & later.keys()}
        return first | later | both


def _numbered(number: int) -> pd.DataFrame:
    return pd.DataFrame({"number": [number]})


def _made(frame: pd.DataFrame, numbers: pd.DataFrame, work: Any, schema: pa.Schema, version: str) -> pd.DataFrame:
    number = int(numbers["number"].iloc[0])
    tables = checked(version, lambda: list(work(number, iter([frame]))))
    return pa.concat_tables([schema.empty_table(), *tables]).to_pandas()
