"""Isolation trees: random splits of random features until each of the rows drawn is alone in a leaf.

The leaves are the cells; no point is OUTSIDE. This is the first form of the Isolation Kernel in the literature. Every
level has trees of its own, grown on its first rows of the draw, from a seed that does not know of the other levels.
Only comparisons decide, so all backends agree.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, Cells, Floats, Ints
from isobag.backends.learned import check, demand
from isobag.backends.numpy import count_assigned, sum_assigned
from isobag.backends.threads import map_in_threads, slices
from isobag.partitionings.base import Drawn, Partitionings, Prepared
from isobag.partitionings.counts import GroupQueries, MeanMaps

_BLOCK_ROWS = 1 << 13
_BLOCK_GROUPS = 1 << 8
_KEPT_CELLS = 1 << 26


@dataclass(frozen=True, eq=False)
class Trees(Partitionings):
    """Nodes of the trees of each level: a row goes left where its feature is below the threshold.

    Node 0 is the root, a child has a higher number than its parent, and child -1 - j is leaf j.
    """

    levels: tuple[int, ...]
    columns: Cells  # (L, t, psi) feature of each node
    thresholds: Floats  # (L, t, psi)
    children: Cells  # (L, t, psi, 2) left, right
    slots: Cells  # (L, t, psi) a point of each leaf
    points: Any  # (m, d) rows or groups that the trees were grown on

    def __len__(self) -> int:
        """Number of partitionings."""
        return int(self.slots.shape[1])

    def at(self, level: int) -> Self:
        """The trees of one level alone."""
        psi, only = self.levels[level], slice(level % len(self.levels), level % len(self.levels) + 1)
        names = ("columns", "thresholds", "children", "slots")
        return replace(self, levels=(psi,), **{name: getattr(self, name)[only, :, :psi] for name in names})

    def assign(self, queries: Prepared, compute: Compute, rule: str = "nearest") -> Cells:
        """Leaf of every query in the trees of the last level: (n, t)."""
        last = self.at(-1)
        return np.concatenate([cells[-1] for cells in last.leaves(queries, compute)])

    def assign_levels(self, queries: Prepared, compute: Compute) -> Cells:
        """Leaf of every query in the trees of each level: (L, t, n)."""
        return np.concatenate([cells.transpose(0, 2, 1) for cells in self.leaves(queries, compute)], axis=2)

    def count(self, queries: Prepared, compute: Compute) -> Ints:
        """Number of queries in each leaf of each level: (L, t, psi)."""
        return self._count(self.leaves(queries, compute))

    def sum_at(
        self, queries: Prepared, tables: Ints, compute: Compute, rule: str = "nearest", limits: Ints | None = None
    ) -> Ints:
        """Sum over the trees of the table at each query's leaf: tables (L, t, psi) -> (n, L)."""
        return _sum_at(self.leaves(queries, compute), tables)

    def count_and_sum(
        self, queries: Prepared, compute: Compute, only_last: bool = False, limits: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Counts, and their sums at the queries' own leaves, from one descent where there is room for the leaves."""
        if len(queries) * self.slots[..., 0].size > _KEPT_CELLS:
            return super().count_and_sum(queries, compute, only_last)
        blocks = list(self.leaves(queries, compute))
        counts = self._count(iter(blocks))
        first = len(self.levels) - 1 if only_last else 0
        return counts, _sum_at((cells[first:] for cells in blocks), counts[first:])

    def anchors(self) -> tuple[Floats | MeanMaps, Cells]:
        """A row drawn of each leaf of the last level."""
        return self.points, self.slots[-1]

    def validate(self) -> None:
        """Children are leaves or later nodes, nodes test features, and leaves have points."""
        self.check_levels()
        check("slots", self.slots, (len(self.levels), None, self.levels[-1]), 0, len(self.points) - 1)
        check("columns", self.columns, self.slots.shape, 0, self.width - 1)
        check("thresholds", self.thresholds, self.slots.shape, -np.inf, np.inf)
        check("children", self.children, (*self.slots.shape, 2))
        numbers = np.arange(self.levels[-1])[:, None]
        forward = (self.children > numbers) & (self.children < self.levels[-1])
        leaves = (self.children < 0) & (self.children >= -np.array(self.levels)[:, None, None, None])
        demand(self.slots.size and np.all(forward | leaves), "a child is neither a leaf nor a later node")

    def _count(self, blocks: Iterator[Cells]) -> Ints:
        total: Ints = np.zeros(self.slots.shape, dtype=np.int64)
        for cells in blocks:
            total += count_assigned(cells.transpose(0, 2, 1), self.levels[-1])
        return total

    def leaves(self, queries: Prepared, compute: Compute) -> Iterator[Cells]:
        """Leaves of some queries after others: (L, m, t) each."""
        nodes = self.columns, self.thresholds, self.children
        return (compute.verbs.descend(X, *nodes, compute.n_jobs) for X in self._dense_blocks(queries))

    @abstractmethod
    def _dense_blocks(self, queries: Prepared) -> Iterator[Floats]:
        """Queries as arrays (m, d), some at a time."""


@dataclass(frozen=True, eq=False)
class RowTrees(Trees):
    """Trees over rows."""

    points: Floats

    def validate(self) -> None:
        """Trees of the points."""
        check("points", self.points, (None, None), -FARTHEST, FARTHEST)
        super().validate()

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.points.shape[1])

    def prepare(self, X: Floats, compute: Compute) -> Floats:
        """The rows themselves, in host memory."""
        return compute.fetch(X)

    def _dense_blocks(self, queries: Floats) -> Iterator[Floats]:
        return (queries[rows] for rows in slices(len(queries), _BLOCK_ROWS))


