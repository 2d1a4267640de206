"""Why a row or a group is odd, in words: "amount 1,240 (high), hour 3 (low)"."""

from datetime import UTC, datetime

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.data.groups import Groups
from isobag.models.group import GroupExplanation
from isobag.tables.declared import TEXT, TIME
from isobag.tables.encode import UNSEEN, EncodedColumn, Encoding
from isobag.tables.scan import BOOL

MOST_REASONS = 3
LEAST_SHARE = 0.1
"""A column is named if it carries at least this share of what the columns that count against the row carry, ..."""
LEAST_OF_LARGEST = 0.5
"""... or this share of what the one that carries most carries: of many columns each may carry little."""
RARE = 0.05
"""A text is called rare if it stands in a smaller share of the rows than this."""
LEAST_SEPARATION = 0.1
"""A column of a group is named if its points are set apart at least this far, of 1."""
FEW_POINTS = 10
"""Reasons of a group with fewer points say so."""
NO_COLUMN = "no single column stands out"


def reasons_of_rows(reference: Floats, encoding: Encoding, points: Floats, explanation: Floats) -> list[str]:
    """The columns that carry most of each row's lack of similarity, and its values there: (k, d), (k, d) -> k texts.

    ``reference`` (m, d): rows that show what is usual.
    """
    if not len(points):
        return []
    lacks = np.maximum(sum_by_column(explanation, encoding), 0)
    owned = features_of_columns(encoding)
    low, high = np.quantile(reference, (0.25, 0.75), axis=0)
    shares = reference.mean(axis=0)
    return [
        _row_in_words(lack, encoding, owned, point, low, high, shares)
        for lack, point in zip(lacks, points, strict=True)
    ]


def sum_by_column(explanation: Floats, encoding: Encoding) -> Floats:
    """What each column adds, from what its features add: (k, d) -> (k, c)."""
    starts = np.array([own[0] for own in features_of_columns(encoding)])
    sums: Floats = np.add.reduceat(explanation, starts, axis=1)
    return sums


def features_of_columns(encoding: Encoding) -> list[Ints]:
    """Numbers of the features of each column, which stand side by side."""
    owners = encoding.owners
    return np.split(np.arange(len(owners)), np.flatnonzero(np.diff(owners)) + 1)


def reasons_of_groups(encoding: Encoding, groups: Groups, explanation: GroupExplanation) -> list[str]:
    """Where the points lie of which each group has too many: the columns that set them apart, with the median there."""
    order = np.argsort(groups.ids, kind="stable")
    owners, reasons = encoding.owners, []
    for g, rows in enumerate(np.split(order, np.cumsum(groups.sizes)[:-1])):
        points, carried = groups.rows.take(rows), np.maximum(explanation.points[rows], 0)
        reasons.append(_group_in_words(explanation.features[g], encoding, owners, points, carried))
    return reasons


def number_in_words(value: float) -> str:
    """A number as people write it: 1,240, 0.0031, 3."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _row_in_words(
    lack: Floats, encoding: Encoding, owned: list[Ints], point: Floats, low: Floats, high: Floats, shares: Floats
) -> str:
    total, largest = lack.sum(), lack.max()
    parts: list[str] = []
    order = np.argsort(-lack, kind="stable")
    for number in order[:MOST_REASONS]:
        if lack[number] <= 0 or lack[number] < min(LEAST_SHARE * total, LEAST_OF_LARGEST * largest):
            break
        column, own = encoding.columns[number], owned[number]
        words, j = own_value_in_words(column, point[own])
        if column.kind == TEXT:
            is_rare = j is None or shares[own[j]] < RARE
            parts.append(f"{words} ({'rare' if is_rare else 'unusual'})")
        elif column.kind == BOOL:
            share = shares[own[0]] if point[own[0]] else 1 - shares[own[0]]
            parts.append(f"{column.name} {words} ({'rare' if share < RARE else 'unusual'})")
        else:
            value, j = point[own[0]], own[0]
            place = "high" if value > high[j] else "low" if value < low[j] else "unusual"
            parts.append(f"{column.name} {words} ({place})")
    n_more = int(np.count_nonzero(lack > 0)) - len(parts)
    is_half = lack[order[: len(parts)]].sum() >= total / 2
    said = ", ".join([*parts, f"{n_more:,} other columns, each less"] if n_more and not is_half else parts)
    return said or NO_COLUMN


def own_value_in_words(column: EncodedColumn, values: Floats) -> tuple[str, int | None]:
    """What stands in a column of a row, from its features (f,), and which of its indicators that is, if any."""
    if column.kind != TEXT:
        return value_in_words(column.kind, values[0]), None
    here = np.flatnonzero(values)
    if len(here) and values[here[0]] == UNSEEN:
        return f"{column.name} never seen before", None
    return (column.feature_names[here[0]], int(here[0])) if len(here) else (column.name, None)


def value_in_words(kind: str, value: float) -> str:
    """A value of a column as people write it."""
    if kind == BOOL and value in (0, 1):
        return "true" if value else "false"
    if kind == TIME:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return number_in_words(value)


def _group_in_words(apart: Floats, encoding: Encoding, owners: Ints, points: Floats, carried: Floats) -> str:
    names, parts = encoding.names, []
    for j in _leading(apart):
        column = encoding.columns[owners[j]]
        if column.kind == TEXT:
            parts.append(f"{names[j]} ({'often' if apart[j] > 0 else 'seldom'})")
        elif column.kind == BOOL:
            parts.append(f"{names[j]} {'true' if apart[j] > 0 else 'false'} (often)")
        else:
            middle = _weighted_median(points[:, j], carried)
            words = value_in_words(column.kind, middle) if names[j] == column.name else number_in_words(middle)
            parts.append(f"{names[j]} {words} ({'high' if apart[j] > 0 else 'low'})")
    said = ", ".join(parts) or NO_COLUMN
    n = len(points)
    return f"{said}; only {n} point{'s' if n > 1 else ''}" if n < FEW_POINTS else said


def _leading(apart: Floats) -> Ints:
    order = np.argsort(-np.abs(apart), kind="stable")[:MOST_REASONS]
    return order[np.abs(apart[order]) >= LEAST_SEPARATION]


def _weighted_median(values: Floats, weights: Floats) -> float:
    """The first value, in rising order, up to which half of the weight lies."""
    order = np.argsort(values, kind="stable")
    weight = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(weight, weight[-1] / 2)])
