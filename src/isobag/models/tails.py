"""The tail of scores of normal data: how rare a score is that is lower than any seen.

Steps and formulas: study/FORMULAS.md, "Beyond the floor".
"""

from collections.abc import Sequence
from math import expm1, fsum, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Floats

TAIL_SHARE = 0.1
LEAST_BEYOND, MOST_BEYOND = 10, 500
_LARGEST_SHAPE, _LARGEST_FALL = 0.9, 700.0
_RAISED = 0.5
"""Standard errors by which the shape is raised."""
_BEND = 0.5
"""Part of the largest excess from which on the tail is exponential."""


class Tail(NamedTuple):
    """Thresholds on the surprises of each fold (K,), the share beyond, and how fast it falls up to the bend."""

    thresholds: Floats
    share: float
    scale: float
    shape: float
    bend: float

    def p_values(self, surprises: Floats) -> Floats:
        """Probability of a surprise this far beyond the thresholds, 1 where it is not: (n, K) -> (n,).

        Each fold has a model and so a surprise for the row; the mean excess counts.
        """
        excess = np.zeros(len(surprises))
        for column, threshold in zip(surprises.T, self.thresholds, strict=True):
            excess += column - threshold
        excess /= len(self.thresholds)
        near = np.clip(excess, 0, self.bend)
        fall = np.log1p(near * (self.shape / self.scale)) / self.shape + (excess - near) / self._scale_beyond
        return np.where(excess > 0, self.share * np.exp(-np.minimum(fall, _LARGEST_FALL)), 1.0)

    def surprise_at(self, p_value: float) -> float:
        """The surprise, by a single model, that has a p-value below the share beyond."""
        fall = log(self.share / p_value)
        bend = log1p(self.bend * self.shape / self.scale) / self.shape
        near = expm1(min(fall, bend) * self.shape) * self.scale / self.shape
        return float(self.thresholds[0]) + near + max(fall - bend, 0.0) * self._scale_beyond

    @property
    def _scale_beyond(self) -> float:
        return self.scale + self.shape * self.bend


def surprise_of(scores: Floats) -> Floats:
    """Minus the logarithm of scores; of a score of 0, as of the smallest number above 0."""
    return -np.log(np.maximum(scores, np.finfo(float).tiny))


def fit_tail(folds: Sequence[Floats]) -> Tail | None:
    """The tail of surprises, an ascending array for each fold; None where too few differ to estimate one."""
    n = sum(map(len, folds))
    if n <= LEAST_BEYOND:
        return None
    wanted = min(max(TAIL_SHARE * n, LEAST_BEYOND), MOST_BEYOND)
    thresholds, parts = [], []
    for surprises in folds:
        threshold = _threshold(surprises, max(1, round(wanted * len(surprises) / n)))
        if threshold is None:
            return None
        thresholds.append(threshold)
        parts.append(surprises[np.searchsorted(surprises, threshold, side="right") :] - threshold)
    excess = np.sort(np.concatenate(parts))
    k = len(excess)
    if k < LEAST_BEYOND:
        return None
    mean = fsum(excess) / k
    weighted = fsum(excess * np.arange(k - 1, -1, -1)) / (k * (k - 1))
    # mean = scale / (1 - xi) and weighted = scale / (2 (2 - xi)), solved for xi
    shape = min(2 - mean / (mean - 2 * weighted) if mean > 2 * weighted else -np.inf, _LARGEST_SHAPE)
    raised = max(shape + _RAISED / sqrt(k), 1 / k)
    return Tail(np.array(thresholds), (k + 1) / (n + 1), mean * (1 - max(shape, 0.0)), raised, _BEND * excess[-1])


def _threshold(surprises: Floats, wanted: int) -> float | None:
    """The largest surprise that at least so many exceed; None if there is none."""
    if len(surprises) <= wanted:
        return None
    place = int(np.searchsorted(surprises, surprises[-wanted], side="left"))
    return float(surprises[place - 1]) if place else None
