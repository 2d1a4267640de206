"""Conformal p-values: how rare a score is among rows or groups that the model did not learn from.

Steps and formulas: study/FORMULAS.md, "P-values".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Bools, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import slices
from isobag.data.groups import Groups
from isobag.data.labelled import UNSEEN, LabelledRows
from isobag.data.rows import Rows
from isobag.models.sizes import size_classes
from isobag.models.tails import Tail, fit_tail, surprise_of
from isobag.models.thresholds import ScoreCounts

_BLOCK_SCORES = 1 << 16
N_FOLDS, MANY_FOLDS = 4, 10
FEW_DATA = 1000
"""So many rows are dealt out to many folds."""
LEAST_IN_CLASS = 200
MOST_CLASSES = 5
EXTRAPOLATE, EXACT = "extrapolate", "exact"
"""What is done about p-values below the floor."""
Fit = Callable[[Any, Any, Compute], tuple[Any, Floats]]
"""Data, parameters and how to compute -> a model, and the scores of the data."""


class Judgement(NamedTuple):
    """Of each row or group: the geometric mean of its scores by all models, its p-value, whether extrapolated: (n,)."""

    scores: Floats
    p_values: Floats
    is_extrapolated: Bools


_JUDGED = np.dtype([("scores", np.float64), ("p_values", np.float64), ("is_extrapolated", np.bool_)])


@dataclass(frozen=True)
class Calibration(Learned):
    """A model for each of K folds, and its scores of that fold, which it has not seen.

    Without models, the scores stand for those that the model that holds this gives to new data: of rows left out of
    it, one at a time, or of folds by models like it.

    edges : (c - 1,), the largest sizes of all classes of groups but the last; rows are one class.
    ends : (K c,), where the scores of each class end, fold after fold.
    scores : (m,), fold by fold and class by class, in rising order within each.
    autocorrelation : rank correlation of the scores of neighbours, in the order of the training data.
    apart : scores of rows of ``fit`` beyond the bulk. P-values count them, as they are of ``fit``; thresholds do not.
    """

    models: tuple[Any, ...]
    edges: Ints
    ends: Ints
    scores: Floats
    autocorrelation: float
    apart: Floats = field(default_factory=lambda: np.empty(0))

    def validate(self) -> None:
        """Scores of each class and model in rising order, one after the other."""
        check("edges", self.edges, (None,), 0, MOST_ROWS)
        demand(np.all(np.diff(self.edges) > 0), "edges of sizes are not in rising order")
        check("scores", self.scores, (None,))
        check("ends", self.ends, (self.n_classes * max(1, len(self.models)),), 0, len(self.scores))
        divides = len(self.ends) > 0 and np.all(np.diff(self.ends) >= 0) and self.ends[-1] == len(self.scores)
        demand(divides, "ends do not divide the scores")
        parts = np.split(self.scores, self.ends[:-1])
        demand(not any(np.any(np.diff(part) < 0) for part in parts), "scores are not in rising order within a class")
        check("autocorrelation", self.autocorrelation, (), -1, 1)
        check("apart", self.apart, (None,))
        demand(not len(self.apart) or not self.models, "rows lie apart from models of folds")

    @property
    def n_classes(self) -> int:
        """Number of classes of size."""
        return len(self.edges) + 1

    @cached_property
    def of_all(self) -> "Calibration":
        """With the scores of the rows apart, in every class."""
        if not len(self.apart):
            return self
        parts = [np.sort(np.append(part, self.apart)) for part in np.split(self.scores, self.ends[:-1])]
        ends = np.cumsum([len(part) for part in parts])
        return Calibration((), self.edges, ends, np.concatenate(parts), self.autocorrelation)

    @cached_property
    def classes(self) -> list[list[Floats]]:
        """Scores of each class, in rising order, for each fold: c lists of K arrays."""
        parts = np.split(self.scores, self.ends[:-1])
        return [parts[number :: self.n_classes] for number in range(self.n_classes)]

    @cached_property
    def sizes(self) -> list[int]:
        """Number of scores of each class."""
        return [sum(map(len, folds)) for folds in self.classes]

    @cached_property
    def tails(self) -> list[Tail | None]:
        """The tail of each class, None where it is unknown."""
        return [fit_tail([surprise_of(part[::-1]) for part in folds]) for folds in self.classes]

    @property
    def floor(self) -> float:
        """The smallest p-value that is not extrapolated, in the largest class."""
        return 1 / (1 + max(self.sizes))

    def judge(self, model: Any, data: Any, compute: Compute, tail: str = EXTRAPOLATE) -> Judgement:
        """Scores and p-values of new data, which may be none, by the models of folds or the model that holds this."""
        models = self.models or (model,)
        if not len(data):
            return Judgement(np.empty(0), np.empty(0), np.zeros(0, dtype=bool))
        if not isinstance(data, Rows) or isinstance(data, LabelledRows):
            by_model = np.stack([own.scores(data, compute) for own in models], axis=1)
            return self.of_all.compare(by_model, data, tail)
        of_all = self.of_all
        scorers = [own.scorer(compute) for own in models]

        def judge_block(X: Floats) -> npt.NDArray[Any]:
            scored = zip(scorers, models, strict=True)
            by_model = np.stack([np.maximum(score(X), own.least) for score, own in scored], axis=1)
            judged = np.empty(len(by_model), dtype=_JUDGED)
            for rows in slices(len(by_model), _BLOCK_SCORES):
                judgement = of_all.compare(by_model[rows], by_model[rows], tail)
                for name, values in judgement._asdict().items():
                    judged[name][rows] = values
            return judged

        # Block by block, so that beside the input and the answer memory does not grow with the rows.
        judged = np.asarray(data.map(judge_block))
        return Judgement(**{name: judged[name] for name in Judgement._fields})

    def score_at(self, p_value: float) -> float:
        """Score below which p-values by the model of all are at most this, of the last class; 0 where none is."""
        (scores,) = self.classes[-1]
        rank = int(p_value * (1 + len(scores)) * (1 + 1e-12))  # 1 + number of scores that are not above
        if rank >= 1:
            return float(scores[rank - 1]) if rank <= len(scores) else np.inf
        tail = self.tails[-1]
        if tail is None:  # where all score alike, less than that was never seen
            return float(scores[0]) if len(scores) and scores[0] == scores[-1] else 0.0
        lowest = float(np.exp(-tail.surprise_at(p_value))) if p_value < tail.share else np.inf
        return min(lowest, float(scores[0]))

    def threshold(self, counts: ScoreCounts, level: float, n: int, least: float = 0.0) -> float:
        """Score below which Benjamini and Hochberg's procedure rejects: of n scores, or of some that stand for them.

        Where it rejects none, the score at which one would be; 0 where that is below the ``least`` score above 0.
        """
        values = np.maximum(counts.values, least)[:, None]
        p_values = self.compare(values, values, EXTRAPOLATE).p_values
        shares = np.cumsum(counts.counts) / counts.n
        passing = np.flatnonzero(p_values <= level * shares)
        threshold = self.score_at(level * max(1 / n, float(shares[passing[-1]]) if len(passing) else 0.0))
        return threshold if threshold > least else 0.0

    def p_values(self, model: Any, data: Any, compute: Compute, tail: str = EXTRAPOLATE) -> Floats:
        """P-values of new data: (n,) in (0, 1]."""
        return self.judge(model, data, compute, tail).p_values

    def compare(self, scores: Floats, data: Any, tail: str) -> Judgement:
        """What follows from the scores by all models: (n, K)."""
        classes = np.searchsorted(self.edges, _sizes_of(data), side="left")
        p_values, extrapolated = np.empty(len(scores)), np.zeros(len(scores), dtype=bool)
        for number, folds in enumerate(self.classes):
            members = np.flatnonzero(classes == number)
            of_members = scores[members]
            below = np.zeros(len(members), dtype=np.int64)
            for part, column in zip(folds, of_members.T, strict=True):
                below += np.searchsorted(part, column, side="right")
            p_values[members] = (1 + below) / (1 + self.sizes[number])
            extrapolating = self.tails[number] if tail == EXTRAPOLATE else None
            if extrapolating is not None:
                # A score of 0 says that it is below all others and not how far.
                beyond = members[(below == 0) & (of_members.min(axis=1) > 0)]
                lower = extrapolating.p_values(surprise_of(scores[beyond]))
                extrapolated[beyond] = lower < p_values[beyond]
                p_values[beyond] = np.minimum(lower, p_values[beyond])
        return Judgement(_geometric_mean(scores), p_values, extrapolated)


def _geometric_mean(scores: Floats) -> Floats:
    """Of the scores by all models, column by column so that it does not depend on how many rows there are."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    total = np.zeros(len(scores))
    with np.errstate(divide="ignore"):
        for column in scores.T:
            total += np.log(column)
    mean: Floats = np.exp(total / scores.shape[1])
    return mean


