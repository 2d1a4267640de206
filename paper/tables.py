"""The AUC tables of points and of groups, with average ranks and the tests on them."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import scikit_posthocs
from scipy.stats import friedmanchisquare, rankdata

from isobag.datasets import SYNTHETIC_GROUP_SETS
from paper import printed
from paper.cells import DONE, NOT_AVAILABLE, OVER_BUDGET, Cell
from paper.figures import draw_critical_differences


class Experiment(NamedTuple):
    """A table or figure: one cell for each set and detector, and the Markdown and figures made of their outcomes.

    work : "module:function", the generator of the records of a cell; report : (outcomes, folder) -> Markdown.
    """

    name: str
    title: str
    datasets: tuple
    detectors: tuple
    work: str
    n_seeds: int
    report: object
    takes_any_set: bool = True

    def cells(self, chosen=None):
        """Cells of all sets, or of those chosen by name; where ``takes_any_set``, others of the same kind too."""
        datasets = self.datasets if chosen is None else chosen
        for dataset in datasets:
            if not self.takes_any_set and dataset not in self.datasets:
                raise ValueError(f"sets={dataset!r}; {self.name} has {', '.join(self.datasets)}.")
        return [Cell(self.name, dataset, detector, self.work) for dataset in datasets for detector in self.detectors]


def markdown_table(columns, rows):
    """A Markdown table; None is an empty field."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join("" if field is None else str(field) for field in line) + " |\n" for line in lines)


def shown_auc(value):
    """An AUC with three digits and no leading zero, as in the paper."""
    return None if value is None else f"{value:.3f}".removeprefix("0")


def shown_status(outcome):
    """What stands in a table in place of a number."""
    if outcome.status == OVER_BUDGET:
        return f"> {outcome.plan.budget:g} s"
    return "" if outcome.status == DONE else outcome.status


def remarks(outcomes):
    """A line for every cell that failed, and one for everything that is not available."""
    lines = {}
    for (dataset, detector), outcome in outcomes.items():
        if outcome.message:
            place = "" if outcome.status == NOT_AVAILABLE else f"{dataset}, {detector}, "
            lines[f"- {place}{outcome.status}: {outcome.message}\n"] = None
    return "".join(lines)


class Best(NamedTuple):
    """The best parameter by its mean AUC over seeds, the spread between seeds, and whether the search was cut off."""

    auc: float
    parameter: object
    spread: float
    n_seeds: int
    cut: bool


def best_of(outcome):
    """The best parameter of a search: over its complete seeds, or over what there is of the first; None without any."""
    complete = {record["seed"] for record in outcome.records if record.get("complete")}
    by_parameter = {}
    for record in outcome.records:
        if record["seed"] in (complete or {0}) and "auc" in record:
            by_parameter.setdefault(str(record["parameter"]), []).append(record)
    if not by_parameter:
        return None
    best = max(by_parameter.values(), key=lambda records: np.mean([record["auc"] for record in records]))
    values = [record["auc"] for record in best]
    return Best(float(np.mean(values)), best[0]["parameter"], float(np.ptp(values)), len(values), not complete)


def accuracy_table(outcomes, in_paper):
    """One row for every set and detector: paper | here | difference, and how the number here came about."""
    rows = []
    for (dataset, detector), outcome in outcomes.items():
        if outcome.status == NOT_AVAILABLE:
            continue
        best, printed_auc = best_of(outcome), in_paper.get(dataset, {}).get(detector)
        there = "> 24 h" if dataset in in_paper and printed_auc is None else shown_auc(printed_auc)
        row = [dataset, detector, there, shown_status(outcome), None, None, None, None]
        if best is not None:
            # A search that was cut off, or failed, keeps what it had reached and says so.
            cut = f" ({shown_status(outcome)})" if best.cut else ""
            difference = None if printed_auc is None else f"{best.auc - printed_auc:+.3f}".replace("0.", ".", 1)
            parameter = ", ".join(f"{value:g}" for value in np.atleast_1d(best.parameter))
            row[3:] = [shown_auc(best.auc) + cut, difference, parameter, best.n_seeds, shown_auc(best.spread)]
        rows.append([*row, f"{outcome.seconds:.0f}"])
    columns = ["set", "detector", "paper", "here", "difference", "parameter", "seeds", "spread", "seconds"]
    return markdown_table(columns, rows)


