"""Threads and blocks of work."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from multiprocessing import current_process
from threading import Lock, Thread
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

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


def shares(n: int, n_jobs: int | None) -> Iterator[slice]:
    """One consecutive slice of 0 .. n for each thread."""
    return slices(n, -(-n // count_threads(n_jobs)) if n > 1 else 1)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Context in which a matrix product uses the calling thread only: the threads are ours.

    The limit is one for the whole process. Of several threads in this context the first sets it and the last lifts it,
    or each would restore what it found and one thread would stay for good.
    """
    global _n_inside, _limit  # noqa: PLW0603
    with _lock:
        if _n_inside == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                _limit.restore_original_limits()


@cache
def _controller() -> Any:
    """Looks for the libraries once: those of NumPy, which are there when this module is, and finding takes 3 ms."""
    return ThreadpoolController()


_lock = Lock()
_n_inside = 0
_limit: Any = None