def _sizes_of(data: Any) -> Ints:
    """The size of each group, 1 for rows, 0 for rows of a group that is not known: (n,)."""
    if isinstance(data, LabelledRows):
        return np.where(data.owners == UNSEEN, 0, 1)
    return data.sizes if isinstance(data, Groups) else np.ones(len(data), dtype=np.int64)


class Fold(NamedTuple):
    """Positions of what a model learns from and of what it scores, both rising, and the seed of that model."""

    learned: Ints
    aside: Ints
    seed: int


def draw_folds(
    n: int, most_aside: int, most_learned: int, random_state: Any, units: Ints | None = None, n_folds: int = N_FOLDS
) -> list[Fold]:
    """Folds of n rows or groups, or of at most so many of them drawn at random.

    ``units`` (n,): which belong together, numbered from 0. Of two rows or units nothing can be set aside.
    """
    rng = np.random.default_rng(int(check_random_state(random_state).randint(2**31 - 1)))
    if units is None:
        chosen = rng.choice(n, min(n, most_aside), replace=False)
        units = chosen  # each its own unit
    else:
        chosen = rng.permutation(n)  # the first of a unit is the one that is scored
        units = units[chosen]
    _, first, numbers = np.unique(units, return_index=True, return_inverse=True)
    scored = rng.permutation(len(first))[:most_aside]
    n_folds = min(n_folds, len(scored)) if len(first) > 2 else 1
    fold_of = np.full(len(first), -1)
    fold_of[scored] = np.arange(len(scored)) % n_folds if len(first) > 2 else -1
    return [
        Fold(
            np.sort(chosen[fold_of[numbers] != k][:most_learned]),
            np.sort(chosen[first[fold_of == k]]),
            int(rng.integers(2**31 - 1)),
        )
        for k in range(n_folds)
    ]


