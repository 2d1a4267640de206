"""How far a bag is from bags of the entity's own past, and from those of its peers.

Of bags with mean maps m = c / n, counts c of n rows in the cells of t partitionings:

1. ratio     r(A, B) = |m_A - m_B|^2 / (1 / n_A + 1 / n_B + q); q is the variance between bags, in variances of one row:
             then r is about the same at every size, unless something changed
2. distance  s = mean r to the five nearest bags of the own past, fewer while there are fewer; the past is the 168
             latest periods, and of older ones the 52 latest of the same phase of the week
3. past      (s - location) / scale, of the entity's own earlier s, with weights that halve in about 35 periods; as much
             as five periods of all entities is mixed in
             or that of the shift of column means, see ``shifts``, less 2, where it is larger
4. first     the same with the first 28 bags of the entity alone, once it has twice as many: a slow change is as far
             from these as a sudden one
5. peers     mean r to the ten nearest bags of other entities, in the same period and the seven before

Scores are prequential: made before the bag joins the past, from what was known then. So a new bag is judged exactly as
all earlier ones were.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.threads import slices
from isobag.models.bags import MISSING, Bags, PeriodLines, join_bags
from isobag.models.volume import MOST_PERIODS

N_NEAREST, N_NEAREST_PEERS = 5, 10
N_FIRST = 28
MARGIN = 2.0
"""By how many spreads the shift of column means must exceed the distance to count."""
N_EARLY = 2 * N_FIRST
PEER_PERIODS, MOST_PEERS, MOST_PAST_PEERS = 7, 512, 128
_KEPT_RATIOS = 1 << 20
_DECAY, _SHRINKAGE = 0.98, 5.0
_LEAST_SCALE = 0.01
_LEAST_BETWEEN, _MOST_BETWEEN, _USUAL_BETWEEN = 1e-3, 1.0, 0.1


class OwnPast(NamedTuple):
    """Of each bag, (b,): its own joined bags ever, and s (see above) of all that are left and of the first ones.

    MISSING where there are none.
    """

    ages: Ints
    distance: Floats
    from_first: Floats


def ratios(
    dots: Ints, sizes: Ints, self_dots: Ints, other_sizes: Ints, other_self_dots: Ints, between: float
) -> Floats:
    """R of bags and others, elementwise, from their dot products and those of each with itself."""
    n, m = sizes.astype(np.float64), other_sizes.astype(np.float64)
    sq_dists = np.maximum(self_dots / (n * n) - 2 * dots / (n * m) + other_self_dots / (m * m), 0)
    return sq_dists / (1 / n + 1 / m + between)


def compare_with_past(
    bags: Bags,
    firsts: Sequence[PeriodLines],
    periods: Sequence[PeriodLines],
    near: Bools,
    between: float,
    n_columns: int,
    compute: Compute,
) -> OwnPast:
    """Distances to the nearest bags of the own past, in periods that are ``near``, and to the own first bags.

    ``firsts`` are lines that the past no longer has.
    """
    n_bags = len(bags.sizes)
    found = OwnPast(_ages(bags.entities, (*firsts, *periods)), np.full(n_bags, MISSING), np.full(n_bags, MISSING))
    marked = [*((one, False) for one in firsts), *zip(periods, near.tolist(), strict=True)]
    known = [(one, is_near) for one, is_near in marked if is_near or one.least_age < N_FIRST]
    is_near = np.array([one for _, one in known], dtype=bool)
    for rows in slices(n_bags, max(1, _KEPT_RATIOS // max(1, len(known)))):
        entities, sizes, self_dots = bags.entities[rows], bags.sizes[rows], bags.self_dots[rows]
        values = np.full((len(sizes), len(known)), np.inf)
        is_first = np.zeros(values.shape, dtype=bool)
        is_old = found.ages[rows] >= N_EARLY
        for k, (period, all_count) in enumerate(known):
            lines = period.places(entities)
            young = period.ages < N_FIRST
            own = np.flatnonzero((lines >= 0) & period.usable[lines] & (all_count | (is_old & young[lines])))
            lines = lines[own]
            dots = compute.verbs.dot_pairs(bags.packed, own + rows.start, period.bags, lines, n_columns, compute.n_jobs)
            others = period.sizes[lines], period.self_dots[lines]
            values[own, k] = ratios(dots, sizes[own], self_dots[own], *others, between)
            is_first[own, k] = young[lines]
        found.distance[rows] = mean_of_nearest(values[:, is_near], N_NEAREST)
        old = np.flatnonzero(is_old)
        found.from_first[rows][old] = mean_of_nearest(np.where(is_first[old], values[old], np.inf), N_NEAREST)
    return found


def _ages(entities: Ints, periods: Sequence[PeriodLines]) -> Ints:
    """Number of own joined bags ever, from the newest of them: (b,)."""
    ages, pending = np.zeros(len(entities), dtype=np.int64), np.arange(len(entities))
    for period in periods[::-1]:
        if not len(pending):
            break
        lines = period.places(entities[pending])
        known = (lines >= 0) & period.usable[lines]
        ages[pending[known]] = period.ages[lines[known]] + 1
        pending = pending[~known]
    return ages


def mean_of_nearest(values: Floats, n_nearest: int) -> Floats:
    """Mean of the least values of each row, of fewer where others are infinite: (b, m) -> (b,)."""
    if values.shape[1] > n_nearest:
        values = np.partition(values, n_nearest - 1, axis=1)[:, :n_nearest]
    values = np.sort(values, axis=1)
    total, number = np.zeros(len(values)), np.zeros(len(values))
    for column in values.T:
        known = np.isfinite(column)
        total += np.where(known, column, 0.0)
        number += known
    return np.where(number > 0, total / np.maximum(number, 1), MISSING)


class RawScores(NamedTuple):
    """Of each bag, (b,): s of distances and of shifts, for the own past and for the first bags; MISSING if unknown."""

    distance: Floats
    shift: Floats
    first_distance: Floats
    first_shift: Floats


def standardise(
    raw: RawScores,
    entities: Ints,
    firsts: Sequence[PeriodLines],
    periods: Sequence[PeriodLines],
    n_entities: int,
    cycle: int,
) -> tuple[Floats, Floats]:
    """Past and first: distance or shift - 2, whichever is larger, both in own spreads from an own location: (b,) each.

    Only periods with the same knowledge of the season count, once there is a whole cycle of them.
    What is usual for the first bags is that of bags that had five to 55 before them: it does not follow a slow change.
    """
    every = (*firsts, *periods)
    early = [period for period in every if period.least_age < N_EARLY]

    def apply(name: str, scores: Floats, known: Sequence[PeriodLines], is_early: bool) -> Floats:
        if not np.any(scores > MISSING):
            return scores
        known = [one for one in known if not one.changed]
        alike = [one for one in known if one.cycle == cycle]
        chosen = alike if alike and len(alike) >= cycle else known
        chosen = chosen if is_early else chosen[-max(MOST_PERIODS, cycle) :]
        return _usual(chosen, name, n_entities, is_early).apply(scores, entities)

    past = apply("distance", raw.distance, periods, False), apply("shift", raw.shift, periods, False)
    first = apply("distance", raw.first_distance, early, True), apply("shift", raw.first_shift, early, True)
    return np.maximum(past[0], past[1] - MARGIN), np.maximum(first[0], first[1] - MARGIN)


def gather_peers(bags: Bags, periods: Sequence[PeriodLines]) -> Bags:
    """Some bags of the present period and of those before, evenly spaced among the entities."""
    chosen = [(bags, evenly_spaced(np.arange(len(bags.sizes)), MOST_PEERS))]
    for period in periods[-PEER_PERIODS:]:
        chosen.append((period.as_bags, evenly_spaced(np.flatnonzero(period.usable), MOST_PAST_PEERS)))
    return join_bags([own.part(lines) for own, lines in chosen])


def compare_with_peers(
    bags: Bags, chosen: Ints, peers: Bags, cohorts: Ints, between: float, n_columns: int, compute: Compute
) -> Floats:
    """Mean r to the nearest bags of other entities of the same cohort, of the chosen bags: (k,)."""
    scores = np.full(len(chosen), MISSING)
    peer_counts = peers.packed.sparse(np.arange(len(peers.sizes)), n_columns)
    for rows in slices(len(chosen), max(1, _KEPT_RATIOS // max(1, len(peers.sizes)))):
        some = chosen[rows]
        counts = bags.packed.sparse(some, n_columns)
        dots = np.asarray(compute.fetch(compute.verbs.dot_counts(counts, peer_counts, compute.n_jobs, None)))
        entities, sizes, self_dots = (own[some][:, None] for own in (bags.entities, bags.sizes, bags.self_dots))
        values = ratios(dots, sizes, self_dots, peers.sizes, peers.self_dots, between)
        is_peer = (entities != peers.entities) & (cohorts[entities] == cohorts[peers.entities])
        scores[rows] = mean_of_nearest(np.where(is_peer, values, np.inf), N_NEAREST_PEERS)
    return scores


class Pairs(NamedTuple):
    """Pairs of bags: before[old[k]] and after[new[k]]."""

    before: Bags
    old: Ints
    after: Bags
    new: Ints


def estimate_between(pairs: Sequence[Pairs], within: float, n_columns: int, compute: Compute) -> float:
    """q: the median over pairs of |m_A - m_B|^2 / w - 1 / n_A - 1 / n_B, at least .001 and at most 1."""
    found = [np.empty(0)]
    for before, old, after, new in pairs:
        dots = compute.verbs.dot_pairs(after.packed, new, before.packed, old, n_columns, compute.n_jobs)
        noise = 1 / before.sizes[old] + 1 / after.sizes[new]
        both = after.sizes[new], after.self_dots[new], before.sizes[old], before.self_dots[old]
        found.append((ratios(dots, *both, 0.0) / within - 1) * noise)
    values = np.concatenate(found)
    return float(np.clip(np.median(values), _LEAST_BETWEEN, _MOST_BETWEEN)) if len(values) else _USUAL_BETWEEN


def variance_of_row(bags: Sequence[Bags], n_partitionings: int) -> float:
    """w: sum over all bags of (t n - |c|^2 / n) / sum of (n - 1)."""
    sizes = np.concatenate([one.sizes for one in bags]).astype(np.float64)
    squares = np.concatenate([one.self_dots for one in bags]).astype(np.float64)
    degrees = float((sizes - 1).sum())
    within = float((n_partitionings * sizes - squares / sizes).sum()) / degrees if degrees else 0.0
    return within if within > 0 else float(n_partitionings)


class _Usual(NamedTuple):
    """Location and scale of each entity's scores: (e,)."""

    location: Floats
    scale: Floats

    def apply(self, scores: Floats, entities: Ints) -> Floats:
        values = (scores - self.location[entities]) / self.scale[entities]
        return np.where(scores > MISSING, values, MISSING)


