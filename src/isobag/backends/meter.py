"""Progress: loops report the work they have done to at most one watcher.

The unit is a row looked up in a partitioning. Results never depend on it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_watchers: list[Callable[[int], None]] = []


def report(n: int) -> None:
    """Say that n more units are done; called from any thread."""
    if _watchers:
        _watchers[-1](n)


@contextmanager
def watching(watcher: Callable[[int], None]) -> Iterator[None]:
    """A context in which ``watcher`` is told of all work."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)
