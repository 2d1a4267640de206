"""Why a row or a group is odd, in words: "amount 1,240 (high), hour 3 (low)"."""

from datetime import UTC, datetime

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.data.groups import Groups
from isobag.models.group import GroupExplanation
from isobag.tables.declared import TEXT, TIME
from isobag.tables.encode import Encoding
from isobag.tables.scan import BOOL

MOST_REASONS = 3
LEAST_SHARE = 0.1
"""A column is named if it carries at least this share of what the columns that count against the row carry."""
RARE = 0.05
"""A text is called rare if it stands in a smaller share of the rows than this."""
LEAST_SEPARATION = 0.1
"""A column of a group is named if its points are set apart at least this far, of 1."""


def reasons_of_rows(reference: Floats, encoding: Encoding, points: Floats, explanation: Floats) -> list[str]:
    """The columns that carry most of each row's lack of similarity, and its values there: (k, d), (k, d) -> k texts.

    ``reference`` (m, d): rows that show what is usual.
    """
    if not len(points):
        return []
    lacks = np.zeros((len(points), len(encoding.columns)))
    np.add.at(lacks.T, encoding.owners, explanation.T)
    low, high = np.quantile(reference, (0.25, 0.75), axis=0)
    shares = reference.mean(axis=0)
    return [
        _row_in_words(lack, encoding, point, low, high, shares)
        for lack, point in zip(np.maximum(lacks, 0), points, strict=True)
    ]


def reasons_of_groups(encoding: Encoding, groups: Groups, explanation: GroupExplanation) -> list[str]:
    """Where the points lie of which each group has too many: the columns that set them apart, with the median there."""
    order = np.argsort(groups.ids, kind="stable")
    found = []
    for g, rows in enumerate(np.split(order, np.cumsum(groups.sizes)[:-1])):
        points, carried = groups.rows.take(rows), np.maximum(explanation.points[rows], 0)
        found.append(_group_in_words(explanation.features[g], encoding, points, carried))
    return found


def number_in_words(value: float) -> str:
    """A number as people write it: 1,240, 0.0031, 3."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _row_in_words(lack: Floats, encoding: Encoding, point: Floats, low: Floats, high: Floats, shares: Floats) -> str:
    total = lack.sum()
    parts = []
    for number in np.argsort(-lack, kind="stable")[:MOST_REASONS]:
        if lack[number] <= 0 or lack[number] < LEAST_SHARE * total:
            break
        own = np.flatnonzero(encoding.owners == number)
        column = encoding.columns[number]
        if column.kind == TEXT:
            names = column.feature_names
            here = [(name, j) for name, j in zip(names, own, strict=True) if point[j]]
            is_rare = not here or shares[here[0][1]] < RARE
            parts.append(f"{here[0][0] if here else column.name} ({'rare' if is_rare else 'unusual'})")
        else:
            value, j = point[own[0]], own[0]
            place = "high" if value > high[j] else "low" if value < low[j] else "unusual"
            parts.append(f"{column.name} {value_in_words(column.kind, value)} ({place})")
    return ", ".join(parts)


def value_in_words(kind: str, value: float) -> str:
    """A value of a column as people write it."""
    if kind == BOOL and value in (0, 1):
        return "true" if value else "false"
    if kind == TIME:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return number_in_words(value)


def _group_in_words(apart: Floats, encoding: Encoding, points: Floats, carried: Floats) -> str:
    names, parts = encoding.names, []
    for j in _leading(apart):
        column = encoding.columns[encoding.owners[j]]
        if column.kind == TEXT:
            parts.append(f"{names[j]} ({'often' if apart[j] > 0 else 'seldom'})")
        else:
            middle = _weighted_median(points[:, j], carried)
            words = value_in_words(column.kind, middle) if names[j] == column.name else number_in_words(middle)
            parts.append(f"{names[j]} {words} ({'high' if apart[j] > 0 else 'low'})")
    return ", ".join(parts)


def _leading(apart: Floats) -> Ints:
    order = np.argsort(-np.abs(apart), kind="stable")[:MOST_REASONS]
    return order[np.abs(apart[order]) >= LEAST_SEPARATION]


def _weighted_median(values: Floats, weights: Floats) -> float:
    """The first value, in rising order, up to which half of the weight lies."""
    order = np.argsort(values, kind="stable")
    weight = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(weight, weight[-1] / 2)])
