"""``isobag reproduce``: every table and figure of the paper."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from isobag.cli.options import Typed, argument, command, option, text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


ALL = "all"
_Name = Literal[
    "point", "group", "runtime", "stability", "contamination", "local", "peaks", "clusters", "scaleup", "all"
]
_SEEDS = "How many seeds; default: 10 for box plots, 3 for AUC; others have one run."
_BUDGET = "Seconds for one cell, a set and a detector with all parameters and seeds."
_NEEDED = ("matplotlib", "scikit_posthocs")


@command(
    "experiment sets seeds budget resume data out jobs",
    experiment=argument(_Name, ..., "EXPERIMENT", f"One of {', '.join(get_args(_Name))}."),
    sets=text(None, None, "Only these sets, by name and divided by commas; default: the paper's."),
    seeds=option(int | None, None, None, None, _SEEDS, min=1),
    budget=option(float | None, None, None, None, _BUDGET, min=0.1),
    resume=option(bool, False, None, None, "Keep the finished cells of an earlier run.", "--resume"),
    data=text(None, None, "Folder of the data sets.", envvar="ISOBAG_DATA"),
    out=option(Path, Path("reproduction"), None, None, "Folder for JSON, Markdown and figures."),
    jobs=option(int, -1, None, None, "Threads of a detector, as in joblib."),
)
def reproduce(typed: Typed) -> None:
    """Run the paper again: all detectors, next to the published numbers.

    A cell of a table is one set and one detector. Cells run one at a time, each in a process of its own; one over its
    budget is stopped, keeps the parameters it has finished, and prints "> budget".
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(f"reproduce needs {', '.join(missing)}, not installed: pip install 'isobag[cli,reproduce]'.")
    from rich.console import Console  # noqa: PLC0415, slow to load

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

            def tick(
                i: int, cell: Cell, seconds: float, progress: "Progress" = progress, task: "TaskID" = task
            ) -> None:
                limit = "" if typed.budget is None else f" of {typed.budget:.0f}"
                running = f"{cell.experiment}: {cell.detector} on {cell.dataset}, {seconds:.0f}{limit} s"
                progress.update(task, completed=i, description=running)

            text = run_experiment(one, plan, in_name, tick)
            progress.update(task, completed=n_cells, description=f"{name}: done")
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        console.print(f"Written: {typed.out / name}.md, {typed.out / name}.json and figures.", highlight=False)


def _progress(console: "Console") -> "Progress":
    from rich.progress import (  # noqa: PLC0415, slow to load
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    # Cells take minutes: the time left is judged by all of them, not by the last half minute.
    return Progress(*columns, TextColumn("{task.description}"), console=console, speed_estimate_period=1e9)
