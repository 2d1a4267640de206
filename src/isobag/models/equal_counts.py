"""Values that most groups have equally often: sessions have one end each, however long they are.

As a share of many points such a value hardly shows, and neither does its absence. As a count it does: where at least
three quarters of the groups have it equally often, any other count is odd. Twice the root of a Poisson number has the
spread 1; here it is a quarter of sqrt(r (1 - r)), r the share of groups with another count, and .02 at least.
"""

from dataclasses import dataclass, replace

import numpy as np

from isobag.backends.arrays import MOST_ROWS, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.models.sizes import LEAST_FOR_LINE

MOST_UNITS = 128
"""Largest value of a bin."""
_LEAST_SHARE = 0.75
"""Of the groups, how many must have a value equally often."""
_LEAST_SCALE, _OF_SPREAD = 0.02, 0.25
_QUANTILE, _NORMAL_QUANTILE = 0.75, 1.1503493803760079


@dataclass(frozen=True, eq=False)
class EqualCounts(Learned):
    """Columns of two values, of which most groups have the rarer one equally often.

    columns : (c,), numbers of the columns.
    usual : (c,), how often most groups have the rarer value.
    scales : (c,), spreads of such counts.
    common, rare : (c,), what the two values add to sums.
    location, scale : of the largest deviation of a group; 0 and 1 unless many groups deviate somewhere.
    """

    columns: Ints
    usual: Ints
    scales: Floats
    common: Ints
    rare: Ints
    location: float
    scale: float

    def validate(self) -> None:
        """Columns in rising order, with two values each."""
        check("columns", self.columns, (None,), 0, MOST_ROWS)
        demand(len(self.columns) > 0 and np.all(np.diff(self.columns) > 0), "columns are not in rising order")
        check("usual", self.usual, self.columns.shape, 1, MOST_ROWS)
        check("scales", self.scales, self.columns.shape, _LEAST_SCALE, 1)
        for values in (self.common, self.rare):
            check("values", values, self.columns.shape, -MOST_UNITS, MOST_UNITS)
        demand(np.all(self.common != self.rare), "a column has one value, not two")
        check("location", self.location, (), 0)
        check("scale", self.scale, (), 1)

    def oddness(self, sums: Ints, sizes: Ints) -> Floats:
        """How unusual the most unusual count of each group is, from sums over its points (g, d): (g,)."""
        return (self._largest(sums, sizes) - self.location) / self.scale

    def counts(self, sums: Ints, sizes: Ints) -> Ints:
        """How many points of each group have the rarer value, from sums over its points (g, d): (g, c)."""
        return _counts(sums[:, self.columns], sizes, self.common, self.rare)

    def deviations(self, counts: Ints) -> Floats:
        """How far counts are from the usual ones: (g, c) -> (g, c)."""
        return (_root(counts) - _root(self.usual)) / self.scales

    def standardised(self, sums: Ints, sizes: Ints) -> "EqualCounts":
        """The same, with location and scale of these groups."""
        largest = self._largest(sums, sizes)
        location = float(np.median(largest))
        scale = float(np.quantile(np.abs(largest - location), _QUANTILE)) / _NORMAL_QUANTILE
        return replace(self, location=location, scale=max(scale, 1.0))

    def _largest(self, sums: Ints, sizes: Ints) -> Floats:
        largest: Floats = np.abs(self.deviations(self.counts(sums, sizes))).max(axis=1)
        return largest


def fit_equal_counts(points: Floats, edges: Floats, values: Ints, sums: Ints, sizes: Ints) -> EqualCounts | None:
    """Learn from groups; None if there is no such value.

    points (m, d) : a sample, which shows what columns have two values.
    edges (d, b - 1), values (d, b) : bins of each column, and what a point in them adds to sums.
    sums (g, d), sizes (g,) : of the groups. Fewer than 30 show nothing.
    """
    rows, scales = [], []
    for column, cells in enumerate(points.T if len(sizes) >= LEAST_FOR_LINE else ()):
        low, high = cells.min(), cells.max()
        is_high = cells == high
        if low == high or not np.all(is_high | (cells == low)):
            continue
        of_both = values[column, np.searchsorted(edges[column], [low, high], side="left")]
        common, rare = of_both if np.count_nonzero(is_high) <= len(cells) / 2 else of_both[::-1]
        counts = _counts(sums[:, column], sizes, common, rare)
        usual = int(np.median(counts))
        share = float(np.mean(counts == usual))
        if usual > 0 and share >= _LEAST_SHARE:
            rows.append((column, usual, common, rare))
            scales.append(max(_LEAST_SCALE, _OF_SPREAD * (share * (1 - share)) ** 0.5))
    if not rows:
        return None
    columns, usuals, commons, rares = np.array(rows, dtype=np.int64).T.copy()
    return EqualCounts(columns, usuals, np.array(scales), commons, rares, 0.0, 1.0).standardised(sums, sizes)


def _counts(sums: Ints, sizes: Ints, common: Ints, rare: Ints) -> Ints:
    """How many of n points have the rarer of two values: (g,) or (g, c)."""
    n = sizes if sums.ndim == 1 else sizes[:, None]
    counts: Ints = np.rint((sums - n * common) / (rare - common)).astype(np.int64)
    return counts


def _root(counts: Ints) -> Floats:
    """Twice the root of counts: of Poisson numbers it has a spread of about 1."""
    root: Floats = 2 * np.sqrt(np.maximum(counts, 0) + 0.375)
    return root
