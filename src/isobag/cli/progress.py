"""Progress on a terminal: the pass that runs, and the rows read so far."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Bar:
    """One line on a terminal, written over itself; nothing where nobody looks."""

    def __init__(self, is_shown: bool = False) -> None:
        self._is_shown = is_shown

    def tick(self, what: str, n: int, of: int | None = None) -> None:
        """So many rows of a pass are done."""
        self._write(f"{what} {n:,} rows")

    def stage(self, what: str) -> None:
        """A pass begins whose rows are not counted; "": all are over."""
        self._write(f"{what} ..." if what else "")

    def _write(self, text: str) -> None:
        if self._is_shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def progress(is_silent: bool) -> Iterator[Bar]:
    """What shows the progress of a command, on standard error if that is a terminal."""
    bar = Bar(not is_silent and sys.stderr.isatty())
    try:
        yield bar
    finally:
        bar.stage("")
