"""The steps of every command that ranks or learns: open, read, learn or load, rank, write, show."""

import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import typer

from isobag.cli.inputs import Input, input_of, new_detector, open_model, threads_for
from isobag.cli.options import Typed
from isobag.cli.output import (
    check_targets,
    in_cell,
    note,
    print_json,
    rows_of,
    show_results,
    write_results,
)
from isobag.cli.process import TOO_MANY, sentence_of
from isobag.cli.progress import progress
from isobag.storage.atomic import write_whole
from isobag.storage.files import naming_stdout
from isobag.tables.detect import fit_table
from isobag.tables.model import Model
from isobag.tables.ranking import Ranking, rank
from isobag.tables.sentences import least_flagged, sentences_of_calibration
from isobag.tables.summary import FEATURE
from isobag.tables.terminal import escape_for_terminal


def detect(typed: Typed) -> None:
    """Rank the rows or groups of a table by a detector that is fitted to them."""
    detector = new_detector(typed)
    detector.calibrates = typed.save_model is not None
    show_results(_rank(detector, input_of(typed), typed), typed)


def fit(typed: Typed) -> None:
    """Fit a detector to a table and write it to a file."""
    detector, table_input = new_detector(typed), input_of(typed)
    detector.check_params()
    check_targets(typed, table_input.matching_files, None)
    with progress(typed.is_silent) as bar:
        table = table_input.read(bar)
        detector.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
        with bar.stage("learning"):
            fit_table(table, detector, typed.min_size)
        Model(detector, table.options.by, table.options.bags).save(typed.save_model)
    n_rows, names = len(table.rows), list(table.encoding.names)
    if typed.json:
        facts = {"model": str(typed.save_model), "n_rows": n_rows, "features": names}
        print_json({**facts, "threshold": float(detector.offset_), "table": table.summary.as_dict()})
        return
    note(f"{n_rows:,} rows learned from ({', '.join(names)}). Written: {typed.save_model}.", typed.quiet)
    for sentence in [*sentences_of_calibration(detector), *table.summary.sentences()]:
        note(sentence, typed.quiet)


def score(typed: Typed) -> None:
    """Rank the rows or groups of a table by a model; leave with TOO_MANY if more than --max-odd is flagged."""
    started = time.monotonic()
    check_junit(typed)
    try:
        ranking = _score(typed)
        verdict = None if typed.max_odd is None else _verdict(ranking, typed.max_odd)
    except Exception as error:
        write_junit(typed, started, "error", sentence_of(error, vars(typed)))
        raise
    outcome = verdict or {}
    text = "" if verdict is None else "\n".join(_lines(ranking, typed.top))
    write_junit(
        typed, started, "failure" if outcome.get("status") == "odd" else None, outcome.get("sentence", ""), text
    )
    show_results(ranking, typed, outcome)
    with naming_stdout():  # what cannot be printed is an error, and not a verdict
        sys.stdout.flush()
    if outcome.get("status") == "odd":
        raise typer.Exit(TOO_MANY)


def _score(typed: Typed) -> Ranking:
    model = open_model(typed)
    detector = model.detector
    if typed.exact:
        detector.exact = True
    for name in ("per_day", "max_odd"):
        if getattr(typed, name) is not None and detector.model_.calibration is None:
            raise ValueError(f"{name}= needs p-values, and the model was fitted without them.")
    if typed.per_day is not None:
        if typed.fdr is not None:
            raise ValueError("fdr= and per_day= are alternatives; give one of them.")
        typed.budget = typed.per_day * typed.days
    if typed.max_odd is not None:
        if not 0 <= typed.max_odd < 1:
            raise ValueError(f"max_odd={typed.max_odd!r}; need a share of 0 or more and below 1.")
        if typed.fdr is None and typed.per_day is None:
            typed.fdr = 0.1
    return _rank(detector, input_of(typed, model=model), typed, typed.model)


