"""Why one row, or one group, is odd: the facts about it and its features, the largest contributions first."""

from typing import Any

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Ints
from isobag.cli.inputs import Input, input_of, open_model
from isobag.cli.options import Typed, split_names
from isobag.cli.output import in_cell, note, print_json, print_line, print_table, rows_of
from isobag.cli.progress import progress
from isobag.tables.labels import read_labels
from isobag.tables.ranking import Ranking, rank
from isobag.tables.reasons import Population
from isobag.tables.terminal import escape_for_terminal

NOT_SAID = ("rank", "flagged", "n_missing", "reasons")
"""Columns of a result that say nothing of one row alone."""
MOST_LISTED = 10
"""Rows of one name whose numbers are listed."""


def explain_one(typed: Typed) -> None:
    """Print why a row or a group is odd: the oddest, if several have the name."""
    model = open_model(typed)
    table_input = input_of(typed, model=model)
    with progress(typed.is_silent) as bar:
        wanted = _wanted_rows(table_input, typed.id)
        table = table_input.read(bar, model=model.detector, only_rows=wanted)
        if not len(table.rows):
            raise ValueError("All of these rows have missing values and were left out; fill them first.")
        ranking = rank(table, model.detector, is_fitted=True)
    (facts,) = rows_of(ranking.columns(0, 1))
    reasons = facts["reasons"]
    facts = {name: value for name, value in facts.items() if name not in (*NOT_SAID, *ranking.units.labels)}
    rows = (wanted if table.takes_part is None else wanted[table.takes_part]).tolist()
    if ranking.unit == "row":
        facts["row"] = int(wanted[facts["row"]])
    features = (_features_of_group if ranking.unit == "group" else _features_of_row)(ranking)
    several = ranking.unit == "row" and len(wanted) > 1
    if typed.json:
        more = {"rows": rows} if several else {}
        print_json({"id": typed.id, **facts, "reasons": reasons, **more, "features": pa.table(features).to_pylist()})
        return
    print_table(features)
    print_line(", ".join(f"{name} {in_cell(value)}" for name, value in facts.items()))
    print_line(escape_for_terminal(reasons))
    if several:
        numbers = ", ".join(map(str, rows[:MOST_LISTED])) + (", ..." if len(rows) > MOST_LISTED else "")
        note(f"{len(rows):,} rows are called {in_cell(typed.id)}: {numbers}. This is the oddest of them.", typed.quiet)


def _features_of_row(ranking: Ranking) -> dict[str, Any]:
    """Value of the oddest row in each feature, contribution to its being odd, and the quartiles of the model's data."""
    contributions = ranking.explanation[0]
    order = np.argsort(-contributions, kind="stable")
    values = ranking.units.data.take(ranking.places_of(ranking.order[:1]))[0]
    low, middle, high = np.quantile(ranking.judged.model.reference, (0.25, 0.5, 0.75), axis=0)
    columns = {"value": values, "contribution": contributions, "q25": low, "median": middle, "q75": high}
    return _listed(ranking, order, columns)


def _features_of_group(ranking: Ranking) -> dict[str, Any]:
    """Median of the group in each feature, the usual one, and how far it sets the group apart."""
    apart = ranking.explanation.features[0]
    rows, usual = ranking.units.data.rows, Population.of(ranking.judged.model)
    medians = np.median(rows.take(np.arange(len(rows))), axis=0)
    columns = {
        "median": medians,
        "usual": np.array([usual.quartiles(j)[1] for j in range(len(medians))]),
        "separation": apart,
    }
    return _listed(ranking, np.argsort(-np.abs(apart), kind="stable"), columns)


def _listed(ranking: Ranking, order: Ints, columns: dict[str, Any]) -> dict[str, Any]:
    names = ranking.detector.feature_names
    return {"feature": [names[j] for j in order], **{name: own[order].tolist() for name, own in columns.items()}}


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
