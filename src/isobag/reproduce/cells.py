"""Cells of a table, each run in a process of its own that is stopped at its deadline, and kept in a file when finished.

A cell is one set and one detector: its whole parameter search, over all seeds, is what a budget limits. What it yields
before the deadline is kept.
"""

import contextlib
import datetime
import json
import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any, NamedTuple

import joblib

import isobag
from isobag.datasets import DatasetNotAvailableError
from isobag.storage.atomic import write_whole

_TICK_SECONDS = 0.2

_STARTED = "started"
DONE, OVER_BUDGET, NOT_AVAILABLE, FAILED = "done", "over budget", "not available", "failed"

Record = dict[str, Any]


class Cell(NamedTuple):
    """One set and one detector of an experiment; ``work`` names the generator of its records, "module:function"."""

    experiment: str
    dataset: str
    detector: str
    work: str


class Plan(NamedTuple):
    """How to run: seeds, seconds for each cell (None: no limit), where data are and results go, threads."""

    n_seeds: int
    budget: float | None
    data: str | None
    out: Path
    n_jobs: int
    resume: bool


class Outcome(NamedTuple):
    """What came of a cell: its status, a message if it is not "done", wall seconds, and its records in order.

    ``setting`` says by which version and machine, from which data and in how many threads; ``date``, when.
    """

    status: str
    message: str
    seconds: float
    n_seeds: int
    budget: float | None
    records: list[Record]
    setting: str
    date: str


def run_cell(cell: Cell, plan: Plan, tick: Callable[[float], None] = lambda seconds: None) -> Outcome:
    """Run a cell in a child process, and kill it at the deadline; ``tick`` is told the seconds so far."""
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    arguments = (cell.dataset, cell.detector, plan.n_seeds, plan.data, plan.n_jobs)
    child = context.Process(target=_serve, args=(sender, cell.work, arguments), daemon=True)
    child.start()
    sender.close()
    records: list[Record] = []
    status, message = OVER_BUDGET, ""
    start, has_started = time.monotonic(), False
    try:
        while plan.budget is None or not has_started or time.monotonic() - start < plan.budget:
            tick(time.monotonic() - start)
            if not receiver.poll(_TICK_SECONDS):
                continue
            try:
                kind, content = receiver.recv()
            except EOFError:
                child.join()
                status, message = FAILED, f"its process ended with exit code {child.exitcode}"
                break
            if kind == _STARTED:
                start, has_started = time.monotonic(), True  # imports are no part of the work
                continue
            if kind != "record":
                status, message = kind, content
                break
            records.append(content)
            if _leaves_no_seed(records, time.monotonic() - start, plan.budget):
                break
    finally:
        child.kill()
        child.join()
        receiver.close()
    seconds, date = time.monotonic() - start, datetime.date.today().isoformat()
    return Outcome(status, message, seconds, plan.n_seeds, plan.budget, records, setting_of(plan), date)


def setting_of(plan: Plan) -> str:
    """Version, processor, threads and data in a sentence: what a number depends on, beside seeds and budget."""
    n_threads = joblib.effective_n_jobs(plan.n_jobs)
    data = "no data folder" if plan.data is None else f"data of {plan.data}"
    return f"isobag {isobag.__version__}, {_processor()}, {n_threads} threads, {data}"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.is_file():
        for line in cpu_info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _leaves_no_seed(records: list[Record], seconds: float, budget: float | None) -> bool:
    """Whether one more seed, as long as those so far, would end over budget: it would be time spent for nothing."""
    if budget is None or not records[-1].get("complete") or records[-1]["last"]:
        return False
    n_complete = sum("complete" in record for record in records)
    return seconds * (n_complete + 1) / n_complete > budget


def run_cells(
    cells: list[Cell], plan: Plan, tick: Callable[[int, Cell, float], None] = lambda i, cell, seconds: None
) -> dict[tuple[str, str], Outcome]:
    """Outcomes of all cells by (set, detector); with ``plan.resume`` finished ones are read from their files."""
    outcomes = {}
    for i, cell in enumerate(cells):
        tick(i, cell, 0.0)
        kept = read_outcome(cell, plan.out) if plan.resume else None
        if kept is None or not _still_holds(kept, plan):
            kept = run_cell(cell, plan, partial(tick, i, cell))
            write_outcome(cell, kept, plan.out)
        outcomes[cell.dataset, cell.detector] = kept
    return outcomes


def read_outcome(cell: Cell, out: Path) -> Outcome | None:
    """The outcome kept in the cell's file, if there is one, written by a version that keeps the same."""
    file = _file(cell, out)
    fields = json.loads(file.read_text())["outcome"] if file.is_file() else {}
    return Outcome(**fields) if set(fields) == set(Outcome._fields) else None


def write_outcome(cell: Cell, outcome: Outcome, out: Path) -> None:
    """Keep an outcome. The file appears whole or not at all, whenever the process is killed."""
    file = _file(cell, out)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps({"cell": cell._asdict(), "outcome": outcome._asdict()}, indent=1).encode())


def _still_holds(kept: Outcome, plan: Plan) -> bool:
    """Whether a kept outcome is what a new run would give: same setting and seeds, and no smaller budget cut it."""
    if kept.n_seeds != plan.n_seeds or kept.setting != setting_of(plan):
        return False
    if kept.status == OVER_BUDGET:
        return plan.budget is not None and kept.budget is not None and plan.budget <= kept.budget
    return kept.status == DONE


def _file(cell: Cell, out: Path) -> Path:
    return out / "cells" / cell.experiment / f"{cell.dataset}--{cell.detector}.json".replace(" ", "_")


def _context() -> ForkServerContext | SpawnContext:
    """Children forked from a server that has imported everything, where the system can fork; else fresh ones."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["isobag.reproduce.searches"])
    _start_resource_tracker()
    return context


def _start_resource_tracker() -> None:
    """Start the process that removes what killed children leave, and keep it from warning of each removal."""
    kept = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [kept, "ignore:resource_tracker"]))
    try:
        resource_tracker.ensure_running()
    finally:
        os.environ.pop("PYTHONWARNINGS")
        if kept is not None:
            os.environ["PYTHONWARNINGS"] = kept


def _serve(sender: Connection, work: str, arguments: tuple[Any, ...]) -> None:
    """In the child: send the records of the work, then how it ended."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    module, function = work.split(":")
    # A parent that is gone wants no answer.
    with contextlib.suppress(BrokenPipeError):
        try:
            records: Callable[..., Iterator[Record]] = getattr(import_module(module), function)
            sender.send((_STARTED, ""))
            # Threads in any case: joblib gives a child process only one unless told that no further process is meant.
            with joblib.parallel_config(backend="threading"):
                for record in records(*arguments):
                    sender.send(("record", record))
            sender.send((DONE, ""))
        except (DatasetNotAvailableError, NotImplementedError) as error:
            sender.send((NOT_AVAILABLE, str(error)))
        except BrokenPipeError:
            raise
        except Exception as error:
            sender.send((FAILED, f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    """A run that was killed must not leave its last cell at work for hours, beside the run that resumes it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