class RankTest(NamedTuple):
    """Average rank of each detector, p-value of Friedman's test, and those of Nemenyi's for each pair of detectors."""

    average_ranks: dict
    friedman: float
    nemenyi: pd.DataFrame


def rank_rows(auc):
    """Rank of each detector on each set, 1 = highest AUC, ties shared; one without an AUC (NaN) is last: (sets, k)."""
    return rankdata(-np.where(np.isnan(auc), -np.inf, auc), axis=1)


def compare(auc, detectors):
    """The comparison over two sets or more: (sets, k)."""
    ranks = rank_rows(auc)
    averages = dict(zip(detectors, ranks.mean(axis=0).tolist(), strict=True))
    # The tests rank again: of minus the ranks they make the same ranks, with NaN last.
    nemenyi = scikit_posthocs.posthoc_nemenyi_friedman(pd.DataFrame(-ranks, columns=list(detectors)))
    return RankTest(averages, float(friedmanchisquare(*ranks.T).pvalue), nemenyi)


def ranking(outcomes, ranks_in_paper, figure):
    """Average ranks beside the published ones, the two tests, and a critical-difference diagram.

    AUCs are rounded to two digits first: the published ranks are those of the printed numbers, ties and all.
    """
    detectors, auc = tuple(ranks_in_paper), {}
    for dataset in dict.fromkeys(dataset for dataset, _ in outcomes):
        best = [best_of(outcomes[dataset, one]) if (dataset, one) in outcomes else None for one in detectors]
        if any(best):
            auc[dataset] = [np.nan if one is None else round(one.auc, 2) for one in best]
    if len(auc) < 2:
        return "Average ranks need two sets or more.\n"
    comparison = compare(np.array(list(auc.values())), detectors)
    rows = [
        [detector, ranks_in_paper[detector], f"{rank:.2f}", f"{rank - ranks_in_paper[detector]:+.2f}"]
        for detector, rank in comparison.average_ranks.items()
    ]
    draw_critical_differences(comparison, figure)
    first = min(comparison.average_ranks, key=comparison.average_ranks.__getitem__)
    pairs = ", ".join(f"{other} {comparison.nemenyi.loc[first, other]:.3f}" for other in detectors if other != first)
    return (
        f"Average rank over {len(auc)} sets ({', '.join(auc)}); a cell without a number is last.\n\n"
        + markdown_table(["detector", "paper", "here", "difference"], rows)
        + f"\nFriedman's test: p = {comparison.friedman:.2g}. Nemenyi's test of {first} against: {pairs}.\n\n"
        + f"![Critical differences]({figure.name})\n"
    )


def report_points(outcomes, folder):
    """The two tables of points as one, and their rankings."""
    kernel = ranking(outcomes, printed.KERNEL_RANKS, folder / "point-kernel-ranks.png")
    isolation = ranking(outcomes, printed.ISOLATION_RANKS, folder / "point-isolation-ranks.png")
    table = accuracy_table(outcomes, printed.POINT_AUC)
    return f"{table}\n### Kernel detectors\n\n{kernel}\n### Isolation detectors\n\n{isolation}\n{remarks(outcomes)}"


def report_groups(outcomes, folder):
    """The table of groups and its ranking."""
    table = accuracy_table(outcomes, printed.GROUP_AUC)
    ranks = ranking(outcomes, printed.GROUP_RANKS, folder / "group-ranks.png")
    real = {cell: outcome for cell, outcome in outcomes.items() if cell[0] not in SYNTHETIC_GROUP_SETS}
    real_ranks = ranking(real, printed.GROUP_RANKS, folder / "group-ranks-real.png")
    return f"{table}\n{ranks}\n### Without the synthetic sets\n\n{real_ranks}\n{remarks(outcomes)}"


POINT = Experiment(
    "points",
    "Point anomalies: AUC with the best parameter",
    tuple(printed.POINT_AUC),
    printed.POINT_DETECTORS,
    "paper.searches:search_points",
    3,
    report_points,
)
GROUP = Experiment(
    "groups",
    "Group anomalies: AUC with the best parameters",
    tuple(printed.GROUP_AUC),
    tuple(printed.GROUP_RANKS),
    "paper.searches:search_groups",
    3,
    report_groups,
)
