"""Why a group is odd: a value never seen, a mean, spread or count of a column, two columns that usually go together."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.data.groups import Groups
from isobag.models.summaries import Summaries

MOST_REASONS = 10
NEVER_SEEN = 1000.0
"""Deviation of a value never seen in a column that was constant."""
LEAST_DEVIATION = 2.0
"""Less is no reason, unless it is the only one."""
MOST_COLUMNS = 100
"""Of more columns, no pairs are looked at."""
KINDS = ("mean", "spread")
_EARLIER, _ENOUGH = 0.5, 3.0
_MOST_CORRELATION = 0.999


class GroupReason(NamedTuple):
    """What is odd about a group, in one column or two.

    kind : "unseen", "mean", "spread", "count" or "relation".
    columns : numbers of the column, or of the two.
    deviation : how odd, in robust spreads of groups of its size; below 0 for less than usual.
    value, usual : what a reader can compute again, of the group and of ``reference``: the value and the one that all
        points had (unseen), medians (mean), interquartile ranges (spread), numbers of points with the rarer of two
        values (count), or rank correlations in 16 classes (relation).
    """

    kind: str
    columns: tuple[int, ...]
    deviation: float
    value: float
    usual: float


def reasons_of(summaries: Summaries, groups: Groups, reference: Floats, compute: Compute) -> npt.NDArray[np.object_]:
    """Reasons of each group as a list, the strongest first: up to ten, and at least one: (g,)."""
    maps, d = summaries.scores.sums_of(groups, compute), len(summaries.scores.kurtosis)
    sums = maps[np.arange(len(groups))].counts.toarray()
    deviations = summaries.deviations(summaries.statistics(sums, groups.sizes), groups.sizes)
    counts, usual = summaries.counts(sums, groups.sizes), summaries.usual_counts
    relations = _relations(summaries.scores.of(reference, compute))
    order = np.argsort(groups.ids, kind="stable")
    reasons = np.empty(len(groups), dtype=object)
    for g, (z, rows) in enumerate(zip(deviations, np.split(order, np.cumsum(groups.sizes)[:-1]), strict=True)):
        X = groups.rows.take(rows)
        unseen = [j for j in summaries.constants.tolist() if z[j]]
        counted = [
            GroupReason(
                "count", (int(summaries.counted[c]),), float(z[2 * d + c]), float(counts[g, c]), float(usual[c])
            )
            for c in np.flatnonzero(z[2 * d :])
        ]
        ranked = [_of_unseen(j, X[:, j], reference[0, j]) for j in unseen]
        ranked += [_of_column(j, z[[j, d + j]], X[:, j], reference[:, j]) for j in range(d) if j not in unseen]
        pairs = _of_pairs(summaries.scores.of(X, compute), relations, summaries)
        is_counted = {one.columns[0] for one in counted}  # a count of its own changes what goes with that column
        ranked += [*counted, *(pair for pair in pairs if not is_counted & {*pair.columns})]
        ranked.sort(key=lambda reason: -abs(reason.deviation))
        n_strong = sum(abs(one.deviation) >= LEAST_DEVIATION for one in ranked)
        reasons[g] = ranked[: min(max(n_strong, 1), MOST_REASONS)]
    return reasons


def _of_unseen(column: int, X: Floats, usual: float) -> GroupReason:
    """The most frequent of the values that no point of ``fit`` had."""
    values, counts = np.unique(X[usual != X], return_counts=True)
    value = float(values[counts.argmax()])
    return GroupReason("unseen", (column,), float(np.copysign(NEVER_SEEN, value - usual)), value, float(usual))


def _of_column(column: int, z: Floats, X: Floats, reference: Floats) -> GroupReason:
    """The mean or, if that is not odd enough, the spread: a mean far out also changes the spread."""
    size = np.abs(z)
    which = int(np.argmax(size >= min(_ENOUGH, _EARLIER * size.max())))
    kind = KINDS[which]
    numbers = [_range(X), _range(reference)] if kind == "spread" else [np.median(X), np.median(reference)]
    return GroupReason(kind, (column,), float(z[which]), float(numbers[0]), float(numbers[1]))


def _of_pairs(values: Ints, usual: Floats, summaries: Summaries) -> list[GroupReason]:
    """Pairs of columns whose correlation is unlike the usual one; correlations vary between groups as spreads do."""
    n = len(values) - 3
    if n < 1 or not 1 < values.shape[1] <= MOST_COLUMNS:
        return []
    relations = _relations(values)
    ratio = float(np.median(summaries.ratios[len(usual) :]))
    away = (np.arctanh(relations) - np.arctanh(usual)) * np.sqrt(n / (1 + ratio * n))
    first, second = np.triu_indices(len(usual), 1)
    strong = np.argsort(-np.abs(away[first, second]), kind="stable")[:MOST_REASONS]
    return [
        GroupReason("relation", (int(i), int(j)), float(away[i, j]), float(relations[i, j]), float(usual[i, j]))
        for i, j in zip(first[strong], second[strong], strict=True)
    ]


def _relations(values: Ints) -> Floats:
    """Correlations of columns, 0 with one that is constant: (n, d) -> (d, d)."""
    away = values - values.mean(axis=0)
    spread = np.sqrt((away**2).mean(axis=0))
    scaled = away / np.where(spread > 0, spread, 1.0)
    relations: Floats = np.clip(scaled.T @ scaled / len(values), -_MOST_CORRELATION, _MOST_CORRELATION)
    return relations


def _range(values: Floats) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low)
