"""Rows against their own group: a mean map for each group, shrunk towards that of all rows.

Steps and formulas: study/FORMULAS.md, "Rows within groups: counts".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, OUTSIDE, Cells, Cut, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import slices
from isobag.data.labelled import UNSEEN, LabelledRows
from isobag.models.averaging import Paths
from isobag.models.explain import Shares
from isobag.models.views import Views
from isobag.partitionings.counts import merge_counts, self_dots

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


@dataclass(frozen=True, eq=False)
class Baseline(Learned):
    """The rows of each group counted in the cells of every level of all views, and how much groups differ.

    counts : (g, L S) for each view; sparse.
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
        for counts in self.counts:
            check("counts", counts.data, (None,), 0, 1 << 31)

    def check_views(self, views: Views, n_reference: int) -> None:
        """Refuse other views, or another number of reference rows, than this is of."""
        check("ratios", self.ratios, (len(views.members), len(views.levels)))
        check("reference", self.reference, (n_reference,))
        shapes = [(len(self.sizes), view.partitionings.cut.n_cells) for view in views.members]
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
        first = int(np.searchsorted(owners, 0))
        parts = []
        for (balls, scaled), counts in zip(views.scaled(X[first:], compute), self.counts, strict=True):
            sums = np.zeros((len(owners), len(balls.levels)), dtype=np.int64)
            if first < len(owners):
                cells = compute.fetch(balls.assign(scaled, compute)[0])
                sums[first:] = _own_sums(counts, cells, owners[first:], balls.cut) - leave_out * _n_covered(
                    cells, balls.cut
                )
            parts.append(sums)
        return OwnSums(tuple(parts), self.sizes_of(owners) - leave_out)

    def mix(self, paths: Paths, own_sums: OwnSums, n_samples: Ints) -> Paths:
        """Scores at every psi in the map of the own group and all, from those in the map of all; n_samples (L,)."""
        mixed = []
        for view, (path, far) in enumerate(paths):
            shares = own_sums.sums[view] / (np.maximum(own_sums.sizes, 1)[:, None] * n_samples)
            mixed.append((mix_shares(shares, path, self.weights(view, own_sums.sizes), self.gains[view]), far))
        return mixed

    def with_gains(self, paths: Paths, own_sums: OwnSums, n_samples: Ints) -> "Baseline":
        """With the gains that some rows of ``fit`` show, from their scores in the map of all."""
        in_groups = own_sums.sizes > 0
        gains = np.ones_like(self.ratios)
        for view, (path, _) in enumerate(paths):
            if in_groups.any():
                shares = own_sums.sums[view][in_groups] / (own_sums.sizes[in_groups][:, None] * n_samples)
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
        shares = np.zeros(cells.shape)
        for rows, counts, local in self._tables(level):
            of_rows = cells[rows]
            shares[rows] = np.where(of_rows == OUTSIDE, 0, counts[local[:, None], of_rows])
        weights, gains = self._weights(level), self.baseline.gains[self.view, self._place(level)]
        sizes = np.maximum(self.baseline.sizes_of(self.owners), 1)
        return mix_shares(shares / sizes[:, None], self.of_all.at(level, cells), weights, gains)

    def usual(self, level: int, nearest: Cells, starts: Ints) -> Cells:
        """The fullest cell of the own group where its map weighs more than that of all, else the nearest center."""
        cells = nearest.copy()
        ends = np.append(starts[1:], self._n_slots(level))
        for rows, counts, local in self._tables(level):
            fullest = np.column_stack(
                [a + counts[:, a:b].argmax(axis=1) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
            )
            cells[rows] = fullest[local]
        return np.where(self._weights(level) > 0.5, cells, nearest)

    def _place(self, level: int) -> int:
        return level % int(self.baseline.ratios.shape[1])  # of one psi, the last level alone is counted

    def _n_slots(self, level: int) -> int:
        return int(self.baseline.counts[self.view].shape[1]) // int(self.baseline.ratios.shape[1])

    def _weights(self, level: int) -> Floats:
        return self.baseline.weights(self.view, self.baseline.sizes_of(self.owners))[:, [self._place(level)]]

    def _tables(self, level: int) -> Iterator[tuple[slice, Ints, Ints]]:
        """Some rows, the counts of their groups (g, S), and the place of each row's group among them."""
        n_slots, place = self._n_slots(level), self._place(level)
        counts = self.baseline.counts[self.view][:, place * n_slots : (place + 1) * n_slots]
        for rows, groups, local in _spans(self.owners, n_slots):
            yield rows, counts[groups].toarray(), local


def mix_shares(of_group: Floats, shares: Floats, weights: Floats, gains: Floats) -> Floats:
    """(lambda own + (1 - lambda) shares) / (lambda gain + 1 - lambda)."""
    rest = 1 - weights
    mixed: Floats = (weights * of_group + rest * shares) / (weights * gains + rest)
    return mixed


def fit_baseline(views: Views, rows: LabelledRows, reference: Ints, compute: Compute) -> tuple[Baseline, OwnSums]:
    """Count the rows of each group, still without gains; also what each row finds in its group without itself.

    reference (m,): the numbers of the model's reference rows
    """
    sizes, cuts = rows.sizes, [view.partitionings.cut for view in views.members]
    sums = [np.zeros((len(rows), len(views.levels)), dtype=np.int64) for _ in cuts]
    parts: list[list[csr_array]] = [[] for _ in cuts]
    numbers: list[Ints] = []
    seen = np.zeros(rows.n_groups, dtype=np.int64)
    for X, owners, places in rows.owned_blocks():
        groups, starts = np.unique(owners, return_index=True)
        numbers.append(groups)
        local = np.repeat(np.arange(len(groups)), np.diff(starts, append=len(owners)))
        for view, (balls, scaled) in enumerate(views.scaled(X, compute)):
            cells, _ = balls.assign(scaled, compute)
            counts = compute.backend.count_groups(
                cells, balls.cut, np.append(starts, len(owners)), compute.n_jobs
            ).tocsr()
            cells = compute.fetch(cells)
            parts[view].append(counts)
            sums[view][places] = _own_sums(counts, cells, local, balls.cut) - _n_covered(cells, balls.cut)
        seen += np.bincount(owners, minlength=rows.n_groups) == sizes
    merged = tuple(merge_counts(own, np.concatenate(numbers), rows.n_groups) for own in parts)
    by_level = [np.split(np.arange(own.shape[1]), len(views.levels)) for own in merged]
    ratios = np.array(
        [[_ratio(own[:, level], sizes) for level in levels] for own, levels in zip(merged, by_level, strict=True)]
    )
    baseline = Baseline(merged, sizes, ratios, np.ones_like(ratios), rows.owners[reference])
    own_sums = OwnSums(tuple(sums), sizes[rows.owners] - 1)
    cut = np.flatnonzero(seen[rows.owners] == 0)  # rows of groups larger than a block
    for X, owners, places in rows.part(cut).owned_blocks() if len(cut) else ():
        rest = baseline.own_sums(views, compute, X, owners, leave_out=True)
        for whole, part in zip(own_sums.sums, rest.sums, strict=True):
            whole[cut[places]] = part
    return baseline, own_sums


def _own_sums(counts: csr_array, cells: Cells, owners: Ints, cut: Cut) -> Ints:
    """Sum over samples of the counts of each row's group at its cells: counts (g, L S), cells (T, n) -> (n, L)."""
    sums = np.zeros((cells.shape[1], len(cut.levels)), dtype=np.int64)
    ends = cut.ends
    for rows, groups, local in _spans(owners, counts.shape[1]):
        tables = np.zeros((len(groups), len(cut.levels), 1 + cut.n_slots), dtype=counts.dtype)  # the first is OUTSIDE
        tables[:, :, 1:] = counts[groups].toarray().reshape(len(groups), len(cut.levels), -1)
        for level in range(len(cut.levels)):
            flat, before = tables[:, level].reshape(-1), local * (1 + cut.n_slots) + 1
            for sample_cells in cells[ends[level] : ends[level + 1], rows]:
                sums[rows, level] += flat[before + sample_cells]
    return sums


def _spans(owners: Ints, n_columns: int) -> Iterator[tuple[slice, Ints, Ints]]:
    """Rows of some groups at a time, the groups, and the place of each row's among them; owners (n,) ascend.

    So few groups that tables of all their counts are small. Rows of unknown groups are in none.
    """
    groups, starts = np.unique(owners, return_index=True)
    ends = np.append(starts, len(owners))
    first_seen = int(np.searchsorted(groups, 0))
    for part in slices(len(groups) - first_seen, max(1, _DENSE_NUMBERS // n_columns)):
        first, stop = first_seen + part.start, first_seen + part.stop
        local = np.repeat(np.arange(stop - first), np.diff(ends[first : stop + 1]))
        yield slice(int(ends[first]), int(ends[stop])), groups[first:stop], local


def _n_covered(cells: Cells, cut: Cut) -> Ints:
    """In how many samples of each psi a row is not OUTSIDE: (T, n) -> (n, L)."""
    parts = np.split(cells != OUTSIDE, cut.ends[1:-1])
    return np.column_stack([part.sum(axis=0, dtype=np.int64) for part in parts])


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
