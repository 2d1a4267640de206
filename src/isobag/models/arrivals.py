"""Rows that arrive: those that came before, those that come too late, and the rest, period by period.

The periods from ``late`` before the newest one on still change: the hashes of their rows are known, and of equal rows
as many are kept as one update has brought at most. Of older ones only a sum of hashes for each entity is known: rows of
an entity that have this sum came before, and any others come too late and are left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.hashes import Hashes
from isobag.data.log import Arrivals, BagOrder, Log
from isobag.models.bags import PeriodLines, places_among
from isobag.models.contents import Content, content_of, join_contents
from isobag.models.views import Views


class Sorted(NamedTuple):
    """Rows period by period: order (n,) of the rows, by period; number of each period, and where it starts."""

    arrivals: Arrivals
    order: Ints
    numbers: Ints
    starts: Ints

    def rows_of(self, number: int) -> Arrivals:
        """The rows of a period, in order of entities and then of hashes."""
        place = int(np.searchsorted(self.numbers, number))
        own = self.order[self.starts[place] : self.starts[place + 1]]
        given = self.arrivals
        own = own[np.lexsort((given.hashes[own], given.entities[own]))]
        return Arrivals(given.X[own], np.full(len(own), number), given.entities[own], given.hashes[own])


class Checked(NamedTuple):
    """Rows that are new, and how many came before or too late."""

    fresh: Bools
    n_repeated: int
    n_late: int


def sort_arrivals(arrivals: Arrivals) -> Sorted:
    """Rows by period; the period of each row is then no longer kept."""
    order = np.argsort(arrivals.numbers, kind="stable")
    ranked = arrivals.numbers[order]
    arrivals = arrivals._replace(numbers=ranked[:0].copy())
    starts = np.flatnonzero(np.diff(ranked, prepend=ranked[0] - 1)) if len(ranked) else np.empty(0, dtype=np.int64)
    return Sorted(
        arrivals,
        order.astype(np.min_scalar_type(len(order))),
        ranked[starts].astype(np.int64),
        np.append(starts, len(ranked)),
    )


class KnownRows(NamedTuple):
    """What a period knows of its rows: of each line (lines,) the entity, number and sum of hashes; hashes of rows."""

    entities: Ints
    sizes: Ints
    digests: Hashes
    hashes: Hashes


class KnownPeriods(NamedTuple):
    """What a timeline knows of the rows of some of its periods, by their numbers."""

    newest: int
    late: int
    periods: dict[int, KnownRows]


def known_rows(periods: Sequence[PeriodLines], numbers: Ints, late: int) -> KnownPeriods | None:
    """What is known of the rows of these periods; None where nothing is known at all."""
    if not periods:
        return None
    wanted = set(numbers.tolist())
    known = {
        one.number: KnownRows(one.entities, one.sizes, one.digests, one.hashes)
        for one in periods
        if one.number in wanted
    }
    return KnownPeriods(periods[-1].number, late, known)


def check_arrivals(arrivals: Arrivals, known: KnownPeriods | None) -> Checked:
    """Which rows are new to a timeline; all rows of a bag must be here."""
    if known is None:
        return Checked(np.ones(len(arrivals.numbers), dtype=bool), 0, 0)
    fresh = arrivals.numbers > known.newest
    n_repeated = n_late = 0
    for number in np.unique(arrivals.numbers[~fresh]).tolist():
        rows = np.flatnonzero(arrivals.numbers == number)
        period = known.periods.get(number)
        if number < known.newest - known.late:
            is_repeated = _came_before(arrivals, rows, period)
            n_repeated += int(is_repeated.sum())
            n_late += int((~is_repeated).sum())
        else:
            is_new = np.ones(len(rows), dtype=bool) if period is None else _is_new(arrivals, rows, period)
            fresh[rows] = is_new
            n_repeated += int((~is_new).sum())
    return Checked(fresh, n_repeated, n_late)


def _came_before(arrivals: Arrivals, rows: Ints, period: KnownRows | None) -> Bools:
    """Rows of a settled period whose entity has the same number of rows and sum of hashes: (rows,)."""
    if period is None:
        return np.zeros(len(rows), dtype=bool)
    own = arrivals.entities[rows].astype(np.int64)
    entities, places, sizes = np.unique(own, return_inverse=True, return_counts=True)
    sums = np.zeros(len(entities), dtype=np.uint64)
    np.add.at(sums, places, arrivals.hashes[rows])
    lines = places_among(period.entities, entities)
    is_same = (lines >= 0) & (period.sizes[lines] == sizes) & (period.digests[lines] == sums)
    same: Bools = is_same[places]
    return same


def _is_new(arrivals: Arrivals, rows: Ints, period: KnownRows) -> Bools:
    """Rows beyond as many equal ones of the same entity as the period has: (rows,)."""
    own = np.stack([arrivals.entities[rows].astype(np.uint64), arrivals.hashes[rows]], axis=1)
    old = np.stack([np.repeat(period.entities, period.sizes).astype(np.uint64), period.hashes], axis=1)
    _, keys = np.unique(np.concatenate([old, own]), axis=0, return_inverse=True)
    keys = keys.reshape(-1)
    n_known = np.bincount(keys[: len(old)], minlength=int(keys.max()) + 1)
    mine = keys[len(old) :]
    order = np.argsort(mine, kind="stable")
    ranked = mine[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    nth = np.empty(len(mine), dtype=np.int64)
    nth[order] = np.arange(len(mine)) - np.repeat(starts, np.diff(np.append(starts, len(mine))))
    new: Bools = nth >= n_known[mine]
    return new


class Harvest(NamedTuple):
    """New rows as contents of periods, in the order of time, and how many came before or too late."""

    contents: list[Content]
    n_repeated: int
    n_late: int

    def merge(self, later: "Harvest") -> "Harvest":
        """These bags and later ones."""
        own, other = self.contents, later.contents
        if own and other and own[-1].number == other[0].number:
            own, other = own[:-1], [join_contents(own[-1], other[0]), *other[1:]]
        return Harvest(own + other, self.n_repeated + later.n_repeated, self.n_late + later.n_late)


def count_arrivals(
    arrivals: Arrivals, known: KnownPeriods | None, oldest: int | None, views: Views, compute: Compute
) -> Harvest:
    """The new rows among others, period by period, counted in the cells of views; all rows of a bag must be here.

    oldest : the first period that can still change; hashes of the rows of earlier ones are not kept. None: all are.
    """
    checked = check_arrivals(arrivals, known)
    rows = sort_arrivals(arrivals if checked.fresh.all() else arrivals.part(checked.fresh))
    contents = []
    for number in rows.numbers.tolist():
        content = content_of(number, rows.rows_of(number), views, compute)
        is_settled = oldest is not None and number < oldest
        contents.append(content._replace(hashes=content.hashes[:0].copy()) if is_settled else content)
    return Harvest(contents, checked.n_repeated, checked.n_late)


def sample_rows(log: Log, order: BagOrder, n_bags: int, most: int) -> Floats:
    """Every n-th row of the first bags, in order of periods, entities and hashes, at most so many: (k, d)."""
    sizes = order.sizes[:n_bags]
    step = -(-int(sizes.sum()) // most)
    first = (sizes - np.cumsum(sizes)) % step  # of each bag, the first row that is taken
    chosen = np.flatnonzero(first < sizes)
    keys, first, n_entities = order.keys[chosen], first[chosen], order.n_entities

    def pick(rows: Arrivals) -> list[Floats]:
        own = np.searchsorted(keys, rows.keys(n_entities))
        by_hash = np.lexsort((rows.hashes, own))
        own = own[by_hash]
        place = np.arange(len(own)) - np.searchsorted(own, own)
        is_taken = (place >= first[own]) & ((place - first[own]) % step == 0)
        return [rows.X[by_hash[is_taken]]]

    return np.concatenate(log.gather(order, pick, only=keys))
