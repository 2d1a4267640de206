"""How scores are distributed, in whole numbers that can be added up, and the threshold that follows.

A score of 0 or more falls into one of 4,096 steps an octave. Counts of steps merge in any order to the same result, so
the threshold is the same whether scores are in memory, in a stream or on many machines, and no machine needs them all.
"""

from collections.abc import Callable
from functools import reduce
from math import exp, fsum, sqrt
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.models.tails import LEAST_BEYOND, MOST_BEYOND, TAIL_SHARE, lacks_of

T = TypeVar("T")
_SHIFT = 40  # of the 52 bits of a float64 after the point, 12 are kept
_MOST_DENSE = 1 << 22
_BLOCK_SCORES = 1 << 20
FLOOR = 1e-3


class Scores(Protocol):
    """Scores (n,) that need not be in one place."""

    def __len__(self) -> int: ...

    def map_reduce(self, function: Callable[[Any], T], combine: Callable[[T, T], T]) -> T:
        """Partial results of blocks, merged in any order."""
        ...


class ScoreCounts(NamedTuple):
    """Steps (k,) in which there are scores, rising, and how many in each (k,); the least and the largest score."""

    steps: Ints
    counts: Ints
    low: float
    high: float

    @property
    def n(self) -> int:
        """Number of scores."""
        return int(self.counts.sum())

    @property
    def values(self) -> Floats:
        """Where each step begins: (k,)."""
        return (self.steps << _SHIFT).view(np.float64)


def count_scores(scores: Floats) -> ScoreCounts:
    """Count scores of 0 or more by steps: (n,)."""
    keys = _steps(scores)
    low, high = int(keys.min()), int(keys.max())
    if high - low < _MOST_DENSE:
        dense = np.bincount(keys - low)
        steps = np.flatnonzero(dense)
        steps, counts = steps + low, dense[steps]
    else:
        steps, counts = np.unique(keys, return_counts=True)
    return ScoreCounts(steps, counts, float(scores.min()), float(scores.max()))


def add_counts(a: ScoreCounts, b: ScoreCounts) -> ScoreCounts:
    """Counts of both."""
    steps, counts = add_values((a.steps, a.counts), (b.steps, b.counts))
    return ScoreCounts(steps, counts, min(a.low, b.low), max(a.high, b.high))


def counts_of(scores: Floats | Scores) -> ScoreCounts:
    """Counts of scores, wherever they are."""
    if not isinstance(scores, np.ndarray):
        return scores.map_reduce(count_scores, add_counts)
    parts = [count_scores(scores[rows]) for rows in slices(max(1, len(scores)), _BLOCK_SCORES)]
    return reduce(add_counts, parts)


def threshold_of_ratios(counts: ScoreCounts) -> float:
    """Two standard deviations below the mean of the logarithms of the scores.

    A thousandth of the mean is added first, so that zeros have a logarithm. Where all score alike none is odd.
    """
    if counts.low == counts.high or len(counts.steps) == 1:
        return counts.low
    shares = counts.counts / counts.n
    floor = FLOOR * fsum(shares * counts.values) + np.finfo(float).tiny
    logarithms = np.log(counts.values + floor)
    middle = fsum(shares * logarithms)
    spread = sqrt(fsum(shares * (logarithms - middle) ** 2))
    return exp(middle - 2 * spread) - floor


def quantile_of(scores: Floats | Scores, share: float) -> float:
    """The score below which there is a share of all, between two scores linearly."""
    if isinstance(scores, np.ndarray):
        return float(np.quantile(scores, share))
    counts = counts_of(scores)
    place = share * (counts.n - 1)
    ends = np.cumsum(counts.counts)
    wanted = np.array([int(place), min(int(place) + 1, counts.n - 1)])
    chosen = np.searchsorted(ends, wanted, side="right")
    first, last = int(chosen[0]), int(chosen[1])
    low, high = int(counts.steps[first]), int(counts.steps[last])
    values, numbers = scores.map_reduce(lambda block: _count_values(block, low, high), add_values)
    before = int(ends[first] - counts.counts[first])
    pair = values[np.searchsorted(np.cumsum(numbers), wanted - before, side="right")]
    return float(np.quantile(pair, place - int(place)))


def _count_values(scores: Floats, low: int, high: int) -> tuple[Floats, Ints]:
    """Different scores from one step to another, and how often each occurs."""
    steps = _steps(scores)
    values, numbers = np.unique(scores[(steps >= low) & (steps <= high)], return_counts=True)
    return values, numbers


def add_values(a: tuple[Any, Ints], b: tuple[Any, Ints]) -> tuple[Any, Ints]:
    """Different values (k,), rising, and how often each occurs (k,): those of both."""
    values, places = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
    numbers = np.zeros(len(values), dtype=np.int64)
    np.add.at(numbers, places, np.concatenate([a[1], b[1]]))
    return values, numbers


def _steps(scores: Floats) -> Ints:
    return (np.ascontiguousarray(scores, dtype=np.float64) + 0.0).view(np.int64) >> _SHIFT


def threshold_beyond_bulk(counts: ScoreCounts, level: float) -> float:
    """Score below which own data are odder than the tail of their bulk explains; 0 where none are.

    The lacks of the oddest tenth, at most 500, are compared with the larger half of these: spacings of that half give
    the scale of an exponential tail, which the oddest half has no part in, so a few gross rows do not hide each other.
    Benjamini and Hochberg's procedure on the tail's p-values at this level: a clean table has an alarm with about this
    probability, whatever its size.
    """
    n = counts.n
    k = int(min(TAIL_SHARE * n, MOST_BEYOND))
    used = k // 2
    ends = np.cumsum(counts.counts)
    place = int(np.searchsorted(ends, k, side="right"))  # the first step that is not all among the k lowest
    if used < LEAST_BEYOND or place == 0:
        return 0.0
    beyond = np.repeat(lacks_of(counts.values[:place]), counts.counts[:place])[::-1]  # rising
    excess = beyond - lacks_of(counts.values[place : place + 1])
    k = len(excess)
    used = k // 2
    if used < LEAST_BEYOND or excess[used - 1] <= 0:
        return 0.0
    # Normalised spacings of exponential numbers are independent and have their scale as mean: Renyi.
    spacings = np.diff(excess[:used], prepend=0.0) * (k - np.arange(used))
    scale, shape = fsum(spacings) / used, 1 / sqrt(used)
    p_values = (k + 1) / (n + 1) * np.exp(np.log1p(shape * excess[::-1] / scale) / -shape)
    passing = np.flatnonzero(p_values * n / np.arange(1, k + 1) <= level)
    if not len(passing):
        return 0.0
    last = int(np.searchsorted(np.cumsum(counts.counts), passing[-1], side="right"))
    return float(counts.values[last + 1])
