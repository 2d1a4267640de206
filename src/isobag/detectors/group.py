"""The group detector IDK^2: every group becomes one point, and odd ones among these points are odd groups."""

from typing import Any

from sklearn.utils import check_random_state

from isobag.arrays import Floats
from isobag.detectors.base import GroupDetector
from isobag.embeddings import count_cells, sum_at_cells
from isobag.groups import Bags
from isobag.partitionings import MECHANISMS, draw_partitionings
from isobag.partitionings.of_groups import MeanMaps, count_groups, draw_group_partitionings
from isobag.scaling import SCALINGS, fit_scaling
from isobag.validation import check_flag, check_how, check_n_estimators, check_option, resolve_max_samples


class IDKGroupDetector(GroupDetector):
    """Group anomalies by two levels of the Isolation Distributional Kernel (IDK^2).

    Level 1 draws partitionings from all points of all groups and turns every group into its mean map, the share of its
    points in each cell. Level 2 is the point detector on these mean maps: it draws partitionings from the groups, and
    the score of a group is the share of the groups in its cell, as a mean over partitionings. In [0, 1]; higher = more
    normal. New groups are scored against the groups of ``fit``, each on its own.

    A group can be odd although each of its points is ordinary: too many points here, too few there.

    Parameters
    ----------
    n_estimators : t, the number of partitionings, at both levels.
    max_samples : psi of level 1, points drawn for each partitioning.
    group_max_samples : psi of level 2, groups drawn for each partitioning. Integers at both levels are the paper's
        method to the letter; "auto" is 16, or the number there is if that is less.
    point_mechanism : "hypersphere" (the paper's) or "voronoi" at level 1. Where many points lie OUTSIDE the balls, as
        in many dimensions, groups look alike to hyperspheres; "auto" is "voronoi" if max_samples is "auto".
    group_mechanism : "hypersphere" or "voronoi" at level 2.
    outside : whether OUTSIDE counts as one more cell of level 1. Not in the paper.
    scaling : "minmax" (every feature to [0, 1] over all points), "standard", "robust" or None.
    contamination : share of odd groups, which fixes ``offset_``; "auto" needs no guess, as in IDKPointDetector.
    random_state : seed or numpy RandomState; all randomness is drawn in ``fit``.
    backend : "auto", "numba" or "numpy"; the results are identical.
    n_jobs : threads, as in joblib.

    Attributes
    ----------
    labels_, scores_ : labels and scores of the groups of ``fit``, in order of first appearance; offset_;
    max_samples_, group_max_samples_, point_mechanism_; point_partitionings_, group_partitionings_, scaling_;
    n_features_in_, feature_names_in_.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IDKGroupDetector
    >>> rng = np.random.default_rng(0)
    >>> wide = [rng.normal(0, 1, size=(60, 2)) for _ in range(100)]
    >>> narrow = [rng.normal(0, 0.1, size=(60, 2))]  # in the middle of all, where every point is ordinary
    >>> detector = IDKGroupDetector(random_state=0).fit(wide + narrow)
    >>> int(detector.scores_.argmin())
    100
    """

    _lowest_score = 0.0

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        group_max_samples: int | str = "auto",
        *,
        point_mechanism: str = "auto",
        group_mechanism: str = "hypersphere",
        outside: bool = False,
        scaling: str | None = "minmax",
        contamination: float | str = "auto",
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.group_max_samples = group_max_samples
        self.point_mechanism = point_mechanism
        self.group_mechanism = group_mechanism
        self.outside = outside
        self.scaling = scaling
        self.contamination = contamination
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs

    def _fit_groups(self, bags: Bags) -> Floats:
        check_option("scaling", self.scaling, SCALINGS)
        check_option("point_mechanism", self.point_mechanism, ("auto", *MECHANISMS))
        check_option("group_mechanism", self.group_mechanism, MECHANISMS)
        check_flag("outside", self.outside)
        check_how(self.backend, self.n_jobs)
        t = check_n_estimators(self.n_estimators)
        n_groups = len(bags.labels)
        self.max_samples_ = resolve_max_samples(self.max_samples, len(bags.X))
        self.group_max_samples_ = resolve_max_samples(
            self.group_max_samples, n_groups, "group_max_samples", "number of groups"
        )
        self.point_mechanism_ = self.point_mechanism
        if self.point_mechanism == "auto":
            self.point_mechanism_ = "voronoi" if self.max_samples == "auto" else "hypersphere"
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        self.scaling_ = fit_scaling(bags.X, self.scaling)
        self.point_partitionings_ = draw_partitionings(
            self.scaling_.apply(bags.X), t, (self.max_samples_,), self.point_mechanism_, seeds[0], *self._how()
        )
        self.group_partitionings_, cells = draw_group_partitionings(
            self._mean_maps(bags), t, (self.group_max_samples_,), self.group_mechanism, seeds[1], *self._how()
        )
        self._counts = count_cells(cells[0], self.group_max_samples_)
        self.n_groups_fit_ = n_groups
        return sum_at_cells(cells[0], self._counts) / (n_groups * t)

    def _score_groups(self, bags: Bags) -> Floats:
        cells = self.group_partitionings_.assign_groups(self._mean_maps(bags), *self._how())
        return sum_at_cells(cells[0], self._counts) / (self.n_groups_fit_ * len(self._counts))

    def _mean_maps(self, bags: Bags) -> MeanMaps:
        """Level 1: (g, cells) counts and sizes."""
        points = self.scaling_.apply(bags.X)
        return count_groups(
            points, bags.ids, bags.sizes, self.point_partitionings_, "nearest", bool(self.outside), *self._how()
        )

    def _how(self) -> tuple[str, int | None]:
        return self.backend, self.n_jobs
