"""Progress for a person who is looking: one bar for the whole command, and how long it will take.

How much work each pass takes is counted in rows looked up in partitionings: as much as the models do, but for what
depends on the data; a pass that takes a little more or less is no error.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from isobag.backends.meter import watching
from isobag.data.spool import Tick
from isobag.estimators.compare import PERMUTED_PER_UNIT, PSI_COMPARED
from isobag.models.calibration import N_FOLDS
from isobag.models.group import CALIBRATION_GROUPS, LEARNED_GROUPS
from isobag.models.point import AVERAGED_ROWS, CALIBRATION_ROWS, LEARNED_ROWS, REFERENCE_ROWS
from isobag.tables.ranking import MOST_EXPLAINED

Plan = Callable[[int], dict[str, float]]
"""From the number of rows to the work of each pass, in order: rows looked up in partitionings, or as long."""
EXPLAINED = 3
"""How often a row is looked up to be explained: for its score, its cells and the nearest anchors."""
READ, WRITTEN = 10, 3
"""What a row of ten cells takes to be read, and to be written, in rows looked up in one partitioning."""
GROUP_ROWS = 100
"""Rows of a group, until the groups are known."""


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


def work_of(
    detector: Any, n: int, is_fitted: bool, *, by: bool, n_groups: int | None = None, is_spooled: bool = False
) -> dict[str, float]:
    """Of each pass over a table of n rows, or of its groups: reading, learning or scoring, explaining, writing."""
    n_views = len(detector.params.plans(max(n, 2))) if by else 1
    folds = N_FOLDS * -(-detector.n_estimators // N_FOLDS) * n_views  # of all folds together
    t, n_units = detector.n_estimators * n_views, n
    if not by:
        t = len(detector.model_.views) if is_fitted else detector.params.n_drawn(max(n, 2))
    averages = not by and detector.max_samples == "auto"
    learned, most_aside = LEARNED_ROWS, CALIBRATION_ROWS
    if by:
        n_units = n_groups or -(-n // GROUP_ROWS)
        learned, most_aside = LEARNED_GROUPS, CALIBRATION_GROUPS
        explaining = n * t * min(1.0, MOST_EXPLAINED["group"] / max(n_units, 1))
    else:
        n_looks = EXPLAINED + averages / 2  # once more for rows that small psi overrule, some half of them
        explaining = float((min(n, MOST_EXPLAINED["row"]) + REFERENCE_ROWS) * t * n_looks)
    if is_fitted:
        main = {"scoring": float(n * (t if detector.model_.calibration is None else folds))}
    else:
        learning = float(n * t)
        if is_spooled and not by:
            learning += n * t + min(n, AVERAGED_ROWS) * t * averages
        if detector.calibrate:  # each fold's model learns from the others and scores the fold
            aside = min(n_units, most_aside)
            looks = min(n_units - aside // N_FOLDS, learned) * folds + aside * (folds // N_FOLDS)
            learning += looks * n / max(n_units, 1)
        main = {"learning": learning}
    return {"reading": n * READ, **main, "explaining": explaining, "writing": n * WRITTEN}


def work_to_compare(n_rows: int, n_permutations: int, n_estimators: int = 100) -> dict[str, float]:
    """Of a comparison of two samples with so many rows together."""
    n_levels = sum(psi < max(2, n_rows // 2) for psi in PSI_COMPARED[:-1]) + 1
    looks = n_levels * n_rows * n_estimators * (PERMUTED_PER_UNIT + n_permutations + 1) // PERMUTED_PER_UNIT
    return {"reading": n_rows * READ, "comparing": looks}
