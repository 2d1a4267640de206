"""What is usual at a size: location and scale of a number that depends on how many points a group has.

The default uses a straight line in log size, ``SizeLine``: too stiff to learn that groups of some size are odd. Sums
are exact (``math.fsum``) and quantiles do not depend on an order, so the same groups in any order give the same bits.
"""

from dataclasses import dataclass
from functools import cached_property
from math import fsum

import numpy as np

from isobag.backends.arrays import MOST_ROWS, Bools, Floats, Ints
from isobag.backends.learned import TINY, Learned, check, demand

NORMAL_SPREAD = 1.4826
"""A standard deviation in median absolute deviations, of normal numbers."""
_ROUNDS = 25
_LEAST_SQUARES = 1e-9
LEAST_FOR_LINE = 30
"""Fewer groups show no slope."""
_QUANTILE, _NORMAL_QUANTILE = 0.75, 1.1503493803760079
"""The scale is this quantile of absolute deviations, divided by that of normal numbers."""
_OUTER, _NORMAL_OUTER = 0.9, 1.6448536269514722
_EQUAL = 0.02
"""Deviations below this many units are none."""
_MOST_SCALE_SLOPE = 0.3
_KEPT = 2.5


@dataclass(frozen=True)
class SizeLine(Learned):
    """Location and scale at each size, straight in log size between two sizes and constant beyond them.

    location + slope x, and scale exp(scale_slope x), with x = log n - middle for log n from ``low`` to ``high``.
    """

    middle: float
    low: float
    high: float
    slope: float
    location: float
    scale_slope: float
    scale: float

    def validate(self) -> None:
        """Finite numbers, and a scale above 0."""
        check("line", (self.middle, self.slope, self.location), (3,))
        check("low", self.low, (), high=self.high)
        check("high", self.high, ())
        check("scale_slope", self.scale_slope, (), -_MOST_SCALE_SLOPE, _MOST_SCALE_SLOPE)
        check("scale", self.scale, (), TINY)

    def normalise(self, values: Floats, sizes: Ints) -> Floats:
        """(value - location) / scale at each size: (g,) -> (g,)."""
        x = np.clip(np.log(sizes), self.low, self.high) - self.middle
        return (values - (self.location + self.slope * x)) / (self.scale * np.exp(self.scale_slope * x))


def fit_size_line(
    values: Floats, sizes: Ints, unit: float, least_scale: float, most_scale: float = np.inf, *, sloped: bool = False
) -> SizeLine:
    """The line of groups with these values and sizes: (g,).

    The slope is that of the half of the groups that lies nearest to a line (least trimmed squares, from a level start),
    then of all that lie near it: a fifth of the groups can be odd, all of them the largest ones, and not move it.
    ``unit``: how large values are; the scale is from ``least_scale`` to ``most_scale`` units. Where most values are
    equal, it is that of the others, within these bounds. ``sloped``: whether the scale depends on size too.
    """
    x = np.log(sizes)
    middle = fsum(x.tolist()) / len(x)
    slope, is_near = _fit_slope(x - middle, values)
    low, high = float(x[is_near].min()), float(x[is_near].max())
    at = np.clip(x, low, high) - middle
    rest = values - slope * at
    location = float(np.median(rest))
    rest = rest - location
    scale_slope = _fit_scale_slope(at, np.abs(rest), _EQUAL * unit) if sloped else 0.0
    rest = rest / np.exp(scale_slope * at)
    scale = _scale(np.abs(rest), _EQUAL * unit)
    if unit > 0:
        scale = min(max(scale, least_scale * unit), most_scale * unit)
    return SizeLine(middle, low, high, slope, location, scale_slope, scale)


