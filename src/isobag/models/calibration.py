"""Conformal p-values: how rare a score is among rows or groups that the model did not learn from.

Of new data: half of the training data is set aside, a second model learns from the other half, and

p(x) = (1 + number of scores set aside that are not above the score of x) / (1 + number set aside).

If x and the data set aside are drawn alike, P(p(x) <= alpha) <= alpha for every alpha, whatever the model does.

Of the training data themselves: their own scores are exchangeable if the data are, so

p(x) = share of the scores that are not above the score of x, itself counted

keeps the same promise. But it only ranks: one in ten has a p-value of .1 or less, whatever the data. Only data that
the model has not learned from can show that none, or many, are odd.

Data are rows or groups: whatever has a length and parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import false_discovery_control
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints, held
from isobag.backends.threads import slices

_BLOCK_SCORES = 1 << 16
Fit = Callable[[Any, Any, Compute], tuple[Any, Floats]]
"""Data, parameters and how to compute -> a model, and the scores of the data."""


@dataclass(frozen=True)
class Calibration:
    """A model and, in rising order, its scores of data it has not seen."""

    model: Any
    scores: Floats = held(1)

    def p_values(self, data: Any, compute: Compute) -> Floats:
        """Share of the scores set aside that are not above each score, itself counted among them: (n,)."""
        return self.shares(self.model.scores(data, compute))

    def shares(self, scores: Floats) -> Floats:
        """P-values from scores of the model: (n,) -> (n,)."""
        return (1 + np.searchsorted(self.scores, scores, side="right")) / (1 + len(self.scores))


class Halves(NamedTuple):
    """Positions of what the second model learns from, and of what is set aside; the seed of that model."""

    learned: Ints
    aside: Ints
    seed: int


def draw_halves(n: int, most: int, random_state: Any) -> Halves:
    """Two parts of n rows or groups, the second never the larger, each with at most ``most``."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    drawn = np.random.default_rng(seed).choice(n, min(n, 2 * most), replace=False)
    n_learned = max(len(drawn) - len(drawn) // 2, min(n, 2))
    return Halves(np.sort(drawn[:n_learned]), np.sort(drawn[n_learned:]), seed)


def calibrate(data: Any, params: Any, compute: Compute, fit: Fit, most: int) -> Calibration:
    """Learn from one half of the data, at most ``most``, and score as many of the other."""
    halves = draw_halves(len(data), most, params.random_state)
    model, _ = fit(data.part(halves.learned), params.of_part(halves.seed), compute)
    aside = model.scores(data.part(halves.aside), compute) if len(halves.aside) else np.empty(0)
    return Calibration(model, np.sort(aside))


def own_p_values(scores: Floats) -> Floats:
    """Share of the scores that are not above each, itself counted: (n,) -> (n,) in (0, 1]."""
    ranked = np.sort(scores)
    found = np.empty(len(scores))
    for rows in slices(len(scores), _BLOCK_SCORES):  # there may be hundreds of millions of them
        found[rows] = np.searchsorted(ranked, scores[rows], side="right") / len(ranked)
    return found


def discoveries(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 where Benjamini and Hochberg's procedure at level ``fdr`` rejects, else +1: (n,) -> (n,)."""
    if not len(p_values):
        return np.ones(0, dtype=np.int64)
    return np.where(false_discovery_control(p_values) <= fdr, -1, 1)