def calibrate(
    data: Any,
    params: Any,
    compute: Compute,
    fit: Fit,
    most_aside: int,
    most_learned: int,
    units: Ints | None = None,
    keep_models: bool = True,
) -> Calibration:
    """Learn from all folds but one, and score that one, for each.

    Models that are not kept are as large as the model of all, so that their scores stand for its scores of new data.
    """
    n_folds = MANY_FOLDS if len(data) <= FEW_DATA and not keep_models else N_FOLDS
    folds = draw_folds(len(data), most_aside, most_learned, params.random_state, units, n_folds)
    n_aside = sum(len(fold.aside) for fold in folds)
    n_classes = int(np.clip(n_aside // LEAST_IN_CLASS, 1, MOST_CLASSES))
    edges = np.zeros(int(isinstance(data, LabelledRows)), dtype=np.int64)
    if isinstance(data, Groups):
        edges = size_classes(data.sizes, n_classes)
    models, scores, numbers = [], [], []
    places, ranks = np.concatenate([fold.aside for fold in folds]), []
    for fold in folds:
        of_fold_params = params.of_part(fold.seed, len(folds) if keep_models else 1)
        model, _ = fit(data.part(fold.learned), of_fold_params, compute)
        aside = data.part(fold.aside)
        of_fold = model.scores(aside, compute) if len(fold.aside) else np.empty(0)
        classes = np.searchsorted(edges, _sizes_of(aside), side="left")
        if keep_models:
            models.append(model)
        ranks.append(own_p_values(of_fold))
        if isinstance(aside, LabelledRows) and len(fold.aside):
            of_fold = np.concatenate([of_fold, model.scores(aside.as_unseen(), compute)])
            classes = np.concatenate([classes, np.zeros_like(classes)])
        scores.append(of_fold)
        numbers.append(classes)
    if not keep_models:
        scores, numbers = [np.concatenate(scores)], [np.concatenate(numbers)]
    ends = np.concatenate([np.bincount(classes, minlength=len(edges) + 1) for classes in numbers])
    rising = [own[np.lexsort((own, classes))] for own, classes in zip(scores, numbers, strict=True)]
    neighbours = np.concatenate(ranks)[np.argsort(places)]
    return Calibration(tuple(models), edges, np.cumsum(ends), np.concatenate(rising), _correlation(neighbours))


def calibration_of(scores: Floats) -> Calibration:
    """The calibration by scores of rows, in their order, that a model scored as if it had not counted them: (m,)."""
    ranks = own_p_values(scores)
    none = np.empty(0, dtype=np.int64)
    return Calibration((), none, np.array([len(scores)]), np.sort(scores), _correlation(ranks))


def _correlation(ranks: Floats) -> float:
    """Of each with the next one: (n,); 0 where too few differ to tell."""
    before, after = ranks[:-1] - ranks.mean() if len(ranks) else ranks, ranks[1:]
    if len(ranks) < 3 or not np.ptp(ranks[:-1]) or not np.ptp(ranks[1:]):
        return 0.0
    return float(np.clip(np.corrcoef(before, after)[0, 1], -1, 1))


def own_p_values(scores: Floats) -> Floats:
    """Share of the scores that are not above each, itself counted: (n,) -> (n,) in (0, 1]."""
    ranked = np.sort(scores)
    p_values = np.empty(len(scores))
    for rows in slices(len(scores), _BLOCK_SCORES):  # there may be hundreds of millions of them
        p_values[rows] = np.searchsorted(ranked, scores[rows], side="right") / len(ranked)
    return p_values


def discoveries(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 where Benjamini and Hochberg's procedure at level ``fdr`` rejects, else +1: (n,) -> (n,).

    It rejects the k smallest of n p-values, for the largest k with p_(k) n / k <= fdr.
    """
    ranked = np.sort(p_values)
    passing = np.flatnonzero(ranked * len(ranked) / np.arange(1, len(ranked) + 1) <= fdr)
    return np.where(p_values <= ranked[passing[-1]], -1, 1) if len(passing) else np.ones(len(p_values), dtype=np.int64)
