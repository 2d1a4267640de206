"""What single columns say of a group: its mean, its spread, how often a value occurs; one of them odd, or all together.

Steps and formulas: study/FORMULAS.md, "Groups: summaries".
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import TINY, Learned, check, demand
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, GroupedBlock, Rows, sample_rows
from isobag.data.scaling import NormalScaling, fit_scaling
from isobag.models.counted import Counter
from isobag.models.maps import AnyMaps, maps_of
from isobag.models.neighbours import MARGIN, choose_references
from isobag.models.point import PointModel, PointParams
from isobag.models.point_fit import fit_point_model
from isobag.models.sizes import LEAST_FOR_LINE, SizeLine, fit_size_line, normal_scale
from isobag.models.tails import surprise_of
from isobag.partitionings.counts import MeanMaps

_UNIT, _MOST_UNITS = 16, 128
_SAMPLE = 1 << 14
"""Scores are learned from so many points."""
_KEPT_BYTES = 1 << 25
_MEDIAN_SQUARE = 0.4549364231195727
"""Median of the square of a normal number."""
_LEAST_SCALE = 0.02
_UNSEEN_SCALE = 1e-200
"""Of the mean of a column that was constant: any other value is odder than all else."""
_BEND = 2.0
"""From about here on the logarithm of a deviation counts."""
_FRACTION = 2.0**40


@dataclass(frozen=True, eq=False)
class ColumnScores(Learned):
    """Normal scores of every column in sixteenths: whole numbers, whose sums over points are exact in any order.

    kurtosis : (d,), E v^4 / (E v^2)^2 of the scores v of points.
    """

    scaling: NormalScaling
    kurtosis: Floats

    def validate(self) -> None:
        """A kurtosis for each column."""
        check("kurtosis", self.kurtosis, (self.scaling.n_features,), 1)

    @property
    def n_values(self) -> Ints:
        """How many values a column has, as far as the sample of points shows: (d,)."""
        return np.diff(self.scaling.starts)

    @cached_property
    def ends(self) -> Ints:
        """Scores of the least and the greatest value of each column: (2, d)."""
        starts, values = self.scaling.starts, self.scaling.values
        return self.of(np.stack([values[starts[:-1]], values[starts[1:] - 1]]), Compute())

    @property
    def high_is_rare(self) -> Bools:
        """Whether, of two values, the greater one is the rarer: (d,). The rarer has a score farther from 0."""
        low, high = np.abs(self.ends)
        return np.asarray(low <= high)

    def of(self, X: Floats, compute: Compute) -> Ints:
        """The score of each number: (n, d) -> (n, d)."""
        scaled = compute.fetch(self.scaling.apply(X, compute))
        scores: Ints = np.clip(np.rint(_UNIT * scaled), -_MOST_UNITS, _MOST_UNITS).astype(np.int64)
        return scores

    def counter(self, compute: Compute) -> Counter:
        """What sums scores and their squares over the points of groups."""
        n_columns = 2 * len(self.kurtosis)
        return Counter(self, partial(self._count, compute=compute), n_columns, n_columns)

    def sums_of(self, groups: Groups, compute: Compute) -> AnyMaps:
        """Sums of scores and of their squares, in place of counts: (g, 2 d); kept if they are few."""
        return maps_of(groups, self.counter(compute), _KEPT_BYTES)

    def _count(self, block: GroupedBlock, compute: Compute) -> csr_array:
        scores = self.of(block.X, compute)
        sums = [np.add.reduceat(powers, block.starts[:-1]) for powers in (scores, scores * scores)]
        return csr_array(np.hstack(sums))


@dataclass(frozen=True, eq=False)
class Summaries(Learned):
    """A row of statistics for each group, and what is usual among them.

    Statistics are the means and the spreads of the scores of all columns, and twice the roots of counts: (g, 2 d + c).

    scores : of columns.
    counted : (c,), numbers of the columns of two values, of which points with the rarer value are counted.
    centers, scales : (2 d + c,), median and robust spread of each statistic.
    ratios : (2 d,), variance of a statistic between groups divided by that of one point.
    line : what largest deviations are usual at each size.
    witness, usual : the point detector on statistics, and its usual surprise at each size; None if most columns have
        many values.
    """

    scores: ColumnScores
    counted: Ints
    centers: Floats
    scales: Floats
    ratios: Floats
    line: SizeLine
    witness: PointModel | None = None
    usual: SizeLine | None = None

    def validate(self) -> None:
        """Statistics of the same columns."""
        n_values = self.scores.n_values
        d, width = len(n_values), 2 * len(n_values) + len(self.counted)
        check("counted", self.counted, (None,), 0, d - 1)
        demand(np.all(n_values[self.counted] == 2), "a counted column has one value, or many")
        check("centers", self.centers, (width,))
        check("scales", self.scales, (width,), TINY, np.inf)
        check("ratios", self.ratios, (2 * d,), 0)
        demand((self.witness is None) == (self.usual is None), "of the witness a part is missing")
        demand(self.witness is None or self.witness.views.n_features == width, "the witness is of other statistics")

    @property
    def constants(self) -> Ints:
        """Numbers of the columns with one value in all points of ``fit``."""
        return np.flatnonzero(self.scales[: len(self.scores.kurtosis)] == _UNSEEN_SCALE)

    def statistics(self, sums: Ints, sizes: Ints) -> Floats:
        """Means, spreads and roots of counts: (g, 2 d) -> (g, 2 d + c)."""
        n = sizes[:, None].astype(np.float64)
        mean, variance = _moments(sums, n)
        counts = self.counts(sums, sizes)
        return np.hstack([mean, np.sqrt(variance * (n / np.maximum(n - 1, 1))), 2 * np.sqrt(counts + 0.375)])

    def counts(self, sums: Ints, sizes: Ints) -> Ints:
        """How many points of each group have the rarer value of each counted column: (g, 2 d) -> (g, c)."""
        low, high = self.scores.ends[:, self.counted]
        is_high = self.scores.high_is_rare[self.counted]
        common, rare = np.where(is_high, low, high), np.where(is_high, high, low)
        counts = np.rint((sums[:, self.counted] - sizes[:, None] * common) / (rare - common)).astype(np.int64)
        return np.asarray(np.maximum(counts, 0))

    @property
    def usual_counts(self) -> Ints:
        """Median of the counts of each counted column: (c,)."""
        roots = self.centers[2 * len(self.scores.kurtosis) :]
        return np.rint(roots**2 / 4 - 0.375).astype(np.int64)

    def deviations(self, statistics: Floats, sizes: Ints) -> Floats:
        """How far statistics are from their median, in spreads of their size: (g, 2 d + c).

        Of counts, only where three quarters of the groups have the same one, above 0.
        """
        n, d = sizes[:, None].astype(np.float64), len(self.scores.kurtosis)
        deviations: Floats = (statistics - self.centers) / self.scales
        deviations[:, : 2 * d] *= np.sqrt(n / (1 + self.ratios * n))
        deviations[sizes < 2, d : 2 * d] = 0.0  # a single point has a mean but no spread
        return deviations

    def oddness(self, sums: AnyMaps, compute: Compute) -> Floats:
        """Oddness of groups from their sums: (g,)."""

        def oddness_of(block: MeanMaps) -> Floats:
            statistics = self.statistics(block.counts.toarray(), block.sizes)
            u = self.line.normalise(np.abs(self.deviations(statistics, block.sizes)).max(axis=1), block.sizes)
            oddness: Floats = _BEND * np.arcsinh(u / _BEND) - MARGIN
            if self.witness is not None and self.usual is not None:
                surprise = surprise_of(self.witness.scores(ArrayRows(statistics), compute))
                oddness = np.maximum(oddness, self.usual.normalise(surprise, block.sizes))
            return oddness

        return sums.map(oddness_of)


def fit_column_scores(rows: Rows) -> ColumnScores:
    """Learn normal scores from a sample of points."""
    sample = sample_rows(rows)
    points = sample[:: -(-len(sample) // _SAMPLE)]
    scaling = fit_scaling(points, "normal")
    assert isinstance(scaling, NormalScaling)
    scores = ColumnScores(scaling, np.ones(points.shape[1]))
    squares = scores.of(points, Compute()) ** 2
    second, fourth = squares.sum(axis=0), (squares**2).sum(axis=0)
    return replace(scores, kurtosis=np.where(second > 0, len(points) * fourth / np.maximum(second, 1.0) ** 2, 3.0))


def fit_summaries(
    groups: Groups, scores: ColumnScores, has_counts: bool, params: PointParams, compute: Compute
) -> tuple[Summaries, Floats]:
    """Learn from groups; also their oddness: (g,). ``has_counts``: whether counts of values take part.

    Of columns of two values, such as the events of a session, summaries say all there is to say; of others they are a
    small part of what the kernel sees. So there is a witness where at least half of the columns have two values.
    """
    maps, chosen = scores.sums_of(groups, compute), choose_references(len(groups))
    sums, sizes = maps[chosen].counts.toarray(), groups.sizes[chosen]
    two_valued = np.flatnonzero(scores.n_values == 2) if len(groups) >= LEAST_FOR_LINE else np.empty(0, dtype=np.int64)
    none, level = np.empty(0), SizeLine(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    counted = two_valued if has_counts else two_valued[:0]
    model = Summaries(scores, counted, none, none, none, level)
    statistics = model.statistics(sums, sizes)
    centers, scales, ratios = _fit_usual(model, statistics, sums, sizes)
    scales[_constants(scores, maps)] = _UNSEEN_SCALE
    model = replace(model, centers=centers, scales=scales, ratios=ratios)
    largest = np.abs(model.deviations(statistics, sizes)).max(axis=1)
    model = replace(model, line=fit_size_line(largest, sizes, 1.0, _LEAST_SCALE, sloped=True))
    if 0 < len(scores.kurtosis) - len(model.constants) <= 2 * len(two_valued):
        witness, of_fit = fit_point_model(ArrayRows(statistics), params, compute)
        usual = fit_size_line(surprise_of(of_fit), sizes, 1.0, _LEAST_SCALE, sloped=True)
        model = replace(model, witness=witness, usual=usual)
    return model, model.oddness(maps, compute)


def _constants(scores: ColumnScores, sums: AnyMaps) -> Ints:
    """Numbers of the columns with one value in the sample of points and in all groups."""
    columns = np.flatnonzero(scores.n_values == 1)
    if not len(columns):
        return columns
    squares = len(scores.kurtosis) + columns
    return columns[~sums.map(lambda block: block.counts.toarray()[:, squares] > 0).any(axis=0)]


def _moments(sums: Ints, n: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the scores of each column in each group: (g, 2 d), (g, 1) -> (g, d), (g, d)."""
    mean, square = np.split(sums / n, 2, axis=1)
    mean, square = mean / _UNIT, square / _UNIT**2
    return mean, np.maximum(square - mean * mean, 0)


