"""What runs on the workers of Dask: every task compares the version of isobag, and says where a package lacks."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from isobag.data.partitions import Work
from isobag.engines.versions import check_version

T = TypeVar("T")


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
    """What work makes of a partition; a client that listens is told of it."""
    result = work(number, iter([frame]))
    if topic and (worker := _worker()) is not None:
        worker.log_event(topic, turn)
    return result


def same(thing: T) -> T:
    """The thing itself, kept by the worker."""
    return thing


def nothing(thing: Any) -> None:
    """Ends when the thing is there, and brings nothing of it to the client."""


def _worker() -> Any:
    """The worker that runs this, None in a thread of no worker."""
    if "distributed" in sys.modules:
        with suppress(ValueError):
            return sys.modules["distributed"].get_worker()
    return None


def _here() -> str:
    worker = _worker()
    if worker is None:
        return "of this process"
    return str(worker.address) if worker.name in (None, worker.address) else f"{worker.address} ({worker.name})"
