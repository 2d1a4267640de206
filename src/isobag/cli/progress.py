"""Progress on a terminal: the pass that runs, and the rows read or written so far."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from isobag.data.spool import Tick


class Bar:
    """A line on the terminal: the name of the pass, and of rows how many of how many; nothing where nobody looks."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("reading", total=None, count="")
        self.tick: Tick | None = None if bar is None else self.count

    def count(self, what: str, n: int, of: int | None) -> None:
        """So many rows of a pass are done."""
        self._bar.update(self._task, description=what, completed=n, total=of, count=f"{n:,} rows")

    def stage(self, what: str) -> AbstractContextManager[Any]:
        """A pass whose length is not counted."""
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=0, total=None, count="")
        return nullcontext()


@contextmanager
def progress(quiet: bool) -> Iterator[Bar]:
    """What shows the progress of a command, on standard error if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console  # noqa: PLC0415, slow to load
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(20),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Bar(bar)
