"""Incidents as one HTML page: each with its curve of the entity's number of rows and p-values, days side by side."""

import os
from typing import Any

import numpy as np

from isobag.report.template import LONGEST_COMMAND, fill_template
from isobag.storage.atomic import write_whole
from isobag.tables.incidents import Incidents, p_in_words
from isobag.tables.terminal import shown

_MOST, _PERIODS, _WIDTH, _HEIGHT = 100, 120, 480, 48


def write_watch_report(
    incidents: Incidents, path: str | os.PathLike[str], *, source: str = "", command: str = ""
) -> None:
    """Write the page about incidents, whole or not at all: one HTML file."""
    page = fill_template(
        "watch.html.jinja",
        title=f"Incidents by {shown(', '.join(incidents.naming.by))}",
        source=shown(source),
        command=shown(command, LONGEST_COMMAND),
        sentences=[shown(sentence) for sentence in incidents.sentences()],
        cards=[_card(incidents, k) for k in range(min(len(incidents), _MOST))],
        n_more=max(0, len(incidents) - _MOST),
        width=_WIDTH,
        height=_HEIGHT,
    )
    write_whole(path, page.encode("utf-8", "replace"))


def _card(incidents: Incidents, k: int) -> dict[str, Any]:
    incident = incidents.listed[k]
    judged = incidents.judged[-_PERIODS:]
    counts = np.array([period.rows[incident.entity] for period in judged], dtype=np.float64)
    inside = [bool(period.inside[incident.entity]) for period in judged]
    step, top = _WIDTH / max(len(judged), 1), max(float(counts.max(initial=1)), 1.0)
    bars = [
        {"x": f"{i * step:.1f}", "y": f"{_HEIGHT * (1 - n / top):.1f}", "h": f"{_HEIGHT * n / top:.1f}", "odd": odd,
         "title": f"{incidents.shown(period.period)}: {n:.0f} rows"}
        for i, (n, odd, period) in enumerate(zip(counts.tolist(), inside, judged, strict=True))
    ]  # fmt: skip
    row = {name: shown(value) for name, value in incidents.rows()[k].items()}
    label = " ".join(row[name] for name in incidents.naming.by)
    p = p_in_words(incident.p_value, incident.bound)
    return {**row, "label": label, "p_value": p, "bars": bars, "bar_width": f"{max(step - 1, 0.5):.1f}"}
