"""The page about entities over time: a map of entities and periods, a timeline, and a card for each new finding."""

import os
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.data.groups import number_labels
from isobag.estimators.findings import KINDS, Findings, shown_time
from isobag.estimators.histories import History
from isobag.report.template import LONGEST_COMMAND, fill_template
from isobag.storage.atomic import write_whole
from isobag.tables.reasons import number_in_words
from isobag.tables.terminal import shown

MOST_ENTITIES = 60
MOST_PERIODS = 120
MOST_CARDS = 24
MOST_LISTED = 500
"""Findings in the table, the newest first."""
LEVELS = (0.1, 0.01, 0.001, 0.0001)
"""P-values at which the colour of the map deepens."""
MARKS = dict(zip(KINDS, ("●", "◆", "▲", "▼", "×", "+"), strict=True))
"""The shape that stands for a kind of finding, so that no colour is needed to tell them apart."""
ROW_HEIGHT, LEAST_WIDTH, BAR_HEIGHT = 16, 7, 56
"""Height of an entity on the map, least width of a period, and height of the timeline, in pixels."""
LEAST_MAP, LEAST_TICK = 250, 110
"""Width of the map on a phone, and of a date below it."""
PARTS = {"p_past": "against its past", "p_peers": "against its peers", "p_volume": "number of rows"}


def write_watch_report(
    findings: Findings, path: str | os.PathLike[str], *, source: str = "", command: str = ""
) -> None:
    """Write the page about entities over time, whole or not at all: one HTML file that needs no script.

    ``findings`` is what ``EntityMonitor.update`` returns; ``source`` and ``command`` say where the data and the page
    come from.
    """
    write_whole(path, render_watch(findings, source=source, command=command).encode("utf-8", "replace"))


def render_watch(findings: Findings, *, source: str = "", command: str = "", date: datetime | None = None) -> str:
    """The page as text."""
    periods, columns = np.unique(findings.period, return_inverse=True)
    ids, labels = number_labels(findings.entity)
    flagged = np.flatnonzero(findings.flagged)
    flagged = flagged[np.lexsort((findings.p_value[flagged], -columns[flagged]))]
    _, firsts = np.unique(ids[flagged], return_index=True)
    carded = flagged[np.sort(firsts)]
    is_newest = columns == len(periods) - 1
    cards = [_card(findings, line, np.flatnonzero(ids == ids[line])) for line in carded[:MOST_CARDS].tolist()]
    return fill_template(
        "watch.html.jinja",
        date=date,
        source=shown(source),
        command=shown(command, LONGEST_COMMAND),
        n_lines=len(findings),
        n_entities=len(labels),
        n_periods=len(periods),
        n_flagged=len(flagged),
        newest=shown_time(periods[-1]) if len(periods) else "",
        first=[entry for entry in cards if is_newest[entry["line"]]],
        n_newest=int(np.count_nonzero(is_newest[flagged])),
        n_judged=int(np.count_nonzero(is_newest)),
        changes=[shown(change) for change in findings.common_changes],
        notes=[shown(note) for note in findings.notes],
        map=_map(findings, periods, columns, ids, labels) if len(periods) else None,
        marks=MARKS,
        levels=LEVELS,
        cards=cards,
        n_odd=len(carded),
        listed=[_entry(findings, line) for line in flagged[:MOST_LISTED].tolist()],
    )


def _entry(findings: Findings, line: int) -> dict[str, Any]:
    """A finding in words."""
    expected, kinds = float(findings.expected[line]), str(findings.kind[line]).split(", ")
    return {
        "line": line,
        "entity": shown(findings.entity[line]),
        "period": shown_time(findings.period[line]),
        "kinds": kinds,
        "mark": _mark(findings, line),
        "p": _p(findings.p_value[line]),
        "n": f"{findings.n_points[line]:,}",
        "expected": "" if np.isnan(expected) else number_in_words(float(f"{expected:.3g}")),
        "reasons": [shown(reason) for reason in str(findings.reasons[line]).split("; ") if reason],
    }


def _card(findings: Findings, line: int, own: Ints) -> dict[str, Any]:
    """A finding with its p-values and the numbers of rows of its entity, up to the newest: ``own`` are its lines."""
    own = own[-MOST_PERIODS:]
    sizes, expected = findings.n_points[own].astype(float), findings.expected[own]
    most = max(1.0, float(np.nanmax(np.concatenate([sizes, expected]))))
    history = findings.histories.get(line)
    return {
        **_entry(findings, line),
        "history": None if history is None else _history(history),
        "parts": [(name, _p(getattr(findings, key)[line])) for key, name in PARTS.items()],
        "most": number_in_words(float(f"{most:.3g}")),
        "begin": shown_time(findings.period[own[0]]),
        "end": shown_time(findings.period[own[-1]]),
        "bars": [
            {
                "x": _share(k, len(own)),
                "height": round(100 * size / most, 1),
                "is_odd": bool(is_odd),
                "middle": _share(k + 0.5, len(own)),
            }
            for k, (size, is_odd) in enumerate(zip(sizes, findings.flagged[own], strict=True))
        ],
        "width": _share(1, len(own)),
        "line_of_expected": _steps(expected / most),
    }


