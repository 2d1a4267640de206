"""A table checked against a model: read, scored, and the share of odd rows or groups held against a limit."""

import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import typer

from isobag.cli.commands import ODD
from isobag.cli.inputs import open_model
from isobag.cli.options import Typed
from isobag.cli.output import in_cell, note, output_of, print_json, print_line, print_table, rows_of
from isobag.cli.process import sentence_of
from isobag.cli.run import rank_new
from isobag.storage.atomic import write_whole
from isobag.storage.files import STDOUT, naming_stdout
from isobag.tables.ranking import Ranking
from isobag.tables.sentences import least_flagged, sentences_of
from isobag.tables.summary import FEATURE
from isobag.tables.terminal import escape_for_terminal

SCHEMA = "isobag.check/1"
"""Name and version of what --json prints. Keys may be added; another meaning of one is another version."""


def check_table(typed: Typed) -> None:
    """Check a table; leave with ODD if it has too many odd rows or groups."""
    started = time.monotonic()
    _check_junit(typed)
    try:
        facts = _facts(typed)
    except Exception as error:
        _write_junit(typed, started, "error", sentence_of(error, vars(typed)), "")
        raise
    said = _sentence(facts)
    is_odd = facts["status"] == "odd"
    _write_junit(typed, started, "failure" if is_odd else None, said, "\n".join(map(_line, facts["odd"])))
    _show(typed, facts, said)
    if is_odd:
        raise typer.Exit(ODD)


def _facts(typed: Typed) -> dict[str, Any]:
    """What --json prints."""
    if not 0 <= typed.max_odd < 1:
        raise ValueError(f"max_odd={typed.max_odd!r}; need a share of 0 or more and below 1.")
    detector = open_model(typed)
    if detector.model_.calibration is None:
        raise ValueError(f"{str(typed.model)!r} was fitted without p-values, which isobag check needs; fit it again.")
    ranking, top = rank_new(detector, output_of(typed, model=None), typed)
    _check_content(ranking)
    n_checked, n_odd = ranking.n_ranked, ranking.n_flagged
    return {
        "schema": SCHEMA,
        "status": "odd" if n_odd / n_checked > typed.max_odd else "fine",
        "unit": ranking.unit,
        "n_rows": ranking.summary.n_rows,
        "n_checked": n_checked,
        "n_left_out": len(ranking) - n_checked,
        "n_odd": n_odd,
        "share_odd": n_odd / n_checked,
        "max_odd": typed.max_odd,
        "fdr": typed.fdr,
        "model": str(typed.model),
        "files": list(ranking.summary.files),
        "features": [column.name for column in ranking.encoding.columns],
        "odd": [row for row in rows_of(top) if row["flagged"]],
        "notes": sentences_of(ranking),
    }


def _check_content(ranking: Ranking) -> None:
    """Refuse a table that would be fine whatever it is: nothing in it, or no way to find anything odd."""
    if not ranking.n_ranked:
        raise ValueError(f"No {ranking.unit} is left to check: all of {len(ranking):,} were left out.")
    for column in ranking.summary.columns:
        if column.role == FEATURE and column.n_missing >= ranking.summary.n_rows:
            raise ValueError(f"{column.name}: no value in any of {ranking.summary.n_rows:,} rows; nothing to check.")
    calibration, n, fdr = ranking.judged.model.calibration, ranking.n_ranked, float(ranking.fdr or 0)
    n_aside = min(calibration.sizes)
    extrapolates = not ranking.detector.exact and None not in calibration.tails
    if least_flagged(n_aside, n, fdr) > n and not extrapolates:
        raise ValueError(f"With {n_aside:,} calibration {ranking.unit}s nothing can be flagged at FDR {fdr:g}.")


def _sentence(facts: dict[str, Any]) -> str:
    """The verdict."""
    n_odd, n_checked = facts["n_odd"], facts["n_checked"]
    more = "more than" if facts["status"] == "odd" else "not more than"
    share = f"a share of {facts['share_odd']:.3g}, {more} {facts['max_odd']:g}"
    return f"{facts['status'].capitalize()}: {n_odd:,} of {n_checked:,} {facts['unit']}s are odd, {share}."


def _show(typed: Typed, facts: dict[str, Any], said: str) -> None:
    """Print the verdict; what cannot be printed is an error, and not a verdict."""
    if str(typed.out) == STDOUT:
        return
    if typed.json:
        print_json(facts)
    else:
        if facts["odd"]:
            print_table({name: [row[name] for row in facts["odd"]] for name in facts["odd"][0]})
        print_line(said)
        for sentence in facts["notes"]:
            note(sentence, typed.quiet)
    with naming_stdout():
        sys.stdout.flush()


def _check_junit(typed: Typed) -> None:
    """Refuse to write JUnit XML over what is read."""
    path: Path | None = typed.junit
    if path is None:
        return
    if path.suffix.lower() != ".xml":
        raise ValueError(f"{str(path)!r} has no known ending for JUnit XML; choose .xml.")
    read = [Path(name).resolve() for name in (typed.model, *(typed.files or ()))]
    if path.resolve() in read:
        raise ValueError(f"{str(path)!r} cannot be written: it is read by the same command.")


def _line(row: dict[str, Any]) -> str:
    return ", ".join(f"{escape_for_terminal(name)} {in_cell(value)}" for name, value in row.items())


def _write_junit(typed: Typed, started: float, outcome: str | None, message: str, text: str) -> None:
    """One test case, called by the files; ``outcome``: failure, error, or None if all is fine."""
    if typed.junit is None:
        return
    seconds = f"{time.monotonic() - started:.3f}"
    counts = {"tests": "1", "failures": str(int(outcome == "failure")), "errors": str(int(outcome == "error"))}
    suites = ElementTree.Element("testsuites")
    about = {"name": "isobag check", **counts, "skipped": "0", "time": seconds}
    suite = ElementTree.SubElement(suites, "testsuite", about)
    name = escape_for_terminal(" ".join(typed.files or [str(typed.sql)]))
    case = ElementTree.SubElement(suite, "testcase", classname="isobag.check", name=name, time=seconds)
    if outcome is not None:
        ElementTree.SubElement(case, outcome, message=escape_for_terminal(message), type=outcome).text = text
    write_whole(typed.junit, ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))
