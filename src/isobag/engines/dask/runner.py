"""Runs graphs on a cluster of Dask, or in threads of this process, and says in a sentence what went wrong."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import reduce
from operator import call
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakSet

import dask
from dask.threaded import get as get_in_threads

from isobag.backends.arrays import Ints
from isobag.data.partitions import Work
from isobag.data.spool import Tick
from isobag.engines.dask.workers import Say, Workers, WorkersDiedError, none_left, scheduler_lost
from isobag.engines.versions import check_version, own_version

T = TypeVar("T")
WINDOWS = 3
"""How many windows of partitions the scheduler has at once, so that no worker waits for the last of one."""
MERGED = 8
"""Neighbours that are merged by one task: a scheduler takes about a millisecond for each task, whatever it does."""
LARGE = {"distributed.admin.large-graph-warning-threshold": "1TB"}
"""What is sent is sent once, so that the scheduler has it still when a worker dies: no warning that it is large."""
LOOK_S = 2
"""Seconds between looks at the workers while a result is waited for."""


def checked(version: str, function: Callable[..., T], *args: Any) -> T:
    """What a function makes of things, by the version of isobag that the client has and no other."""
    check_version(version, f"Dask worker {_here()}")
    try:
        return function(*args)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Dask worker {_here()}: {error}; install there what isobag {version} needs, as here.", name=error.name
        ) from error


def work_on(work: Work[T], number: int, frame: Any, topic: str, turn: int) -> T:
    """What work makes of a partition; a client that listens is notified."""
    result = work(number, iter([frame]))
    if topic and (worker := of_distributed("get_worker")) is not None:
        worker.log_event(topic, turn)
    return result


def same(thing: T) -> T:
    """The thing itself, kept by the worker."""
    return thing


def nothing(thing: Any) -> None:
    """Ends when the thing is there, and brings nothing of it to the client."""


def of_distributed(function: str) -> Any:
    """The worker that runs this (get_worker), or the active client (get_client); None where there is none."""
    if "distributed" in sys.modules:
        with suppress(ValueError):
            return getattr(sys.modules["distributed"], function)()
    return None


def _here() -> str:
    worker = of_distributed("get_worker")
    if worker is None:
        return "of this process"
    return str(worker.address) if worker.name in (None, worker.address) else f"{worker.address} ({worker.name})"


class Runner:
    """Runs graphs: on a cluster, or in threads of this process. What it hands out stands for results."""

    def __init__(self, client: Any, tick: Tick | None, say: Say | None = None) -> None:
        self._client = client if client is not None else of_distributed("get_client")
        self._workers = None if self._client is None else Workers(self._client, say)
        self._tick = tick
        self._numbers: deque[dict[Any, int]] = deque(maxlen=WINDOWS)
        self._pass = self._n_done = self._n_all = 0
        self._open: WeakSet[Any] = WeakSet()
        self._topic = "" if tick is None else f"isobag-{uuid4().hex}"
        if self._topic and self._client is not None:
            self._client.subscribe_topic(self._topic, self._count)

    @contextmanager
    def cancelling_on_error(self) -> Iterator[None]:
        """A context that, if it is interrupted or fails, takes back what the scheduler was asked for in it."""
        if self._workers is not None:
            self._workers.begin()
        try:
            yield
        except BaseException:
            if self._client is not None and self._client.status == "running":
                self._client.cancel(list(self._open))
            raise

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
        return thing if self._client is None else self._submit(same, "isobag-sent", thing)

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function makes of things."""
        return function(*args) if self._client is None else self._submit(function, f"isobag-{function.__name__}", *args)

    def _submit(self, function: Callable[..., Any], name: str, *args: Any) -> Any:
        key = f"{name}-{uuid4().hex}"
        with dask.config.set(LARGE):
            return self._kept(self._client.submit(checked, own_version(), function, *args, key=key))

    def _kept(self, future: Any) -> Any:
        self._open.add(future)
        return future

    def run(self, graph: dict[Any, Any], keys: Sequence[Any], numbers: Ints, work: Any, combine: Any) -> Any:
        """Work on partitions, merged as a tree."""
        name = f"isobag-{uuid4().hex}"
        task = (checked, own_version())
        own = dict(graph)
        level = []
        for number, key in zip(numbers.tolist(), keys, strict=True):
            level.append((f"isobag-partition-{name}", number))  # one name: the scheduler keeps names for long
            own[level[-1]] = (*task, work_on, work, number, key, self._topic, self._pass)
        self._numbers.append(dict(zip([*keys, *level], [*numbers.tolist()] * 2, strict=True)))
        depth = 0
        while len(level) > 1:
            depth += 1
            above = []
            for i in range(0, len(level), MERGED):
                above.append((f"isobag-merge-{name}-{depth}", i))
                own[above[-1]] = (*task, reduce, combine, level[i : i + MERGED])
            level = above
        if self._client is None:
            result = get_in_threads(own, level[0])
            for _ in numbers:
                self._count((0.0, self._pass))
            return result
        return self._kept(self._client.get(own, level[0], sync=False))

    def merged(self, combine: Any, parts: Iterable[Any]) -> Any:
        """Results that follow each other, merged as a tree while they come: neighbours in order."""
        waiting: list[tuple[int, Any]] = []

        def merge_last() -> None:
            (_, later), (depth, first) = waiting.pop(), waiting.pop()
            waiting.append((depth + 1, self.submit(call, combine, first, later)))

        for part in parts:
            waiting.append((0, part))
            while len(waiting) > 1 and waiting[-1][0] == waiting[-2][0]:
                merge_last()
        while len(waiting) > 1:
            merge_last()
        return waiting[0][1]

    def wait(self, thing: Any) -> None:
        """Return when a thing is there, without bringing it here."""
        if self._client is not None:
            self.result(self._submit(nothing, "isobag-wait", thing))

    def result(self, thing: Any) -> Any:
        """The thing itself; while it is waited for, the workers are looked after."""
        if self._client is None:
            return thing
        from distributed.scheduler import KilledWorker, NoWorkerError  # noqa: PLC0415, there is a client, so it is loaded

        assert self._workers is not None
        try:
            while not thing.done():
                with suppress(TimeoutError):
                    return thing.result(timeout=LOOK_S)
                self._workers.look()
            return thing.result()
        except KilledWorker as error:
            raise WorkersDiedError(_died_of(self._given_up(error.task))) from error
        except NoWorkerError as error:
            raise WorkersDiedError(none_left(error.timeout, ())) from error
        except CancelledError as error:
            if self._client.status == "running":
                raise WorkersDiedError(f"Dask gave up a partial result ({error}); try again.") from error
            raise WorkersDiedError(scheduler_lost(self._client)) from error

    def _given_up(self, task: Any) -> list[int]:
        """Partitions that Dask tries no more: the one that kills, and what was on the same workers every time."""
        number_of = {key: number for own in self._numbers for key, number in own.items()}

        def given_up(dask_scheduler: Any) -> list[Any]:
            tasks = [dask_scheduler.tasks[key] for key in number_of if key in dask_scheduler.tasks]
            return [one.key for one in tasks if one.state == "erred" and one.exception_blame is one]

        given_up_keys = self._client.run_on_scheduler(given_up)
        return sorted({number_of[key] for key in (*given_up_keys, task) if key in number_of})


def _died_of(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers))
    died = [
        "a partial result: the workers that made it died",
        f"partition {named}: the workers that looked at it died",
        f"partitions {named}: the workers that had them died of one of them",
    ][min(len(numbers), 2)]
    return f"{died}, most likely out of memory; make partitions smaller, or give every worker more memory."
