"""What every table and figure has in common: its cells, and a report made of their outcomes."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from isobag.reproduce.cells import DONE, NOT_AVAILABLE, OVER_BUDGET, Cell, Outcome

Outcomes = dict[tuple[str, str], Outcome]


class Experiment(NamedTuple):
    """A table or figure: one cell for each set and detector, and the Markdown and figures made of them."""

    name: str
    title: str
    datasets: tuple[str, ...]
    detectors: tuple[str, ...]
    work: str
    n_seeds: int | None  # None: one run, whatever is asked for
    report: Callable[[Outcomes, Path], str]
    takes_any_set: bool = True

    def seeds(self, asked: int | None) -> int:
        """How many seeds to run, if so many are asked for."""
        return 1 if self.n_seeds is None else asked or self.n_seeds

    def cells(self, chosen: Iterable[str] | None = None) -> list[Cell]:
        """Cells of all sets, or of those chosen by name; where ``takes_any_set``, others of the same kind too."""
        datasets = self.datasets if chosen is None else tuple(chosen)
        for one in datasets:
            if not self.takes_any_set and one not in self.datasets:
                raise ValueError(f"sets={one!r}; {self.name} has none but {', '.join(self.datasets)}.")
        return [Cell(self.name, one, detector, self.work) for one in datasets for detector in self.detectors]


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; a missing value is an empty field."""
    lines = [list(columns), ["---" for _ in columns], *rows]
    return "".join("| " + " | ".join("" if field is None else str(field) for field in line) + " |\n" for line in lines)


def shown_auc(value: float | None) -> str | None:
    """An AUC with three digits and no leading zero, as in the paper."""
    return None if value is None else f"{value:.3f}".removeprefix("0")


def compared(published: float | None, here: float | None) -> str | None:
    """The difference here minus paper, if both are numbers."""
    return None if published is None or here is None else f"{here - published:+.3f}".replace("0.", ".", 1)


def shown_status(outcome: Outcome) -> str:
    """What stands in a table in place of a number."""
    if outcome.status == OVER_BUDGET:
        return f"> {outcome.budget:g} s"
    return "" if outcome.status == DONE else outcome.status


def remarks(outcomes: Outcomes) -> str:
    """A line for every cell that failed, and one for everything that cannot be had."""
    lines: dict[str, None] = {}
    for (dataset, detector), outcome in outcomes.items():
        if outcome.message:
            # What cannot be had is named by its message, once.
            place = "" if outcome.status == NOT_AVAILABLE else f"{dataset}, {detector}, "
            lines[f"- {place}{outcome.status}: {outcome.message}\n"] = None
    return "".join(lines)
