"""Progress for a person who is looking: one bar for the whole command, and how long it will take."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from isobag.backends.meter import watching
from isobag.data.spool import Tick

Plan = Callable[[int], dict[str, float]]
"""From the number of rows to the work of each pass, in order: rows looked up in partitionings, or as long."""


class Silent:
    """No person is looking."""

    tick: Tick | None = None

    def plan(self, passes: Plan, n_rows: int | None = None) -> None:
        """Say what the command will do, and with how many rows if that is known."""

    def stage(self, what: str) -> AbstractContextManager[Any]:
        """A pass that nobody watches."""
        return nullcontext()


class Bar(Silent):
    """A line on the terminal: the name of the pass, the share of the whole command that is done, and the time left."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._lock = bar, Lock()
        self._task = bar.add_task("reading", total=None, count="")
        self._plan: Plan = lambda n_rows: {"reading": 1.0}
        self._work: dict[str, float] = {}
        self._done = 0.0
        self.tick = self._tick

    def plan(self, passes: Plan, n_rows: int | None = None) -> None:
        """Say what the command will do, and with how many rows if that is known."""
        self._plan = passes
        if n_rows is not None:
            self._work = passes(n_rows)

    def _tick(self, what: str, n_rows: int, of: int | None) -> None:
        with self._lock:
            if what == "reading":  # meanwhile it is seen how many rows there are
                self._work = self._plan(of) if of else {}
            self._show(what, n_rows / of if of else 0.0, f"{n_rows:,} rows")

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """A pass measured by the work that is reported."""
        n_units = 0

        def add(n: int) -> None:
            nonlocal n_units
            with self._lock:
                n_units += n
                self._show(what, n_units / max(1.0, self._work.get(what, 0.0)), "")

        with watching(add):
            yield

    def _show(self, what: str, share: float, count: str) -> None:
        """So much of a pass is done; the share of the whole never falls."""
        names = list(self._work)
        before = sum(self._work[name] for name in names[: names.index(what)]) if what in names else 0.0
        total = sum(self._work.values())
        if total:
            self._done = max(self._done, (before + min(share, 0.99) * self._work.get(what, 0.0)) / total)
        self._bar.update(self._task, description=what, completed=self._done, total=1.0 if total else None, count=count)

    def count(self, what: str, n: int, of: int | None, unit: str) -> None:
        """A pass of an engine, of which so many units are done: how many passes follow is not known."""
        with self._lock:
            self._bar.update(self._task, description=what, completed=n, total=of, count=f"{n:,} {unit}")


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
