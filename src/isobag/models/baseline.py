"""Rows against their own group: a mean map for each group, shrunk towards that of all rows.

1. counts     c_g of the n_g rows of group g in the cells of all rows' partitionings, at every psi: sparse integers
2. noise      q, variance between groups' mean maps divided by the variance of one row around its group's, at every psi
3. own map    lambda c_g / n_g + (1 - lambda) m, lambda = q n_g / (1 + q n_g), m being the mean map of all rows
4. level      divided by lambda r + 1 - lambda, r being the mean share of a row in its own group's map over that in m

So a large group is compared with itself, and a new one with all, as are all where groups do not differ (q = 0). The
last step lets rows of small and of large groups have similar scores: what is usual in a map of one's own is more.

Rows of ``fit`` are left out of their own group's counts: a row alone in its cell would be found usual by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, OUTSIDE, Cells, Floats, Ints
from isobag.backends.counts import merge_counts, self_dots
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import slices
from isobag.data.labelled import UNSEEN, LabelledRows
from isobag.models.averaging import Paths
from isobag.models.explain import Shares
from isobag.models.views import Views

_DENSE_NUMBERS = 1 << 22
_SQUARED_GROUPS = 1 << 12


class OwnSums(NamedTuple):
    """For some rows, sums over partitionings of their own group's counts at their cells, and the size of the group.

    sums : (n, L) for each view; sizes : (n,), 0 where the group is unknown. A row of ``fit`` itself is not counted.
    """

    sums: tuple[Ints, ...]
    sizes: Ints

    def part(self, rows: slice | Ints) -> "OwnSums":
        """Of some of the rows."""
        return OwnSums(tuple(own[rows] for own in self.sums), self.sizes[rows])


class Segment(NamedTuple):
    """One level of one view: t partitionings into psi cells each."""

    n_partitionings: int
    n_cells: int


@dataclass(frozen=True, eq=False)
class Baseline(Learned):
    """The rows of each group counted in the cells of every level of all views, and how much groups differ.

    counts : (g, t psi) for each level of each view, see ``segments_of``; sparse.
    sizes : (g,), number of rows of each group, 0 for groups that this model has not seen.
    ratios : (V, L), variance between groups divided by the variance within, q.
    gains : (V, L), mean share of rows in their own group's map over that in the map of all, at least 1.
    reference : (m,), the groups of the model's reference rows.
    """

    counts: tuple[csr_array, ...]
    sizes: Ints
    ratios: Floats
    gains: Floats
    reference: Ints

    def validate(self) -> None:
        """A size for each group, and groups of the reference rows."""
        check("sizes", self.sizes, (None,), 0, MOST_ROWS)
        check("reference", self.reference, (None,), 0, len(self.sizes) - 1)
        check("ratios", self.ratios, (None, None), 0)
        check("gains", self.gains, self.ratios.shape, 1)
        for own in self.counts:
            check("counts", own.data, (None,), 0, 1 << 31)

    def check_views(self, views: Views, n_reference: int) -> None:
        """Refuse other views, or another number of reference rows, than this is of."""
        check("ratios", self.ratios, (len(views.members), len(views.levels)))
        check("reference", self.reference, (n_reference,))
        shapes = [(len(self.sizes), one.n_partitionings * one.n_cells) for one in segments_of(views)]
        demand([own.shape for own in self.counts] == shapes, "counts need a row for each group, a column for each cell")

    def weights(self, view: int, sizes: Ints) -> Floats:
        """Lambda, the weight of the group's own map at each psi: sizes (n,) -> (n, L)."""
        scaled = self.ratios[view] * sizes[:, None]
        weights: Floats = scaled / (1 + scaled)
        return weights

    def own_sums(self, views: Views, compute: Compute, X: Floats, owners: Ints, leave_out: bool = False) -> OwnSums:
        """Sums of the groups' counts at the cells of rows, which are sorted by group: X (n, d), owners (n,).

        ``leave_out``: they are rows of ``fit``, each of which does not count itself.
        """
        known = int(np.searchsorted(owners, 0))
        sums = np.zeros((len(self.counts), len(owners)), dtype=np.int64)
        for number, (segment, cells) in enumerate(_cells_of(views, X[known:], compute) if known < len(owners) else ()):
            for rows, groups, local in _spans(owners[known:], segment):
                tables, some = _dense(self.counts[number][groups], segment), cells[:, rows]
                sums[number, known:][rows] = _sum_tables(tables, some, local) - leave_out * _n_covered(some)
        return OwnSums(_by_view(sums, views), self.sizes_of(owners) - leave_out)

    def mix(self, paths: Paths, own: OwnSums, sizes_of_views: list[int]) -> Paths:
        """Scores at every psi in the map of the own group and all, from those in the map of all."""
        mixed = []
        for view, ((path, far), t) in enumerate(zip(paths, sizes_of_views, strict=True)):
            shares = own.sums[view] / (np.maximum(own.sizes, 1) * t)[:, None]
            mixed.append((mix_shares(shares, path, self.weights(view, own.sizes), self.gains[view]), far))
        return mixed

    def with_gains(self, paths: Paths, own: OwnSums, sizes_of_views: list[int]) -> "Baseline":
        """With the gains that some rows of ``fit`` show, from their scores in the map of all."""
        known = own.sizes > 0
        gains = np.ones_like(self.ratios)
        for view, ((path, _), t) in enumerate(zip(paths, sizes_of_views, strict=True)):
            if known.any():
                shares = own.sums[view][known] / (own.sizes[known] * t)[:, None]
                usual = np.ascontiguousarray(path).mean(axis=0)
                gains[view] = np.maximum(np.divide(shares.mean(axis=0), usual, out=gains[view], where=usual > 0), 1)
        return replace(self, gains=gains)

    def mean_weight(self, sizes: Ints) -> float:
        """Mean of lambda over some rows, views and psi: 0 where groups are alike, towards 1 where they differ."""
        return float(np.mean([self.weights(view, sizes).mean() for view in range(len(self.ratios))]))

    def sizes_of(self, owners: Ints) -> Ints:
        """Number of rows of each row's group, 0 where it is unknown: (n,) -> (n,)."""
        return np.where(owners == UNSEEN, 0, self.sizes[owners])


