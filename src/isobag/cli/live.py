"""A stream for a person who is looking: the latest odd rows, how odd rows have been lately, and rows a second."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from isobag.backends.arrays import Floats
from isobag.cli.output import in_cell
from isobag.cli.process import is_utf8
from isobag.tables.terminal import escape_for_terminal

BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
_FINDINGS = 10
_STRETCHES = 60
_STRETCH_SECONDS = 1.0
_RATE_SECONDS = 5.0


def sparkline(values: Sequence[float], bars: str = BARS) -> str:
    """A bar for each number, the lowest for the least of them: (n,)."""
    if not values:
        return ""
    lowest, highest = min(values), max(values)
    steps = (highest - lowest) / (len(bars) - 1)
    return "".join(bars[round((value - lowest) / steps) if steps > 0 else 0] for value in values)


class LiveTable:
    """What is shown; ``now`` is a clock."""

    def __init__(self, now: Any = time.monotonic, bars: str = BARS) -> None:
        self._now, self._bars = now, bars
        self._alarms: deque[tuple[str, ...]] = deque(maxlen=_FINDINGS)
        self._oddest: deque[float] = deque(maxlen=_STRETCHES)
        self._stretch_ends = now()
        self._counted: deque[tuple[float, int]] = deque([(now(), 0)])
        self._n_rows = self._n_odd = 0

    def add(self, scores: Floats) -> None:
        """Rows have come, with these scores; nan where there was no model yet: (n,)."""
        self._n_rows += len(scores)
        time_now = self._now()
        self._counted.append((time_now, self._n_rows))
        while len(self._counted) > 2 and time_now - self._counted[1][0] > _RATE_SECONDS:
            self._counted.popleft()
        finite = scores[np.isfinite(scores)]
        if not len(finite):
            return
        oddest = -float(np.log(max(float(finite.min()), sys.float_info.min)))
        if time_now >= self._stretch_ends or not self._oddest:
            self._oddest.append(oddest)
            self._stretch_ends = time_now + _STRETCH_SECONDS
        else:
            self._oddest[-1] = max(self._oddest[-1], oddest)

    def find(self, line: int, p_value: float, reason: Mapping[str, float]) -> None:
        """A row raised an alarm."""
        self._n_odd += 1
        words = ", ".join(f"{escape_for_terminal(name)} = {in_cell(value)}" for name, value in reason.items())
        self._alarms.appendleft((f"{line:,}", f"{p_value:.2g}", words or "no single feature"))

    @property
    def rows_per_second(self) -> float:
        """Over the last seconds; it falls while no rows come."""
        began, n_before = self._counted[0]
        passed = self._now() - began
        return (self._n_rows - n_before) / passed if passed > 0 else 0.0

    def __rich__(self) -> Any:
        from rich.console import Group  # noqa: PLC0415, slow to load
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name, is_right in (("line", True), ("p", True), ("reason", False)):
            table.add_column(name, justify="right" if is_right else "left")
        for row in self._alarms:
            table.add_row(*map(Text, row))
        counts = f"{self._n_rows:,} rows, {self._n_odd:,} odd, {self.rows_per_second:,.0f} rows a second"
        line = Text(f"oddest row of each second: {sparkline(list(self._oddest), self._bars)}", no_wrap=True)
        return Group(Text(counts), line, table)


@contextmanager
def live_table() -> Iterator[LiveTable]:
    """A table on the terminal that standard output is, drawn anew four times a second; it stays at the end."""
    from rich.console import Console  # noqa: PLC0415, slow to load
    from rich.live import Live  # noqa: PLC0415

    shown = LiveTable(bars=BARS if is_utf8(sys.stdout) else PLAIN_BARS)
    with Live(shown, console=Console(file=sys.stdout), refresh_per_second=4):
        yield shown
