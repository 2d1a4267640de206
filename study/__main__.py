"""The study behind the defaults: python -m study [section ...] runs what is missing and writes study/REPORT_STUDY.md.

Results are kept under study/results; delete a file there to measure its section anew.
"""

import sys
from textwrap import fill

from study.alarms import ALARMS_SECTION
from study.bars import bars
from study.checks import P_VALUES_SECTION
from study.clumps import CLUMPS_SECTION
from study.data import ROOT
from study.groups import ALIKE_SECTION, GROUPS_SECTION
from study.harness import load_results, run
from study.normal_groups import DAYS_SECTION, NULL_SECTION
from study.own_tables import OWN_SECTION
from study.points import ADBENCH_SECTION, TABLES_SECTION
from study.sessions import SESSIONS_SECTION

SECTIONS = {
    section.name: section
    for section in (
        TABLES_SECTION,
        ADBENCH_SECTION,
        CLUMPS_SECTION,
        GROUPS_SECTION,
        ALIKE_SECTION,
        SESSIONS_SECTION,
        NULL_SECTION,
        DAYS_SECTION,
        P_VALUES_SECTION,
        ALARMS_SECTION,
        OWN_SECTION,
    )
}
PAGE = ROOT / "study" / "REPORT_STUDY.md"


def main(names):
    for name in names or SECTIONS:
        run(SECTIONS[name])
    PAGE.write_text("\n".join(map(_wrapped, "\n".join(_page()).split("\n"))) + "\n")


def _page():
    yield "# The study\n"
    yield (
        "Made by `make study` from the labelled sets; nothing in it is edited by hand. What it means is in"
        " [the defaults](REPORT_DEFAULTS.md). Numbers are ROC AUC unless they say otherwise. The defaults were chosen"
        " by looking at these same sets, so on other data expect a little less.\n"
    )
    complete = {name: _complete_results(section) for name, section in SECTIONS.items()}
    yield "## In short\n"
    yield bars({name: results for name, results in complete.items() if results})
    for name, section in SECTIONS.items():
        yield f"## {section.title}\n"
        yield from section.page(complete[name]) if complete[name] else ["Not run to the end.\n"]


def _wrapped(line):
    return fill(line, 120, break_long_words=False, break_on_hyphens=False) if line[:1] not in "|#" else line


def _complete_results(section):
    """Results of a section, if it has all."""
    results, tasks = load_results(section.name), section.tasks()
    return {key: results[key] for key in tasks} if tasks and all(key in results for key in tasks) else None


if __name__ == "__main__":
    main(sys.argv[1:])
