"""Sections of the study: tasks whose results are kept as JSON, so that a rerun goes on where the last one stopped."""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from study.data import ROOT

RESULTS = ROOT / "study" / "results"
PROCESSES = int(os.environ.get("ISOBAG_STUDY_PROCESSES", "2"))


class Task(NamedTuple):
    """A measurement: ``work(*arguments)`` returns what JSON can hold."""

    work: Callable
    arguments: tuple = ()


class Section(NamedTuple):
    """A part of the page.

    tasks : () -> {key: Task}.
    page : {key: result} -> pieces of Markdown.
    """

    name: str
    title: str
    tasks: Callable
    page: Callable


def run(section):
    """Run the tasks that have no result yet, each in one of a few processes."""
    tasks, results = section.tasks(), load_results(section.name)
    left = {key: task for key, task in tasks.items() if key not in results}
    start = time.perf_counter()
    with ProcessPoolExecutor(PROCESSES) as pool:
        futures = {key: pool.submit(_quiet, *task) for key, task in left.items()}
        for i, (key, future) in enumerate(futures.items()):
            results[key] = future.result()
            _keep(section.name, results)
            print(f"{section.name} {i + 1}/{len(left)} {time.perf_counter() - start:.0f} s {key}", file=sys.stderr)
    return {key: results[key] for key in tasks}


def load_results(name):
    """What is known of a section."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _keep(name, results):
    RESULTS.mkdir(exist_ok=True)
    unfinished = RESULTS / f"{name}.unfinished"
    unfinished.write_text(json.dumps(results, indent=0, default=lambda value: value.item()))
    unfinished.replace(RESULTS / f"{name}.json")


def _quiet(work, arguments):
    warnings.simplefilter("ignore")
    return work(*arguments)


def table(rows):
    """Rows (dictionaries) as a Markdown table."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    lines += ["| " + " | ".join(_shown(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _shown(value):
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def mean(values):
    """Mean of the values that are numbers, None if there are none."""
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None
