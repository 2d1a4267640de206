"""Conformal p-values: how rare a score is among rows or groups that the model did not learn from.

Of new data: half of the training data is set aside, a second model learns from the other half, and

p(x) = (1 + number of scores set aside that are not above the score of x) / (1 + number set aside).

If x and the data set aside are drawn alike, P(p(x) <= alpha) <= alpha for every alpha, whatever the model does.

Groups are compared with groups set aside of about their size: up to five classes of size, with 100 groups or more set
aside in each on average. So the promise holds in every class, for small groups as for large ones.

Of the training data themselves: their own scores are exchangeable if the data are, so

p(x) = share of the scores that are not above the score of x, itself counted

keeps the same promise. But it only ranks: one in ten has a p-value of .1 or less, whatever the data. Only data that
the model has not learned from can show that none, or many, are odd.

Data are rows or groups: whatever has a length and parts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Floats, Ints, held
from isobag.backends.threads import slices
from isobag.data.groups import Grouped
from isobag.models.sizes import size_classes

_BLOCK_SCORES = 1 << 16
LEAST_IN_CLASS = 100
MOST_CLASSES = 5
Fit = Callable[[Any, Any, Compute], tuple[Any, Floats]]
"""Data, parameters and how to compute -> a model, and the scores of the data."""


@dataclass(frozen=True)
class Calibration:
    """A model, and its scores of data it has not seen.

    edges : (c - 1,), the largest sizes of all classes of groups but the last; rows are one class.
    ends : (c,), where the scores of each class end.
    scores : (m,), class by class, in rising order within each.
    """

    model: Any
    edges: Ints = held(1, 0, MOST_ROWS)
    ends: Ints = held(1, 0, MOST_ROWS)
    scores: Floats = held(1)

    def p_values(self, data: Any, compute: Compute) -> Floats:
        """Share of the scores set aside in the same class that are not above each score, itself counted: (n,)."""
        return self.shares(self.model.scores(data, compute), data)

    def shares(self, scores: Floats, data: Any) -> Floats:
        """P-values from scores of the model: (n,) -> (n,)."""
        classes = np.searchsorted(self.edges, _sizes_of(data), side="left")
        found = np.empty(len(scores))
        for number, (start, end) in enumerate(pairwise((0, *self.ends.tolist()))):
            own = classes == number
            below = np.searchsorted(self.scores[start:end], scores[own], side="right")
            found[own] = (1 + below) / (1 + end - start)
        return found

    def problems(self) -> Iterator[str]:
        """What does not fit together, of fields that come from a file."""
        n_classes, n_scores = len(self.edges) + 1, len(self.scores)
        if len(self.ends) != n_classes or np.any(np.diff(self.ends) < 0) or self.ends[-1] != n_scores:
            yield "ends: they do not divide the scores"
        if np.any(np.diff(self.edges) <= 0):
            yield "edges: sizes are not in rising order"
        if any(np.any(np.diff(part) < 0) for part in np.split(self.scores, self.ends[:-1])):
            yield "scores: they are not in rising order within a class"


def _sizes_of(data: Any) -> Ints:
    """The size of each group, 1 for rows: (n,)."""
    return data.sizes if isinstance(data, Grouped) else np.ones(len(data), dtype=np.int64)


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
    data.prefetch(np.concatenate([halves.learned, halves.aside]))
    learned, aside = data.part(halves.learned), data.part(halves.aside)
    model, _ = fit(learned, params.of_part(halves.seed), compute)
    n_classes = int(np.clip(len(halves.aside) // LEAST_IN_CLASS, 1, MOST_CLASSES))
    edges = size_classes(_sizes_of(learned), n_classes)
    scores = model.scores(aside, compute) if len(aside) else np.empty(0)
    classes = np.searchsorted(edges, _sizes_of(aside), side="left")
    ends = np.cumsum(np.bincount(classes, minlength=len(edges) + 1))
    return Calibration(model, edges, ends, scores[np.lexsort((scores, classes))])


def own_p_values(scores: Floats) -> Floats:
    """Share of the scores that are not above each, itself counted: (n,) -> (n,) in (0, 1]."""
    ranked = np.sort(scores)
    found = np.empty(len(scores))
    for rows in slices(len(scores), _BLOCK_SCORES):  # there may be hundreds of millions of them
        found[rows] = np.searchsorted(ranked, scores[rows], side="right") / len(ranked)
    return found


def discoveries(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 where Benjamini and Hochberg's procedure at level ``fdr`` rejects, else +1: (n,) -> (n,).

    It rejects the k smallest of n p-values, for the largest k with p_(k) n / k <= fdr.
    """
    ranked = np.sort(p_values)
    passing = np.flatnonzero(ranked * len(ranked) / np.arange(1, len(ranked) + 1) <= fdr)
    return np.where(p_values <= ranked[passing[-1]], -1, 1) if len(passing) else np.ones(len(p_values), dtype=np.int64)