class OwnShares(NamedTuple):
    """The mixed maps of the groups of some rows: owners (n,), which ascend. ``of_all`` is the map of all rows."""

    baseline: Baseline
    of_all: Shares
    view: int
    owners: Ints

    def at(self, level: int, cells: Cells) -> Floats:
        """Share of the own mixed map in the cells of rows: (n, t)."""
        own = np.zeros(cells.shape)
        for rows, tables, local in self._tables(level, cells):
            own[rows] = np.stack([table[keys] for table, keys in _keyed(tables, cells[rows].T, local)], axis=1)
        weights, gains = self._weights(level), self.baseline.gains[self.view, self._place(level)]
        sizes = np.maximum(self.baseline.sizes_of(self.owners), 1)
        return mix_shares(own / sizes[:, None], self.of_all.at(level, cells), weights, gains)

    def usual(self, level: int, nearest: Cells) -> Cells:
        """The fullest cell of the own group where its map weighs more than that of all, else the nearest anchor."""
        cells = nearest.copy()
        for rows, tables, local in self._tables(level, nearest):
            cells[rows] = tables[:, :, 1:].argmax(axis=2)[:, local].T
        return np.where(self._weights(level) > 0.5, cells, nearest)

    def _place(self, level: int) -> int:
        return level % int(self.baseline.ratios.shape[1])  # of one psi, the last level alone is counted

    def _weights(self, level: int) -> Floats:
        return self.baseline.weights(self.view, self.baseline.sizes_of(self.owners))[:, [self._place(level)]]

    def _tables(self, level: int, cells: Cells) -> Iterator[tuple[slice, Ints, Ints]]:
        """Some rows, the counts of their groups (t, g, psi + 1), and the place of each row's group among them."""
        counts = self.baseline.counts[self.view * self.baseline.ratios.shape[1] + self._place(level)]
        segment = Segment(cells.shape[1], counts.shape[1] // cells.shape[1])
        for rows, groups, local in _spans(self.owners, segment):
            yield rows, _dense(counts[groups], segment), local


def mix_shares(own: Floats, shares: Floats, weights: Floats, gains: Floats) -> Floats:
    """(lambda own + (1 - lambda) shares) / (lambda gain + 1 - lambda)."""
    rest = 1 - weights
    mixed: Floats = (weights * own + rest * shares) / (weights * gains + rest)
    return mixed


def fit_baseline(views: Views, rows: LabelledRows, reference: Ints, compute: Compute) -> tuple[Baseline, OwnSums]:
    """Count the rows of each group, still without gains; also what each row finds in its group without itself.

    reference (m,): the numbers of the model's reference rows
    """
    segments, sizes = segments_of(views), rows.sizes
    sums = np.zeros((len(segments), len(rows)), dtype=np.int64)
    parts: list[list[tuple[Ints, csr_array]]] = [[] for _ in segments]
    counted = np.zeros(rows.n_groups, dtype=np.int64)
    for X, owners, places in rows.owned_blocks():
        for number, (segment, cells) in enumerate(_cells_of(views, X, compute)):
            for own, groups, local in _spans(owners, segment):
                tables = _count_tables(segment, len(groups), cells[:, own], local)
                parts[number].append((groups, _sparse(tables)))
                sums[number, places[own]] = _sum_tables(tables, cells[:, own], local) - _n_covered(cells[:, own])
        counted += np.bincount(owners, minlength=rows.n_groups) == sizes
    counts = tuple(
        merge_counts([one for _, one in own], np.concatenate([groups for groups, _ in own]), rows.n_groups)
        for own in parts
    )
    ratios = np.array([_ratio(own, sizes) for own in counts]).reshape(len(views.members), -1)
    baseline = Baseline(counts, sizes, ratios, np.ones_like(ratios), rows.owners[reference])
    own_sums = OwnSums(_by_view(sums, views), sizes[rows.owners] - 1)
    cut = np.flatnonzero(counted[rows.owners] == 0)  # rows of groups larger than a block
    for X, owners, places in rows.part(cut).owned_blocks() if len(cut) else ():
        rest = baseline.own_sums(views, compute, X, owners, leave_out=True)
        for known, found in zip(own_sums.sums, rest.sums, strict=True):
            known[cut[places]] = found
    return baseline, own_sums


def segments_of(views: Views) -> list[Segment]:
    """Every level of each view."""
    return [Segment(len(view.partitionings), psi) for view in views.members for psi in view.partitionings.levels]


def _cells_of(views: Views, X: Floats, compute: Compute) -> Iterator[tuple[Segment, Cells]]:
    """Cells of all rows at each level of each view: (t, n)."""
    segments = iter(segments_of(views))
    for drawn, queries in views.prepare(compute.place(X), compute):
        for cells in drawn.assign_levels(queries, compute):
            yield next(segments), cells


def _by_view(sums: Ints, views: Views) -> tuple[Ints, ...]:
    """Sums of each level of each view, (V L, n), as (n, L) for each view."""
    return tuple(own.T for own in np.split(sums, len(views.members)))


def _spans(owners: Ints, segment: Segment) -> Iterator[tuple[slice, Ints, Ints]]:
    """Rows of some groups at a time, the groups, and the place of each row's among them; owners (n,) ascend.

    So few groups that tables of all their counts are small. Rows of unknown groups are in none.
    """
    groups, starts = np.unique(owners, return_index=True)
    ends = np.append(starts, len(owners))
    known = int(np.searchsorted(groups, 0))
    most = max(1, _DENSE_NUMBERS // (segment.n_partitionings * (segment.n_cells + 1)))
    for part in slices(len(groups) - known, most):
        first, stop = known + part.start, known + part.stop
        local = np.repeat(np.arange(stop - first), np.diff(ends[first : stop + 1]))
        yield slice(int(ends[first]), int(ends[stop])), groups[first:stop], local


def _keyed(tables: Ints, cells: Cells, local: Ints) -> Iterator[tuple[Ints, Ints]]:
    """For each partitioning, the table of all groups as one (g (psi + 1),) and the place of each row's cell in it.

    tables (t, g, psi + 1), the first column of which is that of OUTSIDE; cells (t, n), local (n,)
    """
    keys = local * tables.shape[2] + 1
    for table, own in zip(tables, cells, strict=True):
        yield table.reshape(-1), keys + own


def _count_tables(segment: Segment, n_groups: int, cells: Cells, local: Ints) -> Ints:
    """Number of each group's rows in each cell: (t, g, psi + 1), none in the first column."""
    tables = np.zeros((segment.n_partitionings, n_groups, segment.n_cells + 1), dtype=np.int64)
    for table, keys in _keyed(tables, cells, local):
        table[:] = np.bincount(keys, minlength=len(table))
    tables[:, :, 0] = 0
    return tables


def _sum_tables(tables: Ints, cells: Cells, local: Ints) -> Ints:
    """Sum over partitionings of the own group's table at each row's cell: (n,)."""
    total = np.zeros(len(local), dtype=np.int64)
    for table, keys in _keyed(tables, cells, local):
        total += table[keys]
    return total


def _n_covered(cells: Cells) -> Ints:
    """In how many partitionings a row is not OUTSIDE: (t, n) -> (n,)."""
    covered: Ints = np.sum(cells != OUTSIDE, axis=0, dtype=np.int64)
    return covered


def _sparse(tables: Ints) -> csr_array:
    """Tables (t, g, psi + 1) as sparse counts (g, t psi)."""
    n_groups = tables.shape[1]
    counts = tables[:, :, 1:].transpose(1, 0, 2).reshape(n_groups, -1)
    places = np.flatnonzero(counts)
    starts = np.searchsorted(places, np.arange(n_groups + 1) * counts.shape[1])
    columns = places - np.repeat(np.arange(n_groups), np.diff(starts)) * counts.shape[1]
    entries = counts.reshape(-1)[places].astype(np.int32)
    return csr_array((entries, columns.astype(np.int32), starts.astype(np.int32)), shape=counts.shape)


def _dense(counts: csr_array, segment: Segment) -> Ints:
    """Sparse counts (g, t psi) as tables (t, g, psi + 1)."""
    t, psi = segment.n_partitionings, segment.n_cells
    tables = np.zeros((t, counts.shape[0], psi + 1), dtype=counts.dtype)
    tables[:, :, 1:] = counts.toarray().reshape(-1, t, psi).transpose(1, 0, 2)
    return tables


def _ratio(counts: csr_array, sizes: Ints) -> float:
    """Variance between groups over variance within, unbiased, from a one-way analysis of variance of the mean maps.

    Of N rows in G groups, within = (sum_x |Phi(x)|^2 - sum_g |c_g|^2 / n_g) / (N - G), and the mean square between
    groups, (sum_g |c_g|^2 / n_g - |c|^2 / N) / (G - 1), has the expectation within + between n_0 with
    n_0 = (N - sum_g n_g^2 / N) / (G - 1).
    """
    seen = sizes[sizes > 0].astype(np.float64)
    n_rows, n_groups = float(seen.sum()), len(seen)
    if n_groups < 2 or n_rows == n_groups:
        return 0.0
    squares = np.zeros(len(sizes))
    for part in slices(len(sizes), _SQUARED_GROUPS):
        squares[part] = self_dots(counts[part])
    explained = float((squares[sizes > 0] / seen).sum())
    total = np.asarray(counts.sum(axis=0), dtype=np.float64)
    within = (float(total.sum()) - explained) / (n_rows - n_groups)
    spread = (explained - float((total**2).sum()) / n_rows) / (n_groups - 1)
    between = (spread - within) * (n_groups - 1) / (n_rows - float((seen**2).sum()) / n_rows)
    return max(between, 0.0) / within if within > 0 else 0.0
