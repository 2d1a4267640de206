"""From files to findings, with a state that lasts: open, judge, write, and only then keep what was learned."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from isobag.cli.inputs import input_of, threads_for
from isobag.cli.options import Typed, split_names
from isobag.cli.output import Output, check_targets, command_line, note, output_of, print_json, print_line, print_table
from isobag.cli.progress import progress
from isobag.estimators import EntityMonitor
from isobag.estimators.findings import Findings, shown_time
from isobag.models.timeline import ONLINE_PERIODS, n_begun
from isobag.storage.files import STDOUT, write_table
from isobag.storage.modelfile import load, save
from isobag.tables.encode import Encoding
from isobag.tables.summary import TableSummary
from isobag.tables.times import moment_of
from isobag.tables.watch import (
    LogColumns,
    findings_table,
    oddest_first,
    period_of,
    read_log,
)

_CHANGEABLE = ("fdr", "keep", "late")


def watch_files(typed: Typed) -> None:
    """Judge the new periods of files, and keep what was learned."""
    words = [(EntityMonitor.confirm, "confirm", one) for one in typed.confirm or ()]
    words += [(EntityMonitor.dismiss, "dismiss", one) for one in typed.dismiss or ()]
    path: Path | None = typed.model
    is_known = path is not None and path.exists()
    if words and not is_known:
        raise typer.BadParameter("--confirm and --dismiss need the state of an earlier run: --model FILE.")
    if not typed.learn and not is_known:
        raise typer.BadParameter("--no-learn needs the state of an earlier run: --model FILE.")
    monitor, columns = _opened(typed, path) if is_known else _begun(typed)
    for say, option, target in words:
        _say(monitor, columns, say, option, target)
    if words and not (typed.files or typed.sql):
        save(monitor, str(path))
        note(f"{len(words)} period{'s' if len(words) > 1 else ''} noted. Written: {path}.", typed.quiet)
        return
    _judge(typed, monitor, columns, path if is_known else None, bool(words))


def _judge(typed: Typed, monitor: EntityMonitor, columns: LogColumns, known: Path | None, has_words: bool) -> None:
    path: Path | None = typed.model
    output = output_of(typed, model=None if known else path)
    named = {name: own for name, own in vars(typed).items() if name != "keep"}  # which has no columns here
    given = input_of(Typed(**named))
    given = given if known is None else given.following(monitor)
    given = replace(given, options=columns.reading(given.options))
    encoding = None if known is None else Encoding.of_model(monitor)
    files = given.matching_files
    for name in files:
        if files.count(name) > 1:
            raise ValueError(f"{name!r} is given twice; its rows would count double.")
    check_targets(output, files, known)
    since = None if typed.since is None else moment_of(typed.since, "since", monitor.time_zone)
    before = monitor.state.periods if known else None
    with progress(output.is_silent) as bar:
        table = given.read(bar, encoding=encoding)
        monitor.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
        log, summary, learned = read_log(table, columns, monitor.calendar), table.summary, table.encoding
        del table  # the columns of entities and times, which are in the log
        pa.default_memory_pool().release_unused()  # which Arrow keeps for further reading
        with bar.stage("judging"):
            findings = monitor.follow(log, learn=typed.learn, since=since)
        del log
        monitor.set_params(n_jobs=None)
        if not known:
            columns.keep_in(monitor, learned)
        order = oddest_first(findings)
        if output.out:
            table = findings_table(findings, order, columns.by)
            lines = dict(zip(table.column_names, table.columns, strict=True))
            write_table(output.out, [lines])
        if output.report is not None:
            from isobag.report import write_watch_report  # noqa: PLC0415, loads jinja2

            write_watch_report(findings, output.report, source=given.name, command=command_line())
    is_new = monitor.state.periods != before
    is_written = path is not None and (is_new or has_words)
    if is_written:
        save(monitor, str(path))
    written = [one for one in (path if is_written else None, *output.out, output.report) if one is not None]
    _show(monitor, columns, findings, summary, output, written, is_new)


def _begun(typed: Typed) -> tuple[EntityMonitor, LogColumns]:
    """A monitor that knows nothing, and the columns that are named."""
    for name in ("by", "time"):
        if vars(typed)[name] is None:
            raise typer.BadParameter(f"--{name} is missing: name the column; the first run needs it.")
    given = {name: vars(typed)[name] for name in ("every", "time_zone", *_CHANGEABLE) if vars(typed)[name] is not None}
    monitor = EntityMonitor(**_params(given), random_state=typed.seed)
    monitor.check_params()
    return monitor, LogColumns(tuple(split_names(typed.by) or ()), typed.time, typed.peers, typed.time_unit)


def _opened(typed: Typed, path: Any) -> tuple[EntityMonitor, LogColumns]:
    """The monitor of an earlier run, with what may change as it is now."""
    monitor = load(path)
    if not isinstance(monitor, EntityMonitor) or not hasattr(monitor, "table_"):
        raise ValueError(f"{str(path)!r} holds a {type(monitor).__name__}; need a state that `isobag watch` wrote.")
    columns = LogColumns.of_model(monitor)
    kept = {
        "by": ",".join(columns.by),
        "time": columns.time,
        "every": monitor.every,
        "time_zone": monitor.time_zone,
        "time_unit": columns.unit,
        "peers": columns.peers,
        "features": ",".join(column.name for column in Encoding.of_model(monitor).columns),
        "exclude": None,
    }
    for name, own in kept.items():
        now = vars(typed)[name]
        now = ",".join(split_names(now) or ()) if name in ("by", "features") and now is not None else now
        if now is not None and now != own:
            was = "without it" if own is None else f"with {own!r}"
            raise ValueError(
                f"{name}={now!r}: the state {str(path)!r} was begun {was}; leave the option out, or begin a new state."
            )
    monitor.set_params(**_params({name: vars(typed)[name] for name in _CHANGEABLE if vars(typed)[name] is not None}))
    monitor.check_params()
    return monitor, columns


def _params(given: dict[str, Any]) -> dict[str, Any]:
    keep = given.get("keep")
    return {**given, "keep": int(keep)} if isinstance(keep, str) and keep.isdecimal() else given


def _say(monitor: EntityMonitor, columns: LogColumns, say: Any, option: str, target: str) -> None:
    """Keep an analyst's word on ENTITY@PERIOD."""
    entity, at, period = target.rpartition("@")
    parts = tuple(split_names(entity) or ()) if len(columns.by) > 1 else (entity,)
    if not at or len(parts) != len(columns.by):
        need = f"{','.join(columns.by)}@PERIOD".upper()
        raise ValueError(f"{option}={target!r}; need {need}, such as 'A@2026-03-04'.")
    say(monitor, parts if len(parts) > 1 else parts[0], period_of(monitor, period, option))


