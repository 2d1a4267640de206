"""Counts of groups, distances between groups, and their cells among groups."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import OUTSIDE, Cells, Deviations, Floats, Ints
from isobag.backends.numpy.balls import choose_cells, least_positive
from isobag.backends.threads import slices

_KEPT_DISTANCES = 1 << 22


def count_group_cells(cells: Cells, starts: Ints, n_cells: int, n_columns: int, n_jobs: int | None = None) -> csr_array:
    """Number of each group's points in each cell: cells (n, t), groups side by side -> CSR (g, t * n_columns).

    starts (g + 1,): first point of each group. n_columns is n_cells, or one more to count OUTSIDE in a last column.
    """
    t = cells.shape[1]
    groups = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[:, None]
    columns = np.where(cells == OUTSIDE, n_cells, cells)
    kept = columns < n_columns
    rows = np.broadcast_to(groups, cells.shape)[kept]
    places = (columns + np.arange(t) * n_columns)[kept]
    shape = (len(starts) - 1, t * n_columns)
    counts = csr_array((np.ones(len(rows), dtype=np.int32), (rows, places)), shape=shape)
    counts.sum_duplicates()
    return counts


def dot_counts(counts: csr_array, centers: csr_array, n_jobs: int | None = None, rows: Ints | None = None) -> Ints:
    """Dot products of all rows of counts with all centers, integers: (n, centers).

    rows: if given, the rows of counts that are the centers, for backends that find each pair once
    """
    dots: Ints = (counts.astype(np.int64) @ centers.astype(np.int64).T).toarray()
    return dots


def group_sq_distances(
    dots: Ints, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int
) -> Floats:
    """Squared distances of mean maps N / m and M / l, from dot products of their counts: (n, centers).

    (l^2 N.N - 2 l m N.M + m^2 M.M) / (l m)^2, with m and l divided by what m has in common with ``unit``, a divisor of
    all l. The numerator is an integer, exact below 2^53, so that equal distances compare equal.
    """
    common = np.gcd(sizes, unit)[:, None]
    m = (sizes[:, None] // common).astype(np.float64)
    others = (center_sizes[None, :] // common).astype(np.float64)
    above = (others * others * self_dots[:, None] - 2 * others * m * dots) + m * m * center_self_dots
    return np.maximum(above, 0) / (others * sizes[:, None]) ** 2


def group_sq_radii(
    dots: Ints,
    rows: Ints,
    self_dots: Floats,
    sizes: Ints,
    unit: int,
    slots: Cells,
    levels: tuple[int, ...],
    n_jobs: int | None = None,
) -> Floats:
    """Squared distance from each center to the nearest different one; its dot products are dots[rows]: (L, t, psi)."""
    sq_dists = group_sq_distances(dots[rows], self_dots, sizes, self_dots, sizes, unit)
    radii = np.zeros((len(levels), *slots.shape))
    for i, chosen in enumerate(slots):
        for level, n_cells in enumerate(levels):
            own = chosen[:n_cells]
            radii[level, i, :n_cells] = least_positive(sq_dists[np.ix_(own, own)])
    return radii


def assign_groups(
    dots: Ints,
    self_dots: Floats,
    sizes: Ints,
    center_self_dots: Floats,
    center_sizes: Ints,
    unit: int,
    slots: Cells,
    levels: tuple[int, ...],
    sq_radii: Floats,
    n_jobs: int | None = None,
) -> Cells:
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    sq_dists = group_sq_distances(dots, self_dots, sizes, center_self_dots, center_sizes, unit)
    cells = np.empty((len(levels), len(slots), len(dots)), dtype=np.int32)
    for i, chosen in enumerate(slots):
        for level, n_cells in enumerate(levels):
            cells[level, i] = choose_cells(sq_dists[:, chosen[:n_cells]], sq_radii[level, i, :n_cells], "nearest")
    return cells


def join_cells(parts: Sequence[Cells]) -> Cells:
    """Cells of some groups after those of others: (L, t, n)."""
    return np.concatenate(parts, axis=2)


def count_assigned(cells: Cells, n_cells: int) -> Ints:
    """Number of groups in each cell: (L, t, n) -> (L, t, n_cells)."""
    return np.array([[np.bincount(own[own != OUTSIDE], minlength=n_cells) for own in level] for level in cells])


def sum_assigned(cells: Cells, tables: Ints) -> Ints:
    """Sum over partitionings of the table at each group's cell: (L, t, n), (L, t, psi) -> (n, L)."""
    sums = np.zeros((cells.shape[2], len(cells)), dtype=np.int64)
    for level, (own_cells, own_tables) in enumerate(zip(cells, tables, strict=True)):
        for own, table in zip(own_cells, own_tables, strict=True):
            sums[:, level] += np.where(own == OUTSIDE, 0, table[own])
    return sums


def mean_of_nearest(dots: Ints, own: Deviations, others: Deviations, sq_norm: float, k: int) -> Floats:
    """Mean distance of groups to the k nearest reference groups, from dot products (g, references): (g,)."""
    means = np.empty(len(dots))
    for rows in slices(len(dots), max(1, _KEPT_DISTANCES // dots.shape[1])):
        means[rows] = _mean_of_smallest(_sq_deviations(dots[rows], own.part(rows), others, sq_norm), k)
    return means


def _sq_deviations(dots: Ints, own: Deviations, others: Deviations, sq_norm: float) -> Floats:
    """|z - z_j|^2: (g, references); infinite for the one reference that the group itself is.

    That is one with the same counts and size, told by integers: c.c' = c.c = c'.c' and n = n'. So a group of ``fit`` is
    no neighbour of its own, and learning and scoring are one function of counts and size.
    """
    is_same = (dots == own.self_dots[:, None]) & (dots == others.self_dots) & (own.sizes[:, None] == others.sizes)
    sq_dists: Floats = dots / (own.sizes[:, None] * others.sizes)
    sq_dists -= own.along[:, None]
    sq_dists -= others.along
    sq_dists += sq_norm
    sq_dists *= -2 * own.factors[:, None]
    sq_dists *= others.factors
    sq_dists += (own.factors**2 * own.sq_norms)[:, None] + others.factors**2 * others.sq_norms
    np.maximum(sq_dists, 0, out=sq_dists)
    twins = np.flatnonzero(is_same.any(axis=1))
    sq_dists[twins, is_same[twins].argmax(axis=1)] = np.inf
    return sq_dists


def _mean_of_smallest(sq_dists: Floats, k: int) -> Floats:
    """Mean of the k smallest distances, summed from near to far: (g, references) -> (g,)."""
    near = np.sort(np.partition(sq_dists, k - 1, axis=1)[:, :k], axis=1)
    near = np.sqrt(np.where(np.isfinite(near), near, 0.0))
    total = near[:, 0].copy()
    for column in near.T[1:]:
        total += column
    mean: Floats = total / k
    return mean
