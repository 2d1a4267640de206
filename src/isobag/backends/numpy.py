"""The readable definition: float64, one partitioning after the other, nothing clever.

The squared distance of x and c is the sum of (x_k - c_k)^2 in the order of the features, each operation rounded once.
Scales are made by additions, multiplications, divisions and square roots alone, which every machine rounds alike. Every
other backend decides as if it had computed exactly that.
"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import (
    FARTHEST,
    OUTSIDE,
    Array,
    Balls,
    Cells,
    Deviations,
    Floats,
    Ints,
    Knots,
    Scales,
    Weights,
    octaves,
    one_level,
)  # fmt: skip
from isobag.backends.meter import report
from isobag.backends.pairs import dot_pairs as dot_pairs  # noqa: PLC0414, a verb of this backend
from isobag.backends.scales import scale_each
from isobag.backends.sliding import Recounted, Sliding
from isobag.backends.threads import slices
from isobag.backends.trees import descend as descend  # noqa: PLC0414, the same
from isobag.backends.trees import grow_tree as grow_tree  # noqa: PLC0414, the same

_BLOCK_PAIRS = 1 << 20
TERMS = 16
LN2 = float(np.log(2.0))


def place(X: Floats) -> Floats:
    """The rows are where they are: (n, d)."""
    return X


def fetch(values: Array) -> Array:
    """The values are NumPy arrays."""
    return values


def prepare(X: Floats) -> Floats:
    """The queries are the rows themselves: (n, d)."""
    return X


def scale_linearly(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Floats:
    """(x - shift) / spread, limited to +-FARTHEST: (n, d)."""
    with np.errstate(over="ignore"):
        return np.clip((X - shift) / spread, -FARTHEST, FARTHEST)


def scale_by_asinh(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Floats:
    """Asinh of what ``scale_linearly`` returns: (n, d)."""
    return asinh(scale_linearly(X, shift, spread))


def scale_by_knots(X: Floats, knots: Knots, n_jobs: int | None = None) -> Floats:
    """Score of the knot before x + slope * (x - that knot), limited to +-FARTHEST: (n, d)."""
    starts, values, scores, slopes = knots
    scaled = np.empty(X.shape)
    for j in range(X.shape[1]):
        a, b = starts[j], starts[j + 1]
        place = np.searchsorted(values[a:b], X[:, j], side="right")
        knot = a + np.maximum(place - 1, 0)
        with np.errstate(over="ignore"):
            scaled[:, j] = scores[knot] + slopes[a + j + place] * (X[:, j] - values[knot])
    return np.clip(scaled, -FARTHEST, FARTHEST)


def scale_views(X: Floats, scales: Scales, n_jobs: int | None = None) -> Sequence[Floats]:
    """X on the scale of each view: V times (n, d)."""
    return scale_each(sys.modules[__name__], X, scales, n_jobs)


def floor_shares(sums: Ints, own: Weights) -> Floats:
    """Sums as shares of the largest, at least the floors: (V, n, C)."""
    return np.maximum(sums / own.largest, own.floors)


def weigh_terms(terms: Floats, own: Weights) -> Floats:
    """Weighted sums of terms (V, n, C), less what the coarse ones take away, at least the lowest: (n,)."""
    columns = (terms * own.weights).swapaxes(0, 1).reshape(terms.shape[1], -1)[:, own.order]
    sums = np.add.accumulate(columns, axis=1)
    mean: Floats = sums[:, -1]
    if own.n_coarse:
        mean -= own.overruled * np.maximum(mean - (own.offset + own.slope * sums[:, own.n_coarse - 1]), 0)
    return np.maximum(mean, own.lowest)


def middle_octave(sq_radii: Floats) -> int:
    """Octaves of the lower median of those above 0, and of 1 if there are none: (t, m)."""
    radii = sq_radii[sq_radii > 0]
    middle = (len(radii) - 1) // 2
    typical = np.partition(radii, middle)[middle] if len(radii) else 1.0
    return int(octaves(np.array([typical]))[0])


def asinh(X: Floats) -> Floats:
    """log(x + sqrt(x^2 + 1)) with the sign of x, each operation rounded once: the same bits everywhere.

    Below 0.75 that is 2 artanh(s), s = x / (1 + sqrt(x^2 + 1)), or, as 2 s = x (1 - s^2), x and little more. Above, the
    sum is 2 or more: powers of two are taken out of it, and the logarithm of the rest, in [1, 2), adds to theirs.
    """
    x = np.abs(X)
    root = np.sqrt(1 + x * x)
    total = x + root
    half, exponent = np.frexp(total)
    is_near = x < 0.75
    s = np.where(is_near, x / (1 + root), (half - 0.5) / (half + 0.5))
    square = s * s
    rest = np.zeros_like(s)  # artanh(s) = s (1 + rest)
    for term in range(TERMS, 0, -1):
        rest = (rest + 1 / (2 * term + 1)) * square
    near = x + x * (rest - square * (1 + rest))
    rounded_off = (x - (total - root)) / total
    far = (exponent - 1) * LN2 + (2 * (s + s * rest) + rounded_off)
    scaled: Floats = np.copysign(np.where(is_near, near, far), X)
    return scaled


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


def assign_levels(X: Floats, balls: Balls, n_jobs: int | None = None) -> Cells:
    """Cell of every query in every partitioning of each level under the rule "nearest": (L, t, n)."""
    return np.stack([_assign_level(X, balls, level, "nearest").T for level in range(len(balls.levels))])


def count_cells(X: Floats, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    counts = np.zeros(balls.sq_radii.shape, dtype=np.int64)
    for level in range(len(balls.levels)):
        for i, cells in enumerate(_assign_level(X, balls, level, "nearest").T):
            counts[level, i] = np.bincount(cells[cells != OUTSIDE], minlength=balls.slots.shape[1])
    return counts


def sum_at_cells(
    X: Floats, balls: Balls, tables: Ints, rule: str = "nearest", limits: Ints | None = None, n_jobs: int | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L).

    With ``limits``, one more column: that of ``sum_far``
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
    kept, tables = (one_level(balls, -1), counts[-1:]) if only_last else (balls, counts)
    return counts, sum_at_cells(X, kept, tables, limits=limits)


def slide_window(
    X: Sequence[Floats], size: int, slots: Cells, owners: Ints, levels: tuple[int, ...], n_jobs: int | None = None
) -> Sliding:
    """A window of ``size`` places with rows, and balls around those at ``slots``; all is counted every time."""
    return Recounted(sys.modules[__name__], X, size, slots, owners, levels, n_jobs)


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
    groups = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[:, None]
    columns = np.where(cells == OUTSIDE, n_cells, cells)
    kept = columns < n_columns
    rows = np.broadcast_to(groups, cells.shape)[kept]
    places = (columns + np.arange(cells.shape[1]) * n_columns)[kept]
    shape = (len(starts) - 1, cells.shape[1] * n_columns)
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
    dots: Ints, rows: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells, levels: tuple[int, ...],
    n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Squared distance from each center to the nearest different one; its dot products are dots[rows]: (L, t, psi)."""
    sq_dists = group_sq_distances(dots[rows], self_dots, sizes, self_dots, sizes, unit)
    radii = np.zeros((len(levels), *slots.shape))
    for i, chosen in enumerate(slots):
        for level, n_cells in enumerate(levels):
            own = chosen[:n_cells]
            radii[level, i, :n_cells] = _least_positive(sq_dists[np.ix_(own, own)])
    return radii


