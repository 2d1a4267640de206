"""Cells of a table, each run in a process of its own that ends at its deadline, and kept in a file.

A cell is one set and one detector: its whole parameter search, over all seeds, is what a budget limits. What it yields
before the deadline is kept. The operating system ends the process, so this needs Unix.
"""

import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import joblib

import isobag
from isobag.datasets import DatasetNotAvailableError

DONE, OVER_BUDGET, NOT_AVAILABLE, FAILED = "done", "over budget", "not available", "failed"


class Cell(NamedTuple):
    """One set and one detector; ``work`` names the generator of its records, "module:function"."""

    experiment: str
    dataset: str
    detector: str
    work: str


class RunPlan(NamedTuple):
    """How to run: seeds, seconds for each cell (None: no limit), the folder of data, threads."""

    n_seeds: int = 1
    budget: float | None = None
    data: str | None = None
    n_jobs: int = 2


class Outcome(NamedTuple):
    """What came of a cell: its status, a message if it failed, wall seconds, records, plan, version and machine."""

    status: str
    message: str
    seconds: float
    records: list
    plan: RunPlan
    setting: str
    date: str


def run_cell(cell, plan):
    """Run a cell in a child process."""
    command = [sys.executable, "-c", "from paper.cells import serve; serve()", json.dumps([cell, plan])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    lines = [json.loads(line) for line in child.stdout.splitlines(keepends=True) if line.endswith("\n")]
    if lines and "status" in lines[-1]:
        end = lines.pop()
    elif child.returncode == -signal.SIGALRM:
        end = {"status": OVER_BUDGET, "message": "", "seconds": plan.budget}
    else:
        message = f"its process ended with exit code {child.returncode}"
        end = {"status": FAILED, "message": message, "seconds": 0.0}
    return Outcome(**end, records=lines, plan=plan, setting=setting_of(plan), date=datetime.date.today().isoformat())


def serve():
    """In the child: print the records of the work, a line each, then how it ended."""
    cell, plan = json.loads(sys.argv[1])
    cell, plan = Cell(*cell), RunPlan(*plan)
    module, function = cell.work.split(":")
    work, out = getattr(import_module(module), function), sys.stdout
    sys.stdout = sys.stderr  # libraries may print
    start = time.perf_counter()  # imports are no part of the work
    signal.setitimer(signal.ITIMER_REAL, plan.budget or 0)  # nobody handles the signal, so it ends the process
    status, message = DONE, ""
    try:
        for record in work(cell.dataset, cell.detector, plan):
            print(json.dumps(record), file=out, flush=True)
    except (DatasetNotAvailableError, NotImplementedError) as error:
        status, message = NOT_AVAILABLE, str(error)
    except Exception as error:
        status, message = FAILED, f"{type(error).__name__}: {error}"
    signal.setitimer(signal.ITIMER_REAL, 0)
    end = {"status": status, "message": message, "seconds": time.perf_counter() - start}
    print(json.dumps(end), file=out, flush=True)


def seeds_in_budget(n_seeds, plan):
    """Seeds 0, 1, ..., without one that, as long as those so far, would end over budget."""
    start = time.perf_counter()
    for seed in range(n_seeds):
        seconds = time.perf_counter() - start
        if seed and plan.budget and seconds * (seed + 1) / seed > plan.budget:
            return
        yield seed


def run_cells(cells, plan, out, resume=False):
    """Outcomes of all cells by (set, detector); with ``resume`` finished ones are read from their files."""
    outcomes = {}
    for i, cell in enumerate(cells):
        file = file_of(cell, out)
        outcome = read_outcome(file) if resume and file.is_file() else None
        if outcome is None or not _still_holds(outcome, plan):
            print(f"{i + 1}/{len(cells)} {cell.experiment}: {cell.detector} on {cell.dataset}", file=sys.stderr)
            outcome = run_cell(cell, plan)
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(outcome._asdict(), indent=1))
            unfinished.replace(file)
        outcomes[cell.dataset, cell.detector] = outcome
    return outcomes


def file_of(cell, out):
    return Path(out) / "cells" / cell.experiment / f"{cell.dataset}--{cell.detector}.json".replace(" ", "_")


def read_outcome(file):
    """The outcome in a file, None if another version wrote other fields."""
    fields = json.loads(file.read_text())
    if set(fields) != set(Outcome._fields):
        return None
    return Outcome(**fields | {"plan": RunPlan(*fields["plan"])})


def _still_holds(outcome, plan):
    """Whether a new run would give the same: same setting and seeds, and no smaller budget cut it."""
    if outcome.plan.n_seeds != plan.n_seeds or outcome.setting != setting_of(plan):
        return False
    if outcome.status == OVER_BUDGET:
        return plan.budget is not None and plan.budget <= outcome.plan.budget
    return outcome.status == DONE


def setting_of(plan):
    """Version, processor, threads and data: what a number depends on, beside seeds and budget."""
    data = "no data folder" if plan.data is None else f"data of {plan.data}"
    return f"isobag {isobag.__version__}, {_processor()}, {joblib.effective_n_jobs(plan.n_jobs)} threads, {data}"


def _processor():
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