def _usual(periods: Sequence[PeriodLines], name: str, n_entities: int, early: bool = False) -> _Usual:
    """From the joined lines of all periods, the latest with the largest weight; or of those with few before them."""
    weight, total, square = np.zeros((3, n_entities))
    decay = 1.0 if early else _DECAY
    for period in periods:
        values = getattr(period, name)
        known = period.joined & (values > MISSING)
        if early:
            known &= (period.ages >= N_NEAREST) & (period.ages < N_EARLY)
        own, scores = period.entities[known], values[known]
        weight[own] = weight[own] * decay + 1
        total[own] = total[own] * decay + scores
        square[own] = square[own] * decay + scores * scores
    if not weight.any():
        return _Usual(np.zeros(n_entities), np.ones(n_entities))
    mean = float(total.sum() / weight.sum())
    known = weight > 0
    spread = np.maximum(square[known] - total[known] ** 2 / weight[known], 0)
    degrees = float(np.maximum(weight[known] - 1, 0).sum())
    within = float(spread.sum()) / degrees if degrees > 0 else 0.0
    apart = float(square.sum() / weight.sum()) - mean**2
    pooled = max(within if degrees > 0 else apart, _LEAST_SCALE**2)
    location = (total + _SHRINKAGE * mean) / (weight + _SHRINKAGE)
    variance = np.full(n_entities, pooled)
    variance[known] = (spread + _SHRINKAGE * pooled) / (np.maximum(weight[known] - 1, 0) + _SHRINKAGE)
    return _Usual(location, np.maximum(np.sqrt(variance), _LEAST_SCALE))


def evenly_spaced(numbers: Ints, most: int) -> Ints:
    """At most so many of the numbers, evenly spaced."""
    return numbers if len(numbers) <= most else numbers[np.arange(most) * len(numbers) // most]