def _rank(detector: Any, table_input: Input, typed: Typed, fitted_in: Path | None = None) -> Ranking:
    is_fitted = fitted_in is not None
    detector.check_params()
    check_targets(typed, table_input.matching_files, fitted_in)
    with progress(typed.is_silent) as bar:
        table = table_input.read(bar, model=detector if is_fitted else None)
        detector.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
        how = {"fdr": typed.fdr, "budget": typed.budget, "min_size": typed.min_size}
        ranking = rank(table, detector, is_fitted=is_fitted, **how, stage=bar.stage)
        if typed.save_model is not None:
            Model(detector, table.options.by, table.options.bags).save(typed.save_model)
        write_results(ranking, typed, table_input.name, bar.tick)
        return ranking


def _verdict(ranking: Ranking, max_odd: float) -> dict[str, Any]:
    """Whether too many are flagged; refused where that would be fine whatever the table is."""
    unit, n, n_flagged = ranking.unit, ranking.n_ranked, ranking.n_flagged
    if not n:
        raise ValueError(f"No {unit} is left to check: all of {len(ranking):,} were left out.")
    for column in ranking.summary.columns:
        if column.role == FEATURE and column.n_missing >= ranking.summary.n_rows:
            raise ValueError(f"{column.name}: no value in any of {ranking.summary.n_rows:,} rows; nothing to check.")
    calibration = ranking.judged.model.calibration
    extrapolates = not ranking.detector.exact and None not in calibration.tails
    if ranking.fdr is not None and least_flagged(min(calibration.sizes), n, ranking.fdr) > n and not extrapolates:
        n_aside = min(calibration.sizes)
        raise ValueError(f"With {n_aside:,} calibration {unit}s nothing can be flagged at FDR {ranking.fdr:g}.")
    share = n_flagged / n
    status, more = ("odd", "more") if share > max_odd else ("fine", "not more")
    sentence = f"{status.capitalize()}: a share of {share:.3g} of {n:,} {unit}s is flagged, {more} than {max_odd:g}."
    return {"status": status, "share_flagged": share, "max_odd": max_odd, "sentence": sentence}


def _lines(ranking: Ranking, n: int) -> list[str]:
    """Those of the n oddest that are flagged, a line each."""
    rows = [row for row in rows_of(ranking.columns(0, n)) if row["flagged"]]
    return [", ".join(f"{escape_for_terminal(name)} {in_cell(value)}" for name, value in row.items()) for row in rows]


def check_junit(typed: Typed) -> None:
    """Refuse to write JUnit XML over what is read."""
    path: Path | None = typed.junit
    if path is None:
        return
    if path.suffix.lower() != ".xml":
        raise ValueError(f"{str(path)!r} has no known ending for JUnit XML; choose .xml.")
    if path.resolve() in [Path(name).resolve() for name in (typed.model, *(typed.files or ()))]:
        raise ValueError(f"{str(path)!r} cannot be written: it is read by the same command.")


def write_junit(typed: Typed, started: float, outcome: str | None, message: str, text: str = "") -> None:
    """One test case, called by the files; ``outcome``: failure, error, or None if all is fine."""
    if typed.junit is None:
        return
    seconds = f"{time.monotonic() - started:.3f}"
    counts = {"tests": "1", "failures": str(int(outcome == "failure")), "errors": str(int(outcome == "error"))}
    suites = ElementTree.Element("testsuites")
    about = {"name": "isobag score", **counts, "skipped": "0", "time": seconds}
    suite = ElementTree.SubElement(suites, "testsuite", about)
    name = escape_for_terminal(" ".join(typed.files or [str(typed.sql)]))
    case = ElementTree.SubElement(suite, "testcase", classname="isobag.score", name=name, time=seconds)
    if outcome is not None:
        ElementTree.SubElement(case, outcome, message=escape_for_terminal(message), type=outcome).text = text
    write_whole(typed.junit, ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))
