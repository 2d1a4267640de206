"""Why a point is odd: its lack of similarity, shared out among the features."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Bools, Cells, Floats, octaves
from isobag.backends.threads import slices
from isobag.models.averaging import Average
from isobag.models.views import Limits, View

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


class Located:
    """Where rows (n, d) are in a view: one search for all levels, when it is first asked for."""

    def __init__(self, view: View, X: Floats, compute: Compute) -> None:
        self._drawn, self._compute = view.partitionings, compute
        self.scaled = view.scaling.apply(X)
        self._queries = self._drawn.prepare(self.scaled, compute)
        self.anchors = self._drawn.anchors()

    @cached_property
    def _cells(self) -> Cells:
        return self._drawn.assign_levels(self._queries, self._compute)

    @cached_property
    def _nearest(self) -> Cells:
        return self._drawn.nearest_levels(self._queries, self._compute)

    def cells(self, level: int, rule: str = "nearest") -> Cells:
        """Cell of each row in each partitioning of a level: (n, t)."""
        if rule == "nearest":
            cells: Cells = self._cells[level].T
            return cells
        return self._drawn.at(level).assign(self._queries, self._compute, rule)

    def nearest(self, level: int) -> Cells:
        """The cell whose anchor is the nearest: (n, t)."""
        nearest: Cells = self._nearest[level].T
        return nearest


def lack_by_feature(
    located: Sequence[Located], shares: Sequence[Shares], average: Average, path: Floats, rule: str
) -> Floats:
    """Minus the logarithm of the score, shared out among the features: of n rows, (n, d), whose rows sum to it.

    In one partitioning a point lacks what its cell lacks of the whole: 1 minus the share of the data in it, all of it
    if the point is OUTSIDE. The lack goes to the features by their part in the squared distance to the nearest anchor
    (or to that of its own group's fullest cell, see ``baseline``), sum_j (x_j - c_j)^2; evenly, if the point is an
    anchor or there is none. The shares of all partitionings are added up at each psi and those of all psi weighted as
    in the score.
    """
    shape = located[0].scaled.shape
    total = np.zeros(shape)
    lacks = -average.logarithms(path)
    for level, weight in enumerate(average.weights):
        if weight == 0:
            continue
        parts = np.zeros(shape)
        for rows, own in zip(located, shares, strict=True):
            parts += _shares_of_lack(rows, own, level, rule)
        sums = parts.sum(axis=1, keepdims=True)
        parts = np.divide(parts, sums, out=np.full(shape, 1 / shape[1]), where=sums > 0)
        total += weight * lacks[:, level, None] * parts
    return total


def _shares_of_lack(located: Located, shares: Shares, level: int, rule: str) -> Floats:
    """Lack of each row shared out among the features, summed over the partitionings of one psi: (n, d)."""
    lacks, d = 1 - shares.at(level, located.cells(level, rule)), located.scaled.shape[1]
    if located.anchors is None:
        return np.repeat(lacks.sum(axis=1, keepdims=True) / d, d, axis=1)
    nearest = shares.usual(level, located.nearest(level))
    return _shared_by_steps(located.scaled, nearest, located.anchors, lambda rows, sq_dists: lacks[rows])


def far_by_feature(located: Sequence[Located], limits: Limits) -> Floats:
    """Shares of the features in how far out n rows are, by their part in the squared distances: (n, d), sums 1 or 0."""
    total = np.zeros(located[0].scaled.shape)
    for level in np.flatnonzero(limits[0] >= 0).tolist():
        for rows, own in zip(located, limits, strict=True):
            amounts = partial(_octaves_beyond, rows.cells(level) == OUTSIDE, int(own[level]))
            total += _shared_by_steps(rows.scaled, rows.nearest(level), rows.anchors, amounts)
    sums = total.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(total, sums, out=np.zeros(total.shape), where=sums > 0)
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
