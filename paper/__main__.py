"""Run tables and figures of the paper: python -m paper points --budget 60."""

import argparse
from pathlib import Path

from paper.boxplots import CONTAMINATION, STABILITY
from paper.cells import RunPlan, run_cells, setting_of
from paper.pictures import CLUSTERS, LOCAL, PEAKS
from paper.tables import GROUP, POINT
from paper.timings import RUNTIME, SCALE_UP

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (POINT, GROUP, RUNTIME, STABILITY, CONTAMINATION, LOCAL, PEAKS, CLUSTERS, SCALE_UP)
}


def run_experiment(experiment, plan, out, chosen=None, resume=False):
    """Run the cells of an experiment and write NAME.md and its figures; the Markdown is returned."""
    outcomes = run_cells(experiment.cells(chosen), plan, out, resume)
    budget = "no budget" if plan.budget is None else f"a budget of {plan.budget:g} s a cell"
    dates = sorted({outcome.date for outcome in outcomes.values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    setting = f"{setting_of(plan)}; {when}, seeds below {plan.n_seeds}, {budget}."
    out.mkdir(parents=True, exist_ok=True)
    text = f"## {experiment.title}\n\n{setting}\n\n{experiment.report(outcomes, out)}"
    (out / f"{experiment.name}.md").write_text(text)
    return text


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument("names", nargs="+", choices=[*EXPERIMENTS, "all"], metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these data sets, by name")
    parser.add_argument("--detectors", type=lambda text: text.split(","), help="only these, by name")
    parser.add_argument("--budget", type=float, help="seconds for each set and detector; the default is no limit")
    parser.add_argument("--seeds", type=int, help="how many; the default is that of the table")
    parser.add_argument("--data", help="folder of data sets; the default is that named by ISOBAG_DATA, or downloads")
    parser.add_argument("--out", type=Path, default=Path("paper/results"))
    parser.add_argument("--jobs", type=int, default=-1, help="threads")
    parser.add_argument("--resume", action="store_true", help="keep what is finished, with the same settings")
    asked = parser.parse_args(arguments)
    if asked.data is not None and not Path(asked.data).is_dir():
        parser.error(f"--data {asked.data}: no such folder")
    for name in EXPERIMENTS if "all" in asked.names else asked.names:
        experiment, chosen = EXPERIMENTS[name], asked.sets
        if chosen and "all" in asked.names:
            chosen = [dataset for dataset in chosen if dataset in experiment.datasets]
            if not chosen:
                print(f"{name}: has none of the sets, left out.")
                continue
        if asked.detectors:
            experiment = experiment._replace(detectors=tuple(asked.detectors))
        n_seeds = 1 if experiment.n_seeds == 1 else asked.seeds or experiment.n_seeds
        plan = RunPlan(n_seeds, asked.budget, asked.data, asked.jobs)
        try:
            print(run_experiment(experiment, plan, asked.out, chosen, asked.resume))
        except ValueError as error:
            parser.error(str(error))


if __name__ == "__main__":
    main()
