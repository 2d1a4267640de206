"""Every table and figure of the paper, one experiment after another."""

import sys
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from isobag.cli.options import Typed

ALL = "all"
_NEEDED = ("matplotlib", "scikit_posthocs")


def run_experiments(typed: Typed) -> None:
    """Run one experiment, or all, and print what came out."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(f"reproduce needs {', '.join(missing)}, not installed: pip install 'isobag[cli,reproduce]'.")
    from isobag.reproduce.cells import Cell, Plan  # noqa: PLC0415, loads scikit-learn
    from isobag.reproduce.run import EXPERIMENTS, run_experiment  # noqa: PLC0415, loads matplotlib

    if typed.data is not None and not Path(typed.data).is_dir():
        sys.exit(f"Error: --data {typed.data}: there is no such folder of data sets.")
    chosen = None if typed.sets is None else [one.strip() for one in typed.sets.split(",") if one.strip()]
    console = Console()
    names = list(EXPERIMENTS) if typed.experiment == ALL else [typed.experiment]
    for name in names:
        one = EXPERIMENTS[name]
        in_name = chosen
        if chosen is not None and typed.experiment == ALL:
            in_name = [each for each in chosen if each in one.datasets]
            if not in_name:
                console.print(f"{name}: has none of the sets {', '.join(chosen)}, left out.", highlight=False)
                continue
        try:
            n_cells = len(one.cells(in_name))
        except ValueError as error:
            sys.exit(str(error))
        plan = Plan(one.seeds(typed.seeds), typed.budget, typed.data, typed.out, typed.jobs, typed.resume)
        with _progress(console) as progress:
            task = progress.add_task(name, total=n_cells)

            def tick(i: int, cell: Cell, seconds: float, progress: Progress = progress, task: TaskID = task) -> None:
                limit = "" if typed.budget is None else f" of {typed.budget:.0f}"
                running = f"{cell.experiment}: {cell.detector} on {cell.dataset}, {seconds:.0f}{limit} s"
                progress.update(task, completed=i, description=running)

            text = run_experiment(one, plan, in_name, tick)
            progress.update(task, completed=n_cells, description=f"{name}: done")
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        console.print(f"Written: {typed.out / name}.md, {typed.out / name}.json and figures.", highlight=False)


def _progress(console: Console) -> Progress:
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    # Cells take minutes: the time left is judged by all of them, not by the last half minute.
    return Progress(*columns, TextColumn("{task.description}"), console=console, speed_estimate_period=1e9)
