"""isobag on Dask: ``fit``, ``score``, ``detect_points`` and ``detect_groups`` of Dask dataframes and arrays.

Rows stay in their partitions. Work travels to them as one node of the graph, which every worker fetches once, and what
is made of neighbours is merged on the workers. Partitions are dealt with some at a time, and forgotten, so that
scheduler and client need not hold more for more of them.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain, islice
from typing import Any, TypeVar
from uuid import uuid4

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
from dask.threaded import get as get_in_threads

from isobag.backends.arrays import Ints
from isobag.data.partitions import Collection, Combine, Finish, Frames, Split, Work
from isobag.data.spool import Tick
from isobag.tables import detect

T = TypeVar("T")
U = TypeVar("U")
WINDOW = 64
"""Partitions that the scheduler is told of at a time, ..."""
WINDOWS = 3
"""... and how many such times at once, so that no worker waits for the last partition of a window."""
FORGOTTEN = 16
"""Windows whose result comes here at a time: until then the scheduler keeps their tasks, to be able to repeat them."""
MERGED = 8
"""Neighbours that are merged by one task: a scheduler takes about a millisecond for each task, whatever it does."""


class DaskPartitions(Collection):
    """The partitions of a Dask dataframe, or the blocks of rows of a Dask array, whose columns are x0, x1, ...

    client : of distributed; without one the active one, and if there is none, threads.
    tick : told how many partitions are done with, for a progress bar.
    """

    def __init__(self, data: Any, client: Any = None, tick: Tick | None = None) -> None:
        self._frame = _as_frame(data)
        self.columns = [str(name) for name in self._frame.columns]
        twice = {name for name in self.columns if self.columns.count(name) > 1}
        if twice:
            raise ValueError(f"Two columns are called {min(twice)!r}; rename one: reasons go by names.")
        self.n_partitions = int(self._frame.npartitions)
        self.objects = [str(name) for name, kind in self._frame.dtypes.items() if kind.kind == "O"]
        self._runner = Runner(client, tick)

    def run(self, work: Work[T], combine: Combine[T], which: Ints | None = None) -> T:
        """What ``work`` makes of the partitions, merged on the workers, and some thousand partitions at a time here."""
        combining = self._runner.send(combine)
        windows = self._by_window(work, combining, which)
        merged: T = reduce(combine, [self._merged(first, windows, combining) for first in windows])
        return merged

    def exchange(
        self, split: Split[T], combine: Combine[T], finish: Finish[T, U], join: Combine[U], which: Ints | None = None
    ) -> U:
        """Parts of neighbours merged bucket by bucket; then every bucket brought to one worker, and finished there."""
        runner = self._runner
        merge = runner.send(_MergeBuckets(combine))
        finishing, joining, combining = runner.send(finish), runner.send(join), runner.send(combine)
        windows = list(self._by_window(split, merge, which))
        buckets = [runner.result(runner.submit(sorted, parts)) for parts in windows]
        tree = _Tree(runner, joining)
        for bucket in sorted({bucket for own in buckets for bucket in own}):
            holders = [parts for parts, own in zip(windows, buckets, strict=True) if bucket in own]
            merged = _Tree(runner, combining)
            for parts in holders:
                merged.add(runner.submit(_pick, parts, bucket))
            tree.add(runner.submit(_call, finishing, bucket, merged.root()))
        joined: U = runner.result(tree.root())
        return joined

    def map(self, work: Callable[[int, Frames], Iterator[pa.Table]], schema: pa.Schema) -> Any:
        """What ``work`` makes of each partition: a Dask dataframe of as many partitions, in order, lazy."""
        numbers = dd.from_map(_numbered, range(self.n_partitions), meta=_numbered(0))
        sent = dask.delayed(work, name=f"isobag-{uuid4().hex}", traverse=False)
        meta = schema.empty_table().to_pandas()
        return dd.map_partitions(_made, self._frame, numbers, sent, schema, meta=meta, clear_divisions=True)

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
        tree = _Tree(self._runner, combining)
        for window in chain([first], islice(windows, FORGOTTEN - 1)):
            tree.add(window)
        return self._runner.result(tree.root())

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


class WorkersDiedError(RuntimeError):
    """Workers died of the same partition, one after another, or none is left."""


class Runner:
    """Runs graphs: on a cluster, or in threads of this process. What it hands out stands for results."""

    def __init__(self, client: Any, tick: Tick | None) -> None:
        self._client = client if client is not None else _active_client()
        self._tick = tick
        self._numbers: deque[dict[Any, int]] = deque(maxlen=WINDOWS)
        self._pass = self._n_done = self._n_all = 0
        self._topic = "" if tick is None else f"isobag-{uuid4().hex}"
        if self._topic and self._client is not None:
            self._client.subscribe_topic(self._topic, self._count)

    def begin(self, n_all: int) -> None:
        """A pass over some partitions begins."""
        self._pass, self._n_done, self._n_all = self._pass + 1, 0, n_all
        if self._tick is not None:
            self._tick("partitions", 0, n_all)

    def _count(self, event: tuple[float, int]) -> None:
        """A worker says that it is done with a partition; of one that died, another says it once more."""
        if event[1] == self._pass and self._n_done < self._n_all and self._tick is not None:
            self._n_done += 1
            self._tick("partitions", self._n_done, self._n_all)

    def send(self, thing: Any) -> Any:
        """A thing that every worker fetches once; if the worker that has it dies, the scheduler has it still."""
        if self._client is None:
            return thing
        return self._client.submit(_same, thing, key=f"isobag-sent-{uuid4().hex}")

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function makes of things."""
        if self._client is None:
            return function(*args)
        return self._client.submit(function, *args, key=f"isobag-{function.__name__}-{uuid4().hex}")

    def run(self, graph: dict[Any, Any], keys: Sequence[Any], numbers: Ints, work: Any, combine: Any) -> Any:
        """Work on partitions, merged as a tree."""
        name = f"isobag-{uuid4().hex}"
        own = dict(graph)
        level = []
        for number, key in zip(numbers.tolist(), keys, strict=True):
            level.append((f"isobag-partition-{name}", number))  # one name: the scheduler keeps names for long
            own[level[-1]] = (_work_on, work, number, key, self._topic, self._pass)
        self._numbers.append(dict(zip([*keys, *level], [*numbers.tolist()] * 2, strict=True)))
        depth = 0
        while len(level) > 1:
            depth += 1
            above = []
            for i in range(0, len(level), MERGED):
                above.append((f"isobag-merge-{name}-{depth}", i))
                own[above[-1]] = (_merge, combine, level[i : i + MERGED])
            level = above
        if self._client is None:
            result = get_in_threads(own, level[0])
            for _ in numbers:
                self._count((0.0, self._pass))
            return result
        return self._client.get(own, level[0], sync=False)

    def wait(self, thing: Any) -> None:
        """Return when a thing is there, without bringing it here."""
        if self._client is not None:
            self.result(self._client.submit(_nothing, thing, key=f"isobag-wait-{uuid4().hex}"))

    def result(self, thing: Any) -> Any:
        """The thing itself."""
        if self._client is None:
            return thing
        from distributed.scheduler import KilledWorker, NoWorkerError  # noqa: PLC0415, there is a client, so it is loaded

        try:
            return thing.result()
        except KilledWorker as error:
            raise WorkersDiedError(_died_of(self._given_up(error.task))) from error
        except NoWorkerError as error:
            raise WorkersDiedError(
                f"No worker was left for {error.timeout:.0f} s; start some, and try again."
            ) from error

    def _given_up(self, task: Any) -> list[int]:
        """Partitions that Dask tries no more: the one that kills, and what was on the same workers every time."""
        number_of = {key: number for own in self._numbers for key, number in own.items()}

        def given_up(dask_scheduler: Any) -> list[Any]:
            tasks = [dask_scheduler.tasks[key] for key in number_of if key in dask_scheduler.tasks]
            return [one.key for one in tasks if one.state == "erred" and one.exception_blame is one]

        given_up_keys = self._client.run_on_scheduler(given_up)
        return sorted({number_of[key] for key in (*given_up_keys, task) if key in number_of})


