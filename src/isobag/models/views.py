"""Views of the data: a scaling, and a pool of the scaled rows cut into samples. Views never change once drawn.

A detector with one psi and one scaling has one view. The default has several, because no scaling and no psi suits all
data. Counts and sums go over the cells of all views.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Cells, Floats, Ints, Singles
from isobag.backends.counts import join_counts
from isobag.backends.learned import Learned, demand
from isobag.backends.samples import RUN
from isobag.data.gaps import Gaps
from isobag.data.groups import Groups
from isobag.data.rows import GroupedBlock, Rows
from isobag.data.scaling import Scaling, fit_scalings
from isobag.models.counted import Counter
from isobag.models.maps import AnyMaps, LocalMaps, maps_of
from isobag.models.tally import Tables, Tally
from isobag.partitionings import (
    RowBalls,
    balls_around,
    count_blocks,
    cut_pool,
    draw_pools,
    draw_samples,
    pool_rows,
)
from isobag.partitionings.counts import MeanMaps
from isobag.partitionings.trees import Trees, grow_trees

_SUM_BITS = 48
"""Of sums over samples: above them, samples are counted."""
Sums = tuple[Ints, ...]
"""For each view and row, sums over samples at every psi, and last how far out rows are: (n, L + 1)."""
Limits = tuple[Ints, ...]
"""For each view and level (L,), the distance beyond which a row is far out."""


class Plan(NamedTuple):
    """How to draw a view: the name of a scaling, and psi of each level."""

    scaling: str | None
    levels: tuple[int, ...]


@dataclass(frozen=True)
class View(Learned):
    """A pool of scaled rows, cut into samples."""

    scaling: Scaling
    partitionings: RowBalls | Trees

    @property
    def balls(self) -> RowBalls:
        """The partitionings of a detector."""
        if not isinstance(self.partitionings, RowBalls):
            raise TypeError("trees have no centers")
        return self.partitionings


class Located(NamedTuple):
    """Where rows are in the views: cells (T, n) and how far out (n,), for each view."""

    cells: tuple[Cells, ...]
    far: tuple[Ints, ...]

    def part(self, numbers: Ints) -> "Located":
        """Some of the rows."""
        return Located(tuple(cells[:, numbers] for cells in self.cells), tuple(far[numbers] for far in self.far))


@dataclass(frozen=True)
class Views(Learned):
    """Several views, with the same psi; ``gaps``: what stands for missing values, of rows that come with some."""

    members: tuple[View, ...]
    gaps: Gaps | None = None

    @property
    def levels(self) -> tuple[int, ...]:
        """Psi of each level, which all views have in common."""
        return self.members[0].partitionings.levels

    @property
    def counts(self) -> Ints:
        """Number of samples of each psi in each view, t: (L,)."""
        return self.members[0].partitionings.cut.counts

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""
        return self.members[0].scaling.n_features

    @property
    def n_columns(self) -> int:
        """Number of cells of all psi of all views, those of slots that are in no sample included."""
        return sum(view.partitionings.cut.n_cells for view in self.members)

    @property
    def n_samples(self) -> int:
        """Number of samples of all psi of all views."""
        return sum(int(view.partitionings.cut.counts.sum()) for view in self.members)

    def validate(self) -> None:
        """Scalings and pools of the same features, cut in the same way."""
        demand(len(self.members) > 0, "there are no views")
        if self.gaps is not None:
            demand(self.gaps.n_features == self.n_features, "gaps are of other features")
        for view in self.members:
            same = view.scaling.n_features == view.partitionings.width == self.n_features
            demand(same, "scalings and partitionings differ in their features")
            demand(view.partitionings.cut == self.members[0].partitionings.cut, "views differ in their samples")

    @cached_property
    def largest(self) -> "Views":
        """The views at the largest psi alone."""
        return replace(self, members=tuple(View(view.scaling, view.balls.largest) for view in self.members))

    def scaled(self, X: Floats, compute: Compute) -> Iterator[tuple[RowBalls, Singles]]:
        """The partitionings of each view, and rows (n, d) on its scale."""
        if self.gaps is not None and (self.gaps.ever.any() or isinstance(X, np.ndarray)):  # on a device are no gaps
            X = self.gaps.fill(compute.fetch(X))
        X = compute.place(X)
        for view in self.members:
            yield view.balls, view.scaling.apply(X, compute)

    def locate(self, X: Floats, compute: Compute, limits: Limits | None = None) -> Located:
        """Where rows are: (n, d)."""
        per_view = limits or [None] * len(self.members)
        pairs = [
            balls.assign(scaled, compute, limit)
            for (balls, scaled), limit in zip(self.scaled(X, compute), per_view, strict=True)
        ]
        cells, far = zip(*pairs, strict=True)
        return Located(cells, tuple(compute.fetch(each) for each in far))

    def count(self, located: Located, compute: Compute) -> Tally:
        """Located rows, counted in the cells of each psi of every view."""
        cut = self.members[0].partitionings.cut
        tables = tuple(compute.backend.count_cells(cells, cut, compute.n_jobs) for cells in located.cells)
        return Tally(tables, len(located.far[0]))

    def sum_located(self, located: Located, tables: Tables, compute: Compute) -> tuple[Sums, Sums]:
        """Sums of the tables at the cells of located rows, and in how many samples they are covered (last 0)."""
        cut = self.members[0].partitionings.cut
        sums, covered = [], []
        for cells, table, far in zip(located.cells, tables, located.far, strict=True):
            # Both from one look-up: sums of counts need fewer bits than there are.
            both = compute.fetch(compute.backend.sum_cells(cells, cut, table + (1 << _SUM_BITS), compute.n_jobs))
            sums.append(np.column_stack([both & ((1 << _SUM_BITS) - 1), far]))
            covered.append(np.column_stack([both >> _SUM_BITS, np.zeros_like(far)]))
        return tuple(sums), tuple(covered)

    def tally(self, X: Floats, compute: Compute) -> Tally:
        """The rows of a block, counted in the cells of each psi of every view: (n, d)."""
        counts = tuple(balls.count(scaled, compute) for balls, scaled in self.scaled(X, compute))
        return Tally(counts, len(X))

    def tally_rows(self, rows: Rows, compute: Compute) -> Tally:
        """All rows, counted block by block."""
        return rows.map_reduce(partial(self.tally, compute=compute), Tally.__add__)

    def sum_at(
        self, tables: Tables, compute: Compute, limits: Limits | None = None, fetched: bool = True
    ) -> Callable[[Floats], Sums]:
        """A function of rows: sums of the tables at their cells over the samples of each view, (n, d) -> (n, L + 1).

        Last is how far out each row is beyond ``limits``, 0 without. ``fetched``: to host memory.
        """
        per_view = limits or [None] * len(self.members)

        def sum_at(X: Floats) -> Sums:
            parts = zip(self.scaled(X, compute), tables, per_view, strict=True)
            sums = [balls.sum_at(scaled, table, compute, limit) for (balls, scaled), table, limit in parts]
            return tuple(map(compute.fetch, sums)) if fetched else tuple(sums)

        return sum_at

    @cached_property
    def far_limits(self) -> Limits | None:
        """Beyond which distance a row is far out, in each view; None where nothing is OUTSIDE."""
        limits = [view.balls.far_limits() for view in self.members]
        return None if any(own is None for own in limits) else tuple(own for own in limits if own is not None)

    def columns(self, X: Floats, compute: Compute) -> Ints:
        """Columns of each row's cells in mean maps of all views side by side: (n, all T).

        A row OUTSIDE is sent to one column behind all others.
        """
        parts, first = [], 0
        for balls, scaled in self.scaled(X, compute):
            cells = compute.fetch(balls.assign(scaled, compute)[0])
            before = first + np.repeat(np.arange(len(balls.levels)) * balls.cut.n_slots, balls.counts)
            parts.append(np.where(cells == OUTSIDE, self.n_columns, cells + before[:, None]))
            first += balls.cut.n_cells
        return np.ascontiguousarray(np.concatenate(parts).T)

    def anchors_in_columns(self) -> Ints:
        """The center of each column of the mean maps, by its number among those of the pools of all views."""
        numbers, first = [], 0
        for view in self.members:
            numbers.append(np.tile(first + view.balls.slots, len(view.balls.levels)))
            first += len(view.balls.pool)
        return np.concatenate(numbers)

    def mean_maps(self, groups: Groups, compute: Compute, rule: str = "nearest") -> MeanMaps:
        """Level 1: the points of each group counted in the cells of all views, side by side."""
        return LocalMaps(groups, self.counter(compute, rule)).in_memory()

    def maps_of(self, groups: Groups, compute: Compute) -> AnyMaps:
        """The same of any number of groups: kept if they are few, else counted when asked for."""
        return maps_of(groups, self.counter(compute))

    def counter(self, compute: Compute, rule: str = "nearest") -> Counter:
        """What counts points of groups in the cells of all views, side by side."""
        return Counter(self, partial(self._count_groups, compute=compute, rule=rule), self.n_columns, self.n_samples)

    def _count_groups(self, block: GroupedBlock, compute: Compute, rule: str) -> csr_array:
        """The points of each group of a block, counted in the cells of all views, side by side."""
        X = compute.place(block.X)
        counts = [
            view.partitionings.count_groups(view.scaling.apply(X, compute), block.starts, compute, rule)
            for view in self.members
        ]
        return join_counts(counts)


class Draw(NamedTuple):
    """What is drawn for views: the most samples of a psi, rows of a pool (None: every sample from all rows), a seed."""

    n_estimators: int
    pool_size: int | str | None
    mechanism: str
    random_state: Any


def draw_views(
    rows: Rows, plans: Sequence[Plan], draw: Draw, compute: Compute, averages: bool = True
) -> tuple[Views, list[Ints]]:
    """Views of the rows, one for each plan; also the numbers of the rows of each pool.

    Each view has ``n_estimators`` samples of the largest psi; ``averages``: of the smallest, as far as a pool goes.
    """
    plans = plans[: draw.n_estimators]
    pools, slots = _draw_pools(len(rows), rows.n_features, plans, draw, averages)
    pooled = np.unique(np.concatenate(pools))
    sampled = None if draw.pool_size is None or 2 * len(pooled) > len(rows) else pooled
    scalings = fit_scalings(rows, dict.fromkeys(plan.scaling for plan in plans), compute.n_jobs, sampled)
    members = []
    for plan, pool, of_pool in zip(plans, pools, slots, strict=True):
        scaling = scalings[plan.scaling]
        centers = compute.fetch(scaling.apply(rows.take(pool), compute))
        if draw.mechanism == "tree":
            seed = int(check_random_state(draw.random_state).randint(2**31))
            members.append(View(scaling, grow_trees(centers, of_pool, plan.levels[-1], seed)))
        else:
            members.append(View(scaling, balls_around(centers, of_pool, plan.levels, draw.mechanism, compute)))
    return Views(tuple(members)), pools


def _draw_pools(
    n_rows: int, n_features: int, plans: Sequence[Plan], draw: Draw, averages: bool
) -> tuple[list[Ints], list[Cells]]:
    """Numbers of the rows of each pool (M,), and the slots that it is cut into (S,), for each plan."""
    psi, n_blocks = plans[0].levels[-1], draw.n_estimators
    if draw.pool_size is None:
        if averages:
            n_blocks = count_blocks(plans[0].levels, RUN * n_blocks, n_blocks)
        pool, slots = draw_samples(n_rows, n_blocks * len(plans), psi, draw.random_state)
        by_sample = slots.reshape(-1, psi)
        parts = [np.unique(by_sample[first :: len(plans)], return_inverse=True) for first in range(len(plans))]
        return [pool[own] for own, _ in parts], [where.ravel().astype(np.int32) for _, where in parts]
    rng = np.random.default_rng(check_random_state(draw.random_state).randint(2**32, size=4, dtype=np.uint64))
    pools = draw_pools(n_rows, pool_rows(draw.pool_size, psi, n_rows, n_features), len(plans), rng)
    if averages:
        n_blocks = count_blocks(plans[0].levels, len(pools[0]), n_blocks)
    return pools, [cut_pool(len(pool), psi, n_blocks, rng) for pool in pools]
