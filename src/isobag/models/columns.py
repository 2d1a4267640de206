"""What is odd about a group in a single column: a mean or a spread that other groups do not have, a value never seen.

Steps and formulas: study/FORMULAS.md, "Groups: single columns".
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, Floats, Ints
from isobag.backends.learned import TINY, Learned, check, demand
from isobag.data.groups import Groups
from isobag.data.rows import GroupedBlock, Rows, sample_numbers
from isobag.models.counted import Counter
from isobag.models.level2 import AnyMaps
from isobag.models.maps import maps_of
from isobag.models.neighbours import MARGIN, MOST_REFERENCES, bounded
from isobag.models.point import PointParams
from isobag.models.sizes import SizeLine, fit_size_line
from isobag.models.summaries import (
    MOST_UNITS,
    GroupSummary,
    SummaryWitness,
    TwoValued,
    fit_two_valued,
    fit_witness,
    rows_of,
)
from isobag.models.tally import GroupTally
from isobag.partitionings.counts import MeanMaps

N_BINS = 16
POWERS = 4
N_STATISTICS = 2
"""Mean and spread."""
_UNIT = 16
_LEAST_VARIANCE = 0.05
_QUANTILE, _NORMAL_QUANTILE = 0.75, 1.1503493803760079
_MEDIAN_SQUARE = 0.4549364231195727
"""Median of the square of a normal number."""
_LEAST_SCALE = 0.02
_SHARES = ndtr(np.linspace(-2.5, 2.5, N_BINS - 1))
"""Of the points, how many lie below each edge."""
_BEND = 2.0
"""From about here on the logarithm of a deviation counts."""
_KEPT_BYTES = 1 << 25
_MOST_POINTS = 1 << 14
"""Bins are learned from so many points."""
_UNSEEN = 0.5
"""How many points of the sample stand for values beyond all of it."""
NEVER_SEEN = 1000.0
"""Oddness of a group with a value never seen in a column that was constant."""
_KERNEL_LESS = 0.25
"""By how much less the logarithm of the kernel's score counts where all columns have two values."""
_FRACTION = 2.0**40


class Bins(NamedTuple):
    """Points (m, d), edges (d, 15) at their quantiles, and the values of the bins between them (d, 16)."""

    points: Floats
    edges: Floats
    values: Ints

    def counter(self, compute: Compute) -> Counter:
        """What sums values over the points of groups."""
        return Counter(self.edges, partial(_count_sums, self.edges, self.values, compute), POWERS * len(self.edges))


@dataclass(frozen=True, eq=False)
class ColumnEvidence(Learned):
    """Bins of each column, and what is usual in it among groups.

    edges : (d, 15), a bin reaches up to its edge.
    values : (d, 16) of the bins, in sixteenths.
    centers, ratios, scales : (d, 2), median, q and scale of each statistic.
    constants : numbers of the columns with one value in all points.
    line : what largest deviations are usual at each size.
    counts : columns of two values; None if there are none, or if numbers of points are ignored.
    witness : the point detector on all statistics; None if no column has two values.
    """

    edges: Floats
    values: Ints
    centers: Floats
    ratios: Floats
    scales: Floats
    constants: Ints
    line: SizeLine
    counts: TwoValued | None = None
    witness: SummaryWitness | None = None

    def validate(self) -> None:
        """Bins and statistics of each column."""
        check("edges", self.edges, (None, N_BINS - 1), -FARTHEST, FARTHEST)
        demand(np.all(np.diff(self.edges, axis=1) >= 0), "edges are not in rising order")
        d = len(self.edges)
        check("values", self.values, (d, N_BINS), -MOST_UNITS, MOST_UNITS)
        check("centers", self.centers, (d, N_STATISTICS))
        check("ratios", self.ratios, (d, N_STATISTICS), 0)
        check("scales", self.scales, (d, N_STATISTICS), TINY, np.inf)
        check("constants", self.constants, (None,), 0, min(d - 1, MOST_ROWS))
        demand(self.counts is None or self.counts.columns[-1] < d, "counts are of a column beyond the last")
        n_counts = 0 if self.counts is None else len(self.counts.columns)
        fits = self.witness is None or self.witness.model.views.n_features == N_STATISTICS * d + n_counts
        demand(fits, "the witness is of other summaries")

    def counter(self, compute: Compute) -> Counter:
        """What sums values over the points of groups."""
        return Bins(self.edges, self.edges, self.values).counter(compute)

    def lower(self, scores: Floats, groups: Groups, compute: Compute) -> Floats:
        """The scores of the kernel, or lower ones where columns are odder: (g,) -> (g,), above 0."""
        return self.overrule(scores, self.oddness(_sums_of(groups, self.edges, self.values, compute), compute))

    def overrule(self, scores: Floats, oddness: Floats) -> Floats:
        """The lower of the kernel's scores and those of columns: (g,), (g,) -> (g,)."""
        share = 0.0 if self.witness is None else self.witness.share
        return np.minimum(scores ** (1 - _KERNEL_LESS * share), bounded(oddness))

    def oddness(self, sums: AnyMaps, compute: Compute) -> Floats:
        """Oddness of groups from their sums: (g,)."""
        return sums.map(lambda block: self._oddness(_unpacked(block, len(self.edges)), block.sizes, compute))

    def largest_of(self, sums: Ints, sizes: Ints) -> Floats:
        """Largest deviation of a mean or a spread: (g, d, 4) -> (g,)."""
        largest: Floats = np.abs(self.deviations(statistics_of(sums, sizes)[0], sizes)).max(axis=(1, 2), initial=0.0)
        return largest

    def deviations(self, statistics: Floats, sizes: Ints) -> Floats:
        """Z of every statistic of every column: (g, d, 2)."""
        return _factors(sizes, self.ratios) * (statistics - self.centers) / self.scales

    def unseen(self, sums: Ints, sizes: Ints) -> Floats:
        """Share of the points of each group with a value never seen in each constant column: (g, d, 4) -> (g, k)."""
        shares: Floats = sums[:, self.constants, 1] / (MOST_UNITS**2 * sizes[:, None])
        return shares

    def sums_of(self, groups: Groups, compute: Compute) -> Ints:
        """Sums of groups in memory: (g, d, 4)."""
        maps = _sums_of(groups, self.edges, self.values, compute)
        return _unpacked(maps[np.arange(len(groups))], len(self.edges))

    def _oddness(self, sums: Ints, sizes: Ints, compute: Compute) -> Floats:
        u = self.line.normalise(self.largest_of(sums, sizes), sizes)
        oddness: Floats = _BEND * np.arcsinh(u / _BEND) - MARGIN
        if self.witness is not None:
            rows = rows_of(summary_of(sums, sizes), self.counts)
            oddness = np.maximum(oddness, self.witness.oddness(rows, sizes, compute))
        unseen = self.unseen(sums, sizes).sum(axis=1)
        return np.where(unseen > 0, np.maximum(oddness, 0) + NEVER_SEEN * (1 + unseen), oddness)


