"""How scores are distributed, in whole numbers that can be added up, and the threshold that follows.

A score of 0 or more falls into one of 4,096 steps an octave. Counts of steps merge in any order to the same result, so
the threshold is the same whether scores are in memory, in a stream or on many machines, and no machine needs them all.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.models.tails import LEAST_BEYOND, surprise_of

_SHIFT = 40  # of the 52 bits of a float64 after the point, 12 are kept
_BLOCK_SCORES = 1 << 20
GROUP_POWER = 2.0
"""How light the tail of the scores of groups is: see ``threshold_beyond_bulk``."""
OWN_LEVEL = 0.1
"""At most how often data without anomalies have some that the tail of their bulk does not explain."""
FEWER = 0.1
"""Largest share of a table that can be beyond the tail of its bulk."""
MOST_GROSS, TRIMMED = 0.06, 0.1
"""Shares of a table: that may be set apart at first sight, and that the model of that look has not learned from."""
EXPECTED = 0.7
"""How often a gap may be expected at which the p-values of rows that lie apart are looked at."""
LEAST_LOCAL = 20
"""Ranks below the oddest that give the scale of their tail, at least."""
HEAVIER = 0.1
"""How much heavier than exponential the tail of surprises may be beyond its first tenth."""


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

    def ranks(self, scores: Floats) -> tuple[Ints, Floats]:
        """Ranks, one for all scores of a step, and shares of all scores that are of no higher step: (n,) each."""
        step = np.clip(np.searchsorted(self.values, scores, side="right") - 1, 0, len(self.counts) - 1)
        to, is_scored = np.cumsum(self.counts), ~np.isnan(scores)
        ranks = np.where(is_scored, 1 + (to - self.counts)[step], 1 + self.n)
        return ranks, np.where(is_scored, to[step] / self.n, np.nan)

    def level(self, fdr: float) -> float:
        """Of counted p-values, that below which Benjamini and Hochberg reject, 0 for none; a step counts as its end."""
        ends = self.values * (1 + 2.0**-12)
        passing = np.flatnonzero(ends * self.n / np.cumsum(self.counts) <= fdr)
        return float(ends[passing[-1]]) if len(passing) else 0.0


def count_scores(scores: Floats) -> ScoreCounts:
    """Count scores of 0 or more by steps: (n,)."""
    steps, counts = np.unique(_steps(scores), return_counts=True)
    return ScoreCounts(steps, counts, float(scores.min()), float(scores.max()))


def add_counts(a: ScoreCounts, b: ScoreCounts) -> ScoreCounts:
    """Counts of both."""
    steps, counts = add_values((a.steps, a.counts), (b.steps, b.counts))
    return ScoreCounts(steps, counts, min(a.low, b.low), max(a.high, b.high))


def counts_of(scores: Floats) -> ScoreCounts:
    """Counts of many scores: (n,)."""
    parts = [count_scores(scores[rows]) for rows in slices(max(1, len(scores)), _BLOCK_SCORES)]
    return reduce(add_counts, parts)


def add_values(a: tuple[Any, Ints], b: tuple[Any, Ints]) -> tuple[Any, Ints]:
    """Different values (k,), rising, and how often each occurs (k,): those of both."""
    values, places = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
    numbers = np.zeros(len(values), dtype=np.int64)
    np.add.at(numbers, places, np.concatenate([a[1], b[1]]))
    return values, numbers


def _steps(scores: Floats) -> Ints:
    return (np.ascontiguousarray(scores, dtype=np.float64) + 0.0).view(np.int64) >> _SHIFT


def threshold_beyond_bulk(counts: ScoreCounts, level: float, power: float = 1.0) -> float | None:
    """Score below which own data are odder than the tail of their bulk explains, None if unknown.

    Steps and formulas: study/FORMULAS.md, "Beyond the bulk".
    """
    n, above = counts.n, np.cumsum(counts.counts)[:-1]  # rows at least as odd as each step
    surprises = surprise_of(counts.values)
    middle = surprises[np.searchsorted(above, n / 2)]
    surprises = np.maximum(surprises - middle, 0.0) ** power
    passed = np.append(0.0, np.cumsum(above * -np.diff(surprises)))  # sums of spacings times ranks
    most = max(1, int(FEWER * n))
    steps = np.arange(np.searchsorted(above, most, side="right"))  # those that may be odd
    j = above[steps]
    windows = (  # the last step above the ranks that give the scale, the last of these ranks, an allowance
        (steps, np.minimum(j + np.maximum(LEAST_LOCAL, 3 * j), n // 2), 0.0),
        (np.full_like(steps, len(steps) - 1), np.full_like(steps, 2 * most), HEAVIER),
    )
    is_known, last = False, -1
    for before, rank, allowance in windows:
        stop = np.searchsorted(above, rank, side="right") - 1
        usable = np.flatnonzero(stop - before >= LEAST_BEYOND)
        if len(usable):
            is_known, start, end = True, before[usable], stop[usable]
            w = above[end] - above[start]
            shape, scale = 1 / w + allowance, (passed[end + 1] - passed[start + 1]) / w
            falls = np.log1p(shape * (surprises[usable] - surprises[end + 1]) / scale) / shape
            passing = usable[(above[end] + 1) / (n + 1) * np.exp(-falls) * n / j[usable] <= level]
            last = max(last, *passing.tolist(), -1)
    if last < 0:
        local = int(np.searchsorted(above, min(LEAST_LOCAL, n // 2), side="right")) - 1
        if not is_known or local < LEAST_BEYOND:
            return 0.0 if is_known else None
        n_local, scale = above[local], passed[local + 1] / above[local]
        fall = np.expm1(np.log((n_local + 1) / (n + 1) * n / level) / n_local) * n_local * scale
        return float(min(np.exp(-middle - (surprises[local + 1] + fall) ** (1 / power)), counts.low))
    between = (counts.steps[last] + 1 + counts.steps[last + 1]) // 2  # of the last that is beyond and the next
    return float((between << _SHIFT).view(np.float64))


def gap_of(scores: Floats) -> float:
    """Score below which, at first sight, rows lie apart from a bulk; 0 where none do: (n,).

    The model of these scores has not learned from the tenth of the rows that score lowest, so they do not hide one
    another. The gap between the j lowest and the next 3 j, 20 or more, should come ``expected`` times in n rows, as in
    ``threshold_beyond_bulk``: about once, with a logarithm that varies by 1 / sqrt(j). The most surprising gap counts.
    """
    n = len(scores)
    ranked = np.sort(scores)
    surprises, last = surprise_of(ranked), max(LEAST_BEYOND, int(TRIMMED * n))
    j = np.arange(1, max(1, int(MOST_GROSS * n)) + 1)
    if last >= n or j[-1] >= last:
        return 0.0
    below = np.minimum(j + np.maximum(LEAST_LOCAL, 3 * j), last)
    passed = np.append(0.0, np.cumsum(np.arange(1, n) * -np.diff(surprises)))
    w, gaps = below - j, surprises[j - 1] - surprises[below]
    scales = np.maximum((passed[below] - passed[j]) / w, np.finfo(float).tiny)
    expected = n / j * (below + 1) / (n + 1) * np.exp(-w * np.log1p(gaps / (w * scales)))
    n_different = np.cumsum(np.append(0, np.diff(surprises) != 0))  # counts and categories have gaps by nature
    expected[(surprises[j - 1] == surprises[j]) | (2 * (n_different[below] - n_different[j]) < w)] = np.inf
    first = int(np.argmin(np.log(np.maximum(expected, np.finfo(float).tiny)) * np.sqrt(j)))
    return float((ranked[first] + ranked[first + 1]) / 2) if expected[first] <= EXPECTED else 0.0
