"""Synthetic sets of the paper that only its pictures need; the constructions are ours, as in ``isobag.datasets``."""

from typing import NamedTuple

import numpy as np
from scipy.stats import truncnorm

from isobag.backends.arrays import Floats, Ints
from isobag.datasets import Points
from isobag.datasets.synthetic import Seed, stacked


class GroupsAroundMeans(NamedTuple):
    """``GroupSet`` that are told apart by where they lie: also ``means`` (groups, d) and ``clusters`` (groups,).

    ``clusters`` is the cluster each mean was drawn from (-1: from none of them).
    """

    X: Floats
    groups: Ints
    y: Ints
    means: Floats
    clusters: Ints


def make_density_peaks(*, random_state: Seed = None) -> GroupsAroundMeans:
    """Three density peaks in 1-D: 1,500 groups of 100 points N(mu, 1), every mu in [-15, 25]; y is all 0.

    The means form peaks at 18, 8 and -2, of falling height: 750, 430 and 245 means from normal distributions of
    standard deviation 2, 2.25 and 2.5 cut off at the ends of the interval (clusters 0, 1, 2); 75 more are uniform on it
    (cluster -1), so that there are groups between the peaks and at the fringes.
    """
    rng = np.random.default_rng(random_state)
    low, high = -15.0, 25.0
    peaks, spreads = np.array([18.0, 8.0, -2.0]), np.array([2.0, 2.25, 2.5])
    clusters = rng.permutation(np.repeat([0, 1, 2, -1], [750, 430, 245, 75]))
    loc, scale = peaks[clusters], spreads[clusters]
    near_peaks = truncnorm.rvs((low - loc) / scale, (high - loc) / scale, loc=loc, scale=scale, random_state=rng)
    means = np.where(clusters < 0, rng.uniform(low, high, len(clusters)), near_peaks)[:, None]
    return _around_means(means, clusters, 100, rng)


def make_dense_and_sparse(*, random_state: Seed = None) -> GroupsAroundMeans:
    """One dense and one sparse cluster of groups in the plane: 1,000 groups of 100 points N(mu, 0.25 I); y is all 0.

    500 means are drawn from N((0, 0), 0.25 I), the dense cluster 0, and 500 from N((8, 8), 2.25 I), the sparse
    cluster 1, three times as wide. All groups have the same variance.
    """
    rng = np.random.default_rng(random_state)
    clusters = rng.permutation(np.repeat([0, 1], 500))
    middles, spreads = np.array([0.0, 8.0]), np.array([0.5, 1.5])
    means = middles[clusters, None] + spreads[clusters, None] * rng.standard_normal((len(clusters), 2))
    return _around_means(means, clusters, 100, rng, spread=0.5)


def make_local_and_clustered(*, random_state: Seed = None) -> Points:
    """Local and clustered anomalies in 1-D: 1,500 normal points in three clusters, 20 anomalies in a small far one.

    Normal: 500 points each from N(0, 0.5^2), N(8, 1^2) and N(20, 2^2). Anomalous: N(36, 0.3^2), last in ``X``. The
    points at the fringes of the three clusters are the local anomalies; they bear no label.
    """
    rng = np.random.default_rng(random_state)
    sizes = [500, 500, 500, 20]
    middles, spreads = np.repeat([0.0, 8.0, 20.0, 36.0], sizes), np.repeat([0.5, 1.0, 2.0, 0.3], sizes)
    X = middles + spreads * rng.standard_normal(len(middles))
    return Points(X[:, None], np.repeat([0, 0, 0, 1], sizes))


def _around_means(
    means: Floats, clusters: Ints, n_points: int, rng: np.random.Generator, spread: float = 1.0
) -> GroupsAroundMeans:
    """Groups N(mean, spread^2 I) that differ in nothing but their means: (groups, d), (groups,) -> the set."""
    X = means[:, None] + spread * rng.standard_normal((len(means), n_points, means.shape[1]))
    return GroupsAroundMeans(*stacked(X, np.zeros(len(means), dtype=np.int64)), means, clusters)