def assign_groups(
    dots: Ints, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int, slots: Cells,
    levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
) -> Cells:  # fmt: skip
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


def near_and_far(dots: Ints, own: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...]) -> Floats:
    """Mean distance of groups to the nearest reference groups, ranks[0] of them, and to those of other ranks.

    dots (g, references) -> (g, len(ranks))
    """
    k, places = ranks[0], [rank - 1 for rank in ranks]
    distances = np.empty((len(dots), len(ranks)))
    for rows in _blocks(*dots.shape):
        sq_dists = _sq_deviations(dots[rows], own.part(rows), others, sq_norm)
        sq_dists.partition(sorted(set(places)), axis=1)
        sq_dists[~np.isfinite(sq_dists)] = 0.0
        near = np.sqrt(np.sort(sq_dists[:, :k], axis=1))
        total = near[:, 0].copy()
        for column in near.T[1:]:  # from near to far
            total += column
        distances[rows, 0] = total / k
        distances[rows, 1:] = np.sqrt(sq_dists[:, places[1:]])
    return distances


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


def _least_positive(sq_dists: Floats) -> Floats:
    """Smallest positive number of each row, 0 if there is none."""
    nearest = np.where(sq_dists > 0, sq_dists, np.inf).min(axis=1)
    return np.where(np.isinf(nearest), 0.0, nearest)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the rows that keep a block at about a million pairs."""
    return slices(n_rows, max(1, _BLOCK_PAIRS // max(1, n_columns)))
