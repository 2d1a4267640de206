"""Views of the data: a scaling, and the partitionings drawn from the scaled data. Views never change once drawn.

A detector with one psi and one scaling has one view. The default has several and divides its partitionings among them,
because no scaling and no psi suits all data. Counts and sums go over the cells of all views.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Cells, Floats, Ints
from isobag.backends.counts import join_counts
from isobag.backends.learned import Learned, demand
from isobag.data.groups import Groups
from isobag.data.rows import GroupedBlock, Rows
from isobag.data.scaling import Scaling, fit_scalings
from isobag.models.maps import Count, LazyMaps, LocalMaps, maps_of
from isobag.models.tally import GroupTally, Tables, Tally
from isobag.partitionings import Partitionings, draw_rows, draw_seeds, partition_rows
from isobag.partitionings.counts import MeanMaps

Sums = tuple[Ints, ...]
"""For each view and row, sums over partitionings (n, L)."""
Limits = tuple[Ints, ...]
"""For each view and level (L,), the distance beyond which a row is far out."""


class Plan(NamedTuple):
    """How to draw a view: the name of a scaling, and the nested psi."""

    scaling: str | None
    levels: tuple[int, ...]


@dataclass(frozen=True)
class View(Learned):
    """Partitionings of scaled data."""

    scaling: Scaling
    partitionings: Partitionings

    def prepare(self, X: Floats, compute: Compute) -> Any:
        """Queries on the scale of this view."""
        return self.partitionings.prepare(self.scaling.apply(X, compute), compute)


@dataclass(frozen=True)
class Views(Learned):
    """Several views, all partitionings of which have equal weight."""

    members: tuple[View, ...]

    def __len__(self) -> int:
        """Number of partitionings of all views together."""
        return sum(len(view.partitionings) for view in self.members)

    @property
    def sizes(self) -> list[int]:
        """Number of partitionings of each view."""
        return [len(view.partitionings) for view in self.members]

    @property
    def levels(self) -> tuple[int, ...]:
        """The nested psi, which all views have in common."""
        return self.members[0].partitionings.levels

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""
        return self.members[0].scaling.n_features

    def validate(self) -> None:
        """Scalings and partitionings of the same rows."""
        demand(len(self.members) > 0, "there are no views")
        for view in self.members:
            is_of_rows = not view.partitionings.of_groups
            demand(is_of_rows, "a view partitions groups, not rows")
            same = view.scaling.n_features == view.partitionings.width == self.n_features
            demand(same, "scalings and partitionings differ in their features")

    @property
    def n_columns(self) -> int:
        """Number of cells of all partitionings of the last level."""
        return sum(len(view.partitionings) * view.partitionings.levels[-1] for view in self.members)

    def at(self, level: int) -> "Views":
        """The views with the nested partitionings of one level alone."""
        return Views(tuple(View(view.scaling, view.partitionings.at(level)) for view in self.members))

    def prepare(self, X: Floats, compute: Compute) -> Iterator[tuple[Partitionings, Any]]:
        """The partitionings of each view, and the queries on its scale: (n, d)."""
        for view in self.members:
            yield view.partitionings, view.prepare(X, compute)

    def tally(self, X: Floats, compute: Compute) -> Tally:
        """The rows of a block, counted in the cells of each level of every view: (n, d)."""
        X = compute.place(X)
        return Tally(tuple(drawn.count(queries, compute) for drawn, queries in self.prepare(X, compute)), len(X))

    def tally_rows(self, rows: Rows, compute: Compute) -> Tally:
        """All rows, counted block by block, wherever they are."""
        return rows.map_reduce(partial(self.tally, compute=compute), Tally.__add__)

    def sum_at(
        self, tables: Tables, compute: Compute, rule: str = "nearest", limits: Limits | None = None
    ) -> Callable[[Floats], Sums]:
        """A function of rows: sums of the tables at their cells over the partitionings of each view, (n, d) -> (n, L).

        With ``limits``, one more column: how far out each row is, see ``Partitionings.sum_at``.
        """

        def sum_at(X: Floats) -> Sums:
            X = compute.place(X)
            own_limits = limits or [None] * len(self.members)
            return tuple(
                compute.fetch(drawn.sum_at(queries, table, compute, rule, limit))
                for (drawn, queries), table, limit in zip(self.prepare(X, compute), tables, own_limits, strict=True)
            )

        return sum_at

    @cached_property
    def far_limits(self) -> Limits | None:
        """Beyond which distance a row is far out, in each view; None where nothing is OUTSIDE."""
        limits = [view.partitionings.far_limits() for view in self.members]
        return None if any(own is None for own in limits) else tuple(own for own in limits if own is not None)

    def count_and_sum(
        self, X: Floats, compute: Compute, only_last: bool, limits: Limits | None = None
    ) -> tuple[Tally, Sums]:
        """``tally``, and what ``sum_at`` makes of its tables for the same rows, in one search."""
        X = compute.place(X)
        own_limits = limits or [None] * len(self.members)
        tables, sums = [], []
        for (drawn, queries), limit in zip(self.prepare(X, compute), own_limits, strict=True):
            counts, own_sums = drawn.count_and_sum(queries, compute, only_last, limit)
            tables.append(counts)
            sums.append(compute.fetch(own_sums))
        return Tally(tuple(tables), len(X)), tuple(sums)

    def assign(self, X: Floats, compute: Compute) -> list[Cells]:
        """Cell of every row in every partitioning, view by view: (n, t) each, OUTSIDE if uncovered."""
        X = compute.place(X)
        return [drawn.assign(queries, compute) for drawn, queries in self.prepare(X, compute)]

    def columns(self, X: Floats, compute: Compute, count_outside: bool = False) -> Ints:
        """Column of each row's cells in mean maps of all views side by side: (n, all t).

        ``count_outside``: OUTSIDE counts as the last cell of its partitioning. Where it does not, a point OUTSIDE is
        sent to one column behind all others.
        """
        parts, first = [], 0
        for view, own in zip(self.members, self.assign(X, compute), strict=True):
            t, psi = len(view.partitionings), view.partitionings.levels[-1]
            starts = first + np.arange(t) * (psi + count_outside)
            parts.append(np.where(own == OUTSIDE, starts + psi if count_outside else -1, starts + own))
            first += t * (psi + count_outside)
        columns = np.concatenate(parts, axis=1)
        # In one layout, whichever backend found the cells: sums over a row are then taken in one order.
        return np.ascontiguousarray(np.where(columns < 0, first, columns))

    def anchors_in_columns(self, count_outside: bool) -> Ints:
        """The anchor of each column of the mean maps, by its number among those of all views: (all columns,).

        Columns without one, such as that of OUTSIDE if it counts, have the number behind the last anchor.
        """
        anchors = [view.partitionings.anchors() for view in self.members]
        n_anchors = sum(len(known[0]) for known in anchors if known is not None)
        numbers, first = [], 0
        for view, known in zip(self.members, anchors, strict=True):
            t, psi = len(view.partitionings), view.partitionings.levels[-1]
            own = np.full((t, psi + count_outside), n_anchors)
            if known is not None:
                own[:, :psi] = first + known[1]
                first += len(known[0])
            numbers.append(own.ravel())
        return np.concatenate(numbers)

    def mean_maps(
        self, groups: Groups, compute: Compute, count_outside: bool = False, rule: str = "nearest"
    ) -> MeanMaps:
        """Level 1: the points of each group counted in the cells of all views, side by side."""
        return LocalMaps(groups, *self._counting(compute, count_outside, rule)).kept()

    def maps_of(self, groups: Groups, compute: Compute, count_outside: bool = False) -> MeanMaps | LazyMaps:
        """The same of any number of groups, wherever they are: kept if they are few, else counted when asked for."""
        return maps_of(groups, *self._counting(compute, count_outside))

    def _counting(self, compute: Compute, count_outside: bool, rule: str = "nearest") -> tuple[Count, int, int]:
        """How mean maps are counted, the number of partitionings, and that of all cells."""
        count = partial(self.tally_groups, compute=compute, count_outside=count_outside, rule=rule)
        return count, len(self), self.n_columns + count_outside * len(self)

    def tally_groups(
        self, block: GroupedBlock, compute: Compute, count_outside: bool = False, rule: str = "nearest"
    ) -> GroupTally:
        """The points of each group of a block, counted in the cells of all views, side by side.

        ``count_outside``: OUTSIDE counts as the last cell of its partitioning.
        """
        X = compute.place(block.X)
        counts = [
            drawn.count_groups(queries, block.starts, count_outside, compute, rule)
            for drawn, queries in self.prepare(X, compute)
        ]
        return GroupTally(block.numbers, join_counts(counts), np.diff(block.starts))


def add_views(sums: Sums) -> Ints:
    """Sums over the partitionings of all views: (n, L)."""
    return reduce(add, sums)


def draw_views(
    rows: Rows,
    n_estimators: int,
    plans: Sequence[Plan],
    mechanism: str,
    random_state: Any,
    compute: Compute,
) -> tuple[Views, Ints]:
    """Views of the rows, one for each plan; partitionings are assigned to the plans in turn.

    Also the number of the row that is each anchor of all views: (all anchors,).
    With fewer partitionings than plans, the last plans make no view.
    """
    plans = plans[:n_estimators]
    seeds = draw_seeds(n_estimators, random_state)
    drawn = draw_rows(len(rows), seeds, max(plan.levels[-1] for plan in plans))
    chosen, numbers = np.unique(drawn, return_inverse=True)
    numbers = numbers.reshape(drawn.shape)
    names = dict.fromkeys(plan.scaling for plan in plans)
    points = rows.take(chosen)
    scalings = fit_scalings(rows, names, compute.n_jobs)
    members, anchors = [], []
    for first, plan in enumerate(plans):
        mine = slice(first, None, len(plans)), slice(plan.levels[-1])
        own, where = np.unique(numbers[mine], return_inverse=True)
        where = where.reshape(-1, plan.levels[-1])
        scaling = scalings[plan.scaling]
        partitionings, places = partition_rows(
            scaling.apply(points[own], compute), where, seeds[mine[0]], plan.levels, mechanism, compute
        )
        members.append(View(scaling, partitionings))
        if partitionings.anchors() is not None:
            anchors.append(drawn[mine].ravel()[places])
    return Views(tuple(members)), np.concatenate([np.empty(0, dtype=np.int64), *anchors])