class _Tree:
    """Results that follow each other, merged as a tree while they come: neighbours in order."""

    def __init__(self, runner: Runner, combine: Any) -> None:
        self._runner, self._combine = runner, combine
        self._parts: list[tuple[int, Any]] = []

    def add(self, part: Any) -> None:
        """One more at the end."""
        self._parts.append((0, part))
        while len(self._parts) > 1 and self._parts[-1][0] == self._parts[-2][0]:
            self._merge_last()

    def root(self) -> Any:
        """All of them, merged."""
        while len(self._parts) > 1:
            self._merge_last()
        return self._parts[0][1]

    def _merge_last(self) -> None:
        (_, later), (depth, first) = self._parts.pop(), self._parts.pop()
        self._parts.append((depth + 1, self._runner.submit(_call, self._combine, first, later)))


def fit(data: Any, *, client: Any = None, **options: Any) -> Any:
    """Learn what the rows of a Dask dataframe or array are like, or with ``by`` its groups of rows.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        Looked at several times: ``persist`` it if it is expensive to compute and fits the memory of the workers.
    client : distributed.Client, optional
        Without one the active one, and if there is none, threads of this process.
    by, features, missing, bad_cells, min_size, random_state
        As in ``isobag.detect_points`` and ``isobag.detect_groups``.
    **options
        Parameters of IDKPointDetector, or with ``by`` of IDKGroupDetector.

    Returns
    -------
    detector
        The same as that of the rows in memory, bit for bit; ``isobag.save`` keeps it with how columns become features.
    """
    return detect.fit(DaskPartitions(data, client), **options)


