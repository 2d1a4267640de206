"""Views of the data: a scaling, and the partitionings drawn from the data so scaled.

A detector with one psi and one scaling has one view. One that needs no tuning has several and shares its partitionings
out among them, because no scaling and no psi is right for all data. Cells are counted and summed over all views alike.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from isobag.arrays import Cells, Floats, Ints
from isobag.partitionings import Partitionings, draw_rows, partition_by_centers
from isobag.partitionings.of_groups import MeanMaps, count_groups
from isobag.rows import Rows
from isobag.scaling import Scaling, fit_scaling_to_rows


class Plan(NamedTuple):
    """What a view is made of: the name of a scaling, and the nested psi."""

    scaling: str | None
    levels: tuple[int, ...]


class View(NamedTuple):
    """Partitionings of scaled data."""

    scaling: Scaling
    partitionings: Partitionings

    @property
    def last(self) -> "View":
        """The same view, without the smaller nested partitionings."""
        return View(self.scaling, self.partitionings.last)

    def count_cells(self, rows: Rows, backend: str, n_jobs: int | None) -> Ints:
        """Number of rows in each cell of each level: (L, t, psi)."""
        counts = [self.partitionings.count_cells(self.scaling.apply(chunk), backend, n_jobs) for chunk in rows.chunks()]
        total: Ints = np.add.reduce(counts)
        return total

    def count_and_sum(self, X: Floats, backend: str, n_jobs: int | None) -> tuple[Ints, Ints]:
        """Counts, and the sum of the last level's counts at each row's own cells: (L, t, psi), (n,)."""
        return self.partitionings.count_and_sum(self.scaling.apply(X), backend, n_jobs)


Views = tuple[View, ...]


def draw_views(
    rows: Rows,
    n_estimators: int,
    plans: Sequence[Plan],
    mechanism: str,
    random_state: Any,
    backend: str,
    n_jobs: int | None,
) -> Views:
    """Partitionings drawn from the rows, dealt out to the plans in turn; a plan that gets none makes no view."""
    plans = plans[:n_estimators]
    drawn = draw_rows(len(rows), n_estimators, max(plan.levels[-1] for plan in plans), random_state)
    chosen, numbers = np.unique(drawn, return_inverse=True)
    numbers = numbers.reshape(drawn.shape)
    points = rows.take(chosen)
    scalings = {name: fit_scaling_to_rows(rows, name) for name in dict.fromkeys(plan.scaling for plan in plans)}
    views = []
    for first, plan in enumerate(plans):
        own, where = np.unique(numbers[first :: len(plans), : plan.levels[-1]], return_inverse=True)
        where = where.reshape(-1, plan.levels[-1])
        centers = scalings[plan.scaling].apply(points[own])
        partitionings = partition_by_centers(centers, where, plan.levels, mechanism, backend, n_jobs)
        views.append(View(scalings[plan.scaling], partitionings))
    return tuple(views)


def original_centers(views: Views, rows: Rows, random_state: Any) -> Floats:
    """The rows that became points of the views, as they are in the data and not scaled back: (all points, d).

    ``random_state`` is the integer that the views were drawn with.
    """
    drawn = draw_rows(
        len(rows), n_partitionings(views), max(view.partitionings.levels[-1] for view in views), random_state
    )
    found = []
    for first, view in enumerate(views):
        slots = view.partitionings.slots
        own = drawn[first :: len(views), : slots.shape[1]]
        _, where = np.unique(slots, return_index=True)
        found.append(rows.take(own.ravel()[where]))
    return np.concatenate(found)


def sum_at_cells(
    views: Views, X: Floats, tables: Sequence[Ints], backend: str, n_jobs: int | None, rule: str = "nearest"
) -> Ints:
    """Sum of a table at each row's cell over the partitionings of all views: a table (L, t, psi) a view -> (n, L)."""
    total: Ints = np.zeros((len(X), len(tables[0])), dtype=np.int64)
    for view, table in zip(views, tables, strict=True):
        total += view.partitionings.sum_at_cells(view.scaling.apply(X), table, backend, n_jobs, rule)
    return total


def at_level(views: Views, level: int) -> Views:
    """The views with the nested partitionings of one level alone."""
    return tuple(View(view.scaling, view.partitionings.at(level)) for view in views)


def assign_cells(views: Views, X: Floats, backend: str, n_jobs: int | None) -> list[Cells]:
    """Cell of every row in every partitioning, view by view: (n, t) each, OUTSIDE if uncovered."""
    return [view.partitionings.assign_cells(view.scaling.apply(X), "nearest", backend, n_jobs) for view in views]


def count_groups_in_views(
    views: Views, X: Floats, ids: Ints, sizes: Ints, outside: bool, backend: str, n_jobs: int | None
) -> MeanMaps:
    """Level 1: the points of each group counted in the cells of all views, side by side."""
    counts = [
        count_groups(view.scaling.apply(X), ids, sizes, view.partitionings, "nearest", outside, backend, n_jobs).counts
        for view in views
    ]
    return MeanMaps(counts[0] if len(counts) == 1 else csr_array(hstack(counts, format="csr")), sizes)


def n_partitionings(views: Views) -> int:
    """Number of partitionings of all views together."""
    return sum(len(view.partitionings.slots) for view in views)
