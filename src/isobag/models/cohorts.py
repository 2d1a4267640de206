"""Entities that are alike, found: clusters of their mean maps.

Of entities with counts c of n rows in all past periods, m = c / n:

1. distance  D(A, B) = |m_A - m_B|
2. medoids   for k = 2, ..., 8: the entity nearest to all others, then k - 1 times the one farthest from all medoids so
             far; then, until nothing changes, each entity joins its nearest medoid, and of each cluster the member
             nearest to all its others becomes the medoid
3. number    the k with the largest mean silhouette; one cohort for all unless that is at least .5 and every cluster has
             eleven entities, so that each has ten peers, and a twentieth of all

Where clusters are not clear, all are compared with all. A cohort is named by the number of its medoid. Entities that
come later join the cohort whose mean map, in that period and the seven before, is nearest to that of their first bag;
so do all but about a thousand where there are more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.models.bags import Bags, PeriodLines
from isobag.models.entities import MOST_PEERS, N_NEAREST_PEERS, PEER_PERIODS, evenly_spaced

MOST_COHORTS = 8
LEAST_SILHOUETTE = 0.5
LEAST_SHARE = 0.05
UNKNOWN = -1
"""In place of the cohort of an entity that has no rows yet."""
_MOST_STEPS = 50


class TotalCounts(NamedTuple):
    """Names (k,) in rising order, counts (k, columns) and rows (k,) of each: as floats, in which they are exact."""

    names: Ints
    counts: Floats
    sizes: Floats

    def distances(self, other: "TotalCounts") -> Floats:
        """D of all pairs: (k, l)."""
        n, m = self.sizes[:, None], other.sizes
        dots = self.counts @ other.counts.T
        own, others = (np.einsum("ij,ij->i", one.counts, one.counts) for one in (self, other))
        sq_dists = (own[:, None] / n - 2 * dots / m) / n + others / (m * m)
        distances: Floats = np.sqrt(np.maximum(sq_dists, 0))
        return distances


def add_up(parts: Sequence[tuple[Ints, Bags]], n_columns: int) -> TotalCounts:
    """Counts of all bags of one name, from parts: the name of each bag (b,), and bags."""
    names = np.unique(np.concatenate([own for own, _ in parts]))
    counts, sizes = np.zeros((len(names), n_columns)), np.zeros(len(names))
    for own, bags in parts:
        places, all_of_them = np.searchsorted(names, own), np.arange(len(own))
        which = csr_array((np.ones(len(own), dtype=np.int64), (places, all_of_them)), shape=(len(names), len(own)))
        counts += (which @ bags.packed.sparse(all_of_them, n_columns)).toarray()
        np.add.at(sizes, places, bags.sizes)
    return TotalCounts(names, counts, sizes)


def find_cohorts(parts: Sequence[Bags], n_entities: int, n_columns: int) -> Ints:
    """The cohort of each entity, from bags of some periods; UNKNOWN of those without any: (e,)."""
    total = add_up([(one.entities, one) for one in parts], n_columns)
    cohorts = np.full(n_entities, UNKNOWN)
    cohorts[total.names] = total.names[cluster(total.distances(total))]
    return cohorts


def join_cohorts(cohorts: Ints, bags: Bags, periods: Sequence[PeriodLines], n_columns: int) -> Ints:
    """The same, with cohorts for those entities of bags that have none."""
    new = np.flatnonzero(cohorts[bags.entities] == UNKNOWN)
    if not len(new):
        return cohorts
    joined = cohorts.copy()
    parts = []
    present = [(bags, np.ones(len(bags.sizes), dtype=bool)), *((p.as_bags, p.usable) for p in periods[-PEER_PERIODS:])]
    for own, usable in present:
        lines = evenly_spaced(np.flatnonzero(usable & (cohorts[own.entities] != UNKNOWN)), MOST_PEERS)
        parts.append((cohorts[own.entities[lines]], own.part(lines)))
    known = np.unique(cohorts[cohorts != UNKNOWN])
    total = add_up(parts, n_columns)
    for rows in slices(len(new), MOST_PEERS):
        added = add_up([(bags.entities[new[rows]], bags.part(new[rows]))], n_columns)
        joined[added.names] = total.names[added.distances(total).argmin(axis=1)] if len(total.names) else known[0]
    return joined


def cluster(distances: Floats) -> Ints:
    """The medoid of each of n things, by their distances: (n, n) -> (n,); one for all where clusters are unclear."""
    from sklearn.metrics import silhouette_score  # noqa: PLC0415, seldom needed, and slow to load

    n = len(distances)
    apart = distances * ~np.eye(n, dtype=bool)  # no thing is apart from itself, but for rounding
    central = int(distances.sum(axis=1).argmin())
    best, found = LEAST_SILHOUETTE, np.full(n, central)
    least = max(N_NEAREST_PEERS + 1, LEAST_SHARE * n)
    for k in range(2, min(MOST_COHORTS, int(n / least)) + 1):
        labels = _k_medoids(distances, k, central)
        sizes = np.unique(labels, return_counts=True)[1]
        clear = len(sizes) > 1 and sizes.min() >= least
        score = silhouette_score(apart, labels, metric="precomputed") if clear else 0.0
        if score >= best:
            best, found = score, labels
    return found


def _k_medoids(distances: Floats, k: int, central: int) -> Ints:
    medoids = [central]
    while len(medoids) < k:
        medoids.append(int(distances[:, medoids].min(axis=1).argmax()))
    centers = np.unique(medoids)
    for _ in range(_MOST_STEPS):
        nearest = distances[:, centers].argmin(axis=1)
        members = [np.flatnonzero(nearest == place) for place in np.unique(nearest)]
        moved = np.unique([own[distances[np.ix_(own, own)].sum(axis=1).argmin()] for own in members])
        if np.array_equal(moved, centers):
            break
        centers = moved
    labels: Ints = centers[distances[:, centers].argmin(axis=1)]
    return labels
