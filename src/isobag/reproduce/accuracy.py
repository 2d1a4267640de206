"""The AUC tables of points and of groups, with average ranks and the tests on them."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isobag.datasets import SYNTHETIC_GROUP_SETS
from isobag.reproduce import paper
from isobag.reproduce.cells import NOT_AVAILABLE, Outcome
from isobag.reproduce.experiment import (
    Experiment,
    Outcomes,
    compared,
    markdown_table,
    remarks,
    shown_auc,
    shown_status,
)
from isobag.reproduce.figures import draw_critical_differences
from isobag.reproduce.ranks import compare


class Best(NamedTuple):
    """The best parameter by its mean AUC over seeds, the spread between seeds, and whether the search was cut off."""

    auc: float
    parameter: Any
    spread: float
    n_seeds: int
    cut: bool


def best_of(outcome: Outcome) -> Best | None:
    """The best parameter of a search: over its complete seeds, or over what there is of the first; None without any."""
    complete = {record["seed"] for record in outcome.records if record.get("complete")}
    seeds = complete or {0}
    by_parameter: dict[str, list[Any]] = {}
    for record in outcome.records:
        if record["seed"] in seeds and "auc" in record:
            by_parameter.setdefault(str(record["parameter"]), []).append(record)
    if not by_parameter:
        return None
    best = max(by_parameter.values(), key=lambda records: float(np.mean([record["auc"] for record in records])))
    values = [record["auc"] for record in best]
    return Best(float(np.mean(values)), best[0]["parameter"], float(np.ptp(values)), len(values), not complete)


def accuracy_table(outcomes: Outcomes, published: dict[tuple[str, str], float | None]) -> str:
    """One row for every set and detector: paper | here | difference, and how the number here came about."""
    rows = []
    for (dataset, detector), outcome in outcomes.items():
        if outcome.status == NOT_AVAILABLE:
            continue
        best, printed = best_of(outcome), published.get((dataset, detector))
        in_paper = "> 24 h" if printed is None and (dataset, detector) in published else shown_auc(printed)
        rows.append([dataset, detector, in_paper, *_here(outcome, best, printed), f"{outcome.seconds:.0f}"])
    columns = ["set", "detector", "paper", "here", "difference", "parameter", "seeds", "spread", "seconds"]
    return markdown_table(columns, rows)


def _here(outcome: Outcome, best: Best | None, printed: float | None) -> list[Any]:
    if best is None:
        return [shown_status(outcome), None, None, None, None]
    # A search that was cut off, or failed, keeps what it had found and says so.
    cut = f" ({shown_status(outcome)})" if best.cut else ""
    parameter = _shown_parameter(best.parameter)
    here = f"{shown_auc(best.auc)}{cut}"
    return [here, compared(printed, best.auc), parameter, best.n_seeds, shown_auc(best.spread)]


def _shown_parameter(parameter: Any) -> str:
    return ", ".join(f"{one:g}" for one in parameter) if isinstance(parameter, list | tuple) else f"{parameter:g}"


def ranking(
    outcomes: Outcomes,
    detectors: tuple[str, ...],
    published_ranks: dict[str, float],
    figure: Path,
) -> str:
    """Average ranks beside the published ones, the two tests, and a critical-difference diagram.

    AUCs are rounded to two digits first: the published ranks are those of the printed numbers, ties and all.
    """
    datasets = [
        dataset
        for dataset in dict.fromkeys(dataset for dataset, _ in outcomes)
        if all((dataset, detector) in outcomes for detector in detectors)
        and any(best_of(outcomes[dataset, detector]) for detector in detectors)
    ]
    auc = np.array(
        [[_rounded(best_of(outcomes[dataset, detector])) for detector in detectors] for dataset in datasets]
    ).reshape(-1, len(detectors))
    comparison = compare(auc, detectors)
    if comparison is None:
        return "Average ranks need two sets or more.\n"
    rows = [
        [detector, published_ranks[detector], f"{rank:.2f}", f"{rank - published_ranks[detector]:+.2f}"]
        for detector, rank in comparison.average_ranks.items()
    ]
    draw_critical_differences(comparison, figure)
    first = min(comparison.average_ranks, key=comparison.average_ranks.__getitem__)
    pairs = ", ".join(f"{other} {comparison.nemenyi.loc[first, other]:.3f}" for other in detectors if other != first)
    return (
        f"Average rank over {len(datasets)} sets ({', '.join(datasets)}); a cell without a number is last.\n\n"
        + markdown_table(["detector", "paper", "here", "difference"], rows)
        + f"\nFriedman's test: p = {comparison.friedman:.2g}. Nemenyi's test of {first} against: {pairs}.\n\n"
        + f"![Critical differences]({figure.name})\n"
    )


def _rounded(best: Best | None) -> float:
    return np.nan if best is None else round(best.auc, 2)


def report_points(outcomes: Outcomes, folder: Path) -> str:
    """The two tables of points as one, and their rankings."""
    kernel = ranking(outcomes, paper.KERNEL_DETECTORS, paper.KERNEL_RANKS, folder / "point-kernel-ranks.png")
    isolation = ranking(
        outcomes, paper.ISOLATION_DETECTORS, paper.ISOLATION_RANKS, folder / "point-isolation-ranks.png"
    )
    table = accuracy_table(outcomes, dict(paper.POINT_AUC))
    return f"{table}\n### Kernel detectors\n\n{kernel}\n### Isolation detectors\n\n{isolation}\n{remarks(outcomes)}"


def report_groups(outcomes: Outcomes, folder: Path) -> str:
    """The table of groups and its ranking."""
    table = accuracy_table(outcomes, paper.GROUP_AUC)
    ranks = ranking(outcomes, paper.GROUP_DETECTORS, paper.GROUP_RANKS, folder / "group-ranks.png")
    given = {cell: outcome for cell, outcome in outcomes.items() if cell[0] not in SYNTHETIC_GROUP_SETS}
    real = ranking(given, paper.GROUP_DETECTORS, paper.GROUP_RANKS, folder / "group-ranks-real.png")
    return f"{table}\n{ranks}\n### Without the synthetic sets\n\n{real}\n{remarks(outcomes)}"


POINT = Experiment(
    "point",
    "Point anomalies: AUC with the best parameter",
    tuple(dict.fromkeys(name for name, _ in paper.POINT_AUC)),
    paper.POINT_DETECTORS,
    "isobag.reproduce.searches:search_points",
    3,
    report_points,
)
GROUP = Experiment(
    "group",
    "Group anomalies: AUC with the best parameters",
    tuple(dict.fromkeys(name for name, _ in paper.GROUP_AUC)),
    paper.GROUP_DETECTORS,
    "isobag.reproduce.searches:search_groups",
    3,
    report_groups,
)
