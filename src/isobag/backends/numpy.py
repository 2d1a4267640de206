"""The readable definition: float64, one partitioning after the other, nothing clever.

The squared distance of x and c is the sum of (x_k - c_k)^2 in the order of the features, each operation rounded once.
Every other backend decides as if it had computed exactly that.
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import OUTSIDE, Balls, Cells, Floats, Ints, last_level, octaves
from isobag.backends.meter import report
from isobag.backends.threads import slices

_BLOCK_PAIRS = 1 << 22


def prepare(X: Floats, like: Floats | None = None) -> Floats:
    """The queries are the rows themselves: (n, d)."""
    return X


def sq_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distances, features summed in order: (n, d), (m, d) -> (n, m)."""
    sq_dists = np.zeros((len(X), len(centers)))
    for x, c in zip(X.T, centers.T, strict=True):
        sq_dists += (x[:, None] - c[None, :]) ** 2
    return sq_dists


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Floats:
    """Squared distance from each center to the nearest *different* center; 0 if all are equal: (L, t, psi)."""
    radii = np.zeros((len(levels), *slots.shape))
    for i, chosen in enumerate(slots):
        for level, n_cells in enumerate(levels):
            centers = points[chosen[:n_cells]]
            for block in _blocks(n_cells, n_cells):
                radii[level, i, block] = _least_positive(sq_distances(centers[block], centers))
    return radii


def choose_cells(sq_dists: Floats, sq_radii: Floats, rule: str) -> Cells:
    """Cell of each query from its distances to the centers of one partitioning: (n, psi), (psi,) -> (n,)."""
    inside = sq_dists <= sq_radii
    if rule == "nearest":
        chosen = sq_dists.argmin(axis=1)
    elif rule == "covering":
        chosen = np.where(inside, sq_dists, np.inf).argmin(axis=1)
    else:
        chosen = np.where(inside, sq_radii, np.inf).argmin(axis=1)
        # A Voronoi cell has an infinite radius, which argmin cannot tell from "not covered".
        chosen = np.where(np.isinf(sq_radii[chosen]), inside.argmax(axis=1), chosen)
    covered = np.take_along_axis(inside, chosen[:, None], axis=1)[:, 0]
    return np.where(covered, chosen, OUTSIDE).astype(np.int32)


def assign_cells(X: Floats, balls: Balls, rule: str, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning, of the last level: (n, t)."""
    return _assign_level(X, balls, -1, rule)


def count_cells(X: Floats, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    counts = np.zeros(balls.sq_radii.shape, dtype=np.int64)
    for level in range(len(balls.levels)):
        for i, cells in enumerate(_assign_level(X, balls, level, "nearest").T):
            counts[level, i] = np.bincount(cells[cells != OUTSIDE], minlength=balls.slots.shape[1])
    return counts


def sum_at_cells(
    X: Floats,
    balls: Balls,
    tables: Ints,
    rule: str = "nearest",
    limits: Ints | None = None,
    n_jobs: int | None = None,
) -> Ints:
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L).

    With ``limits``, one more column: what ``sum_far`` says
    """
    sums = np.zeros((len(X), len(balls.levels)), dtype=np.int64)
    for level in range(len(balls.levels)):
        for table, cells in zip(tables[level], _assign_level(X, balls, level, rule).T, strict=True):
            sums[:, level] += np.where(cells == OUTSIDE, 0, table[cells])
    return sums if limits is None else np.column_stack([sums, sum_far(X, balls, limits)])


def sum_far(X: Floats, balls: Balls, limits: Ints, n_jobs: int | None = None) -> Ints:
    """How far out queries are: sum of octaves(sq_dist to the nearest center) - limit, where OUTSIDE and above 0: (n,).

    limits (L,), -1 for levels that do not count
    """
    total = np.zeros(len(X), dtype=np.int64)
    for level in np.flatnonzero(limits >= 0):
        n_cells = balls.levels[level]
        for i, chosen in enumerate(balls.slots[:, :n_cells]):
            for block in _blocks(len(X), n_cells):
                sq_dists = sq_distances(X[block], balls.points[chosen])
                nearest = sq_dists.argmin(axis=1)
                least = np.take_along_axis(sq_dists, nearest[:, None], axis=1)[:, 0]
                beyond = np.maximum(octaves(least) - limits[level], 0)
                total[block] += np.where(least > balls.sq_radii[level, i, nearest], beyond, 0)
    return total


def count_and_sum(
    X: Floats, balls: Balls, only_last: bool = False, limits: Ints | None = None, n_jobs: int | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries (L, t, psi), and what ``sum_at_cells`` makes of them, of all levels or the last."""
    counts = count_cells(X, balls)
    kept, tables = (last_level(balls), counts[-1:]) if only_last else (balls, counts)
    return counts, sum_at_cells(X, kept, tables, limits=limits)


def _assign_level(X: Floats, balls: Balls, level: int, rule: str) -> Cells:
    """Cell of every query in every partitioning of one level: (n, t)."""
    n_cells = balls.levels[level]
    cells = np.empty((len(X), len(balls.slots)), dtype=np.int32)
    for i, chosen in enumerate(balls.slots[:, :n_cells]):
        for block in _blocks(len(X), n_cells):
            sq_dists = sq_distances(X[block], balls.points[chosen])
            cells[block, i] = choose_cells(sq_dists, balls.sq_radii[level, i, :n_cells], rule)
        report(len(X))
    return cells


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
            radii[level, i, :n_cells] = _least_positive(sq_dists[np.ix_(own, own)])
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
    """Cell of every group in every partitioning of groups, for each level: (L, n, t)."""
    sq_dists = group_sq_distances(dots, self_dots, sizes, center_self_dots, center_sizes, unit)
    cells = np.empty((len(levels), len(dots), len(slots)), dtype=np.int32)
    for i, chosen in enumerate(slots):
        for level, n_cells in enumerate(levels):
            cells[level, :, i] = choose_cells(sq_dists[:, chosen[:n_cells]], sq_radii[level, i, :n_cells], "nearest")
    return cells


def self_dots(counts: csr_array) -> Floats:
    """Dot product of each row of counts with itself: (n,)."""
    squares = csr_array((counts.data.astype(np.float64) ** 2, counts.indices, counts.indptr), shape=counts.shape)
    return np.asarray(squares.sum(axis=1), dtype=np.float64)


def _least_positive(sq_dists: Floats) -> Floats:
    """Smallest positive number of each row, 0 if there is none."""
    nearest = np.where(sq_dists > 0, sq_dists, np.inf).min(axis=1)
    return np.where(np.isinf(nearest), 0.0, nearest)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the rows that keep a block under a few million pairs."""
    size = max(1, _BLOCK_PAIRS // max(1, n_columns))
    return slices(n_rows, size)
