"""From results to what is printed and written."""

from collections.abc import Iterator, Sequence
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isobag.cli.inputs import Source, labels_of_groups
from isobag.cli.output import note, print_json, print_table
from isobag.data.groups import number_labels
from isobag.data.rows import all_rows, take_in_order
from isobag.estimators.checked import explain_rows
from isobag.storage.files import BATCH_ROWS, check_output, write_table
from isobag.streaming import Tick
from isobag.tables.groups import GroupResults
from isobag.tables.points import PointResults

REPORTED = 50


def check_targets(out: Path | None, report: Path | None, model: Path | None, sources: Sequence[str | None]) -> None:
    """Refuse at once what could not be written in the end, or would be written over what is read."""
    if out is not None:
        check_output(out)
    if report is not None:
        check_report()
        if report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"{str(report)!r} has no known ending for a report; choose .html.")
    taken = {Path(file).resolve(): "is read" for source in sources if source for file in [source, *glob(source)]}
    for path in (out, report, model):
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{str(path)!r} cannot be written: there is no folder {str(path.absolute().parent)!r}.")
        if path.resolve() in taken:
            raise ValueError(f"{str(path)!r} cannot be written: it {taken[path.resolve()]} by the same command.")
        taken[path.resolve()] = "is written"


def write_points(
    found: PointResults, source: Source, id_column: str | None, out: Path | None, report: Path | None, tick: Tick | None
) -> None:
    """Write what was found out about rows, all of them in ranked order."""
    if out is not None:
        write_table(out, _parts(found, source, id_column, tick))
    if report is not None:
        _report_points(found, source, report)


def show_points(
    found: PointResults,
    source: Source,
    id_column: str | None,
    top: int,
    written: Sequence[Path | None],
    json: bool,
    quiet: bool,
) -> None:
    """Print the oddest rows and what there is to say."""
    n_flagged = int(np.count_nonzero(found.scores < found.detector.offset_))
    facts = {"n_rows": found.table.n_rows, "n_flagged": n_flagged}
    columns = _ranked_part(found, source, id_column, 0, top)
    _show(columns, facts, "rows", source, found.detector.offset_, written, json, quiet)


def write_groups(found: GroupResults, source: Source, by: str, out: Path | None, report: Path | None) -> None:
    """Write what was found out about groups, all of them in ranked order."""
    if out is not None:
        write_table(out, [_ranked_groups(found, source, by)])
    if report is not None:
        _report_groups(found, source, report)


def show_groups(
    found: GroupResults, source: Source, by: str, top: int, written: Sequence[Path | None], json: bool, quiet: bool
) -> None:
    """Print the oddest groups and what there is to say."""
    facts = {
        "n_groups": len(found.order),
        "n_rows": source.table.n_rows,
        "n_flagged": int(np.count_nonzero(found.flagged)),
    }
    columns = {name: values[:top] for name, values in _ranked_groups(found, source, by).items()}
    _show(columns, facts, "groups", source, found.detector.offset_, written, json, quiet)


def check_report() -> None:
    """Refuse a report that could not be made."""
    if find_spec("jinja2") is None:
        raise ModuleNotFoundError("--report needs jinja2, which is not installed: pip install 'isobag[report]'.")


def _parts(found: PointResults, source: Source, id_column: str | None, tick: Tick | None) -> Iterator[dict[str, Any]]:
    n = len(found.order)
    for start in range(0, n, BATCH_ROWS):
        yield _ranked_part(found, source, id_column, start, start + BATCH_ROWS)
        if tick is not None:
            tick("writing", min(start + BATCH_ROWS, n), n)


def _ranked_part(found: PointResults, source: Source, id_column: str | None, start: int, stop: int) -> dict[str, Any]:
    columns = found.columns(start, stop)
    if id_column is None:
        return columns
    return _with_labels(id_column, source.labels.take(pa.array(columns["row"])), columns)


