"""A ranking to look at in a notebook: the oddest with reasons, and a plot of all scores."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from isobag.tables.reasons import number_in_words
from isobag.tables.terminal import LONGEST, shown

if TYPE_CHECKING:
    from isobag.tables.ranking import Ranking

TOP = 10
"""Rows or groups in the table."""
MOST_DRAWN = 2_000
USUAL, ODD = "#7d93ab", "#b8401f"
_LONGEST_LABEL = 40


def cut_of(ranking: "Ranking") -> float:
    """The score below which all are flagged and above which none is; by p-values, nearly so; -inf if none is."""
    if ranking.fdr is None and ranking.budget is None:
        return ranking.judged.threshold or -np.inf
    flagged, others = ranking.scores[ranking.flagged], ranking.scores[~ranking.flagged]
    if not len(flagged):
        return -np.inf
    highest = float(flagged.max())
    return float((highest + np.nanmin(others, initial=np.inf)) / 2) if np.isfinite(others).any() else 1.001 * highest


def html_of(ranking: "Ranking") -> str:
    """The ranking as HTML without scripts; text from the data is escaped as on a terminal, and for HTML."""
    summary = f"{len(ranking):,} {ranking.unit}s, {ranking.n_flagged:,} flagged ({ranking.rule})."
    top = pa.table(ranking.columns(0, min(TOP, ranking.n_ranked)))
    head = "".join(f"<th>{_text(name)}</th>" for name in top.column_names)
    rows = ("".join(f"<td>{_text(value)}</td>" for value in row.values()) for row in top.to_pylist())
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><p>{_text(summary)}</p>{table}</div>"


def plot_scores(ranking: "Ranking", ax: Any = None, n_labels: int = 5) -> Any:
    """Scores by rank, both in ratio where they can be: those flagged, the threshold, and the oddest by name."""
    if ax is None:
        try:
            from matplotlib import pyplot  # noqa: PLC0415, an extra
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("plot() needs matplotlib, which is missing: pip install matplotlib.") from error
        ax = pyplot.subplots()[1]
    n = ranking.n_ranked
    places = np.unique(np.geomspace(1, max(n, 1), MOST_DRAWN).astype(np.int64))[: max(n, 0)] - 1
    chosen = ranking.order[places]
    scores, flagged = ranking.scores[chosen], ranking.flagged[chosen]
    for is_odd, color, name in ((False, USUAL, "not flagged"), (True, ODD, "flagged")):
        shown = flagged == is_odd
        if shown.any():
            ax.plot(places[shown] + 1, scores[shown], ".", color=color, label=name)
    cut = cut_of(ranking)
    if np.isfinite(cut):
        ax.axhline(cut, color=ODD, linewidth=0.8, linestyle="--", label=ranking.rule)
    for place, name in enumerate(_names(ranking, min(n_labels, n))):
        at = (place + 1, scores[place])
        ax.annotate(name, at, (4, 4), textcoords="offset points", fontsize="small", parse_math=False)
    ax.set_xscale("log")
    if n and scores.min() > 0:
        ax.set_yscale("log")
    ax.set_xlabel(f"rank of the {ranking.unit}")
    ax.set_ylabel("score (lower = odder)")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return ax


def _names(ranking: "Ranking", n: int) -> list[str]:
    """What the n oddest are called."""
    top = pa.table(ranking.columns(0, n)).to_pylist()
    if not ranking.units.labels:
        return [f"row {row['row']}" for row in top]
    return [shown(" · ".join(str(row[name]) for name in ranking.units.labels), _LONGEST_LABEL) for row in top]


def in_cell(value: Any, most: int = LONGEST) -> str:
    """A value as a table shows it: three digits or whole, a day without midnight, text without what acts or hides."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:  # noqa: PLR0124, NaN differs from itself
        return "-"
    if isinstance(value, float):
        return number_in_words(float(f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"))
    return shown(str(value).removesuffix(" 00:00:00"), most)


def _text(value: Any) -> str:
    return escape(in_cell(value))
