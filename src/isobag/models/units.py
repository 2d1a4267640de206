"""Which rows belong together, so that they are learned from together or not at all when p-values are calibrated."""

from typing import Any

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.data.rows import Rows
from isobag.partitionings.base import distinct_points

LEAST_COPIED = 0.9
MOST_COPIES = 20
"""Of a row, in the mean, that copying makes."""
_SEEN_ROWS = 20_000
_FEW_FEATURES = 16
"""Rows that differ in these are no copies, which spares a look at the others."""
_INDEPENDENT = 0.1


def unit_numbers(labels: Any, n_rows: int) -> Ints:
    """The number of each label among the different ones: (n,), from whatever holds one label for each row."""
    array = np.asarray(labels)
    if array.shape != (n_rows,):
        raise ValueError(f"groups has shape {array.shape}; need ({n_rows},), one label for each row.")
    _, numbers = np.unique(array, return_inverse=True)
    return numbers


def copies_of(rows: Rows, most: int) -> Ints | None:
    """The number of each row among the different ones: (n,); None where rows that are equal are no sign of copying.

    Counts and categories have equal rows by nature. Copying is assumed where nearly all rows have a copy, some feature
    tells most of the different rows apart, and these come about equally often. More than ``most`` rows are not looked
    at.
    """
    if len(rows) > most:
        return None
    values = rows.take(np.arange(len(rows)))
    few = np.linspace(0, values.shape[1] - 1, min(_FEW_FEATURES, values.shape[1])).astype(np.int64)
    if _n_copied(distinct_points(values[:, few])[1]) < LEAST_COPIED * len(rows):
        return None
    points, numbers = distinct_points(values)
    counts = np.bincount(numbers)
    if _n_copied(numbers) < LEAST_COPIED * len(rows) or counts.var() > counts.mean() or counts.mean() > MOST_COPIES:
        return None
    return numbers if 2 * max(len(np.unique(column)) for column in points.T) >= len(points) else None


def _n_copied(numbers: Ints) -> int:
    """How many have a number that others have, too: (n,)."""
    counts = np.bincount(numbers)
    return int(counts[counts > 1].sum())


def blocks_of(rows: Rows) -> Ints:
    """The number of the stretch of time that each row lies in, if rows are in the order of time: (n,).

    Stretches are twice as long as it takes the ranks of every feature to forget where they were.
    """
    first = max(0, (len(rows) - _SEEN_ROWS) // 2)
    seen = rows.take(np.arange(first, min(len(rows), first + _SEEN_ROWS)))
    length = 2 * max(memory_of(column) for column in seen.T)
    return np.arange(len(rows)) // length


def memory_of(values: Floats) -> int:
    """The first of the lags 1, 2, 4, ... at which the rank correlation with what was before is below .1: (n,)."""
    _, ranks = np.unique(values, return_inverse=True)
    lag = 1
    while lag < len(values) // 4:
        before, after = ranks[:-lag], ranks[lag:]
        if not np.ptp(before) or not np.ptp(after) or np.corrcoef(before, after)[0, 1] < _INDEPENDENT:
            break
        lag *= 2
    return lag
