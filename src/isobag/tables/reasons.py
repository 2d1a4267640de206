"""Why a row or a group is odd, in words: "amount 1,240 (high), hour 3 (low)"."""

import numpy as np

from isobag.backends.arrays import Floats
from isobag.data.groups import Bags
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.estimators.checked import explain_groups, explain_rows, typical_rows
from isobag.tables.encoding import Encoding, indicator

MOST_REASONS = 3
LEAST_SHARE = 0.1
"""A column is named if it carries at least this share of what the columns that count against the row carry."""
RARE = 0.05
"""A text is called rare if it stands in a smaller share of the rows than this."""
LEAST_SEPARATION = 0.1
"""A column of a group is named if its points are set apart at least this far, of 1."""


def reasons_of_points(detector: IDKPointDetector, encoding: Encoding, points: Floats) -> list[str]:
    """The columns that carry most of each row's lack of similarity, and its values there: (k, d) -> k texts."""
    if not len(points):
        return []
    lacks = np.zeros((len(points), len(encoding.columns)))
    np.add.at(lacks.T, encoding.owners, explain_rows(detector, points).T)
    typical = typical_rows(detector)
    low, high = np.quantile(typical, (0.25, 0.75), axis=0)
    shares = typical.mean(axis=0)
    return [
        _named(lack, encoding, point, low, high, shares)
        for lack, point in zip(np.maximum(lacks, 0), points, strict=True)
    ]


def reasons_of_groups(detector: IDKGroupDetector, encoding: Encoding, bags: Bags) -> list[str]:
    """Where the points lie of which each group has too many: the columns that set them apart, with the median there."""
    found = explain_groups(detector, bags)
    return [
        _named_group(found.features[g], encoding, bags.X[bags.ids == g], np.maximum(found.points[bags.ids == g], 0))
        for g in range(len(bags.labels))
    ]


def shown(value: float) -> str:
    """A number as people write it: 1,240, 0.0031, 3."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _named(lack: Floats, encoding: Encoding, point: Floats, low: Floats, high: Floats, shares: Floats) -> str:
    total = lack.sum()
    parts = []
    for column in np.argsort(-lack, kind="stable")[:MOST_REASONS]:
        if lack[column] <= 0 or lack[column] < LEAST_SHARE * total:
            break
        own = np.flatnonzero(encoding.owners == column)
        texts, name = encoding.texts[column], encoding.columns[column]
        if texts is None:
            value, j = point[own[0]], own[0]
            parts.append(
                f"{name} {shown(value)} ({'high' if value > high[j] else 'low' if value < low[j] else 'unusual'})"
            )
        else:
            here = [(text, j) for text, j in zip(texts, own, strict=True) if point[j]]
            is_rare = not here or shares[here[0][1]] < RARE
            parts.append(f"{indicator(name, here[0][0]) if here else name} ({'rare' if is_rare else 'unusual'})")
    return ", ".join(parts)


def _named_group(apart: Floats, encoding: Encoding, points: Floats, carried: Floats) -> str:
    names = encoding.names
    parts = []
    for j in np.argsort(-np.abs(apart), kind="stable")[:MOST_REASONS]:
        if abs(apart[j]) < LEAST_SEPARATION:
            break
        if encoding.texts[encoding.owners[j]] is None:
            middle = _weighted_median(points[:, j], carried)
            parts.append(f"{names[j]} {shown(middle)} ({'high' if apart[j] > 0 else 'low'})")
        else:
            parts.append(f"{names[j]} ({'often' if apart[j] > 0 else 'seldom'})")
    return ", ".join(parts)


def _weighted_median(values: Floats, weights: Floats) -> float:
    """The first value, in rising order, up to which half of the weight lies."""
    order = np.argsort(values, kind="stable")
    weight = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(weight, weight[-1] / 2)])
