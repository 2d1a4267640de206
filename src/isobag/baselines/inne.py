"""iNNE, isolation by nearest neighbour ensembles (Bandaragoda et al., 2018): the same balls, another score."""

from typing import Any

import numpy as np

from isobag.arrays import Floats, Ints
from isobag.backends._numpy import sq_distances
from isobag.backends._threads import map_in_threads, slices
from isobag.detectors.base import PartitioningDetector
from isobag.rows import Rows
from isobag.views import sum_at_cells

_ONE = 1 << 44
_CENTERS_AT_A_TIME = 64  # times psi distances: these stay in the cache


class INNE(PartitioningDetector):
    """Isolation using nearest neighbour ensembles.

    The isolation score of x in a partitioning is 1 - r(c') / r(c), where c is the center of the smallest ball that
    covers x, r its radius and c' the center nearest to c; it is 1 if no ball covers x. ``score_samples`` is minus its
    mean over the partitionings: in [-1, 0], higher = more normal.

    Parameters are those of IDKPointDetector, but max_samples="auto" is 16, or the number of rows if that is less.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag.baselines import INNE
    >>> X = np.vstack([np.random.default_rng(0).normal(size=(500, 2)), [[6.0, 6.0]]])
    >>> int(INNE(random_state=0).fit(X).score_samples(X).argmin())
    500
    """

    _lowest_score = -1.0

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        scaling: str | None = "minmax",
        contamination: float | str = "auto",
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.scaling = scaling
        self.contamination = contamination
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs

    def _fit_rows(self, rows: Rows) -> Floats:
        """Draw the balls from the rows; their scores: (n,)."""
        self._draw(rows)
        last = self.views_[0].partitionings.last
        pairs = list(zip(last.centers, last.sq_radii[0], strict=True))
        self._ratios = np.stack(map_in_threads(lambda pair: _radius_ratios(*pair), pairs, self.n_jobs))
        return np.concatenate([self._scores(chunk) for chunk in rows.chunks()])

    def score_samples(self, X: Any) -> Floats:
        """Minus the mean isolation score of each row: (n,) in [-1, 0], higher = more normal."""
        return self._scores(self._points(X))

    def _scores(self, points: Floats) -> Floats:
        # As integers the ratios add up to the same in any order.
        tables = [np.rint(self._ratios * _ONE).astype(np.int64)[None]]
        sums: Ints = sum_at_cells((self.views_[0].last,), points, tables, *self._how(), "smallest")
        return sums[:, 0] / (_ONE * len(self._ratios)) - 1


def _radius_ratios(centers: Floats, sq_radii: Floats) -> Floats:
    """r(c') / r(c) for every center c and its nearest different center c'; 1 where all centers are equal: (psi,)."""
    neighbours = np.concatenate(
        [
            (sq_distances(centers[rows], centers) == sq_radii[rows, None]).argmax(axis=1)
            for rows in slices(len(centers), _CENTERS_AT_A_TIME)
        ]
    )
    some = sq_radii > 0
    ratios: Floats = np.sqrt(np.divide(sq_radii[neighbours], sq_radii, out=np.ones_like(sq_radii), where=some))
    return ratios
