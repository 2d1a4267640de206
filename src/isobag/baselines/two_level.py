"""Group detectors made of parts: an embedding of groups with a point detector, or a point detector alone."""

from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import clone

from isobag.backends.arrays import Floats
from isobag.data.groups import Groups
from isobag.estimators.base import GroupDetector

_CHUNK_POINTS = 1 << 16


class TwoLevelGroupDetector(GroupDetector):
    """Level 1 turns every group into one point, level 2 is a point detector on those points.

    g_j = embedding of group j, (features,); score of group j = level2's score of g_j. With Gaussian or isolation
    kernels at either level these are GDK^2, IDK-GDK and IDK-OCSVM:

    =========  ======================================  ====================================================
    IDK-GDK    ``IsolationDistributionalKernel(...)``  ``GaussianPointDetector(bandwidth, scaling=None)``
    GDK^2      ``RecursiveNystroem(...)``              the same with ``approximation="nystroem"``
    IDK-OCSVM  ``IsolationDistributionalKernel(...)``  ``OneClassSVM(kernel="linear")``
    =========  ======================================  ====================================================

    Parameters
    ----------
    level1 : has ``fit(X)`` and ``embed(X, groups)`` -> (groups, features), dense or CSR, in order of first appearance;
        or is a scikit-learn transformer, whose transformed points are averaged over each group.
    level2 : has ``fit`` and ``score_samples``, or else ``decision_function``; higher = more normal.
    contamination : share of odd groups that ``predict`` assumes, or ``"auto"``: two deviations below the mean score.

    Neither part is changed: ``level1_`` and ``level2_`` are fitted copies.
    """

    def __init__(self, level1: Any, level2: Any, *, contamination: float | Literal["auto"] = "auto") -> None:
        self.level1 = level1
        self.level2 = level2
        self.contamination = contamination

    def _fit_groups(self, groups: Groups) -> Floats:
        self.level1_ = clone(self.level1, safe=False).fit(groups.points)
        embedded = embed_groups(self.level1_, groups)
        self.level2_ = clone(self.level2, safe=False).fit(embedded)
        return score_points(self.level2_, embedded)

    def _score_groups(self, groups: Groups) -> Floats:
        return score_points(self.level2_, embed_groups(self.level1_, groups))


class AveragedPointScores(GroupDetector):
    """The strawman: score of a group = mean score of its points, by a point detector that knows of no groups.

    It finds groups of odd points, and misses groups that are odd only as a whole.

    Parameters
    ----------
    detector : has ``fit`` and ``score_samples``, or else ``decision_function``; higher = more normal.
    contamination : share of odd groups that ``predict`` assumes, or ``"auto"``: two deviations below the mean score.
    """

    def __init__(self, detector: Any, *, contamination: float | Literal["auto"] = "auto") -> None:
        self.detector = detector
        self.contamination = contamination

    def _fit_groups(self, groups: Groups) -> Floats:
        self.detector_ = clone(self.detector, safe=False).fit(groups.points)
        return self._score_groups(groups)

    def _score_groups(self, groups: Groups) -> Floats:
        return groups.mean_per_group(score_points(self.detector_, groups.points))


def embed_groups(level1: Any, groups: Groups) -> Any:
    """Every group as one point, by the fitted level 1: (groups, features), dense or CSR."""
    if hasattr(level1, "embed"):
        return level1.embed(groups.points, groups.ids)
    return mean_features(level1, groups)


def mean_features(transformer: Any, groups: Groups) -> Any:
    """Average transformed point of each group, some ten thousand points at a time: (groups, features)."""
    weights, points = 1 / groups.sizes, groups.points
    total: Any = 0
    for start in range(0, len(points), _CHUNK_POINTS):
        # 32-bit indices: scikit-learn's SVMs refuse sparse input with wider ones.
        ids = groups.ids[start : start + _CHUNK_POINTS].astype(np.int32)
        shares = sparse.csr_array(
            (weights[ids], (ids, np.arange(len(ids), dtype=np.int32))), shape=(len(groups), len(ids))
        )
        features = transformer.transform(points[start : start + _CHUNK_POINTS])
        total = shares @ features + total
    return total


def score_points(detector: Any, X: Any) -> Floats:
    """Scores of a fitted point detector, higher = more normal: (n, features) -> (n,)."""
    score = getattr(detector, "score_samples", None) or getattr(detector, "decision_function", None)
    if score is None:
        raise TypeError(f"{type(detector).__name__} can fit but not score; need score_samples or decision_function.")
    return np.asarray(score(X), dtype=np.float64).reshape(-1)
