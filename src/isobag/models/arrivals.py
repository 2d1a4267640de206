"""Rows that arrive: those that came before, those that come too late, and the rest, period by period.

The periods from ``late`` before the newest one on still change: the hashes of their rows are known, and of equal rows
as many are kept as one update has brought at most. Of older ones only a sum of hashes for each entity is known: rows of
an entity that have this sum came before, and any others come too late and are left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Cells, Floats, Ints
from isobag.data.hashes import Hashes, hash_rows
from isobag.models.bags import PeriodLines
from isobag.models.contents import NewRows


class Arrivals(NamedTuple):
    """Rows of one update: X (n, d), and the period, entity and hash of each (n,)."""

    X: Floats
    numbers: Ints
    entities: Cells
    hashes: Hashes

    def part(self, rows: Ints | Bools) -> "Arrivals":
        """Only some of the rows."""
        return Arrivals(self.X[rows], self.numbers[rows], self.entities[rows], self.hashes[rows])


class Sorted(NamedTuple):
    """Rows period by period: order (n,) of the rows, by period; number of each period, and where it starts."""

    arrivals: Arrivals
    order: Ints
    numbers: Ints
    starts: Ints

    def rows_of(self, number: int) -> NewRows | None:
        """The rows of a period, in order of entities and then of hashes; None if there are none."""
        place = int(np.searchsorted(self.numbers, number))
        if place == len(self.numbers) or self.numbers[place] != number:
            return None
        own = self.order[self.starts[place] : self.starts[place + 1]]
        given = self.arrivals
        own = own[np.lexsort((given.hashes[own], given.entities[own]))]
        return NewRows(given.X[own], given.entities[own].astype(np.int64), given.hashes[own])


class Checked(NamedTuple):
    """Rows that are new, and how many came before or too late."""

    fresh: Bools
    n_repeated: int
    n_late: int


def arrive(X: Floats, times: Ints, numbers: Ints, entities: Ints) -> Arrivals:
    """Rows with their hashes."""
    return Arrivals(X, numbers, entities.astype(np.int32), hash_rows(X, times))


def sort_arrivals(arrivals: Arrivals) -> Sorted:
    """Rows by period; the period of each row is then no longer kept."""
    order = np.argsort(arrivals.numbers, kind="stable")
    ranked = arrivals.numbers[order]
    arrivals = arrivals._replace(numbers=ranked[:0].copy())
    starts = np.flatnonzero(np.diff(ranked, prepend=ranked[0] - 1)) if len(ranked) else np.empty(0, dtype=np.int64)
    return Sorted(
        arrivals, order.astype(np.min_scalar_type(len(order))), ranked[starts], np.append(starts, len(ranked))
    )


def check_arrivals(arrivals: Arrivals, periods: Sequence[PeriodLines], late: int) -> Checked:
    """Which rows are new to a timeline."""
    if not periods:
        return Checked(np.ones(len(arrivals.numbers), dtype=bool), 0, 0)
    newest = periods[-1].number
    fresh = arrivals.numbers > newest
    n_repeated = n_late = 0
    known = {period.number: period for period in periods}
    for number in np.unique(arrivals.numbers[~fresh]).tolist():
        rows = np.flatnonzero(arrivals.numbers == number)
        period = known.get(number)
        if number < newest - late:
            is_repeated = _came_before(arrivals, rows, period)
            n_repeated += int(is_repeated.sum())
            n_late += int((~is_repeated).sum())
        else:
            is_new = np.ones(len(rows), dtype=bool) if period is None else _is_new(arrivals, rows, period)
            fresh[rows] = is_new
            n_repeated += int((~is_new).sum())
    return Checked(fresh, n_repeated, n_late)


def _came_before(arrivals: Arrivals, rows: Ints, period: PeriodLines | None) -> Bools:
    """Rows of a settled period whose entity has the same number of rows and sum of hashes: (rows,)."""
    if period is None:
        return np.zeros(len(rows), dtype=bool)
    own = arrivals.entities[rows].astype(np.int64)
    entities, places, sizes = np.unique(own, return_inverse=True, return_counts=True)
    sums = np.zeros(len(entities), dtype=np.uint64)
    np.add.at(sums, places, arrivals.hashes[rows])
    lines = period.places(entities)
    is_same = (lines >= 0) & (period.sizes[lines] == sizes) & (period.digests[lines] == sums)
    same: Bools = is_same[places]
    return same


def _is_new(arrivals: Arrivals, rows: Ints, period: PeriodLines) -> Bools:
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
