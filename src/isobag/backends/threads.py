"""Threads and blocks of work."""

from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from multiprocessing import current_process
from threading import Lock, Thread
from typing import Any, TypeVar

import joblib

S = TypeVar("S")
T = TypeVar("T")


def slices(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of 0 .. n, ``size`` long but for the last."""
    return (slice(a, min(a + size, n)) for a in range(0, n, size))


def count_threads(n_jobs: int | None) -> int:
    """As many threads as ``n_jobs`` and joblib's contexts say; one in a process of a pool, where joblib would warn."""
    if current_process().daemon and not getattr(joblib.parallel.get_active_backend()[0], "supports_sharedmem", False):
        return 1
    return int(joblib.effective_n_jobs(n_jobs))


def map_in_threads(work: Callable[[S], T], items: Iterable[S], n_jobs: int | None) -> list[T]:
    """Results of ``work`` on every item, in as many threads as ``n_jobs`` and joblib's contexts say.

    The calling thread works as well. After a failure no further item is begun, and the failure is raised here.
    """
    todo = list(items)
    if len(todo) == 1 and n_jobs is None:  # nothing to share out, and no number to check
        return [work(todo[0])]
    n_threads = min(len(todo), count_threads(n_jobs))
    results: list[Any] = [None] * len(todo)
    places = iter(range(len(todo)))
    failures: list[BaseException] = []
    taking = Lock()

    def run() -> None:
        try:
            while not failures:
                with taking:
                    place = next(places, None)
                if place is None:
                    return
                results[place] = work(todo[place])
        except BaseException as failure:  # also an interruption: the other threads are to stop
            failures.append(failure)

    helpers = [Thread(target=copy_context().run, args=(run,)) for _ in range(n_threads - 1)]
    for helper in helpers:
        helper.start()
    run()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    return results
