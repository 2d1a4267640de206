"""The paper's level 2: the point detector on mean maps, by partitionings drawn from groups."""

from dataclasses import dataclass

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Floats, Ints
from isobag.backends.learned import Learned, check
from isobag.models.maps import AnyMaps
from isobag.partitionings.counts import GroupBalls, MeanMaps, draw_from_groups


@dataclass(frozen=True, eq=False)
class GroupCells(Learned):
    """Partitionings of groups, and the number of groups in each of their cells: counts (1, t, psi)."""

    partitionings: GroupBalls
    counts: Ints
    n_groups: int

    def validate(self) -> None:
        """A count for each cell."""
        drawn = self.partitionings
        check("n_groups", self.n_groups, (), 1, MOST_ROWS)
        check("counts", self.counts, (len(drawn.levels), len(drawn), drawn.levels[-1]), 0, self.n_groups)

    def scores(self, maps: AnyMaps, compute: Compute) -> Floats:
        """How normal each group is: (g,) in [0, 1], higher = more normal."""
        drawn = self.partitionings
        return self.shares(maps.map(lambda block: drawn.sum_at(drawn.assign(block, compute), self.counts)))

    def shares(self, sums: Ints) -> Floats:
        """Sums over partitionings (g, 1) divided by the largest possible sum: (g,)."""
        shares: Floats = sums[:, 0] / (self.n_groups * len(self.partitionings))
        return shares

    @property
    def max_samples(self) -> int:
        """Psi."""
        return self.partitionings.levels[-1]

    @property
    def width(self) -> int:
        """Number of columns of the mean maps."""
        return self.partitionings.width


def fit_cells(maps: AnyMaps, n_estimators: int, psi: int, seed: int, compute: Compute) -> tuple[GroupCells, Floats]:
    """Draw partitionings from the groups and count them; also their scores: (g,)."""
    drawn, dots = draw_from_groups(maps, n_estimators, (psi,), seed, compute)
    if isinstance(maps, MeanMaps):
        cells = drawn.assign(maps, compute, dots)
        model = GroupCells(drawn, drawn.count(cells), len(maps))
        return model, model.shares(drawn.sum_at(cells, model.counts))
    counts = maps.map_reduce(lambda block: drawn.count(drawn.assign(block, compute)), np.add)
    model = GroupCells(drawn, counts, len(maps))
    return model, model.scores(maps, compute)
