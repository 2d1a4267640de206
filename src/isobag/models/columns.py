"""What each column says of a group on its own: a mean, a spread or a shape that other groups do not have.

In many columns a change of one is a small part of the distance between mean maps. So, beside level 2:

1. bins        each column is cut at 15 quantiles of a sample of the points, at equal steps of the normal score from
               -2.5 to 2.5: fine at the ends, where a tail shows
2. values      v of a bin: the normal score of its middle rank, standardised, in sixteenths: whole numbers
3. sums        of v, v^2, v^3 and v^4 over the points of a group, so in whatever order
4. statistics  mean, standard deviation, skewness and kurtosis of v in the group
5. deviation   sqrt(n / (1 + q n)) (statistic - its median over groups), in robust spreads of such: z; q is the
               variance between groups divided by that of one point
6. largest     |z| of a mean or a spread, compared with what is usual at that size: u
7. counts      of values that most groups have equally often, as sessions have one end each however long they are: the
               largest difference of a root from that of the usual count, see ``equal_counts``: u
8. oddness     2 asinh(u / 2): one event that is rare is many spreads from never, but it is no more than one event

Skewness and kurtosis take part in reasons alone.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, Floats, Ints
from isobag.backends.learned import TINY, Learned, check, demand
from isobag.data.groups import Groups
from isobag.data.rows import GroupedBlock, Rows, sample_numbers
from isobag.models.counted import Counter
from isobag.models.equal_counts import MOST_UNITS, EqualCounts, fit_equal_counts
from isobag.models.level2 import AnyMaps
from isobag.models.maps import maps_of
from isobag.models.neighbours import MARGIN, MOST_REFERENCES, bounded
from isobag.models.sizes import SizeLine, fit_size_line
from isobag.models.tally import GroupTally
from isobag.partitionings.counts import MeanMaps

N_BINS = 16
POWERS = 4
KINDS = ("mean", "spread", "shape", "shape")
"""What each statistic is a matter of."""
N_SCORED = 2
"""Statistics that take part in scores: mean and spread."""
_UNIT = 16
_LEAST_VARIANCE = 0.05
_SKEWNESS, _KURTOSIS = 6.0, 24.0
"""Variance of skewness and kurtosis of n normal numbers, times n."""
_QUANTILE, _NORMAL_QUANTILE = 0.75, 1.1503493803760079
_MEDIAN_SQUARE = 0.4549364231195727
"""Median of the square of a normal number."""
_LEAST_SCALE = 0.02
_SHARES = ndtr(np.linspace(-2.5, 2.5, N_BINS - 1))
"""Of the points, how many lie below each edge."""
_BEND = 2.0
"""From about here on the logarithm of a deviation counts."""
_KEPT_BYTES = 1 << 25
_MOST_POINTS, _MOST_GROUPS = 1 << 14, 1024
"""Bins are learned from so many points, and what is usual from so many groups."""
_UNSEEN = 0.5
"""How many points of the sample stand for values beyond all of it."""
_FRACTION = 2.0**40


class Statistics(NamedTuple):
    """Statistics of groups in each column, and the variance that one point adds to each: (g, d, 4) twice."""

    values: Floats
    variances: Floats


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
    centers, ratios, scales : (d, 4), median, q and scale of each statistic.
    line : what largest deviations are usual at each size.
    counts : values that most groups have equally often; None if there are none, or if numbers of points are ignored.
    """

    edges: Floats
    values: Ints
    centers: Floats
    ratios: Floats
    scales: Floats
    line: SizeLine
    counts: EqualCounts | None = None

    def validate(self) -> None:
        """Bins and statistics of each column."""
        check("edges", self.edges, (None, N_BINS - 1), -FARTHEST, FARTHEST)
        demand(np.all(np.diff(self.edges, axis=1) >= 0), "edges are not in rising order")
        check("values", self.values, (len(self.edges), N_BINS), -MOST_UNITS, MOST_UNITS)
        shape = (len(self.edges), POWERS)
        check("centers", self.centers, shape)
        check("ratios", self.ratios, shape, 0)
        check("scales", self.scales, shape, TINY, np.inf)
        known = self.counts is None or self.counts.columns[-1] < len(self.edges)
        demand(known, "counts are of a column beyond the last")

    def counter(self, compute: Compute) -> Counter:
        """What sums values over the points of groups."""
        return Counter(self.edges, partial(_count_sums, self.edges, self.values, compute), POWERS * len(self.edges))

    def scores(self, groups: Groups, compute: Compute) -> Floats:
        """How usual the most unusual column of each group is: (g,), above 0, higher = more normal."""
        sums = _sums_of(groups, self.edges, self.values, compute)
        return self.scores_of(self.largest_of(sums), groups.sizes)

    def scores_of(self, largest: Floats, sizes: Ints) -> Floats:
        """Scores from largest deviations: (g, 2) -> (g,)."""
        oddness = np.maximum(self.line.normalise(largest[:, 0], sizes), largest[:, 1])
        return bounded(_BEND * np.arcsinh(oddness / _BEND) - MARGIN)

    def largest_of(self, sums: AnyMaps) -> Floats:
        """Largest deviation of a mean or a spread, and oddness of counts, from sums of powers of groups: (g, 2)."""
        return sums.map(lambda own: self._largest(_unpacked(own, len(self.edges)), own.sizes))

    def deviations(self, statistics: Statistics, sizes: Ints) -> Floats:
        """Z of every statistic of every column: (g, d, 4)."""
        factors = np.stack([_factors(sizes, self.ratios[:, k], k) for k in range(POWERS)], axis=2)
        return factors * (statistics.values - self.centers) / self.scales

    def sums_of(self, groups: Groups, compute: Compute) -> Ints:
        """Sums of powers of groups in memory: (g, d, 4)."""
        maps = _sums_of(groups, self.edges, self.values, compute)
        return _unpacked(maps[np.arange(len(groups))], len(self.edges))

    def _largest(self, sums: Ints, sizes: Ints) -> Floats:
        found = np.zeros(len(sizes))
        for k, values in enumerate(_scored(sums, sizes)):
            z = _factors(sizes, self.ratios[:, k], k) * (values - self.centers[:, k]) / self.scales[:, k]
            np.maximum(found, np.abs(z).max(axis=1, initial=0.0), out=found)
        no_counts = np.full(len(sizes), -np.inf)
        return np.stack(
            [found, no_counts if self.counts is None else self.counts.oddness(sums[:, :, 0], sizes)], axis=1
        )


