"""Conformal p-values: how rare a score is among rows or groups that the model did not learn from.

Of new data: half of the training data is set aside, a second model learns from the other half, and

p(x) = (1 + number of scores set aside that are not above the score of x) / (1 + number set aside).

If x and the data set aside are drawn alike, P(p(x) <= alpha) <= alpha for every alpha, whatever the model does.

Of the training data themselves, by cross-fitting: they are dealt out at random to two halves, a model learns from each
half and scores the other, and

p(x) = share of the scores of x's own half that are not above the score of x, itself counted.

The model that scores x has not seen it, so the same holds if the data of a half are exchangeable. Odd rows among the
data make p-values larger, for they are counted and learned from too.

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
from isobag.backends.arrays import Bools, Floats, Ints, held
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
        scores = self.model.scores(data, compute)
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


class Split(NamedTuple):
    """Which of two halves each row belongs to (n,), rows of each to learn from, and the seeds of the two models."""

    in_second: Bools
    learned: tuple[Ints, Ints]
    seeds: tuple[int, int]


def split(n: int, most: int, random_state: Any) -> Split:
    """Deal out n rows or groups at random; at most ``most`` of each half are learned from."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    rng = np.random.default_rng(seed)
    in_second = np.zeros(n, dtype=bool)
    in_second[: n // 2] = True
    rng.shuffle(in_second)
    learned = [_draw(np.flatnonzero(in_second == half), most, rng) for half in (False, True)]
    return Split(in_second, (learned[0], learned[1]), (seed, int(rng.integers(2**31 - 1))))


def cross_p_values(data: Any, params: Any, compute: Compute, fit: Fit, most: int) -> Floats:
    """P-values of data that a model was fitted on: (n,) in (0, 1], all 1 if there are fewer than 4."""
    if len(data) < 4:
        return np.ones(len(data))
    halves = split(len(data), most, params.random_state)
    scores = np.empty(len(data))
    for scored, own, seed in zip((True, False), halves.learned, halves.seeds, strict=True):
        model, _ = fit(data.part(own), params.of_part(seed), compute)
        others = np.flatnonzero(halves.in_second == scored)
        scores[others] = model.scores(data.part(others), compute)
    return _shares_within(scores, halves.in_second)


def discoveries(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 where Benjamini and Hochberg's procedure at level ``fdr`` rejects, else +1: (n,) -> (n,)."""
    if not len(p_values):
        return np.ones(0, dtype=np.int64)
    return np.where(false_discovery_control(p_values) <= fdr, -1, 1)


def _draw(rows: Ints, most: int, rng: np.random.Generator) -> Ints:
    return np.sort(rng.choice(rows, min(most, len(rows)), replace=False))


def _shares_within(scores: Floats, in_second: Bools) -> Floats:
    """Share of the scores of the same half that are not above each score; takes the place of the scores: (n,)."""
    for half in (False, True):  # one at a time, in blocks: there may be hundreds of millions of them
        ranked = scores[in_second == half]
        ranked.sort()
        for rows in slices(len(scores), _BLOCK_SCORES):
            part = scores[rows]
            own = in_second[rows] == half
            part[own] = np.searchsorted(ranked, part[own], side="right") / len(ranked)
        del ranked  # before the next half needs as much room
    return scores
