"""Why one row, or one group, is odd: the facts about it and its features, the telling ones first."""

from typing import Any

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.cli.inputs import Source
from isobag.data.groups import Bags
from isobag.data.rows import ArrayRows
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.estimators.checked import explain_groups, explain_rows, p_values_of_groups, p_values_of_rows, typical_rows

Facts = tuple[dict[str, int | float], dict[str, list[Any]]]


def facts_of_row(detector: IDKPointDetector, source: Source, rows: Ints) -> Facts:
    """Score and p-value of the first of the rows, and what each feature adds to its lack of similarity."""
    table = source.table
    if table.kept is not None and not table.kept[rows[0]]:
        raise ValueError(f"Row {rows[0]} has missing values and was left out; fill them first.")
    point = table.rows.take(table.positions(rows[:1]))
    parts = explain_rows(detector, point)[0]
    low, middle, high = np.quantile(typical_rows(detector), (0.25, 0.5, 0.75), axis=0)
    order = np.argsort(-parts, kind="stable")
    facts: dict[str, int | float] = {"row": int(rows[0]), "score": float(detector._scores(point)[0])}
    facts["threshold"] = float(detector.offset_)
    if detector.calibration_ is not None:
        facts["p_value"] = float(p_values_of_rows(detector, ArrayRows(point))[0])
    columns = {"value": point[0], "adds": parts, "lower_quarter": low, "median": middle, "upper_quarter": high}
    return facts, _listed(table.encoding.names, order, columns)


def facts_of_group(detector: IDKGroupDetector, source: Source, rows: Ints) -> Facts:
    """Score and p-value of the group with these rows, and how far each feature sets apart what it has too much of."""
    table = source.table
    kept = rows if table.kept is None else rows[table.kept[rows]]
    if not len(kept):
        raise ValueError("All rows of the group have missing values and were left out; fill them first.")
    points = table.rows.take(table.positions(kept))
    bags = Bags(points, np.zeros(len(points), dtype=np.int64), np.zeros(1, dtype=np.int64))
    found = explain_groups(detector, bags)
    order = np.argsort(-np.abs(found.features[0]), kind="stable")
    facts: dict[str, int | float] = {"n_points": len(points), "score": float(detector._score_groups(bags)[0])}
    facts["threshold"] = float(detector.offset_)
    if detector.calibration_ is not None:
        facts["p_value"] = float(p_values_of_groups(detector, bags)[0])
    columns = {"median": np.median(points, axis=0), "sets_apart": found.features[0]}
    return facts, _listed(table.encoding.names, order, columns)


def _listed(names: list[str], order: Ints, columns: dict[str, Floats]) -> dict[str, list[Any]]:
    return {"feature": [names[j] for j in order], **{name: own[order].tolist() for name, own in columns.items()}}
