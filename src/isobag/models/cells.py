"""The paper's level 2: the point detector on mean maps, by partitionings drawn from groups."""

from dataclasses import dataclass, replace

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Floats, Ints
from isobag.backends.learned import check, demand
from isobag.models.averaging import Average, fit_average
from isobag.models.level2 import AnyMaps, Level2, Level2Params
from isobag.models.neighbours import bounded
from isobag.models.sizes import SizeCurve, fit_size_curve
from isobag.partitionings import Partitionings, draw_from_groups

LEAST_AVERAGED = 8
"""The least psi that has a say in an average over psi."""


@dataclass(frozen=True, eq=False)
class GroupCells(Level2):
    """Partitionings of groups, and the number of groups in each of their cells.

    counts : (L, t, psi).
    average : how the scores at all psi become one; None: the last alone counts.
    curve : what is usual at each size, if scores are corrected for it.
    """

    partitionings: Partitionings
    counts: Ints
    n_groups: int
    average: Average | None
    curve: SizeCurve | None

    def validate(self) -> None:
        """A count for each cell, and a weight for each psi."""
        drawn = self.partitionings
        demand(drawn.of_groups, "level 2 partitions rows, not groups")
        check("n_groups", self.n_groups, (), 1, MOST_ROWS)
        check("counts", self.counts, (len(drawn.levels), len(drawn), drawn.levels[-1]), 0, self.n_groups)
        fits = self.average is None or len(self.average.floors) == len(drawn.levels)
        demand(fits, "the average is not of these psi")

    @classmethod
    def fit(cls, maps: AnyMaps, params: Level2Params, seed: int, compute: Compute) -> tuple["GroupCells", Floats]:
        """Draw partitionings from the groups and count them; also their scores: (g,)."""
        queries = maps.prepare()
        drawn = draw_from_groups(queries, params.n_estimators, params.levels, params.mechanism, seed, compute)
        counts, sums = queries.count_and_sum(drawn, compute)
        cells = cls(drawn, counts, len(maps), None, None)
        if params.averages:
            is_averaged = np.array(params.levels) >= min(LEAST_AVERAGED, params.levels[-1])
            cells = replace(cells, average=fit_average(cells.shares(sums), is_averaged.astype(float)))
        if params.corrects_size:
            lacks = lack_of(cells.combine(sums, maps.sizes))
            cells = replace(cells, curve=fit_size_curve(lacks, maps.sizes))
        return cells, cells.combine(sums, maps.sizes)

    def scores(self, maps: AnyMaps, compute: Compute) -> Floats:
        """How normal each group is: (g,) in [0, 1], or around 1 if corrected for size."""
        drawn = self.partitionings
        sums = maps.map(lambda own: drawn.sum_at(drawn.prepare(own, compute), self.counts, compute))
        return self.combine(sums, maps.sizes)

    def combine(self, sums: Ints, sizes: Ints) -> Floats:
        """Scores from sums over partitionings at every psi: (g, L) -> (g,)."""
        path = self.shares(sums)
        scores = path[:, -1] if self.average is None else self.average.apply(path)
        return scores if self.curve is None else bounded(self.curve.normalise(lack_of(scores), sizes))

    def shares(self, sums: Ints) -> Floats:
        """Sums over partitionings divided by the largest possible sum."""
        return sums / (self.n_groups * len(self.partitionings))

    @property
    def max_samples(self) -> int:
        """The largest psi."""
        return self.partitionings.levels[-1]

    @property
    def width(self) -> int:
        """Number of columns of the mean maps."""
        return self.partitionings.width


def lack_of(scores: Floats) -> Floats:
    """Minus the logarithm of scores, cut off at a millionth: (g,) -> (g,)."""
    return -np.log(np.maximum(scores, 1e-6))
