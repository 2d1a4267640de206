"""The paper's scaling to [0, 1] and its friends: (x - shift) / scale, feature by feature, learned on training data."""

from typing import NamedTuple

import numpy as np

from isobag.arrays import Floats
from isobag.rows import ArrayRows, Rows, all_rows, sum_rows

FARTHEST = 1e150


class Scaling(NamedTuple):
    """shift (d,) and scale (d,)."""

    shift: Floats
    scale: Floats

    def apply(self, X: Floats) -> Floats:
        """Scaled copy of X: (n, d), cut off at 1e150: a row that far out is OUTSIDE, and its square would overflow."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.shift) / self.scale, -FARTHEST, FARTHEST)


def _minmax(rows: Rows, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    return low, high - low


def _standard(rows: Rows, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    middle = sum_rows(rows) / len(rows)
    return middle, np.sqrt(sum_rows(rows, lambda block: (block - middle) ** 2) / len(rows))


def _absolute(rows: Rows, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    middle = sum_rows(rows) / len(rows)
    return middle, sum_rows(rows, lambda block: np.abs(block - middle)) / len(rows)


def _robust(rows: Rows, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    first, middle, third = np.quantile(all_rows(rows), (0.25, 0.5, 0.75), axis=0)
    return middle, np.where(third > first, third - first, high - low)


def _none(rows: Rows, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    return np.zeros_like(low), np.ones_like(low)


SCALINGS = {"minmax": _minmax, "standard": _standard, "absolute": _absolute, "robust": _robust, None: _none}
"""minmax: to [0, 1]; standard: mean 0 and standard deviation 1; absolute: mean 0 and mean absolute deviation 1;
robust: median 0 and quartiles 1 apart, or range 1 where these are equal (needs all rows in memory); None: as is."""


def fit_scaling(X: Floats, name: str | None) -> Scaling:
    """Learn shift and scale from an array (n, d)."""
    return fit_scaling_to_rows(ArrayRows(X), name)


def fit_scaling_to_rows(rows: Rows, name: str | None) -> Scaling:
    """Learn shift and scale. A feature without spread is only shifted, so a constant one is 0."""
    extremes = [(chunk.min(axis=0), chunk.max(axis=0)) for chunk in rows.chunks()]
    low = np.min([low for low, _ in extremes], axis=0)
    high = np.max([high for _, high in extremes], axis=0)
    shift, spread = SCALINGS[name](rows, low, high)
    if name is None:
        return Scaling(shift, spread)
    # A constant feature has a mean and a deviation off by rounding; its spread is nothing all the same.
    return Scaling(np.where(low == high, low, shift), np.where((low == high) | (spread == 0), 1.0, spread))