def _fit_usual(model: Summaries, statistics: Floats, sums: Ints, sizes: Ints) -> tuple[Floats, Floats, Floats]:
    """Median, spread, and variance between groups in that of one point: (2 d + c,), (2 d + c,), (2 d,)."""
    n, kurtosis = sizes[:, None].astype(np.float64), model.scores.kurtosis
    n_columns = 2 * len(kurtosis)
    of_point = _moments(sums, n)[1] * (n / max(float(sizes.sum() - len(sizes)), 1.0))
    # A sum in whole multiples of 2^-40, so in whatever order.
    of_mean = np.rint(of_point * _FRACTION).astype(np.int64).sum(axis=0) / _FRACTION
    within = np.concatenate([of_mean, of_mean * (kurtosis - 1) / 4])
    centers = np.median(statistics, axis=0)
    away = np.abs(statistics - centers)
    of_columns = away[:, :n_columns]
    between = np.maximum(np.median(of_columns**2 / _MEDIAN_SQUARE - within / n, axis=0), 0)
    ratios = np.where(within > 0, between / np.where(within > 0, within, 1.0), 0.0)
    of_columns *= np.sqrt(n / (1 + ratios * n))
    of_columns[sizes < 2, len(kurtosis) :] = 0
    scales = normal_scale(away)
    is_agreed = (scales[n_columns:] == 0) & (centers[n_columns:] > 2 * np.sqrt(0.375))
    scales[n_columns:] = np.where(is_agreed, _LEAST_SCALE, 0)
    scales[:n_columns] = np.maximum(scales[:n_columns], np.sqrt(within))
    return centers, np.where(scales > 0, scales, np.inf), ratios
