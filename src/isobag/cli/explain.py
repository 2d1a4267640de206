"""Why one row, or one group, is odd: the facts about it and its features, the largest contributions first."""

from typing import Any

import numpy as np

from isobag.backends.arrays import Ints
from isobag.cli.inputs import open_model, open_source, read_options, read_table
from isobag.cli.options import Typed, split_names
from isobag.cli.output import rows_of, show
from isobag.cli.progress import progress
from isobag.tables.batch import Source
from isobag.tables.labels import read_labels
from isobag.tables.notebook import in_cell
from isobag.tables.ranking import Ranking, rank
from isobag.tables.reading import ReadOptions
from isobag.tables.reasons import Population

_OF_ALL = ("rank", "flagged", "n_missing", "reasons")
"""Columns of a result that say nothing of one row alone, and the reasons, which get a line."""
_MOST_LISTED = 10
"""Rows of one name whose numbers are listed."""


def explain_one(typed: Typed) -> None:
    """Print why a row or a group is odd: the oddest, if several have the name."""
    model = open_model(typed)
    options = read_options(typed, model)
    source = open_source(typed, options)
    with progress(typed.is_silent) as bar:
        wanted = _wanted_rows(source, options, typed.id)
        table = read_table(source, options, bar, model.detector, only_rows=wanted)
        if not len(table.rows):
            raise ValueError("All of these rows have missing values and were left out; fill them first.")
        ranking = rank(table, model.detector, is_fitted=True)
    (whole,) = rows_of(ranking.columns(0, 1))
    facts = {name: value for name, value in whole.items() if name not in (*_OF_ALL, *ranking.units.labels)}
    features = (_features_of_group if ranking.unit == "group" else _features_of_row)(ranking)
    rows, notes, more = (wanted if table.takes_part is None else wanted[table.takes_part]).tolist(), [], {}
    if ranking.unit == "row":
        facts["row"] = int(wanted[facts["row"]])
        if len(wanted) > 1:
            numbers = ", ".join(map(str, rows[:_MOST_LISTED])) + (", ..." if len(rows) > _MOST_LISTED else "")
            notes = [f"{len(rows):,} rows are called {in_cell(typed.id)}: {numbers}. This is the oddest of them."]
            more = {"rows": rows}
    lines = [", ".join(f"{name} {in_cell(value)}" for name, value in facts.items()), whole["reasons"]]
    facts = {"id": typed.id, **facts, "reasons": whole["reasons"], **more, "features": rows_of(features)}
    show(typed, facts, lines, features, notes)


def _features_of_row(ranking: Ranking) -> dict[str, Any]:
    """Value of the oddest row in each feature, contribution to its being odd, and the quartiles of the model's data."""
    contributions = ranking.explanation[0]
    values = ranking.units.data.take(ranking.places_of(ranking.order[:1]))[0]
    low, middle, high = np.quantile(ranking.judged.model.reference, (0.25, 0.5, 0.75), axis=0)
    columns = {"value": values, "contribution": contributions, "q25": low, "median": middle, "q75": high}
    return _listed(ranking, np.argsort(-contributions, kind="stable"), columns)


def _features_of_group(ranking: Ranking) -> dict[str, Any]:
    """Median of the group in each feature, the usual one, and how far it sets the group apart."""
    apart, rows, usual = ranking.explanation.features[0], ranking.units.data.rows, Population.of(ranking.judged.model)
    medians = np.median(rows.take(np.arange(len(rows))), axis=0)
    medians_of_all = np.array([usual.quartiles(j)[1] for j in range(len(medians))])
    columns = {"median": medians, "usual": medians_of_all, "separation": apart}
    return _listed(ranking, np.argsort(-np.abs(apart), kind="stable"), columns)


def _listed(ranking: Ranking, order: Ints, columns: dict[str, Any]) -> dict[str, Any]:
    names = ranking.detector.feature_names
    return {"feature": [names[j] for j in order], **{name: column[order] for name, column in columns.items()}}


def _wanted_rows(source: Source, options: ReadOptions, label: str) -> Ints:
    """Numbers of the rows that are meant, ascending, without a look at any feature.

    A label of several columns is divided by commas.
    """
    names = [name for name in options.apart if name not in options.baseline]
    if not names:
        if not label.isdecimal():
            raise ValueError(f"--id {label!r} is not a row number; need a number from 0.")
        return np.array([int(label)])
    labels = read_labels(source, names)
    if options.bags is not None:
        labels[options.bags.name] = options.bags.starts(labels, options.by, options.dates)
        labels = {name: labels[name] for name in options.labels}
    columns = [[str(one) for one in column.to_pylist()] for column in labels.values()]
    wanted = split_names(label) if len(columns) > 1 else [label]
    rows = np.flatnonzero([list(row) == wanted for row in zip(*columns, strict=True)])
    if not len(rows):
        raise ValueError(f"--id {label!r} is not among the {len(columns[0]):,} labels of the table.")
    return rows