@dataclass(frozen=True, eq=False)
class SizeEvidence(Learned):
    """How many points groups have: a number of points can be unusual, whatever the points are.

    sizes : (m,) of groups of ``fit``, in rising order.
    """

    sizes: Ints

    def validate(self) -> None:
        """Sizes in rising order."""
        check("sizes", self.sizes, (None,), 1, MOST_ROWS)
        demand(len(self.sizes) > 0 and np.all(np.diff(self.sizes) >= 0), "sizes are not in rising order")

    @cached_property
    def usual(self) -> tuple[float, float]:
        """Median and spread of log size.

        The spread is the largest of three: from the central three quarters, from the outermost tenth, and
        1 / sqrt(median), since a number of points scatters by its root at least. So where sizes extend over decades,
        none is odd.
        """
        x = np.log(self.sizes)
        middle = float(np.median(x))
        spreads = np.quantile(np.abs(x - middle), (_QUANTILE, _OUTER)) / (_NORMAL_QUANTILE, _NORMAL_OUTER)
        return middle, max(float(spreads.max()), float(np.exp(-middle / 2)))

    def oddness(self, sizes: Ints) -> Floats:
        """By how many spreads log sizes lie below or above the median: (g,), 0 or more."""
        middle, spread = self.usual
        return np.abs(np.log(sizes) - middle) / spread

    def p_values(self, sizes: Ints) -> Floats:
        """Two-sided conformal p-values of the sizes of new groups, ties counted on both sides: (g,) in (0, 1]."""
        n = len(self.sizes) + 1
        as_small = 1 + np.searchsorted(self.sizes, sizes, side="right")
        as_large = n - np.searchsorted(self.sizes, sizes, side="left")
        return np.minimum(2 * np.minimum(as_small, as_large) / n, 1.0)


def normal_scale(away: Floats) -> Floats:
    """Standard deviations of normal numbers with these absolute deviations: (g, ...) -> (...)."""
    scale: Floats = np.quantile(away, _QUANTILE, axis=0) / _NORMAL_QUANTILE
    return scale


def _fit_slope(x: Floats, values: Floats) -> tuple[float, Bools]:
    """Slope of most of the groups, and which of them lie near their line."""
    if len(x) < LEAST_FOR_LINE:
        return 0.0, np.ones(len(x), dtype=bool)
    slope, location = 0.0, float(np.median(values))
    half = (len(x) + 1) // 2
    for _ in range(_ROUNDS):
        away = np.abs(values - (location + slope * x))
        is_near = away <= np.partition(away, half - 1)[half - 1]
        before = slope
        slope, location = _straight(x[is_near], values[is_near])
        if slope == before:
            break
    rest = np.sort(values - slope * x)
    first = int(np.argmin(rest[half - 1 :] - rest[: len(rest) - half + 1]))  # the shortest half
    away = np.abs(values - slope * x - (rest[first] + rest[first + half - 1]) / 2)
    is_near = away <= _KEPT * NORMAL_SPREAD * np.median(away)
    return _straight(x[is_near], values[is_near])[0], is_near


def _straight(x: Floats, values: Floats) -> tuple[float, float]:
    """Slope and location of least squares; level where all sizes are equal."""
    mean_x, mean = fsum(x.tolist()) / len(x), fsum(values.tolist()) / len(values)
    away = x - mean_x
    squares = fsum((away * away).tolist())
    slope = fsum((away * (values - mean)).tolist()) / squares if squares > _LEAST_SQUARES else 0.0
    return slope, mean - slope * mean_x


def _fit_scale_slope(at: Floats, away: Floats, tiny: float) -> float:
    """How the logarithm of deviations (g,) rises with log size, from the medians of the smaller and larger groups."""
    middle = np.median(at)
    small, large = at < middle, at > middle
    if min(small.sum(), large.sum()) < LEAST_FOR_LINE:
        return 0.0
    lower, upper = np.median(away[small]), np.median(away[large])
    if min(lower, upper) <= tiny:
        return 0.0
    slope = (np.log(upper) - np.log(lower)) / (np.median(at[large]) - np.median(at[small]))
    return float(np.clip(slope, -_MOST_SCALE_SLOPE, _MOST_SCALE_SLOPE))


def _scale(away: Floats, tiny: float) -> float:
    """Standard deviation from a quantile of absolute deviations: of all groups, else of those that deviate, else 1."""
    for deviations in (away, away[away > tiny]):
        scale = float(normal_scale(deviations)) if len(deviations) else 0.0
        if scale > tiny:
            return scale
    return 1.0


def size_classes(sizes: Ints, n_classes: int) -> Ints:
    """Upper bounds of all but the last of a number of classes with about as many groups in each, ascending."""
    values, counts = np.unique(sizes, return_counts=True)
    target, first, bounds = len(sizes) / n_classes, 0, []
    for value, end in zip(values.tolist(), np.cumsum(counts).tolist(), strict=True):
        if end - first >= 0.999 * target and len(sizes) - end >= 0.5 * target:
            bounds.append(value)
            first = end
    return np.array(bounds, dtype=np.int64)
