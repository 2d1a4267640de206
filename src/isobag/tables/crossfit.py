"""P-values of the very data that a detector learned from, by cross-fitting.

The rows (or groups) are dealt out at random to two halves. A detector learns from each half and scores the other, and

p(x) = share of the scores of x's own half that are not above the score of x, itself counted.

If the rows of a half are exchangeable, as rows drawn alike are, P(p(x) <= alpha) <= alpha for each of them: the
detector that scores them has seen none. Odd rows among the data make p-values larger, for they are counted and learned
from too.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from isobag.arrays import Bools, Floats, Ints
from isobag.detectors import IDKGroupDetector, IDKPointDetector
from isobag.groups import Bags
from isobag.rows import BLOCK_ROWS, ArrayRows, Rows

LEARNED_ROWS = 10_000
LEARNED_GROUPS = 2_000


class Split(NamedTuple):
    """Which of two halves each row belongs to (n,), rows of each to learn from, and the seeds of the two detectors."""

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


def _draw(rows: Ints, most: int, rng: np.random.Generator) -> Ints:
    return np.sort(rng.choice(rows, min(most, len(rows)), replace=False))


def cross_p_values_of_rows(detector: IDKPointDetector, rows: Rows) -> Floats:
    """P-values of the rows that the detector was fitted on: (n,) in (0, 1], all 1 if there are fewer than 4 rows."""
    n = len(rows)
    if n < 4:
        return np.ones(n)
    halves = split(n, LEARNED_ROWS, detector.random_state)
    learned = [
        _fit_rows(detector, rows.take(own), seed) for own, seed in zip(halves.learned, halves.seeds, strict=True)
    ]
    scores, start = np.empty(n), 0
    for chunk in rows.chunks():
        in_second = halves.in_second[start : start + len(chunk)]
        part = scores[start : start + len(chunk)]
        part[~in_second] = learned[1]._scores(chunk[~in_second])
        part[in_second] = learned[0]._scores(chunk[in_second])
        start += len(chunk)
    return _shares_within(scores, halves.in_second)


def cross_p_values_of_groups(detector: IDKGroupDetector, bags: Bags) -> Floats:
    """P-values of the groups that the detector was fitted on: (g,) in (0, 1], all 1 if there are fewer than 4."""
    n = len(bags.labels)
    if n < 4:
        return np.ones(n)
    halves = split(n, LEARNED_GROUPS, detector.random_state)
    scores = np.empty(n)
    for which, own, seed in zip((True, False), halves.learned, halves.seeds, strict=True):
        learned = bags.take(own)
        most = {"max_samples": len(learned.X), "group_max_samples": len(own)}
        other = np.flatnonzero(halves.in_second == which)
        model = _learner(detector, seed, most)
        model._fit_groups(learned)
        scores[other] = model._score_groups(bags.take(other))
    return _shares_within(scores, halves.in_second)


def _fit_rows(detector: IDKPointDetector, points: Floats, seed: int) -> IDKPointDetector:
    model: IDKPointDetector = _learner(detector, seed, {"max_samples": len(points)})
    model._fit_rows(ArrayRows(points))
    return model


def _learner(detector: Any, seed: int, most: dict[str, int]) -> Any:
    """The same detector, not fitted, with psi that fit into half of the data."""
    options = {name: min(bound, value) for name, bound in most.items() if (value := getattr(detector, name)) != "auto"}
    return clone(detector).set_params(calibrate=False, random_state=seed, **options)


def _shares_within(scores: Floats, in_second: Bools) -> Floats:
    """Share of the scores of the same half that are not above each score; takes the place of the scores: (n,)."""
    for half in (False, True):  # one at a time, in blocks: there may be hundreds of millions of them
        ranked = scores[in_second == half]
        ranked.sort()
        for start in range(0, len(scores), BLOCK_ROWS):
            part = scores[start : start + BLOCK_ROWS]
            own = in_second[start : start + BLOCK_ROWS] == half
            part[own] = np.searchsorted(ranked, part[own], side="right") / len(ranked)
        del ranked  # before the next half needs as much room
    return scores
