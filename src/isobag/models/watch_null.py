"""The null distribution of evidence: that of past periods of all entities, by the number of rows usual for a bag."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand

MOST, PER_PERIOD = 20_000, 2_000
"""Bags whose evidence is remembered for each group of sizes, the latest; and of one period, at random."""
N_GROUPS = 4
"""Bags usually of less than 1, 4, 16 and more rows."""
_ENOUGH, _FEWEST, _RECENT, _TAIL, _LEAST_TAIL, _BEYOND = 200, 10, 28, 0.1, 100, 100.0


@dataclass(frozen=True)
class Null(Learned):
    """Evidence of past bags: for each group of sizes (n, kinds), and the period and entity of each (n,), (n,)."""

    evidence: tuple[Floats, ...]
    periods: tuple[Ints, ...]
    entities: tuple[Ints, ...]

    def validate(self) -> None:
        """A period for each."""
        demand(len(self.evidence) == len(self.periods) == N_GROUPS, f"evidence is not of {N_GROUPS} groups")
        for evidence, *of in zip(self.evidence, self.periods, self.entities, strict=True):
            fits = evidence.ndim == 2 and all(own.shape == (len(evidence),) for own in of)
            demand(fits, "evidence without a period or entity")


def empty_null(n_kinds: int) -> Null:
    """Before any period."""
    return Null((np.empty((0, n_kinds)),) * N_GROUPS, *((np.empty(0, dtype=np.int64),) * N_GROUPS for _ in range(2)))


def add_evidence(null: Null, evidence: Floats, group: Ints, counts: Bools, period: int) -> Null:
    """The same with the evidence of a period, and without that of the first half of all."""
    parts = []
    for k in range(N_GROUPS):
        rows = np.flatnonzero(counts & (group == k))
        if len(rows) > PER_PERIOD:
            rows = np.sort(np.random.default_rng(period).choice(rows, PER_PERIOD, replace=False))
        periods = np.concatenate([null.periods[k], np.full(len(rows), period)])
        first = max(int(np.searchsorted(periods, period / 2)), len(periods) - MOST)
        joined = (null.evidence[k], evidence[rows]), (null.entities[k], rows)
        of_group, entities = (np.concatenate(own)[first:] for own in joined)
        parts.append((of_group, periods[first:], entities))
    return Null(*(tuple(own) for own in zip(*parts, strict=True)))


def p_values(null: Null, evidence: Floats, group: Ints, period: int) -> tuple[Floats, Ints, Floats]:
    """P-value of each entity by its smallest over kinds of evidence, that kind, and the bound: (E, kinds) -> (E,) each.

    The smallest of several is compared with the smallest of each past bag. NaN without evidence or a past.
    """
    p, kind, bound = np.full(len(evidence), np.nan), np.zeros(len(evidence), dtype=np.int64), np.zeros(len(evidence))
    for k in range(N_GROUPS):
        rows = np.flatnonzero((group == k) & ~np.isnan(evidence[:, 0]))
        past, periods, entities = (_near(own, k) for own in (null.evidence, null.periods, null.entities))
        if not len(rows) or len(past) < _FEWEST:
            continue
        log_p = _log_tails(past, evidence[rows])
        kind[rows] = log_p.argmin(axis=1)
        smallest, of_past = -log_p.min(axis=1), -_log_tails(past, past).min(axis=1)
        late = periods > period - _RECENT  # a shift that lasts must not hide itself, where there are others
        n_late = np.bincount(entities[late], minlength=len(p))[rows]
        without = len(past) - n_late >= _ENOUGH // 2
        limit = np.full(len(p), np.inf)
        limit[rows[without]] = smallest[without]
        n = len(past) - np.where(without, n_late, 0)
        n_beyond = len(past) - np.searchsorted(np.sort(of_past), smallest)
        n_beyond = n_beyond - np.bincount(entities[late], of_past[late] >= limit[entities[late]], len(p))[rows]
        bound[rows] = least = 1 / (_BEYOND * (n + 1))
        tail = np.clip(np.exp(_log_tail(np.sort(of_past), smallest)), least, 1 / (n + 1))
        p[rows] = np.where(n_beyond > 0, (n_beyond + 1) / (n + 1), tail)
    return p, kind, bound


def _log_tail(ordered: Floats, values: Floats) -> Floats:
    """Log of the chance to be beyond values, by an exponential tail of the largest of a sorted past.

    Predicted from as many as there are, not fitted: of few, a tail of unknown rate is a longer one.
    """
    n = len(ordered)
    k = max(int(n * _TAIL), min(n // 2, _LEAST_TAIL))
    start = ordered[n - k - 1]
    beyond = np.maximum(values - start, 0.0) / max(float((ordered[n - k :] - start).sum()), 1e-9)
    ranks = np.log(np.maximum(n - np.searchsorted(ordered, values), 1) / (n + 1))
    result: Floats = np.where(beyond > 0, np.log(k / (n + 1)) - k * np.log1p(beyond), ranks)
    return result


def _log_tails(past: Floats, values: Floats) -> Floats:
    """Log of the share of past evidence that is as large, of each kind: (m, kinds)."""
    return np.stack([_log_tail(np.sort(past[:, h]), values[:, h]) for h in range(values.shape[1])], axis=1)


def _near(parts: tuple[Any, ...], k: int) -> Any:
    """Past evidence of a group, with that of neighbouring groups while it is little."""
    chosen = [parts[max(0, k - reach) : k + reach + 1] for reach in range(N_GROUPS)]
    return np.concatenate(next((own for own in chosen if sum(map(len, own)) >= _ENOUGH), chosen[-1]))


def benjamini_hochberg(p: Floats, counts: Bools, fdr: float) -> Bools:
    """Which of the p-values that count are discoveries: (E,) -> (E,)."""
    ordered = np.sort(p[counts])
    passed = np.flatnonzero(ordered <= fdr * np.arange(1, len(ordered) + 1) / max(len(ordered), 1))
    return counts & (p <= ordered[passed[-1]]) if len(passed) else np.zeros(len(p), dtype=bool)
