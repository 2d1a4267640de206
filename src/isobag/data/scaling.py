"""Scales: the paper's [0, 1] and its friends, feature by feature, learned on training data.

Scaled numbers are made by additions, multiplications, divisions and square roots alone, which every machine rounds
alike, and never by a logarithm of some library: so the same rows have the same cells everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.special import ndtri

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, Bools, Floats, Ints, Knots, Singles
from isobag.backends.learned import LARGEST, Learned, check, demand
from isobag.backends.protocol import AnyBackend
from isobag.backends.threads import map_in_threads, slices
from isobag.data.rows import ArrayRows, Rows, sample_rows

T = TypeVar("T")

KNOTS = 1024
TAIL = 0.05
LEAST_SPREAD = 1e-6
"""A median absolute deviation below this share of the mean one is that of values that are practically equal."""
RARE = 0.01
"""A value that more rows than these have is none that was never seen."""
_TINY = float(np.finfo(float).tiny)
_LEAST, _MOST = _TINY * 2**-52, LARGEST
_COLUMNS = 8
"""Features copied together: their numbers fill a line of the cache."""


class Scaling(Learned, ABC):
    """A function of each feature, rising, so that boxes stay boxes."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features."""

    @abstractmethod
    def scale(self, X: Floats, backend: AnyBackend, n_jobs: int | None) -> Singles:
        """What a backend makes of X: (n, d)."""

    def apply(self, X: Floats, compute: Compute | None = None) -> Singles:
        """Scaled copy of X: (n, d), limited to +-1e15: a row that far out is OUTSIDE, and its square would overflow.

        ``compute`` says how, NumPy if it is None; the result is the same to the last bit.
        """
        how = Compute("numpy") if compute is None else compute
        return self.scale(X, how.backend, how.n_jobs)


@dataclass(frozen=True)
class LinearScaling(Scaling):
    """(x - shift) / spread: shift (d,), spread (d,)."""

    shift: Floats
    spread: Floats

    def validate(self) -> None:
        """A shift and a spread above 0 for each feature."""
        check("shift", self.shift, (None,), -FARTHEST, FARTHEST)
        check("spread", self.spread, self.shift.shape, _LEAST, LARGEST)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.shift)

    def scale(self, X: Floats, backend: AnyBackend, n_jobs: int | None) -> Singles:
        """(x - shift) / spread."""
        return backend.scale_linearly(X, self.shift, self.spread, n_jobs)


@dataclass(frozen=True)
class AsinhScaling(LinearScaling):
    """asinh((x - shift) / spread): as it is near the middle, its logarithm far out."""

    def scale(self, X: Floats, backend: AnyBackend, n_jobs: int | None) -> Singles:
        """Asinh of what is scaled linearly."""
        return backend.scale_by_asinh(X, self.shift, self.spread, n_jobs)


@dataclass(frozen=True)
class NormalScaling(Scaling):
    """Ranks mapped to a normal distribution: piecewise linear through knots, and on as a line beyond them.

    starts (d + 1,): feature j has the knots from starts[j] to starts[j + 1]; values and scores (m,) of all knots;
    slopes (m + d,): of the line before the first knot of a feature, after its first, after its second, ...
    """

    starts: Ints
    values: Floats
    scores: Floats
    slopes: Floats

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.starts) - 1

    def scale(self, X: Floats, backend: AnyBackend, n_jobs: int | None) -> Singles:
        """Score of the knot before x + slope * (x - that knot)."""
        return backend.scale_by_knots(X, Knots(self.starts, self.values, self.scores, self.slopes), n_jobs)

    def validate(self) -> None:
        """At least one knot for each feature, at rising values."""
        m = len(self.values)
        check("values", self.values, (None,), -FARTHEST, FARTHEST)
        check("scores", self.scores, (m,), -40, 40)
        check("starts", self.starts, (None,), 0, m)
        demand(len(self.starts) > 1 and self.starts[0] == 0 and self.starts[-1] == m, "knots belong to no feature")
        demand(np.all(np.diff(self.starts) > 0), "a feature has no knot")
        check("slopes", self.slopes, (m + self.n_features,), 0)
        rises = np.diff(self.values) > 0
        rises[self.starts[1:-1] - 1] = True  # from one feature to the next
        demand(np.all(rises), "knots do not rise")


