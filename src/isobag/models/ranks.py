"""P-values of scores by their rank among earlier ones that were made in the same way.

p = (1 + number of references that are not below) / (1 + number of references), and below the least such value by a
generalised Pareto tail, see ``tails``. References are the scores of the latest periods, 20,000 or what there are.
"""

from collections.abc import Iterable

import numpy as np

from isobag.backends.arrays import Floats
from isobag.models.tails import fit_tail

LEAST_REFERENCES, ENOUGH_REFERENCES = 20, 20_000


def recent_scores(parts: Iterable[Floats]) -> Floats:
    """Scores of the latest periods, in rising order: from parts, the latest first."""
    kept, n_kept = [np.empty(0)], 0
    for part in parts:
        own = part[part > -np.inf]
        kept.append(own)
        n_kept += len(own)
        if n_kept >= ENOUGH_REFERENCES:
            break
    return np.sort(np.concatenate(kept))


def rank_p_values(scores: Floats, references: Floats) -> Floats:
    """P-values of scores among references in rising order: (n,) -> (n,), NaN where there are too few references."""
    if len(references) < LEAST_REFERENCES:
        return np.full(len(scores), np.nan)
    above = len(references) - np.searchsorted(references, scores, side="left")
    p_values = (1 + above) / (1 + len(references))
    tail = fit_tail([references])
    if tail is not None:
        beyond = np.flatnonzero(above == 0)
        p_values[beyond] = np.minimum(p_values[beyond], tail.p_values(scores[beyond, None]))
    p_values[scores == -np.inf] = np.nan
    return p_values


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
