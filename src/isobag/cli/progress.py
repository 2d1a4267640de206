"""Progress for a person who is looking: which pass is running, how far it is, and how long it will take."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from isobag.backends.meter import watching
from isobag.data.spool import Tick


class Silent:
    """No person is looking."""

    tick: Tick | None = None

    def stage(self, what: str, n_units: int | None = None) -> AbstractContextManager[Any]:
        """A pass that nobody watches."""
        return nullcontext()


class Bar(Silent):
    """A line on the terminal: the name of the pass, how much of it is done, and the time left."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._task, self._name = bar, None, ""
        self._lock = Lock()
        self.tick = self._tick

    def _tick(self, what: str, n_rows: int, of: int | None) -> None:
        self.count(what, n_rows, of, "rows")

    def count(self, what: str, n: int, of: int | None, unit: str) -> None:
        """A pass of which so many units are done."""
        with self._lock:
            self._begin(what, of)
            self._bar.update(self._task, completed=n, total=of, count=f"{n:,} {unit}")

    @contextmanager
    def stage(self, what: str, n_units: int | None = None) -> Iterator[None]:
        """A pass measured by the work that is reported; the units that it takes are known before, or about."""
        self._begin(what, n_units)

        def add(n: int) -> None:
            with self._lock:
                task = self._bar.tasks[0]
                most = None if task.total is None else 0.99 * task.total - task.completed  # the end is the end
                self._bar.advance(self._task, n if most is None else max(0, min(n, most)))

        with watching(add):
            yield

    def _begin(self, what: str, total: int | None) -> None:
        if what == self._name:
            return
        self._name = what
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total, count="")


@contextmanager
def progress(quiet: bool) -> Iterator[Silent]:
    """What shows the progress of a command, on standard error if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield Silent()
        return
    from rich.console import Console  # noqa: PLC0415, slow to load
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(20),
        TaskProgressColumn(),
        TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=1e9) as bar:
        yield Bar(bar)
