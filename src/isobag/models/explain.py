"""Why a point is odd: its lack of similarity, shared out among the features."""

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Floats
from isobag.backends.threads import slices
from isobag.models.averaging import Average
from isobag.models.views import View, Views

_KEPT_NUMBERS = 1 << 22


def lack_by_feature(
    views: Views, tables: list[Floats], average: Average, path: Floats, X: Floats, compute: Compute, rule: str
) -> Floats:
    """Minus the logarithm of the score, shared out among the features: X (n, d) -> (n, d), whose rows sum to it.

    In one partitioning a point lacks what its cell lacks of the whole: 1 minus the share of the data in it, all of it
    if the point is OUTSIDE. The lack goes to the features by their part in the squared distance to the nearest anchor,
    sum_j (x_j - c_j)^2; evenly, if the point is an anchor or there is none. The shares of all partitionings are added
    up at each psi and those of all psi weighted as in the score.
    """
    total = np.zeros(X.shape)
    lacks = -average.logarithms(path)
    for level, weight in enumerate(average.weights):
        if weight == 0:
            continue
        shares = np.zeros(X.shape)
        for view, mean_maps in zip(views.at(level).members, tables, strict=True):
            shares += _shares_of_lack(view, mean_maps[level], X, compute, rule)
        sums = shares.sum(axis=1, keepdims=True)
        shares = np.divide(shares, sums, out=np.full(X.shape, 1 / X.shape[1]), where=sums > 0)
        total += weight * lacks[:, level, None] * shares
    return total


def _shares_of_lack(view: View, mean_map: Floats, X: Floats, compute: Compute, rule: str) -> Floats:
    """Lack of each row shared out among the features, summed over the partitionings of one psi: (n, d)."""
    scaled = view.scaling.apply(X)
    partitionings = view.partitionings
    queries = partitionings.prepare(scaled, compute)
    cells = partitionings.assign(queries, compute, rule)
    t = np.arange(len(partitionings))
    lacks = 1 - np.where(cells == OUTSIDE, 0.0, mean_map[t, cells])
    anchors = partitionings.anchors()
    if anchors is None:
        return np.repeat(lacks.sum(axis=1, keepdims=True) / X.shape[1], X.shape[1], axis=1)
    points, slots = anchors
    nearest = partitionings.nearest_anchors(queries, compute)
    found = np.empty(X.shape)
    for rows in slices(len(X), max(1, _KEPT_NUMBERS // (len(t) * X.shape[1]))):
        steps = (scaled[rows, None] - points[slots[t, nearest[rows]]]) ** 2
        lengths = steps.sum(axis=2, keepdims=True)
        steps = np.divide(steps, lengths, out=np.full(steps.shape, 1 / X.shape[1]), where=lengths > 0)
        found[rows] = np.einsum("it,itj->ij", lacks[rows], steps)
    return found
