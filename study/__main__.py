"""The study behind the defaults: python study [section ...]; writes one JSON a section and docs/study.md.

A section that is not named keeps the result of its last run.
"""

import json
import platform
import sys
import time
from datetime import date

import numpy as np
from checks import cost, p_values
from data import ROOT
from groups import groups, groups_tried
from points import default, tried
from rivals import pyod
from rules import thresholds

SECTIONS = {
    section.__name__: section for section in (default, tried, pyod, thresholds, groups, groups_tried, p_values, cost)
}
RESULTS = ROOT / "study" / "results"
PAGE = ROOT / "docs" / "study.md"


def main(names):
    RESULTS.mkdir(exist_ok=True)
    for name in names or SECTIONS:
        start = time.perf_counter()
        rows = [{key: _plain(value) for key, value in row.items()} for row in SECTIONS[name]()]
        took = time.perf_counter() - start
        result = {
            "rows": rows,
            "date": date.today().isoformat(),
            "seconds": round(took),
            "python": platform.python_version(),
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1))
        print(_table(rows), flush=True)
    PAGE.write_text("\n".join(_page()))


def _page():
    yield "# What was tried\n"
    yield "Made by `make study` from the labelled sets; nothing in it is edited by hand. What it means is in"
    yield "[no_tuning.md](no_tuning.md). Numbers are ROC AUC unless they say otherwise.\n"
    for name, section in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            result = json.loads(path.read_text())
            yield f"## {name}\n\n{section.__doc__}\n\n{_table(result['rows'])}\n"
            yield f"{result['date']}, two threads, {result['seconds']} s.\n"


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _table(rows):
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    lines += ["| " + " | ".join(_shown(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _shown(value):
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.3f}"
    return str(value)


if __name__ == "__main__":
    main(sys.argv[1:])