@dataclass(frozen=True)
class ScalingData:
    """What all scalings are learned from: the range of each feature (d,), and a sample of the rows (m, d)."""

    low: Floats
    high: Floats
    rows: Rows
    n_jobs: int | None = None
    numbers: Ints | None = None

    @cached_property
    def sample(self) -> Floats:
        """Taken when it is first needed: ranges need none."""
        return sample_rows(self.rows) if self.numbers is None else self.rows.take(self.numbers)

    @property
    def is_constant(self) -> Bools:
        """Whether a feature has one value only: (d,)."""
        return np.equal(self.low, self.high)

    @property
    def half_range(self) -> Floats:
        """Half of the range of each feature, above 0: (d,)."""
        return np.maximum(self.high / 2 - self.low / 2, _TINY)

    @cached_property
    def shares_unseen(self) -> Floats:
        """How often a feature that is constant in the sample has another value, which is odd if it is rare: (d,)."""
        shares = np.full(len(self.low), 1 / len(self.sample))
        rare = np.flatnonzero((self.sample == self.sample[0]).all(axis=0) & ~self.is_constant)
        if len(rare) and self.rows.of_rows is not None:
            values = sample_rows(self.rows.of_rows)[:, rare]
            shares[rare] = np.maximum(1 / len(values), (values != self.sample[0, rare]).mean(axis=0))
        return np.where(shares > RARE, 0.25, shares)

    def of_columns(self, learn: Callable[[Floats], T], values: Floats | None = None) -> list[T]:
        """What a function learns from the sample of each feature, or from other values of it, (m,) at a time."""
        rows = self.sample if values is None else values

        def work(part: slice) -> list[T]:
            return [learn(column) for column in np.ascontiguousarray(rows[:, part].T)]

        parts = map_in_threads(work, slices(rows.shape[1], _COLUMNS), self.n_jobs)
        return [learned for part in parts for learned in part]

    def linear(self, shift: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Shift and spread; a feature that is constant has the least spread, so any other value is as far as can be.

        Where all values of the sample are equal, and not those of all rows, the others are as rare as can be.
        """
        # A constant feature has a mean and a deviation off by rounding; its spread is nothing all the same.
        usual = np.where(spread > 0, spread, np.maximum(4 * self.shares_unseen * self.half_range, _TINY))
        return np.where(self.is_constant, self.low, shift), np.where(self.is_constant, _TINY, usual)


def _minmax(data: ScalingData) -> Scaling:
    return LinearScaling(*data.linear(data.low, data.high - data.low))


def _standard(data: ScalingData) -> Scaling:
    middle = data.sample.mean(axis=0)
    return LinearScaling(*data.linear(middle, np.sqrt(((data.sample - middle) ** 2).mean(axis=0))))


def _absolute(data: ScalingData) -> Scaling:
    middle = data.sample.mean(axis=0)
    return LinearScaling(*data.linear(middle, np.abs(data.sample - middle).mean(axis=0)))


def _robust(data: ScalingData) -> Scaling:
    first, middle, third = np.quantile(data.sample, (0.25, 0.5, 0.75), axis=0)
    return LinearScaling(*data.linear(middle, np.where(third > first, third - first, data.high - data.low)))


def _asinh(data: ScalingData) -> Scaling:
    middle = np.array(data.of_columns(np.median))
    away = np.abs(data.sample - middle)
    spread = np.array(data.of_columns(np.median, away))
    mean = away.mean(axis=0)
    return AsinhScaling(*data.linear(middle, np.where(spread > LEAST_SPREAD * mean, spread, mean)))


def _normal(data: ScalingData) -> Scaling:
    knots = data.of_columns(_knots)
    for j, (values, _, slopes) in enumerate(knots):
        if len(values) == 1:
            far = -ndtri(data.shares_unseen[j] / 2) / (2 * data.half_range[j])
            slopes[:] = _MOST if data.is_constant[j] else far
    values, scores, slopes = (np.concatenate(parts) for parts in zip(*knots, strict=True))
    starts = np.cumsum([0, *(len(own) for own, _, _ in knots)])
    return NormalScaling(starts, values, scores, slopes)


def _none(data: ScalingData) -> Scaling:
    """The same shift and a power of two for all: distances are as they were, and neither overflow nor vanish."""
    power = 2.0 ** np.clip(np.floor(np.log2(data.half_range.max())), -1000, 1000)
    return LinearScaling(data.low / 2 + data.high / 2, np.full_like(data.low, power))


SCALINGS: dict[str | None, Callable[[ScalingData], Scaling]] = {
    "minmax": _minmax,
    "standard": _standard,
    "absolute": _absolute,
    "robust": _robust,
    "asinh": _asinh,
    "normal": _normal,
    None: _none,
}
"""minmax: to [0, 1]; standard: mean 0 and standard deviation 1; absolute: mean 0 and mean absolute deviation 1;
robust: median 0 and quartiles 1 apart, or range 1 where these are equal; asinh: asinh((x - median) / median absolute
deviation), or the mean one where that is practically 0; normal: ranks mapped to a normal distribution; None: as is,
but for a shift and a power of two.
Ranges are those of all rows; the rest is learned from a sample of 65,536 rows (fewer of very many features), or from
all if there are no more."""


def fit_scaling(X: Floats, name: str | None) -> Scaling:
    """Learn a scaling from an array (n, d)."""
    return fit_scalings(ArrayRows(X), [name])[name]


def fit_scalings(
    rows: Rows, names: Iterable[str | None], n_jobs: int | None = None, numbers: Ints | None = None
) -> dict[str | None, Scaling]:
    """Learn scalings from some rows, by their numbers, and the ranges of all; by default from a sample."""
    low, high = rows.extremes()
    data = ScalingData(low, high, rows, n_jobs, numbers)
    return {name: SCALINGS[name](data) for name in names}


def _knots(column: Floats) -> tuple[Floats, Floats, Floats]:
    """Values (k,) that rise, the normal score of each, and the slopes of the lines around them: (k + 1,).

    A value has the score of its middle rank, so equal ones share one. Beyond the ends the line goes on with the slope
    of the outer 5 % of the ranks, so that far is far.
    """
    column = np.sort(column)
    values = column[np.append(True, column[1:] != column[:-1])]
    if len(values) > KNOTS:
        values = np.unique(column[np.linspace(0, len(column) - 1, KNOTS).astype(np.int64)])
    ranks = np.searchsorted(column, values, "left") + np.searchsorted(column, values, "right")
    scores = ndtri(ranks / (2.0 * len(column)))
    if len(values) == 1:
        return values, np.zeros(1), np.ones(2)
    last = len(scores) - 1  # each line goes from one knot to another
    low = np.clip(np.searchsorted(scores, ndtri(TAIL), "right"), 1, last)
    high = np.clip(np.searchsorted(scores, ndtri(1 - TAIL), "left") - 1, 0, last - 1)
    first, final = np.array([0, *range(last), high]), np.array([low, *range(1, last + 1), last])
    with np.errstate(over="ignore"):  # between values that hardly differ
        slopes = (scores[final] - scores[first]) / (values[final] - values[first])
    return values, scores, np.minimum(slopes, _MOST)
