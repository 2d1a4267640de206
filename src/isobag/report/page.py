"""A ranking as one HTML page: a template, and the numbers of its pictures as JSON inside it."""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from isobag.report.findings import AXES, findings_of
from isobag.report.template import LONGEST_COMMAND, embedded, fill_template
from isobag.storage.atomic import write_whole
from isobag.tables.ranking import Ranking
from isobag.tables.sentences import remarks_of, sentence_of_flags
from isobag.tables.summary import FEATURE, LEFT_OUT, ColumnSummary
from isobag.tables.terminal import shown

FIRST = 5
"""How many to look at first."""
MOST_COLUMNS = 300
"""Columns of the table that are listed, those with something to say first."""
_SETTINGS = ("n_estimators", "max_samples", "group_max_samples", "scaling", "contamination", "random_state")


def write_report(ranking: Ranking, path: str | os.PathLike[str], *, source: str = "", command: str = "") -> None:
    """Write the page about ranked rows or groups, whole or not at all: one HTML file.

    ``source`` and ``command`` say where the data and the page come from.
    """
    write_whole(path, render(ranking, source=source, command=command).encode("utf-8", "replace"))


def render(ranking: Ranking, *, source: str = "", command: str = "", date: datetime | None = None) -> str:
    """The page as text."""
    findings = findings_of(ranking)
    summary, names = ranking.summary, ", ".join(ranking.units.labels)
    listed = _listed_first(summary.columns)
    return fill_template(
        "page.html.jinja",
        script="page.js",
        date=date,
        ranking=ranking,
        findings=findings,
        is_rows=ranking.unit == "row",
        title=shown(f"Odd groups by {names}" if ranking.unit == "group" else "Odd rows"),
        source=shown(source),
        many=f"{ranking.unit}s",
        n_axes=min(AXES, len(findings["features"])),
        n_left_out=len(ranking) - ranking.n_ranked,
        has_p=not ranking.judged.is_new or "p_value" in ranking.evidence,
        first=findings["top"][:FIRST],
        alarms=sentence_of_flags(ranking),
        remarks=[shown(sentence) for sentence in remarks_of(ranking)],
        columns=[_column(column) for column in listed[:MOST_COLUMNS]],
        n_columns=len(listed),
        n_used=sum(column.role == FEATURE for column in listed),
        n_unused=sum(column.role == LEFT_OUT for column in listed),
        settings={name: shown(value) for name, value in settings_of(ranking.detector).items()},
        files=[shown(file) for file in summary.files],
        command=shown(command, LONGEST_COMMAND),
        data=embedded({name: value for name, value in findings.items() if name != "listed"}),
    )


def settings_of(detector: Any) -> dict[str, str]:
    """The parameters that a reader needs to get the same result, and the psi that "auto" became."""
    params = detector.get_params()
    settings = {name: str(params[name]) for name in _SETTINGS if name in params}
    for name in ("max_samples", "group_max_samples"):
        if settings.get(name) == "auto":
            settings[name] = f"auto (up to {getattr(detector, name + '_')})"
    return settings


def _listed_first(columns: Sequence[ColumnSummary]) -> list[ColumnSummary]:
    """Columns left out, then those with a remark, then the others."""
    return sorted(columns, key=lambda column: (column.role != LEFT_OUT, not column.reason))


def _column(column: ColumnSummary) -> dict[str, Any]:
    return {
        "name": shown(column.name),
        "use": "used" if column.role == FEATURE else column.role,
        "kind": column.kind,
        "n_missing": column.n_missing,
        "reason": shown(column.reason),
    }
