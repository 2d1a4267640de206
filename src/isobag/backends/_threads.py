"""Threads and blocks of work."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")


def slices(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of 0 .. n, ``size`` long but for the last."""
    return (slice(a, min(a + size, n)) for a in range(0, n, size))


def map_in_threads(work: Callable[[S], T], items: Iterable[S], n_jobs: int | None) -> list[T]:
    """Results of ``work`` on every item, in joblib threads: ``n_jobs`` and joblib contexts mean what they always do."""
    todo = list(items)
    if len(todo) == 1 or joblib.effective_n_jobs(n_jobs) == 1:
        return [work(item) for item in todo]
    return list(joblib.Parallel(n_jobs=n_jobs, require="sharedmem")(joblib.delayed(work)(item) for item in todo))


def shares(n: int, n_jobs: int | None) -> Iterator[slice]:
    """One consecutive slice of 0 .. n for each thread."""
    return slices(n, -(-n // joblib.effective_n_jobs(n_jobs)))


def single_threaded_blas() -> Any:
    """Context in which a matrix product uses the calling thread only: the threads are ours."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