def _show(
    monitor: EntityMonitor,
    columns: LogColumns,
    findings: Findings,
    summary: TableSummary,
    output: Output,
    written: Sequence[Path],
    is_new: bool,
) -> None:
    if any(str(one) == STDOUT for one in written):
        return
    flagged = oddest_first(findings)
    flagged = flagged[findings.flagged[flagged]]
    newest_first = flagged[np.argsort(-findings.start[flagged], kind="stable")]
    top = findings_table(findings, newest_first[: output.top], columns.by)
    sentences = [*_sentences(monitor, findings, is_new), *findings.notes]
    if output.json:
        print_json(
            {
                "n_lines": len(findings),
                "n_flagged": len(flagged),
                "n_entities": len(monitor.entities_),
                "n_periods": len(monitor.state.periods),
                "learned": is_new,
                "common_changes": [str(one) for one in findings.common_changes],
                "notes": list(findings.notes),
                "features": monitor.feature_names,
                "table": summary.as_dict(),
                "top": top.to_pylist(),
            }
        )
        return
    for change in findings.common_changes:
        print_line(f"{change}.")
    if len(top):
        shown = top.select([*columns.by, "period", "n_points", "p_value", "kind", "reasons"]).to_pydict()
        shown["period"] = [shown_time(np.datetime64(one)) for one in shown["period"]]
        print_table(shown)
    if len(flagged) > len(top):
        sentences.insert(0, f"{len(flagged) - len(top):,} more are flagged; --top or --out shows them.")
    for sentence in [*sentences, *summary.sentences()]:
        note(sentence, output.quiet)
    if written:
        note(f"Written: {', '.join(map(str, written))}.", output.quiet)


def _sentences(monitor: EntityMonitor, findings: Findings, is_new: bool) -> list[str]:
    """How much was judged, what is known, and what could be flagged."""
    dates = monitor.periods_
    known = (
        f"{_counted(len(monitor.entities_), 'entity', 'entities')} and {_counted(len(dates), 'period', 'periods')} are "
        f"known, {shown_time(dates[0])} to {shown_time(dates[-1])}."
    )
    if not len(findings):
        why = (
            "too little is known to compare with yet" if is_new else "there is nothing new, and the state is as it was"
        )
        return [f"No period is judged: {why}.", known]
    first, last = shown_time(findings.period.min()), shown_time(findings.period.max())
    when = f"of {last}" if first == last else f"from {first} to {last}"
    n_flagged = int(findings.flagged.sum())
    said = f"{_counted(len(findings), 'line', 'lines')} {when} judged, {n_flagged:,} flagged (fdr {monitor.fdr:g})"
    newest = findings.period == findings.period.max()
    n_newest = int(np.isfinite(findings.p_value[newest]).sum())
    if not n_flagged and n_newest:
        least = float(np.nanmin(findings.p_value[newest]))
        said += f"; the least p-value of {last} is {least:.2g}"
    recent = [one for one in monitor.state.periods if one.number < monitor.calendar.number_at(findings.period.max())]
    level = monitor.fdr * min(1.0, max(1, n_begun(recent[-ONLINE_PERIODS:])) / ONLINE_PERIODS) / max(n_newest, 1)
    lines = _counted(n_newest, "line", "lines")
    reach = f"One of the {lines} of {last} is flagged alone if its p-value is {level:.2g} or less."
    return [f"{said}.", reach, known if is_new else f"{known} Nothing was added."]


def _counted(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"