def _ranked_groups(found: GroupResults, source: Source, by: str) -> dict[str, Any]:
    return _with_labels(by, source.labels.take(pa.array(found.first_rows[found.order])), found.columns())


def _with_labels(name: str, labels: Any, columns: dict[str, Any]) -> dict[str, Any]:
    if name in columns:
        raise ValueError(f"The result has a column {name!r} of its own; rename the column of that name with --sql.")
    return {name: labels, **columns}


def _show(
    columns: dict[str, Any],
    facts: dict[str, int],
    what: str,
    source: Source,
    threshold: float,
    written: Sequence[Path | None],
    json: bool,
    quiet: bool,
) -> None:
    table = source.table
    facts["n_left_out"] = table.n_rows - len(table.rows)
    lists = {name: _as_list(values) for name, values in columns.items()}
    if json:
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        looked_at = {"features": list(table.encoding.columns), "left_out": table.left_out}
        print_json({**facts, **looked_at, "threshold": float(threshold), "top": rows})
        return
    if lists["rank"]:
        print_table(lists)
    looked_at_text = ", ".join(table.encoding.columns)
    note(f"{facts[f'n_{what}']:,} {what}, {facts['n_flagged']:,} flagged; looked at {looked_at_text}.", quiet)
    if table.left_out:
        note(f"Left out, for they are no numbers or were not chosen: {', '.join(table.left_out)}.", quiet)
    if facts["n_left_out"]:
        note(f"{facts['n_left_out']:,} rows with missing values were left out.", quiet)
    names = ", ".join(str(path) for path in written if path is not None)
    if names:
        note(f"Written: {names}.", quiet)


def _as_list(values: Any) -> list[Any]:
    found: list[Any] = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    return [value.item() if isinstance(value, np.generic) else value for value in found]


def _report_points(found: PointResults, source: Source, path: Path) -> None:
    """The report page, from the oddest rows and a sample of all: the rows need not be in memory."""
    from isobag.report.findings import SHOWN_ON_MAP, PointFindings, choose_some, settings_of  # noqa: PLC0415
    from isobag.report.page import write_report  # noqa: PLC0415

    table, detector = found.table, found.detector
    n = len(table.rows)
    top = found.order[: min(REPORTED, n)].astype(np.int64)
    values = take_in_order(table.rows, table.positions(top))
    sample = choose_some(n, SHOWN_ON_MAP)
    scores = found.scores if table.kept is None else found.scores[table.kept]
    write_report(
        PointFindings(
            title="Odd rows",
            source=source.name,
            settings=settings_of(detector),
            features=table.encoding.names,
            n_dropped=table.n_rows - n,
            n_imputed=_n_filled(table),
            scores=scores,
            offset=detector.offset_,
            labels=[str(name) for name in source.names_of(top)],
            top_scores=found.scores[top],
            p_values=None if found.p_values is None else found.p_values[top],
            values=values,
            reasons=explain_rows(detector, values),
            sample=take_in_order(table.rows, sample),
            sample_flagged=scores[sample] < detector.offset_,
        ),
        path,
    )


def _report_groups(found: GroupResults, source: Source, path: Path) -> None:
    from isobag.report import group_findings, write_report  # noqa: PLC0415

    table, labels = source.table, labels_of_groups(source)
    kept = slice(None) if table.kept is None else table.kept
    ids = number_labels(labels)[0][kept]
    numbers, first = np.unique(ids, return_index=True)
    order = numbers[np.argsort(first)]  # first appearance among the rows that take part
    frame = pa.table(dict(zip(table.encoding.names, all_rows(table.rows).T, strict=True)))
    findings = group_findings(
        found.detector,
        frame,
        labels[kept],
        scores=found.scores[order],
        p_values=None if found.p_values is None else found.p_values[order],
        source=source.name,
        n_dropped=table.n_rows - len(table.rows),
        n_imputed=_n_filled(table),
    )
    write_report(findings, path)


def _n_filled(table: Any) -> int:
    return 0 if table.gaps is None or table.kept is not None else int(np.count_nonzero(table.gaps))