def score(model: Any, data: Any, *, client: Any = None, **options: Any) -> Any:
    """Score new rows, or with ``by`` new groups, by a fitted model; ``client`` as in ``fit``.

    Returns
    -------
    dask.dataframe.DataFrame
        Of rows, in the order of the input, made when it is asked for: ``id_column`` (if given), ``row`` (position in
        the input, from 0), ``score`` (higher = more normal), ``p_value`` and ``extrapolated`` (whether it is
        below what ranks can tell), if the model was calibrated, and ``flagged``. Of groups, the oddest first: the
        label, ``n_points`` and the same, with ``p_shape`` and ``p_size`` if sizes are evidence.
    """
    return detect.score(model, DaskPartitions(data, client), **options)


def detect_points(data: Any, *, client: Any = None, **options: Any) -> Any:
    """Score the rows of a Dask dataframe or array by how similar they are to all; options as in ``fit``.

    Returns
    -------
    dask.dataframe.DataFrame
        In the order of the input, made when it is asked for: ``id_column`` (if given), ``row`` (position in the input,
        from 0), ``score`` (higher = more normal), ``flagged`` and ``reasons`` (of about the 1,000 oddest rows, else
        empty). ``.nsmallest(20, "score")`` has the oddest. Scores are those of ``isobag.detect_points``, bit for bit;
        ranks would need all of them in one place.
    """
    return detect.detect_points(DaskPartitions(data, client), **options)


def detect_groups(data: Any, by: Any, *, client: Any = None, **options: Any) -> Any:
    """Rank the groups of the rows of a Dask dataframe, the oddest first; options as in ``isobag.detect_groups``.

    Returns
    -------
    dask.dataframe.DataFrame
        Of one partition, with the columns of ``isobag.detect_groups``. A group may lie in any number of partitions;
        its rows stay there.
    """
    return detect.detect_groups(DaskPartitions(data, client), by, **options)


def _as_frame(data: Any) -> Any:
    if isinstance(data, dd.DataFrame):
        return data
    array = sys.modules.get("dask.array")
    if array is not None and isinstance(data, array.Array):
        if data.ndim != 2:
            raise ValueError(f"The array has shape {data.shape}; need (rows, columns).")
        return dd.from_dask_array(data.rechunk({1: -1}), columns=[f"x{j}" for j in range(data.shape[1])])
    raise TypeError(f"The table is of type {type(data).__name__}; need a Dask dataframe or a Dask array.")


def _active_client() -> Any:
    """The client that is active, None if there is none."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


def _work_on(work: Work[T], number: int, frame: Any, topic: str, turn: int) -> T:
    result = work(number, iter([frame]))
    if topic and "distributed" in sys.modules:
        with suppress(ValueError):  # a thread of no worker
            sys.modules["distributed"].get_worker().log_event(topic, turn)
    return result


def _died_of(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers))
    died = [
        "a partial result: the workers that made it died",
        f"partition {named}: the workers that looked at it died",
        f"partitions {named}: the workers that had them died of one of them",
    ][min(len(numbers), 2)]
    return f"{died}, most likely for want of memory; make partitions smaller, or give every worker more memory."


def _call(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def _merge(combine: Combine[T], parts: Sequence[T]) -> T:
    return reduce(combine, parts)


def _same(thing: T) -> T:
    return thing


def _nothing(thing: Any) -> None:
    """Ends when the thing is there, and brings nothing of it to the client."""


def _pick(parts: dict[int, T], bucket: int) -> T:
    return parts[bucket]


class _MergeBuckets:
    def __init__(self, combine: Combine[Any]) -> None:
        self._combine = combine

    def __call__(self, first: dict[int, Any], later: dict[int, Any]) -> dict[int, Any]:
        both = {bucket: self._combine(first[bucket], later[bucket]) for bucket in first.keys() & later.keys()}
        return first | later | both


def _numbered(number: int) -> pd.DataFrame:
    return pd.DataFrame({"number": [number]})


def _made(frame: pd.DataFrame, numbers: pd.DataFrame, work: Any, schema: pa.Schema) -> pd.DataFrame:
    tables = list(work(int(numbers["number"].iloc[0]), iter([frame])))
    return pa.concat_tables([schema.empty_table(), *tables]).to_pandas()