def fit_columns(
    groups: Groups, compute: Compute, has_counts: bool = True, bins: Bins | None = None
) -> tuple[ColumnEvidence, Floats]:
    """Learn from groups; also their scores: (g,). ``has_counts``: whether counts of values take part."""
    points, edges, values = fit_bins(groups.rows) if bins is None else bins
    sizes, chosen = groups.sizes, np.arange(len(groups))
    if len(groups) > MOST_REFERENCES:
        chosen = np.sort(np.random.default_rng(0).choice(len(groups), MOST_REFERENCES, replace=False))
    some = chosen[:: -(-len(chosen) // _MOST_GROUPS)]
    sums = _sums_of(groups, edges, values, compute)
    of_some = _unpacked(sums[some], len(edges))
    counts = fit_equal_counts(points, edges, values, of_some[:, :, 0], sizes[some]) if has_counts else None
    usual = _fit_usual(statistics_of(of_some, sizes[some]), sizes[some])
    model = ColumnEvidence(edges, values, *usual, SizeLine(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), counts)
    largest = model.largest_of(sums)
    line = fit_size_line(largest[chosen, 0], sizes[chosen], 1.0, _LEAST_SCALE, sloped=True)
    model = replace(model, line=line)
    return model, model.scores_of(largest, sizes)


def statistics_of(sums: Ints, sizes: Ints) -> Statistics:
    """Mean, standard deviation, skewness and kurtosis from sums of powers: (g, d, 4) -> (g, d, 4)."""
    n = sizes.astype(np.float64)[:, None]
    m1, m2, m3, m4 = (sums[:, :, k] / (n * float(_UNIT) ** (k + 1)) for k in range(POWERS))
    mean, spread = _scored(sums, sizes)
    variance = np.maximum(m2 - m1 * m1, 0)
    third = m3 - 3 * m1 * m2 + 2 * m1**3
    fourth = m4 - 4 * m1 * m3 + 6 * m1 * m1 * m2 - 3 * m1**4
    usable = np.maximum(variance, _LEAST_VARIANCE)
    of_spread = np.maximum(fourth - variance * variance, 0) / (4 * usable)
    values = [mean, spread, third / usable**1.5, fourth / usable**2]
    variances = [variance, of_spread, np.full_like(m1, _SKEWNESS), np.full_like(m1, _KURTOSIS)]
    return Statistics(np.stack(values, axis=2), np.stack(variances, axis=2))


def _scored(sums: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """Mean and standard deviation from sums of powers: (g, d, 4) -> (g, d) each."""
    n = sizes.astype(np.float64)[:, None]
    mean = sums[:, :, 0] / (n * _UNIT)
    variance = np.maximum(sums[:, :, 1] / (n * _UNIT**2) - mean * mean, 0)
    return mean, np.sqrt(variance * (n / np.maximum(n - 1, 1)))


def bin_values(X: Floats, edges: Floats, values: Ints) -> Ints:
    """The value of the bin of each number: (n, d) -> (n, d)."""
    found = np.empty(X.shape, dtype=np.int64)
    for column, (own, of_bins) in enumerate(zip(edges, values, strict=True)):
        found[:, column] = of_bins[np.searchsorted(own, X[:, column], side="left")]
    return found


def fit_bins(rows: Rows) -> Bins:
    """Learn bins from a sample of rows."""
    sample = sample_numbers(rows)
    points = rows.take(sample[:: -(-len(sample) // _MOST_POINTS)])
    edges = np.ascontiguousarray(np.quantile(points, _SHARES, axis=0, method="inverted_cdf").T)
    values = np.zeros((len(edges), N_BINS), dtype=np.int64)
    for own, column, found in zip(edges, points.T, values, strict=True):
        if own[0] == own[1]:  # many points have the lowest value: the first bin is for what lies below
            own[0] = np.nextafter(own[0], -np.inf)
        counts = np.bincount(np.searchsorted(own, column, side="left"), minlength=N_BINS).astype(np.float64)
        counts[[0, -1]] = np.maximum(counts[[0, -1]], _UNSEEN)
        share = counts / counts.sum()
        scores = np.where(counts > 0, ndtri(np.cumsum(share) - share / 2), 0.0)
        scores -= share @ scores
        spread = np.sqrt(share @ scores**2)
        if spread > 0:
            found[:] = np.clip(np.rint(_UNIT * scores / spread), -MOST_UNITS, MOST_UNITS)
    return Bins(points, edges, values)


def _fit_usual(statistics: Statistics, sizes: Ints) -> tuple[Floats, Floats, Floats]:
    """Median, q and scale of each statistic of each column: (d, 4) each."""
    values, variances = statistics
    n = sizes.astype(np.float64)[:, None, None]
    within = _total(variances * (n / max(float(sizes.sum() - len(sizes)), 1.0)))
    known = np.where(within > 0, within, 1.0)
    centers = np.median(values, axis=0)
    squares = (values - centers) ** 2 / _MEDIAN_SQUARE
    ratios = np.where(within > 0, np.maximum(np.median(squares - within / n, axis=0), 0) / known, 0.0)
    factors = np.stack([_factors(sizes, ratios[:, k], k) for k in range(POWERS)], axis=2)
    away = np.abs(factors * (values - centers))
    scales = np.maximum(np.quantile(away, _QUANTILE, axis=0) / _NORMAL_QUANTILE, np.sqrt(within))
    # A column without any other value: as if half a point of all had one.
    is_constant = (away[:, :, 0].max(axis=0) == 0) & (within[:, 0] == 0)
    scales[is_constant, 0] = MOST_UNITS / _UNIT * np.sqrt(_UNSEEN / float(sizes.sum()))
    return centers, ratios, np.where(scales > 0, scales, np.inf)


def _factors(sizes: Ints, ratios: Floats, statistic: int) -> Floats:
    """What makes deviations scatter alike at every size; a single point has a mean but no spread or shape: (g, d)."""
    n = sizes.astype(np.float64)[:, None]
    factors = np.sqrt(n / (1 + ratios * n))
    if statistic > 0:
        factors[sizes < 2] = 0.0
    return factors


def _total(values: Floats) -> Floats:
    """Sum over groups in whole multiples of 2^-40, so in whatever order: (g, ...) -> (...)."""
    total: Floats = np.rint(values * _FRACTION).astype(np.int64).sum(axis=0) / _FRACTION
    return total


def _sums(X: Floats, starts: Ints, edges: Floats, values: Ints) -> Ints:
    """Sums of powers over runs of rows, run k from starts[k] to starts[k + 1]: (n, d) -> (k, d, 4)."""
    found = np.empty((len(starts) - 1, len(edges), POWERS), dtype=np.int64)
    for column, (own, of_bins) in enumerate(zip(edges, values, strict=True)):
        value = of_bins[np.searchsorted(own, np.ascontiguousarray(X[:, column]), side="left")]
        power = value
        for k in range(POWERS):
            found[:, column, k] = np.add.reduceat(power, starts[:-1])
            power = power * value
    return found


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
