"""The null distribution of evidence: that of past periods of all entities, by the number of rows usual for a bag."""

from dataclasses import dataclass, fields

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand

MOST, PER_PERIOD = 40_000, 4_000
"""Bags whose evidence is remembered, the latest; and of one period, at random."""
N_GROUPS = 4
"""Bags usually of less than 1, 4, 16 and more rows."""
_ENOUGH, _FEWEST, _RECENT, _TAIL, _LEAST_TAIL, _BEYOND = 200, 10, 28, 0.1, 100, 100.0


@dataclass(frozen=True)
class Null(Learned):
    """Evidence of past bags, their group of sizes, period and entity: (n,) each."""

    evidence: Floats
    group: Ints
    period: Ints
    entity: Ints

    def validate(self) -> None:
        """As many of each."""
        demand(all(getattr(self, one.name).shape == (len(self.group),) for one in fields(self)), "evidence of no bag")


def add_evidence(null: Null, evidence: Floats, group: Ints, counts: Bools, period: int) -> Null:
    """The same with the evidence of a period, and without that of the first half of all."""
    rows = np.flatnonzero(counts)
    if len(rows) > PER_PERIOD:
        rows = np.sort(np.random.default_rng(period).choice(rows, PER_PERIOD, replace=False))
    new = evidence[rows], group[rows], np.full(len(rows), period), rows
    joined = [np.concatenate([getattr(null, one.name), own]) for one, own in zip(fields(null), new, strict=True)]
    first = max(int(np.searchsorted(joined[2], period / 2)), len(joined[2]) - MOST)
    return Null(*(own[first:] for own in joined))


def p_values(null: Null, evidence: Floats, group: Ints, period: int) -> tuple[Floats, Floats]:
    """P-value of each entity, the rank of its evidence, and the bound of these: (E,) -> (E,), (E,).

    NaN without evidence or a past. An entity's own latest periods do not count where there are others, or a shift that
    lasts would hide itself.
    """
    p, bound = np.full(len(evidence), np.nan), np.zeros(len(evidence))
    for k in range(N_GROUPS):
        rows, near = np.flatnonzero((group == k) & ~np.isnan(evidence)), _near(null.group, k)
        if not len(rows) or len(near) < _FEWEST:
            continue
        past, late = null.evidence[near], near[null.period[near] > period - _RECENT]
        values, ordered = evidence[rows], np.sort(past)
        entity, is_beyond = null.entity[late], null.evidence[late] >= evidence[null.entity[late]]
        n_late, n_late_beyond = (np.bincount(own, minlength=len(p))[rows] for own in (entity, entity[is_beyond]))
        has_others = len(past) - n_late >= _ENOUGH // 2
        n = len(past) - has_others * n_late
        n_beyond = len(past) - np.searchsorted(ordered, values) - has_others * n_late_beyond
        bound[rows] = least = 1 / (_BEYOND * (n + 1))
        p[rows] = np.where(n_beyond > 0, (n_beyond + 1) / (n + 1), np.clip(_tail(ordered, values), least, 1 / (n + 1)))
    return p, bound


def _tail(ordered: Floats, values: Floats) -> Floats:
    """Chance to be beyond values, by an exponential tail of the largest of a sorted past.

    Predicted from as many as there are, not fitted: of few, a tail of unknown rate is a longer one.
    """
    n = len(ordered)
    k = max(int(n * _TAIL), min(n // 2, _LEAST_TAIL))
    start = ordered[n - k - 1]
    beyond = np.maximum(values - start, 0.0) / max(float((ordered[n - k :] - start).sum()), 1e-9)
    result: Floats = k / (n + 1) * (1 + beyond) ** -k
    return result


def _near(group: Ints, k: int) -> Ints:
    """Past evidence of a group, with that of neighbouring groups while it is little."""
    for reach in range(N_GROUPS):
        near = np.flatnonzero(np.abs(group - k) <= reach)
        if len(near) >= _ENOUGH:
            break
    return near


def benjamini_hochberg(p: Floats, counts: Bools, fdr: float) -> Bools:
    """Which of the p-values that count are discoveries: (E,) -> (E,)."""
    ordered = np.sort(p[counts])
    passed = np.flatnonzero(ordered <= fdr * np.arange(1, len(ordered) + 1) / max(len(ordered), 1))
    return counts & (p <= ordered[passed[-1]]) if len(passed) else np.zeros(len(p), dtype=bool)
