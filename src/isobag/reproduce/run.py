"""Run experiments and write what came of them: JSON, Markdown and figures."""

import json
from collections.abc import Callable, Iterable

from isobag.reproduce.accuracy import GROUP, POINT
from isobag.reproduce.boxplots import CONTAMINATION, STABILITY
from isobag.reproduce.cells import Cell, Plan, run_cells, setting_of
from isobag.reproduce.experiment import Experiment, Outcomes
from isobag.reproduce.pictures import CLUSTERS, LOCAL, PEAKS
from isobag.reproduce.timings import RUNTIME, SCALE_UP

EXPERIMENTS = {
    one.name: one for one in (POINT, GROUP, RUNTIME, STABILITY, CONTAMINATION, LOCAL, PEAKS, CLUSTERS, SCALE_UP)
}


def run_experiment(
    experiment: Experiment,
    plan: Plan,
    chosen: Iterable[str] | None = None,
    tick: Callable[[int, Cell, float], None] = lambda i, cell, seconds: None,
) -> str:
    """Run the cells of an experiment and write NAME.json, NAME.md and its figures; the Markdown is returned."""
    outcomes = run_cells(experiment.cells(chosen), plan, tick)
    text = f"## {experiment.title}\n\n{_circumstances(plan, outcomes)}\n\n{experiment.report(outcomes, plan.out)}"
    plan.out.mkdir(parents=True, exist_ok=True)
    (plan.out / f"{experiment.name}.md").write_text(text)
    (plan.out / f"{experiment.name}.json").write_text(json.dumps(_as_json(experiment, plan, outcomes), indent=1))
    return text


def _as_json(experiment: Experiment, plan: Plan, outcomes: Outcomes) -> dict[str, object]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "circumstances": _circumstances(plan, outcomes),
        "cells": [
            {"set": dataset, "detector": detector, **outcome._asdict()}
            for (dataset, detector), outcome in outcomes.items()
        ],
    }


def _circumstances(plan: Plan, outcomes: Outcomes) -> str:
    """Setting, date, seeds and budget in a sentence."""
    budget = "no budget" if plan.budget is None else f"a budget of {plan.budget:g} s a cell"
    seeds = "seed 0" if plan.n_seeds == 1 else f"seeds 0 to {plan.n_seeds - 1}"
    dates = sorted({outcome.date for outcome in outcomes.values()})
    return f"{setting_of(plan)}; {' to '.join(dates[:1] + dates[1:][-1:])}, {seeds}, {budget}."
