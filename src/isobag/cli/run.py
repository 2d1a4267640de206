"""Commands that rank or learn: read, learn or load, rank, write, show."""

import sys
import time
from typing import Any
from xml.etree import ElementTree

import typer

from isobag.cli.inputs import new_detector, open_model, open_source, read_options, read_table, threads_for
from isobag.cli.options import Typed
from isobag.cli.output import check_targets, command_line, rows_of, show
from isobag.cli.process import TOO_MANY, sentence_of
from isobag.cli.progress import progress
from isobag.storage.atomic import write_whole
from isobag.storage.files import BATCH_ROWS, naming_stdout, write_table
from isobag.tables.batch import names_of_files
from isobag.tables.detect import fit_table
from isobag.tables.model import Model
from isobag.tables.notebook import in_cell
from isobag.tables.ranking import Ranking, rank
from isobag.tables.reading import ReadOptions
from isobag.tables.sentences import least_flagged, sentences_of, sentences_of_calibration
from isobag.tables.summary import FEATURE
from isobag.tables.terminal import escape_for_terminal

NOT_PRINTED = ("rank", "rank_share", "extrapolated", "p_shape", "p_size", "n_missing")
"""Columns of a result that --out and --json have and the terminal has not: the order of the lines is the rank."""


def detect(typed: Typed) -> None:
    """Rank the rows or groups of a table by a detector that is fitted to them."""
    detector = new_detector(typed)
    detector.calibrates = typed.save_model is not None
    check_targets(typed)
    _show_ranking(typed, _rank(typed, detector, read_options(typed)))


def fit(typed: Typed) -> None:
    """Fit a detector to a table and write it to a file."""
    detector, options = new_detector(typed), read_options(typed)
    detector.check_params()
    check_targets(typed)
    with progress(typed.is_silent) as bar:
        table = read_table(open_source(typed, options), options, bar)
        detector.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
        bar.stage("learning")
        fit_table(table, detector, typed.min_size)
        Model(detector, options.by, options.bags).save(typed.save_model)
    n_rows, names = len(table.rows), list(table.encoding.names)
    facts = {"model": str(typed.save_model), "n_rows": n_rows, "features": names}
    facts |= {"threshold": float(detector.offset_), "table": table.summary.as_dict()}
    learned = f"{n_rows:,} rows learned from ({', '.join(names)})."
    show(typed, facts, notes=[learned, *sentences_of_calibration(detector), *table.summary.sentences()])


def score(typed: Typed) -> None:
    """Rank the rows or groups of a table by a model; leave with TOO_MANY if more than --max-odd is flagged."""
    started = time.monotonic()
    check_targets(typed)
    try:
        ranking = _score(typed)
        verdict = {} if typed.max_odd is None else _verdict(ranking, typed.max_odd)
    except Exception as error:
        _write_junit(typed, started, "error", sentence_of(error, vars(typed)))
        raise
    is_odd = verdict.get("status") == "odd"
    lines = "\n".join(_lines(ranking, typed.top)) if verdict else ""
    _write_junit(typed, started, "failure" if is_odd else None, verdict.get("sentence", ""), lines)
    _show_ranking(typed, ranking, verdict)
    with naming_stdout():  # what cannot be printed is an error, and not a verdict
        sys.stdout.flush()
    if is_odd:
        raise typer.Exit(TOO_MANY)


def _score(typed: Typed) -> Ranking:
    model = open_model(typed)
    detector = model.detector
    if typed.exact:
        detector.exact = True
    for name in ("per_day", "max_odd"):
        if getattr(typed, name) is not None and detector.model_.calibration is None:
            raise ValueError(f"{name}= needs p-values, and the model was fitted without them.")
    if typed.per_day is not None and typed.fdr is not None:
        raise ValueError("fdr= and per_day= are alternatives; give one of them.")
    if typed.max_odd is not None:
        if not 0 <= typed.max_odd < 1:
            raise ValueError(f"max_odd={typed.max_odd!r}; need a share of 0 or more and below 1.")
        if typed.fdr is None and typed.per_day is None:
            typed.fdr = 0.1
    return _rank(typed, detector, read_options(typed, model), is_fitted=True)


def _rank(typed: Typed, detector: Any, options: ReadOptions, is_fitted: bool = False) -> Ranking:
    """Read, rank, and write what is to be written."""
    detector.check_params()
    source = open_source(typed, options)
    how = {"fdr": typed.fdr, "budget": None if typed.per_day is None else typed.per_day * typed.days}
    with progress(typed.is_silent) as bar:
        table = read_table(source, options, bar, detector if is_fitted else None)
        detector.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
        ranking = rank(table, detector, is_fitted=is_fitted, min_size=typed.min_size, stage=bar.stage, **how)
        bar.stage("writing")
        if typed.save_model is not None:
            Model(detector, options.by, options.bags).save(typed.save_model)
        if typed.out:
            write_table(typed.out, ranking.parts(BATCH_ROWS))
        if typed.report is not None:
            from isobag.report import write_report  # noqa: PLC0415, loads jinja2

            name = names_of_files(typed.files or []) or typed.sql
            write_report(ranking, typed.report, source=name, command=command_line())
    return ranking


def _show_ranking(typed: Typed, ranking: Ranking, verdict: dict[str, Any] | None = None) -> None:
    """The oddest, and what there is to say of all."""
    verdict = verdict or {}
    facts = {
        f"n_{ranking.unit}s": len(ranking),
        "n_rows": ranking.summary.n_rows,
        "n_flagged": ranking.n_flagged,
        "n_expected": ranking.n_expected,
        "n_left_out": len(ranking) - ranking.n_ranked,
        "features": [column.name for column in ranking.encoding.columns],
        "threshold": float(ranking.judged.threshold),
        "rule": ranking.rule,
        "notes": sentences_of(ranking),
        "table": ranking.summary.as_dict(),
        **verdict,
    }
    top = ranking.columns(0, typed.top)
    table = {name: column for name, column in top.items() if name not in NOT_PRINTED} if len(top["score"]) else None
    lines = [verdict["sentence"]] if verdict else []
    show(typed, {**facts, "top": rows_of(top)}, lines, table, facts["notes"])


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
    n_aside = min(calibration.sizes)
    if ranking.fdr is not None and least_flagged(n_aside, n, ranking.fdr) > n and not extrapolates:
        raise ValueError(f"With {n_aside:,} calibration {unit}s nothing can be flagged at FDR {ranking.fdr:g}.")
    share = n_flagged / n
    status, more = ("odd", "more") if share > max_odd else ("fine", "not more")
    sentence = f"{status.capitalize()}: a share of {share:.3g} of {n:,} {unit}s is flagged, {more} than {max_odd:g}."
    return {"status": status, "share_flagged": share, "max_odd": max_odd, "sentence": sentence}


def _lines(ranking: Ranking, n: int) -> list[str]:
    """Those of the n oddest that are flagged, a line each."""
    rows = [row for row in rows_of(ranking.columns(0, n)) if row["flagged"]]
    return [", ".join(f"{escape_for_terminal(name)} {in_cell(value)}" for name, value in row.items()) for row in rows]


def _write_junit(typed: Typed, started: float, outcome: str | None, message: str, text: str = "") -> None:
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
