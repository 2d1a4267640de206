"""What a period consists of before it is judged: for each entity the counts of its rows, and their hashes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.backends.counts import self_dots
from isobag.backends.pairs import pack_counts
from isobag.data.hashes import Hashes
from isobag.data.log import Arrivals
from isobag.data.rows import GroupedBlock, whole_groups
from isobag.models.bags import Bags, PeriodLines, join_bags
from isobag.models.tally import GroupTally, merge_tallies
from isobag.models.views import Views

Floats32 = npt.NDArray[np.float32]
_COUNTED_ROWS = 1 << 15
"""Rows that are counted at a time: counts are packed at once, as they need twelve bytes each before."""
_LARGEST = float(np.finfo(np.float32).max)


class Content(NamedTuple):
    """A period: bags of its entities, in rising order; sums of the hashes of their rows (b,); means, spreads (b, d).

    hashes : of the rows, bag by bag; none where the period can no longer change.
    """

    number: int
    bags: Bags
    digests: Hashes
    hashes: Hashes
    means: Floats32
    spreads: Floats32


def content_of(number: int, rows: Arrivals, views: Views, compute: Compute) -> Content:
    """Count the rows of each entity of a period, in order of entities and then of hashes, in the cells of views."""
    starts = np.flatnonzero(np.diff(rows.entities, prepend=-1))
    entities = rows.entities[starts].astype(np.int64)
    ends = np.append(starts[1:], len(rows.X))
    parts = []
    for own, own_starts, numbers in whole_groups(ends, _COUNTED_ROWS):
        tally = views.tally_groups(GroupedBlock(rows.X[own], own_starts, numbers), compute)
        parts.append(_bags(entities[numbers], tally.counts.tocsr(), np.diff(own_starts)))
    means, spreads = _moments(rows.X, starts)
    return Content(number, join_bags(parts), np.add.reduceat(rows.hashes, starts), rows.hashes, means, spreads)


def content_again(period: PeriodLines) -> Content:
    """What a period that was judged consists of."""
    spoken = np.flatnonzero(period.sizes > 0)
    means, spreads = period.means[spoken], period.spreads[spoken]
    bags = period.as_bags.part(spoken)
    return Content(period.number, bags, period.digests[spoken], period.hashes, means, spreads)


def join_contents(one: Content, other: Content) -> Content:
    """The bags of both, of the same period; entities of the second are behind those of the first."""
    return Content(
        one.number,
        join_bags([one.bags, other.bags]),
        np.concatenate([one.digests, other.digests]),
        np.concatenate([one.hashes, other.hashes]),
        np.concatenate([one.means, other.means]),
        np.concatenate([one.spreads, other.spreads]),
    )


def merge_contents(one: Content, other: Content, n_columns: int) -> Content:
    """The rows of both."""
    parts = [
        GroupTally(own.bags.entities, own.bags.packed.sparse(np.arange(len(own.bags.sizes)), n_columns), own.bags.sizes)
        for own in (one, other)
    ]
    tally = merge_tallies(parts)
    entities = np.concatenate([np.repeat(own.bags.entities, own.bags.sizes) for own in (one, other)])
    hashes = np.concatenate([one.hashes, other.hashes])
    places = [np.searchsorted(tally.numbers, own.bags.entities) for own in (one, other)]
    sums = np.zeros((2, len(tally.numbers), one.means.shape[1]))
    for own, at in zip((one, other), places, strict=True):
        n, means = own.bags.sizes[:, None], own.means.astype(np.float64)
        sums[0][at] += n * means
        sums[1][at] += n * (own.spreads.astype(np.float64) ** 2 + means**2)
    means, squares = sums / tally.sizes[:, None]
    spreads = np.sqrt(np.maximum(squares - means**2, 0))
    bags = _bags(tally.numbers, tally.counts.tocsr(), tally.sizes)
    digests = np.zeros(len(tally.numbers), dtype=np.uint64)
    for own, at in zip((one, other), places, strict=True):
        digests[at] += own.digests
    hashes = hashes[np.lexsort((hashes, entities))]
    return Content(one.number, bags, digests, hashes, _narrow(means), _narrow(spreads))


def some_bags(content: Content, step: int) -> Bags:
    """The bags of every n-th entity."""
    return content.bags.part(np.flatnonzero(content.bags.entities % step == 0))


def _bags(entities: Ints, counts: csr_array, sizes: Ints) -> Bags:
    return Bags(entities, sizes, pack_counts(counts), self_dots(counts).astype(np.int64))


def _moments(X: Floats, starts: Ints) -> tuple[Floats32, Floats32]:
    """Mean and standard deviation of each feature in each run of rows: (runs, d) each."""
    sizes = np.diff(np.append(starts, len(X)))[:, None]
    means = np.add.reduceat(X, starts, axis=0) / sizes
    away = X - np.repeat(means, sizes[:, 0], axis=0)
    return _narrow(means), _narrow(np.sqrt(np.add.reduceat(away * away, starts, axis=0) / sizes))


def _narrow(values: Floats) -> Floats32:
    return np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
