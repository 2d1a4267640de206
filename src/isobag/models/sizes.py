"""What is usual at a size: location and scale of a number that depends on how many points a group has.

Sums are exact (``math.fsum``) and medians do not mind an order, so the same groups in any order give the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

import numpy as np

from isobag.backends.arrays import MOST_ROWS, Floats, Ints, held

LEAST_IN_CLASS = 30
MOST_CLASSES = 20
NORMAL_SPREAD = 1.4826
"""A standard deviation in median absolute deviations, of normal numbers."""
_LEAST_SCALE = 1e-3
_ROUNDS = 25
_BOUND = 1.5


@dataclass(frozen=True)
class SizeCurve:
    """Location and scale at each size: a trend, and what classes of size add to it.

    trend (3,): quadratic in log size, constant above ``largest``; locations (c,) and log scales (c,) at rising log
    sizes (c,) are linear in between and constant beyond the ends.
    """

    trend: Floats = held(1)
    largest: int = held(0, 1, MOST_ROWS)
    log_sizes: Floats = held(1)
    locations: Floats = held(1)
    log_scales: Floats = held(1)

    def normalise(self, values: Floats, sizes: Ints) -> Floats:
        """(value - location) / scale at each size: (g,) -> (g,)."""
        at = np.log(np.minimum(sizes, self.largest))
        location = _trend(self.trend, at) + np.interp(at, self.log_sizes, self.locations)
        return (values - location) / np.exp(np.interp(at, self.log_sizes, self.log_scales))

    def problems(self) -> Iterator[str]:
        """What does not fit together, of fields that come from a file."""
        if self.trend.shape != (3,):
            yield "curve: need three numbers for the trend"
        n_classes = len(self.log_sizes)
        if not n_classes or not n_classes == len(self.locations) == len(self.log_scales):
            yield "curve: sizes, locations and scales differ in length"
        if np.any(np.diff(self.log_sizes) <= 0):
            yield "curve: sizes are not in rising order"
        if not np.isfinite([*self.trend, *self.log_sizes, *self.locations, *self.log_scales]).all():
            yield "curve: need finite numbers"


def fit_size_curve(values: Floats, sizes: Ints, of_points: Floats) -> SizeCurve:
    """The curve of groups with these values and sizes (g,); ``of_points`` (p,) are values of single points.

    The trend is fitted robustly; then classes of groups in order of size, at least 30 in each, have a median and a
    median absolute deviation. A class is a run of whole sizes: groups of one size are never split. Single points are a
    class of their own, so that the curve reaches down to one point.
    """
    at = np.log(sizes)
    trend = np.zeros(3)
    if len(values) >= LEAST_IN_CLASS and len(np.unique(sizes)) > 3:
        trend = _fit_trend(at, values)
    rest = values - _trend(trend, at)
    least = max(_LEAST_SCALE * float(np.median(np.abs(values))), 1e-12)
    knots = []
    if len(of_points) >= LEAST_IN_CLASS and sizes.min() > 1:
        knots.append((0.0, *_middle(of_points - trend[0])))  # log 1 = 0
    for own in _classes(sizes):
        knots.append((fsum(at[own]) / len(own), *_middle(rest[own])))
    log_sizes, locations, scales = np.array(knots).T
    return SizeCurve(trend, int(sizes.max()), log_sizes, locations, np.log(np.maximum(scales, least)))


def size_classes(sizes: Ints, n_classes: int) -> Ints:
    """Upper bounds of all but the last of a number of classes with about as many groups in each, ascending."""
    bounds = [int(sizes[own].max()) for own in _classes(sizes, n_classes)]
    return np.array(bounds[:-1], dtype=np.int64)


def _classes(sizes: Ints, n_classes: int | None = None) -> list[Ints]:
    """Runs of whole sizes with about as many groups in each: numbers of the groups."""
    order = np.argsort(sizes, kind="stable")
    wanted = int(np.clip(len(sizes) // LEAST_IN_CLASS, 1, MOST_CLASSES)) if n_classes is None else n_classes
    target = len(sizes) / wanted
    _, starts = np.unique(sizes[order], return_index=True)
    found, first = [], 0
    for end in (*starts[1:].tolist(), len(sizes)):
        is_full = end - first >= 0.999 * target and len(sizes) - end >= 0.5 * target
        if is_full or end == len(sizes):
            found.append(order[first:end])
            first = end
    return found


def _middle(values: Floats) -> tuple[float, float]:
    """Median, and median absolute deviation in units of a standard deviation."""
    location = float(np.median(values))
    return location, NORMAL_SPREAD * float(np.median(np.abs(values - location)))


def _trend(trend: Floats, at: Floats) -> Floats:
    found: Floats = trend[0] + at * (trend[1] + at * trend[2])
    return found


def _fit_trend(at: Floats, values: Floats) -> Floats:
    """Huber's regression on 1, x, x^2: residuals beyond 1.5 spreads count less."""
    weights = np.ones(len(at))
    trend = np.zeros(3)
    for _ in range(_ROUNDS):
        trend = _solve(at, values, weights)
        residuals = np.abs(values - _trend(trend, at))
        bound = _BOUND * NORMAL_SPREAD * float(np.median(residuals))
        if bound <= 0:
            break
        weights = np.minimum(1, bound / np.maximum(residuals, np.finfo(float).tiny))
    return trend


def _solve(at: Floats, values: Floats, weights: Floats) -> Floats:
    """Weighted least squares, on a scale on which the powers are nearly independent."""
    middle, spread = fsum(at) / len(at), float(np.ptp(at)) / 2
    x = (at - middle) / spread
    moments = [fsum(weights * x**k) for k in range(5)]
    matrix = np.array([[moments[i + j] for j in range(3)] for i in range(3)])
    a, b, c = np.linalg.solve(matrix, [fsum(weights * x**k * values) for k in range(3)])
    b, c = b / spread, c / spread**2
    return np.array([a - b * middle + c * middle**2, b - 2 * c * middle, c])
