"""Partitionings of the data, by mechanism."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.partitionings.balls import draw_hyperspheres, draw_voronoi_cells
from isobag.partitionings.base import (
    Drawn,
    Partitionings,
    Seeds,
    distinct_points,
    draw_rows,
    draw_seeds,
    nested_levels,
)
from isobag.partitionings.counts import GroupQueries
from isobag.partitionings.trees import draw_trees

Draw = Callable[[Drawn, tuple[int, ...], Compute], Partitionings]
MECHANISMS: dict[str, Draw] = {
    "hypersphere": draw_hyperspheres,
    "voronoi": draw_voronoi_cells,
    "tree": draw_trees,
}
"""How partitionings are made of what was drawn, rows or groups."""

__all__ = [
    "MECHANISMS",
    "Partitionings",
    "draw_from_groups",
    "draw_from_rows",
    "draw_rows",
    "draw_seeds",
    "nested_levels",
    "partition_rows",
]


def partition_rows(
    centers: Floats, numbers: Ints, seeds: Seeds, levels: tuple[int, ...], mechanism: str, compute: Compute
) -> tuple[Partitionings, Ints]:
    """Partitionings by the given rows of ``centers`` (m, d), by their numbers (t, psi).

    Also, for each of the points that anchors refer to, the place in ``numbers`` at which it stands first, counted
    through: (points,).
    """
    points, names = distinct_points(centers)
    slots = names[numbers].astype(np.int32)
    _, places = np.unique(slots, return_index=True)
    return MECHANISMS[mechanism](Drawn(points, slots, seeds), levels, compute), places


def draw_from_rows(
    rows: Any, n_estimators: int, levels: tuple[int, ...], mechanism: str, random_state: Any, compute: Compute
) -> Partitionings:
    """Draw from rows, of which some can be taken by their numbers, and partition, for all nested levels."""
    seeds = draw_seeds(n_estimators, random_state)
    drawn = draw_rows(len(rows), seeds, levels[-1])
    chosen, where = np.unique(drawn, return_inverse=True)
    return partition_rows(rows.take(chosen), where.reshape(drawn.shape), seeds, levels, mechanism, compute)[0]


class PreparedGroups(Protocol):
    """Groups to draw from, here or in partitions."""

    def __len__(self) -> int:
        """Number of groups."""
        ...

    def part(self, numbers: Ints) -> GroupQueries:
        """Some of the groups, brought here."""
        ...


def draw_from_groups(
    groups: PreparedGroups,
    n_estimators: int,
    levels: tuple[int, ...],
    mechanism: str,
    random_state: Any,
    compute: Compute,
) -> Partitionings:
    """Level 2: draw some of the groups and partition by them, for all nested levels."""
    seeds = draw_seeds(n_estimators, random_state)
    rows = draw_rows(len(groups), seeds, levels[-1])
    chosen, where = np.unique(rows, return_inverse=True)
    slots = where.reshape(rows.shape).astype(np.int32)
    return MECHANISMS[mechanism](Drawn(groups.part(chosen), slots, seeds), levels, compute)