def fit_columns(
    groups: Groups, compute: Compute, params: PointParams, has_counts: bool = True, bins: Bins | None = None
) -> tuple[ColumnEvidence, Floats]:
    """Learn from groups; also their oddness: (g,). ``has_counts``: whether counts of values take part."""
    points, edges, values = fit_bins(groups.rows) if bins is None else bins
    chosen = np.arange(len(groups))
    if len(groups) > MOST_REFERENCES:
        chosen = np.sort(np.random.default_rng(0).choice(len(groups), MOST_REFERENCES, replace=False))
    maps, sizes = _sums_of(groups, edges, values, compute), groups.sizes[chosen]
    sums = _unpacked(maps[chosen], len(edges))
    usual = _fit_usual(*statistics_of(sums, sizes), sizes)
    constants = _constants(points, maps)
    level = SizeLine(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    model = ColumnEvidence(edges, values, *usual, constants, level)
    line = fit_size_line(model.largest_of(sums, sizes), sizes, 1.0, _LEAST_SCALE, sloped=True)
    summary = summary_of(sums, sizes)
    two_valued = fit_two_valued(points, edges, values, summary)
    counts, witness = two_valued if has_counts else None, None
    if two_valued is not None:
        share = min(1.0, 2 * len(two_valued.columns) / (len(edges) - len(constants)))
        witness = fit_witness(rows_of(summary, counts), sizes, share, params, compute)
    model = replace(model, line=line, counts=counts, witness=witness)
    return model, model.oddness(maps, compute)


def statistics_of(sums: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """Mean and standard deviation from sums of powers, and the variance that one point adds: (g, d, 4) -> (g, d, 2)."""
    n = sizes.astype(np.float64)[:, None]
    mean, m2, m3, m4 = (sums[:, :, k] / (n * float(_UNIT) ** (k + 1)) for k in range(POWERS))
    variance = np.maximum(m2 - mean * mean, 0)
    fourth = m4 - 4 * mean * m3 + 6 * mean * mean * m2 - 3 * mean**4
    spread = np.sqrt(variance * (n / np.maximum(n - 1, 1)))
    of_spread = np.maximum(fourth - variance * variance, 0) / (4 * np.maximum(variance, _LEAST_VARIANCE))
    return np.stack([mean, spread], axis=2), np.stack([variance, of_spread], axis=2)


def summary_of(sums: Ints, sizes: Ints) -> GroupSummary:
    """What columns say of groups: (g, d, 4), (g,)."""
    statistics, _ = statistics_of(sums, sizes)
    return GroupSummary(sums[:, :, 0], statistics[:, :, 0], statistics[:, :, 1], sizes)


def bin_values(X: Floats, edges: Floats, values: Ints) -> Ints:
    """The value of the bin of each number: (n, d) -> (n, d)."""
    binned = np.empty(X.shape, dtype=np.int64)
    for column, (bounds, of_bins) in enumerate(zip(edges, values, strict=True)):
        binned[:, column] = of_bins[np.searchsorted(bounds, X[:, column], side="left")]
    return binned


def fit_bins(rows: Rows) -> Bins:
    """Learn bins from a sample of rows."""
    sample = sample_numbers(rows)
    points = rows.take(sample[:: -(-len(sample) // _MOST_POINTS)])
    edges = np.ascontiguousarray(np.quantile(points, _SHARES, axis=0, method="inverted_cdf").T)
    values = np.zeros((len(edges), N_BINS), dtype=np.int64)
    for bounds, column, of_bins in zip(edges, points.T, values, strict=True):
        if bounds[0] == bounds[1]:  # many points have the lowest value: the first bin is for what lies below
            bounds[0] = np.nextafter(bounds[0], -np.inf)
        counts = np.bincount(np.searchsorted(bounds, column, side="left"), minlength=N_BINS).astype(np.float64)
        counts[[0, -1]] = np.maximum(counts[[0, -1]], _UNSEEN)
        share = counts / counts.sum()
        scores = np.where(counts > 0, ndtri(np.cumsum(share) - share / 2), 0.0)
        scores -= share @ scores
        spread = np.sqrt(share @ scores**2)
        of_bins[:] = np.clip(np.rint(_UNIT * scores / spread), -MOST_UNITS, MOST_UNITS)
        if column.min() == column.max():  # what is never seen is as far as can be
            of_bins[:] = [-MOST_UNITS, *[0] * (N_BINS - 2), MOST_UNITS]
    return Bins(points, edges, values)


def _constants(points: Floats, sums: AnyMaps) -> Ints:
    """Numbers of the columns with one value in the sample and in all groups."""
    columns = np.flatnonzero(points.min(axis=0) == points.max(axis=0))
    if not len(columns):
        return columns
    differs = sums.map(lambda block: _unpacked(block, points.shape[1])[:, columns, 1] > 0)
    return columns[~differs.any(axis=0)]


def _fit_usual(statistics: Floats, variances: Floats, sizes: Ints) -> tuple[Floats, Floats, Floats]:
    """Median, q and scale of each statistic of each column: (d, 2) each."""
    n = sizes.astype(np.float64)[:, None, None]
    within = _total(variances * (n / max(float(sizes.sum() - len(sizes)), 1.0)))
    centers = np.median(statistics, axis=0)
    squares = (statistics - centers) ** 2 / _MEDIAN_SQUARE
    between = np.maximum(np.median(squares - within / n, axis=0), 0)
    ratios = np.where(within > 0, between / np.where(within > 0, within, 1.0), 0.0)
    away = np.abs(_factors(sizes, ratios) * (statistics - centers))
    scales = np.maximum(np.quantile(away, _QUANTILE, axis=0) / _NORMAL_QUANTILE, np.sqrt(within))
    # A column without any other value: as if half a point of all had one.
    is_constant = (away[:, :, 0].max(axis=0) == 0) & (within[:, 0] == 0)
    scales[is_constant, 0] = MOST_UNITS / _UNIT * np.sqrt(_UNSEEN / float(sizes.sum()))
    return centers, ratios, np.where(scales > 0, scales, np.inf)


def _factors(sizes: Ints, ratios: Floats) -> Floats:
    """What makes deviations scatter alike at every size; a single point has a mean but no spread: (g, d, 2)."""
    n = sizes.astype(np.float64)[:, None, None]
    factors = np.sqrt(n / (1 + ratios * n))
    factors[sizes < 2, :, 1] = 0.0
    return factors


def _total(values: Floats) -> Floats:
    """Sum over groups in whole multiples of 2^-40, so in whatever order: (g, ...) -> (...)."""
    total: Floats = np.rint(values * _FRACTION).astype(np.int64).sum(axis=0) / _FRACTION
    return total


def _sums(X: Floats, starts: Ints, edges: Floats, values: Ints) -> Ints:
    """Sums of powers over runs of rows, run k from starts[k] to starts[k + 1]: (n, d) -> (k, d, 4)."""
    sums = np.empty((len(starts) - 1, len(edges), POWERS), dtype=np.int64)
    for column, (bounds, of_bins) in enumerate(zip(edges, values, strict=True)):
        value = of_bins[np.searchsorted(bounds, np.ascontiguousarray(X[:, column]), side="left")]
        power = value
        for k in range(POWERS):
            sums[:, column, k] = np.add.reduceat(power, starts[:-1])
            power = power * value
    return sums


def _sums_of(groups: Groups, edges: Floats, values: Ints, compute: Compute) -> AnyMaps:
    """Sums of powers of the values of all columns, in place of counts: (g, d * 4); kept if they are few."""
    count = partial(_count_sums, edges, values, compute)
    return maps_of(groups, edges, count, POWERS * len(edges), POWERS * len(edges), _KEPT_BYTES)


def _count_sums(edges: Floats, values: Ints, compute: Compute, block: GroupedBlock) -> GroupTally:
    sums = _sums(compute.fetch(block.X), block.starts, edges, values)
    return GroupTally(block.numbers, csr_array(sums.reshape(len(sums), -1)), np.diff(block.starts))


def _unpacked(sums: MeanMaps, d: int) -> Ints:
    dense: npt.NDArray[np.int64] = sums.counts.toarray().reshape(-1, d, POWERS)
    return dense