def _history(history: History) -> dict[str, Any]:
    """The picture of a feature: a line and points for the entity, a band for its peers, in shares of the box."""
    every = np.concatenate([history.values, history.low, history.high])
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    span = (high - low) or max(abs(high), 1.0)
    n = len(history.values)

    def heights(values: Floats) -> Floats:
        return 0.95 - 0.9 * (values - low) / span

    own, tops, bottoms = heights(history.values), heights(history.high), heights(history.low)
    known = np.flatnonzero(~np.isnan(history.values))
    before = history.values[known[:-1]]
    return {
        "name": shown(history.name),
        "value": _words(history.values[-1]),
        "past": _range(before) if len(before) else "",
        "peers": "" if np.isnan(history.low[-1]) else f"{_words(history.low[-1])} to {_words(history.high[-1])}",
        "begin": shown_time(history.periods[0]),
        "end": shown_time(history.periods[-1]),
        "n": n,
        "band": "".join(f"M{k} {tops[k]:.4f}h1V{bottoms[k]:.4f}h-1z" for k in range(n) if not np.isnan(history.low[k])),
        "path": "".join(
            f"{'M' if i == 0 or known[i - 1] != k - 1 else 'L'}{k + 0.5} {own[k]:.4f}"
            for i, k in enumerate(known.tolist())
        ),
        "points": [
            {"x": _share(k + 0.5, n), "y": f"{100 * own[k]:.2f}%", "is_odd": bool(history.flagged[k])}
            for k in known.tolist()
        ],
    }


def _range(values: Floats) -> str:
    low, high = np.quantile(values, [0.1, 0.9])
    return f"{_words(low)} to {_words(high)}"


def _words(value: float) -> str:
    return number_in_words(float(f"{value:.3g}"))


def _map(
    findings: Findings, periods: npt.NDArray[Any], columns: Ints, ids: Ints, labels: npt.NDArray[Any]
) -> dict[str, Any]:
    """Colours of entities and periods, the oddest entities on top, and how many findings each period has."""
    n_periods = min(len(periods), MOST_PERIODS)
    x = columns - (len(periods) - n_periods)
    recent = np.flatnonzero(x >= 0)
    scores = np.full(len(labels), np.inf)
    np.minimum.at(scores, ids[recent], np.nan_to_num(findings.score[recent], nan=np.inf))
    n_odd = np.bincount(ids[recent][findings.flagged[recent]], minlength=len(labels))
    order = np.lexsort((scores, n_odd == 0))[:MOST_ENTITIES]
    places = np.full(len(labels), -1)
    places[order] = np.arange(len(order))
    drawn = recent[places[ids[recent]] >= 0]
    y = places[ids[drawn]]
    levels = np.searchsorted(-np.array(LEVELS), -findings.p_value[drawn], side="right")
    is_known = ~np.isnan(findings.p_value[drawn])
    cells = [
        "".join(f"M{a} {b}h1v1h-1z" for a, b in zip(x[drawn[here]].tolist(), y[here].tolist(), strict=True))
        for here in (np.flatnonzero(is_known & (levels == level)) for level in range(len(LEVELS) + 1))
    ]
    counts = np.bincount(x[recent][findings.flagged[recent]], minlength=n_periods)
    judged = np.bincount(x[recent], minlength=n_periods)
    most, step = max(1, int(counts.max())), -(-LEAST_TICK // max(LEAST_WIDTH, LEAST_MAP // n_periods))
    times, changed = periods[-n_periods:], {change.period for change in findings.common_changes}
    return {
        "n_periods": n_periods,
        "n_entities": len(order),
        "names": [shown(labels[entity]) for entity in order],
        "cells": cells,
        "marks": [
            {
                "x": _share(x[line] + 0.5, n_periods),
                "y": (place + 0.5) * ROW_HEIGHT + 4,
                "shape": _mark(findings, line),
                "text": _title(findings, line) if findings.flagged[line] else "",
            }
            for line, place in zip(drawn.tolist(), y.tolist(), strict=True)
            if findings.kind[line] or not findings.n_points[line]
        ],
        "bars": [
            {
                "x": _share(k, n_periods),
                "height": round(BAR_HEIGHT * count / most, 1),
                "middle": _share(k + 0.5, n_periods),
                "is_common": time in changed,
            }
            for k, (count, time) in enumerate(zip(counts.tolist(), times, strict=True))
        ],
        "most": most,
        "width": _share(0.86, n_periods),
        "bar_height": BAR_HEIGHT,
        "height": ROW_HEIGHT * len(order),
        "pixels": LEAST_WIDTH * n_periods,
        "ticks": [
            (_share(k + 0.5, n_periods), shown_time(times[k])) for k in range(n_periods - 1, step // 3 - 1, -step)
        ],
        "table": [(shown_time(time), int(n), int(count)) for time, n, count in zip(times, judged, counts, strict=True)][
            ::-1
        ],
    }


def _mark(findings: Findings, line: int) -> str:
    """The shape of a line with a kind or without rows: that of its first kind."""
    return MARKS["silent" if not findings.n_points[line] else str(findings.kind[line]).split(", ")[0]]


def _title(findings: Findings, line: int) -> str:
    entry = _entry(findings, line)
    return f"{entry['entity']}, {entry['period']}: {', '.join(entry['kinds'])}"


def _steps(shares: Floats) -> str:
    """The path of a line of steps in a box of (n, 1), broken where a share is not known."""
    tops = [None if np.isnan(share) else f"{1 - share:.4f}" for share in shares]
    return "".join(
        f"{'M' if k == 0 or tops[k - 1] is None else 'L'}{k} {top}H{k + 1}"
        for k, top in enumerate(tops)
        if top is not None
    )


def _share(place: float, n: int) -> str:
    return f"{100 * place / n:.2f}%"


def _p(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2g}"
