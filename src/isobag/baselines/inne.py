"""iNNE, isolation by nearest neighbour ensembles (Bandaragoda et al., 2018): the same balls, another score."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from isobag.backends.arrays import Floats
from isobag.backends.numpy import sq_distances
from isobag.backends.threads import map_in_threads, slices
from isobag.data.params import MAX_SAMPLES, N_ESTIMATORS, Parameters, check_max_samples, one_of
from isobag.data.rows import Rows
from isobag.data.scaling import SCALINGS
from isobag.estimators.base import Computing, PointDetector, Thresholded
from isobag.estimators.kernels import AUTO_MAX_SAMPLES
from isobag.models.views import Plan, draw_views
from isobag.partitionings.balls import RowBalls

_ONE = 1 << 44
_CENTERS_AT_A_TIME = 64  # times psi distances: these stay in the cache


class INNE(PointDetector, Computing):
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
    parameters: ClassVar[Parameters] = {
        "n_estimators": N_ESTIMATORS,
        "max_samples": MAX_SAMPLES,
        "scaling": one_of(SCALINGS),
        **Thresholded.parameters,
        **Computing.parameters,
    }

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
        check_max_samples(self.max_samples, len(rows))
        psi = min(AUTO_MAX_SAMPLES, len(rows)) if self.max_samples == "auto" else int(self.max_samples)
        plan = Plan(self.scaling, (psi,))
        compute = self.compute_for(rows)
        self.views_, _ = draw_views(rows, self.n_estimators, [plan], "hypersphere", self.random_state, compute)
        balls = self.views_.members[0].partitionings
        assert isinstance(balls, RowBalls)
        pairs = list(zip(balls.centers, balls.sq_radii[0], strict=True))
        self._ratios = np.stack(map_in_threads(lambda pair: _radius_ratios(*pair), pairs, self.n_jobs))
        return self._score_rows(rows)

    def _score_rows(self, rows: Rows) -> Floats:
        # As integers the ratios add up to the same in any order.
        tables = (np.rint(self._ratios * _ONE).astype(np.int64)[None],)
        sum_at = self.views_.sum_at(tables, self.compute_for(rows), "smallest")
        return rows.map(lambda X: sum_at(X)[0][:, 0]) / (_ONE * len(self._ratios)) - 1

    @property
    def max_samples_(self) -> int:
        """Psi."""
        check_is_fitted(self)
        return self.views_.levels[-1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_ratios")


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
