"""Why a point is odd: minus the logarithm of its score, split over the features."""

from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Cells, Floats, Ints, octaves
from isobag.backends.threads import slices
from isobag.models.averaging import Average
from isobag.models.views import View

_KEPT_NUMBERS = 1 << 20


class Shares(Protocol):
    """What rows are looked up in: the mean map of one view at every level."""

    def at(self, level: int, cells: Cells) -> Floats:
        """Share of the map in the cells of rows, 0 if OUTSIDE: (n, t) -> (n, t)."""

    def usual(self, level: int, nearest: Cells, starts: Ints) -> Cells:
        """Slots whose centers rows are to be compared with, from the nearest: (n, t); samples begin at starts (t,)."""


class SharesOfAll(NamedTuple):
    """The mean map of all rows, (L, S): a row is compared with the nearest centers."""

    mean_maps: Floats

    def at(self, level: int, cells: Cells) -> Floats:
        """Share of the data in the cells of rows: (n, t)."""
        return np.where(cells == OUTSIDE, 0.0, self.mean_maps[level][cells])

    def usual(self, level: int, nearest: Cells, starts: Ints) -> Cells:
        """The nearest centers."""
        return nearest


class Places:
    """Where rows (n, d) are in a view: one search for all levels, made when first needed."""

    def __init__(self, view: View, X: Floats, compute: Compute) -> None:
        self.drawn, self._compute = view.balls, compute
        self.scaled = view.scaling.apply(X)

    @cached_property
    def _cells(self) -> list[Cells]:
        cells = self._compute.fetch(self.drawn.assign(self._compute.place(self.scaled), self._compute)[0])
        return np.split(cells, self.drawn.cut.ends[1:-1])

    @cached_property
    def _nearest(self) -> list[Cells]:
        nearest = self.drawn.nearest(self._compute.place(self.scaled), self._compute)
        return np.split(nearest, self.drawn.cut.ends[1:-1])

    def cells(self, level: int) -> Cells:
        """Cell of each row in each sample of a level: (n, t)."""
        return self._cells[level].T

    def nearest(self, level: int) -> Cells:
        """The slot of the nearest center of each sample: (n, t)."""
        return self._nearest[level].T


def contribution_by_feature(places: Places, shares: Shares, average: Average, path: Floats) -> Floats:
    """Minus the logarithm of the score, split over the features: (n, d); each row sums to it.

    In one sample a point misses the share of the data outside its cell, all of it if the point is OUTSIDE. That share
    is split over the features by their part in the squared distance to the nearest center (or to that of its own
    group's fullest cell, see ``baseline``), sum_j (x_j - c_j)^2; evenly, if the point is a center. The shares of all
    samples are added up at each psi, and those of all psi are weighted as in the score.
    """
    shape = places.scaled.shape
    total = np.zeros(shape)
    surprises = -average.logarithms(path)
    for level, weight in enumerate(average.weights):
        if weight == 0:
            continue
        missing = 1 - shares.at(level, places.cells(level))
        centers = shares.usual(level, places.nearest(level), places.drawn.cut.starts[level])
        parts = _shared_by_steps(places, centers, missing)
        sums = parts.sum(axis=1, keepdims=True)
        parts = np.divide(parts, sums, out=np.full(shape, 1 / shape[1]), where=sums > 0)
        total += weight * surprises[:, level, None] * parts
    return total


def far_by_feature(places: Places, limits: Ints) -> Floats:
    """Shares of the features in how far out n rows are, by their part in the squared distances: (n, d), sums 1 or 0."""
    total = np.zeros(places.scaled.shape)
    for level in np.flatnonzero(limits >= 0).tolist():
        total += places.drawn.cut.far_weights[level] * _shared_by_steps(
            places, places.nearest(level), (places.cells(level) == OUTSIDE).astype(np.float64), int(limits[level])
        )
    sums = total.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(total, sums, out=np.zeros(total.shape), where=sums > 0)
    return shares


def _shared_by_steps(places: Places, centers: Cells, amounts: Floats, limit: int | None = None) -> Floats:
    """Amounts (n, t) split by the parts of features in the squared distance to centers (n, t), summed: (n, d).

    With ``limit`` an amount counts as many times as the distance exceeds it in octaves.
    """
    scaled, pool, slots = places.scaled, places.drawn.pool, places.drawn.slots
    n_features = scaled.shape[1]
    shares = np.empty(scaled.shape)
    for rows in slices(len(scaled), max(1, _KEPT_NUMBERS // (centers.shape[1] * n_features))):
        steps = (scaled[rows, None].astype(np.float64) - pool[slots[centers[rows]]]) ** 2
        lengths = steps.sum(axis=2, keepdims=True)
        parts = np.divide(steps, lengths, out=np.full(steps.shape, 1 / n_features), where=lengths > 0)
        weights = amounts[rows]
        if limit is not None:
            weights = weights * np.maximum(octaves(lengths[:, :, 0].astype(np.float32)) - limit, 0)
        shares[rows] = np.einsum("it,itj->ij", weights, parts)
    return shares