@dataclass(frozen=True, eq=False)
class GroupTrees(Trees):
    """Trees over mean maps of groups."""

    points: MeanMaps

    of_groups = True

    @property
    def width(self) -> int:
        """Number of columns of the mean maps."""
        return int(self.points.counts.shape[1])

    def prepare(self, maps: MeanMaps, compute: Compute) -> GroupQueries:
        """Queries from mean maps."""
        return GroupQueries(maps)

    def _dense_blocks(self, queries: GroupQueries) -> Iterator[Floats]:
        return (queries.maps[rows].shares.toarray() for rows in slices(len(queries), _BLOCK_GROUPS))


def _sum_at(blocks: Iterator[Cells], tables: Ints) -> Ints:
    return np.concatenate([sum_assigned(cells.transpose(0, 2, 1), tables) for cells in blocks])


def draw_trees(drawn: Drawn, levels: tuple[int, ...], compute: Compute) -> Trees:
    """Grow a tree on what was drawn for each partitioning, and one on its first rows for each smaller level."""
    groups = isinstance(drawn.points, GroupQueries)
    shape = (len(levels), *drawn.slots.shape)
    columns, slots = np.zeros((2, *shape), dtype=np.int32)
    thresholds = np.full(shape, np.inf)
    children = np.full((*shape, 2), -1, dtype=np.int32)

    def grow(i: int) -> None:
        own = drawn.slots[i]
        X = drawn.points.maps[own].shares.toarray() if groups else drawn.points[own]
        for level, psi in enumerate(levels):
            seed = np.random.default_rng([*drawn.seeds[i].tolist(), psi]).integers(2**63, dtype=np.uint64)
            parts = (columns[level, i], thresholds[level, i], children[level, i])
            places = np.zeros(psi, dtype=np.int64)
            compute.verbs.grow_tree(X[:psi], int(seed), *parts, places)
            slots[level, i, :psi] = own[places]

    map_in_threads(grow, range(len(drawn.slots)), compute.n_jobs)
    build: Callable[..., Trees] = partial(
        GroupTrees if groups else RowTrees, levels, columns, thresholds, children, slots
    )
    return build(drawn.points.maps if groups else drawn.points)
