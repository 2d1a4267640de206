"""All that a stream goes on from: cells and counts are not kept, as they follow from the rest."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import FARTHEST, MOST_ROWS, Cells, Floats
from isobag.backends.learned import Learned, check, demand
from isobag.data.scaling import Scaling
from isobag.models.averaging import ViewsAverage


@dataclass(frozen=True, eq=False)
class StreamState(Learned):
    """The fields of a ``Stream`` with those of its names; ``rows`` without places that have no row yet.

    waiting (m, d), new_scores (m,): rows of the block that is not complete, and their scores, none without a model.
    """

    n_seen: int
    n_learned: int
    n_refreshed: int
    n_refreshes: int
    rows: Floats
    waiting: Floats
    first: Floats | None
    slots: Cells
    seeds: npt.NDArray[np.uint64]
    scores: Floats
    new_scores: Floats
    levels: tuple[int, ...]
    scalings: tuple[Scaling, ...]
    average: ViewsAverage | None

    def validate(self) -> None:
        """Rows of the same features, centers among them, and scales of each view."""
        check("numbers of rows", (self.n_seen, self.n_learned, self.n_refreshed, self.n_refreshes), (4,), 0, MOST_ROWS)
        check("rows", self.rows, (None, None), -FARTHEST, FARTHEST)
        d = self.rows.shape[1]
        check("waiting", self.waiting, (self.n_seen - self.n_learned, d), -FARTHEST, FARTHEST)
        if self.first is not None:
            check("first", self.first, (None, d), -FARTHEST, FARTHEST)
        check("slots", self.slots, (None, None), 0, max(len(self.rows) - 1, 0))
        check("seeds", self.seeds, (len(self.slots), 2))
        check("scores", self.scores, (None,), 0)
        check("new_scores", self.new_scores, (len(self.waiting) if self.levels else 0,), 0)
        demand(not self.levels or self.levels[-1] <= len(self.rows), "there are more centers than rows")
        demand(list(self.levels) == sorted(set(self.levels)), "levels are not in rising order")
        demand(bool(self.levels) == bool(self.scalings), "there are levels without scales, or scales without levels")
        demand(all(own.n_features == d for own in self.scalings), "a scale is of another number of features")
        if self.average is not None:
            fits = len(self.average.views) == len(self.scalings)
            fits = fits and len(self.average.views[0].floors) == len(self.levels)
            demand(fits, "the average is not of these views and psi")
