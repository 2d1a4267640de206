"""Why a point is odd: its lack of similarity, shared out among the features."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Bools, Cells, Floats, octaves
from isobag.backends.threads import slices
from isobag.models.averaging import Average
from isobag.models.views import Limits, View, Views

_KEPT_NUMBERS = 1 << 22


class Shares(Protocol):
    """What rows are looked up in: the mean map of one view at every level."""

    def at(self, level: int, cells: Cells) -> Floats:
        """Share of the map in the cells of rows, 0 if OUTSIDE: (n, t) -> (n, t)."""

    def usual(self, level: int, nearest: Cells) -> Cells:
        """The cells whose anchors rows are to be compared with, from those of the nearest anchors: (n, t)."""


class SharesOfAll(NamedTuple):
    """The mean map of all rows, (L, t, psi): a row is compared with the nearest anchors."""

    mean_maps: Floats

    def at(self, level: int, cells: Cells) -> Floats:
        """Share of the data in the cells of rows: (n, t)."""
        return np.where(cells == OUTSIDE, 0.0, self.mean_maps[level][np.arange(cells.shape[1]), cells])

    def usual(self, level: int, nearest: Cells) -> Cells:
        """The nearest anchors."""
        return nearest


def lack_by_feature(
    views: Views, shares: Sequence[Shares], average: Average, path: Floats, X: Floats, compute: Compute, rule: str
) -> Floats:
    """Minus the logarithm of the score, shared out among the features: X (n, d) -> (n, d), whose rows sum to it.

    In one partitioning a point lacks what its cell lacks of the whole: 1 minus the share of the data in it, all of it
    if the point is OUTSIDE. The lack goes to the features by their part in the squared distance to the nearest anchor
    (or to that of its own group's fullest cell, see ``baseline``), sum_j (x_j - c_j)^2; evenly, if the point is an
    anchor or there is none. The shares of all partitionings are added up at each psi and those of all psi weighted as
    in the score.
    """
    total = np.zeros(X.shape)
    lacks = -average.logarithms(path)
    for level, weight in enumerate(average.weights):
        if weight == 0:
            continue
        parts = np.zeros(X.shape)
        for view, own in zip(views.at(level).members, shares, strict=True):
            parts += _shares_of_lack(view, own, level, X, compute, rule)
        sums = parts.sum(axis=1, keepdims=True)
        parts = np.divide(parts, sums, out=np.full(X.shape, 1 / X.shape[1]), where=sums > 0)
        total += weight * lacks[:, level, None] * parts
    return total


def _shares_of_lack(view: View, shares: Shares, level: int, X: Floats, compute: Compute, rule: str) -> Floats:
    """Lack of each row shared out among the features, summed over the partitionings of one psi: (n, d)."""
    scaled = view.scaling.apply(X)
    partitionings = view.partitionings
    queries = partitionings.prepare(scaled, compute)
    cells = partitionings.assign(queries, compute, rule)
    lacks = 1 - shares.at(level, cells)
    anchors = partitionings.anchors()
    if anchors is None:
        return np.repeat(lacks.sum(axis=1, keepdims=True) / X.shape[1], X.shape[1], axis=1)
    nearest = shares.usual(level, partitionings.nearest_anchors(queries, compute))
    return _shared_by_steps(scaled, nearest, anchors, lambda rows, sq_dists: lacks[rows])


def far_by_feature(views: Views, limits: Limits, X: Floats, compute: Compute) -> Floats:
    """Shares of the features in how far out rows are, by their part in the squared distances: (n, d), sums 1 or 0."""
    total = np.zeros(X.shape)
    for level in np.flatnonzero(limits[0] >= 0):
        for view, own in zip(views.at(int(level)).members, limits, strict=True):
            scaled, drawn = view.scaling.apply(X), view.partitionings
            queries = drawn.prepare(scaled, compute)
            amounts = partial(_octaves_beyond, drawn.assign(queries, compute) == OUTSIDE, int(own[level]))
            total += _shared_by_steps(scaled, drawn.nearest_anchors(queries, compute), drawn.anchors(), amounts)
    sums = total.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(total, sums, out=np.zeros(X.shape), where=sums > 0)
    return shares


def _octaves_beyond(is_outside: Bools, limit: int, rows: slice, sq_dists: Floats) -> Floats:
    """Octaves of the squared distances beyond the limit, where OUTSIDE: (m, t)."""
    return np.where(is_outside[rows], np.maximum(octaves(sq_dists) - limit, 0), 0).astype(np.float64)


def _shared_by_steps(
    scaled: Floats, nearest: Cells, anchors: Any, amounts: Callable[[slice, Floats], Floats]
) -> Floats:
    """Amounts (n, t) shared out by the parts of features in the squared distance to anchors, summed: (n, d)."""
    points, slots = anchors
    n_features, t = scaled.shape[1], np.arange(len(slots))
    shares = np.empty(scaled.shape)
    for rows in slices(len(scaled), max(1, _KEPT_NUMBERS // (len(t) * n_features))):
        steps = (scaled[rows, None] - points[slots[t, nearest[rows]]]) ** 2
        lengths = steps.sum(axis=2, keepdims=True)
        parts = np.divide(steps, lengths, out=np.full(steps.shape, 1 / n_features), where=lengths > 0)
        shares[rows] = np.einsum("it,itj->ij", amounts(rows, lengths[:, :, 0]), parts)
    return shares
