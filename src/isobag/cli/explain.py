"""Why one row, or one group, is odd: the facts about it and its features, the telling ones first."""

from typing import Any

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Floats, Ints
from isobag.cli.inputs import Input, input_of, open_model
from isobag.cli.options import Typed, split_names
from isobag.cli.output import in_cell, note, print_json, print_line, print_table
from isobag.cli.progress import Silent, progress
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, Rows
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.tables.judgement import Judged, judge_new
from isobag.tables.labels import read_labels
from isobag.tables.learn import Table
from isobag.tables.ranking import with_baseline
from isobag.tables.reasons import Population, reasons_of_groups, reasons_of_rows
from isobag.tables.terminal import escape_for_terminal
from isobag.tables.units import units_of

Facts = tuple[dict[str, Any], dict[str, list[Any]]]
MOST_LISTED = 10
"""Rows of one name whose numbers are listed."""


def explain_one(typed: Typed) -> None:
    """Print what there is to say of a row, or of a group with --by."""
    model = open_model(typed)
    table_input = input_of(typed, model=model)
    describe = facts_of_group if isinstance(model.detector, IDKGroupDetector) else facts_of_row
    with progress(typed.quiet or typed.json) as bar:
        facts, table = describe(model.detector, table_input, typed.id, bar)
    if typed.json:
        print_json({"id": typed.id, **facts, "features": pa.table(table).to_pylist()})
        return
    print_table(table)
    reasons, rows = facts.pop("reasons"), facts.pop("rows", [])
    print_line(", ".join(f"{name} {in_cell(value)}" for name, value in facts.items()))
    print_line(escape_for_terminal(reasons))
    if rows:
        numbers = ", ".join(map(str, rows[:MOST_LISTED])) + (", ..." if len(rows) > MOST_LISTED else "")
        note(f"{len(rows):,} rows are called {in_cell(typed.id)}: {numbers}. This is the oddest of them.", typed.quiet)


def facts_of_row(detector: IDKPointDetector, table_input: Input, label: str, bar: Silent) -> Facts:
    """Score and p-value of a row, and what each feature contributes to its lack of similarity."""
    points, table, wanted = _rows(detector, table_input, _wanted_rows(table_input, label), bar)
    oddest = int(np.argmin(judge_new(detector, points).scores)) if len(points) > 1 else 0
    point = points.part(np.array([oddest]))
    judged = judge_new(detector, point)
    explanation = judged.model.explain(point, detector.compute)
    parts = explanation[0]
    low, middle, high = np.quantile(judged.model.reference, (0.25, 0.5, 0.75), axis=0)
    order = np.argsort(-parts, kind="stable")
    values = point.take(np.arange(1))[0]
    columns = {"value": values, "contribution": parts, "q25": low, "median": middle, "q75": high}
    cells = table.cells.take(np.array([oddest]))
    reasons = reasons_of_rows(judged.model.reference, table.encoding, cells, explanation)[0]
    facts: dict[str, Any] = {"row": int(wanted[oddest]), **_verdict(judged), "reasons": reasons}
    if len(wanted) > 1:
        facts["rows"] = wanted.tolist()
    return facts, _listed(detector, order, columns)


def facts_of_group(detector: IDKGroupDetector, table_input: Input, label: str, bar: Silent) -> Facts:
    """Score and p-value of a group, and how far each feature sets apart what it has too much of."""
    points, table, _ = _rows(detector, table_input, _wanted_rows(table_input, label), bar)
    group = Groups(points, np.zeros(len(points), dtype=np.int64), np.zeros(1, dtype=np.int64))
    judged = judge_new(detector, group)
    explanation = judged.model.explain(group, detector.compute)
    order = np.argsort(-np.abs(explanation.features[0]), kind="stable")
    usual, d = Population.of(judged.model), group.points.shape[1]
    columns = {
        "median": np.median(group.points, axis=0),
        "usual": np.array([usual.quartiles(j)[1] for j in range(d)]),
        "separation": explanation.features[0],
    }
    reasons = reasons_of_groups(table.encoding, group, explanation, judged.model)[0]
    return {"n_points": len(points), **_verdict(judged), "reasons": reasons}, _listed(detector, order, columns)


def _wanted_rows(table_input: Input, label: str) -> Ints:
    """Numbers of the rows that are meant, found without a look at any feature."""
    options = table_input.options
    names = [name for name in options.apart if name not in options.baseline]
    if options.bags is not None:
        labels = read_labels(table_input.source, names)
        labels[options.bags.name] = options.bags.starts(labels, options.by, options.dates)
        return _find_label({name: labels[name] for name in options.labels}, label)
    if names:
        return _find_label(read_labels(table_input.source, names), label)
    if not label.isdecimal():
        raise ValueError(f"--id {label!r} is not a row number; need a number from 0.")
    return np.array([int(label)])


def _find_label(labels: dict[str, Any], label: str) -> Ints:
    """Numbers of the rows with a label, ascending; a label of several columns is divided by commas."""
    columns = [[str(one) for one in column.to_pylist()] for column in labels.values()]
    wanted = split_names(label) if len(columns) > 1 else [label]
    rows = np.flatnonzero([list(row) == wanted for row in zip(*columns, strict=True)])
    if not len(rows):
        raise ValueError(f"--id {label!r} is not among the {len(columns[0]):,} labels of the table.")
    return rows


def _rows(detector: Any, table_input: Input, wanted: Ints, bar: Silent) -> tuple[Rows, Table, Ints]:
    """These rows alone, their table, and the numbers of those that take part: others do not matter."""
    table = table_input.read(bar, model=detector, only_rows=wanted)
    if not len(table.rows):
        raise ValueError("All of these rows have missing values and were left out; fill them first.")
    rows: Rows = ArrayRows(table.rows.take(np.arange(len(table.rows))), table.encoding.names)
    if table.options.baseline:
        rows = with_baseline(detector, rows, units_of(table).baseline)
    return rows, table, wanted if table.kept is None else wanted[table.kept]


def _verdict(judged: Judged) -> dict[str, float]:
    """What `isobag score` says of the same row or group."""
    facts = {"score": float(judged.scores[0]), "threshold": float(judged.threshold)}
    return {**facts, **{name: values[0].item() for name, values in judged.evidence.items()}}


def _listed(detector: Any, order: Ints, columns: dict[str, Floats]) -> dict[str, list[Any]]:
    names = detector.feature_names
    return {"feature": [names[j] for j in order], **{name: own[order].tolist() for name, own in columns.items()}}
