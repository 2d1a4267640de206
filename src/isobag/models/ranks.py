"""P-values of scores by their rank among earlier ones that were made in the same way.

p = (1 + number of references that are not below) / (1 + number of references), and below the least such value by a
generalised Pareto tail, see ``tails``. References are the scores of other entities in the latest periods, 20,000 or
what there are: an entity that has been odd for long is not measured by itself. Scores that are minus the logarithm of a
probability go on falling as exp(-score) beyond the largest reference where too few differ to tell a tail, and are never
rarer than that probability: where all numbers of rows are as expected, the largest of them is no finding.
"""

from collections.abc import Iterable
from math import exp
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.models.tails import fit_tail

LEAST_REFERENCES, ENOUGH_REFERENCES = 20, 20_000
_SMALL = 0.05
"""Larger p-values hardly depend on few scores of the entity itself, which then count."""


class References(NamedTuple):
    """Scores in rising order, and the entity of each: (m,) both."""

    scores: Floats
    entities: Ints

    def without(self, entity: int) -> Floats:
        """The scores of all other entities."""
        others: Floats = self.scores[self.entities != entity]
        return others


def recent_scores(parts: Iterable[tuple[Floats, Ints]]) -> References:
    """Scores of the latest periods: from parts, scores and entities, the latest first."""
    scores, entities, n_kept = [np.empty(0)], [np.empty(0, dtype=np.int64)], 0
    for part, owners in parts:
        known = part > -np.inf
        scores.append(part[known])
        entities.append(owners[known])
        n_kept += len(scores[-1])
        if n_kept >= ENOUGH_REFERENCES:
            break
    every = np.concatenate(scores)
    order = np.argsort(every, kind="stable")
    return References(every[order], np.concatenate(entities)[order])


def rank_p_values(scores: Floats, entities: Ints, references: References, is_log: bool = False) -> Floats:
    """P-values of the scores of entities: (n,) -> (n,), NaN where there are too few references.

    is_log : whether scores are minus the logarithm of a probability; p-values are then no smaller than these.
    """
    n_references = len(references.scores)
    if n_references < LEAST_REFERENCES:
        return np.full(len(scores), np.nan)
    above = n_references - np.searchsorted(references.scores, scores, side="left")
    p_values = (1 + above) / (1 + n_references)
    n_entities = int(max(references.entities.max(), entities.max(initial=0))) + 1
    n_own = np.bincount(references.entities, minlength=n_entities)[entities]
    for line in np.flatnonzero(above <= np.maximum(_SMALL * n_references, n_own)).tolist():
        others = references.without(int(entities[line]))
        p_values[line] = _among_others(float(scores[line]), others, p_values[line], is_log)
    if is_log:
        p_values = np.maximum(p_values, np.exp(-np.maximum(scores, 0)))
    p_values[scores == -np.inf] = np.nan
    return p_values


def _among_others(score: float, others: Floats, otherwise: float, is_log: bool) -> float:
    """The p-value of a score among the scores of others, in rising order."""
    if len(others) < LEAST_REFERENCES - 1:  # of as many entities, all others
        return otherwise
    above = len(others) - int(np.searchsorted(others, score, side="left"))
    p_value = (1 + above) / (1 + len(others))
    if above:
        return p_value
    tail = fit_tail([others])
    if tail is not None:
        return min(p_value, float(tail.p_values(np.array([[score]]))[0]))
    return p_value * exp(others[-1] - score) if is_log else p_value


def rank_within(scores: Floats) -> Floats:
    """P-values of scores among themselves: (n,) -> (n,), NaN where a score is missing."""
    p_values = np.full(len(scores), np.nan)
    known = np.flatnonzero(scores > -np.inf)
    if len(known):
        ranked = np.sort(scores[known])
        above = len(ranked) - np.searchsorted(ranked, scores[known], side="left")
        p_values[known] = above / len(ranked)
        tail = fit_tail([ranked])
        if tail is not None:
            p_values[known] = np.minimum(p_values[known], tail.p_values(scores[known, None]))
    return p_values


def combine_p_values(parts: dict[str, Floats], weights: dict[str, float]) -> tuple[Floats, dict[str, Floats]]:
    """One p-value from several by weighted Bonferroni: (n,), NaN where none exists. Also each part's p / weight.

    It is the least p / weight, where the weights of those that exist add up to 1.
    """
    known = {name: ~np.isnan(p) for name, p in parts.items()}
    total = sum((weights[name] * known[name] for name in parts), start=np.zeros(len(next(iter(parts.values())))))
    weighted = {name: np.where(known[name], parts[name] * total / weights[name], np.inf) for name in parts}
    least = np.minimum.reduce(list(weighted.values()))
    return np.where(np.isinf(least), np.nan, np.minimum(least, 1.0)), weighted
