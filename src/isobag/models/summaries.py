"""A second witness: the point detector on summaries of each group: mean, spread, how often a value occurs.

Steps and formulas: study/FORMULAS.md, "Groups: summaries".
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.data.rows import ArrayRows
from isobag.models.point import PointModel, PointParams
from isobag.models.point_fit import fit_point_model
from isobag.models.sizes import LEAST_FOR_LINE, SizeLine, fit_size_line
from isobag.models.tails import surprise_of

MOST_UNITS = 128
"""Largest value of a bin."""
_MARGIN = 10.0
_LEAST_SPREAD = 0.02


class GroupSummary(NamedTuple):
    """Sums of the values of each column (g, d), means and spreads (g, d), number of points (g,)."""

    sums: Ints
    means: Floats
    spreads: Floats
    sizes: Ints


@dataclass(frozen=True, eq=False)
class TwoValued(Learned):
    """Columns of two values, and how often groups have the rarer one.

    columns : (c,), numbers of the columns.
    common, rare : (c,), what the two values add to sums.
    usual : (c,), median of the counts of the rarer value.
    differing : (c,), share of groups with another count.
    """

    columns: Ints
    common: Ints
    rare: Ints
    usual: Ints
    differing: Floats

    def validate(self) -> None:
        """Columns in rising order, with two values each."""
        check("columns", self.columns, (None,), 0, MOST_ROWS)
        demand(len(self.columns) > 0 and np.all(np.diff(self.columns) > 0), "columns are not in rising order")
        for values in (self.common, self.rare):
            check("values", values, self.columns.shape, -MOST_UNITS, MOST_UNITS)
        demand(np.all(self.common != self.rare), "a column has one value, not two")
        check("usual", self.usual, self.columns.shape, 0, MOST_ROWS)
        check("differing", self.differing, self.columns.shape, 0, 1)

    def counts(self, sums: Ints, sizes: Ints) -> Ints:
        """How many points of each group have the rarer value, from sums over its points: (g, d) -> (g, c)."""
        excess = sums[:, self.columns] - sizes[:, None] * self.common
        counts: Ints = np.rint(excess / (self.rare - self.common)).astype(np.int64)
        return counts

    def deviations(self, counts: Ints) -> Floats:
        """How far counts are from one that three quarters of the groups agree on, 0 in other columns: (g, c)."""
        spreads = np.maximum(_LEAST_SPREAD, 0.25 * np.sqrt(self.differing * (1 - self.differing)))
        agreed = (self.differing <= 0.25) & (self.usual > 0)
        return np.where(agreed, (root(counts) - root(self.usual)) / spreads, 0.0)


@dataclass(frozen=True, eq=False)
class SummaryWitness(Learned):
    """The point detector on summaries of groups, and what is usual at each size; share: a (see above)."""

    model: PointModel
    line: SizeLine
    share: float

    def validate(self) -> None:
        """A share above 0."""
        check("share", self.share, (), 0, 1)

    def oddness(self, rows: Floats, sizes: Ints, compute: Compute) -> Floats:
        """By how many spreads groups are odder than is usual at their size, less the margin: (g, m), (g,) -> (g,)."""
        return self.line.normalise(surprise_of(self.model.scores(ArrayRows(rows), compute)), sizes) - self.margin

    @property
    def margin(self) -> float:
        """What is taken away where columns have more than two values."""
        return _MARGIN * (1 - self.share)


def root(counts: Ints) -> Floats:
    """Twice the root of counts: of Poisson numbers it has a spread of about 1."""
    roots: Floats = 2 * np.sqrt(np.maximum(counts, 0) + 0.375)
    return roots


def rows_of(summary: GroupSummary, counts: TwoValued | None) -> Floats:
    """A row for each group: means and spreads of all columns, and roots of counts: (g, 2 d + c)."""
    parts = [summary.means, summary.spreads]
    if counts is not None:
        parts.append(root(counts.counts(summary.sums, summary.sizes)))
    return np.concatenate(parts, axis=1)


def fit_two_valued(points: Floats, edges: Floats, values: Ints, summary: GroupSummary) -> TwoValued | None:
    """Learn from groups; None where no column has two values, or there are fewer than 30 groups, which show nothing.

    points (m, d) : a sample, which shows what columns have two values.
    edges (d, b - 1), values (d, b) : bins of each column, and what a point in them adds to sums.
    """
    rows = []
    for column, cells in enumerate(points.T if len(summary.sizes) >= LEAST_FOR_LINE else ()):
        low, high = cells.min(), cells.max()
        is_high = cells == high
        if low < high and np.all(is_high | (cells == low)):
            of_both = values[column, np.searchsorted(edges[column], [low, high], side="left")]
            common, rare = of_both if np.count_nonzero(is_high) <= len(cells) / 2 else of_both[::-1]
            rows.append((column, common, rare))
    if not rows:
        return None
    columns, common, rare = np.array(rows, dtype=np.int64).T.copy()
    none = np.zeros(len(rows))
    counts = TwoValued(columns, common, rare, none.astype(np.int64), none).counts(summary.sums, summary.sizes)
    usual = np.median(counts, axis=0).astype(np.int64)
    return TwoValued(columns, common, rare, usual, np.mean(counts != usual, axis=0))


def fit_witness(rows: Floats, sizes: Ints, share: float, params: PointParams, compute: Compute) -> SummaryWitness:
    """Learn from summaries of groups: (g, m), (g,)."""
    model, scores = fit_point_model(ArrayRows(rows), params, compute)
    return SummaryWitness(model, fit_size_line(surprise_of(scores), sizes, 1.0, _LEAST_SPREAD, sloped=True), share)
