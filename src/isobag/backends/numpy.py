"""The reference implementation, written to be read: one sample after the other.

Rows are scaled in float64 and rounded to float32. The squared distance of x and c is the sum of (x_k - c_k)^2 in the
order of the features, every subtraction, product and sum rounded to float32. Scales are made by additions,
multiplications, divisions and square roots alone, which every machine rounds alike. So all backends have the same bits.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import (
    FAR,
    OUTSIDE,
    Array,
    Balls,
    Cells,
    Deviations,
    Floats,
    Ints,
    Knots,
    Singles,
    Term,
    Terms,
    octaves,
)  # fmt: skip
from isobag.backends.samples import Cut
from isobag.backends.threads import map_in_threads, slices

_BLOCK_PAIRS, _NEAR_PAIRS, _BLOCK_TERMS, _FEW_ROWS = 1 << 20, 1 << 18, 1 << 18, 64
TERMS = 16
LN2 = float(np.log(2.0))


def place(X: Floats) -> Floats:
    """The rows are where they are: (n, d)."""
    return X


def fetch(values: Array) -> Array:
    """The values are NumPy arrays."""
    return values


def scale_linearly(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Singles:
    """(x - shift) / spread, limited to +-FAR: (n, d)."""
    return _rounded(_divided(X, shift, spread))


def scale_by_asinh(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Singles:
    """Asinh of (x - shift) / spread, limited to +-FAR: (n, d)."""
    return _rounded(asinh(_divided(X, shift, spread)))


def scale_by_knots(X: Floats, knots: Knots, n_jobs: int | None = None) -> Singles:
    """Score of the knot before x + slope * (x - that knot), limited to +-FAR: (n, d)."""
    starts, values, scores, slopes = knots
    scaled = np.empty(X.shape)
    for j in range(X.shape[1]):
        a, b = starts[j], starts[j + 1]
        place = np.searchsorted(values[a:b], X[:, j], side="right")
        knot = a + np.maximum(place - 1, 0)
        with np.errstate(over="ignore"):
            scaled[:, j] = scores[knot] + slopes[a + j + place] * (X[:, j] - values[knot])
    return _rounded(scaled)


def _divided(X: Floats, shift: Floats, spread: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip((X - shift) / spread, -FAR, FAR)


def _rounded(scaled: Floats) -> Singles:
    return np.clip(scaled, -FAR, FAR).astype(np.float32)


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


def sq_distances(X: Singles, centers: Singles) -> Singles:
    """Squared Euclidean distances, features summed in order: (n, d), (m, d) -> (n, m)."""
    sq_dists = np.zeros((len(X), len(centers)), dtype=np.float32)
    for x, c in zip(X.T, centers.T, strict=True):
        gaps = x[:, None] - c[None, :]
        sq_dists += gaps * gaps
    return sq_dists


def sq_radii(pool: Singles, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Singles:
    """Squared distance from each center to the nearest *different* one of its sample, 0 if there is none: (L, S)."""
    radii = np.zeros((len(levels), len(slots)), dtype=np.float32)
    for level, starts in enumerate(Cut(levels, len(slots)).starts):
        for start in starts:
            centers = pool[slots[start : start + levels[level]]]
            for block in _blocks(len(centers), len(centers)):
                radii[level, start:][block] = _least_positive(sq_distances(centers[block], centers))
    return radii


def assign_cells(
    X: Singles, balls: Balls, limits: Ints | None = None, n_jobs: int | None = None, rule: str = "nearest"
) -> tuple[Cells, Ints]:
    """The slot whose ball each row is in for every sample (T, n), OUTSIDE for none, and how far out rows are (n,).

    How far out: the sum over samples of octaves(squared distance to the nearest center) - limit, where a row is OUTSIDE
    and it is above 0; limits (L,), -1 for levels that do not count.
    """
    samples = balls.cut.starts
    cells, far = np.empty((sum(map(len, samples)), len(X)), dtype=np.int32), np.zeros(len(X), dtype=np.int64)
    for block in _blocks(len(X), len(balls.pool)):
        sq_dists, number = sq_distances(X[block], balls.pool), 0
        for level, starts in enumerate(samples):
            for start in starts:
                of_sample = slice(start, start + balls.levels[level])
                to_centers = sq_dists[:, balls.slots[of_sample]]
                chosen = choose_cells(to_centers, balls.sq_radii[level, of_sample], rule)
                cells[number, block] = np.where(chosen == OUTSIDE, OUTSIDE, start + chosen)
                if limits is not None and limits[level] >= 0:
                    beyond = np.maximum(octaves(to_centers.min(axis=1)) - limits[level], 0)
                    far[block] += balls.cut.far_weights[level] * np.where(chosen == OUTSIDE, beyond, 0)
                number += 1
    return cells, far


def choose_cells(sq_dists: Array, sq_radii: Array, rule: str) -> Cells:
    """Number of the center of a sample whose ball each row is in: (n, psi), (psi,) -> (n,)."""
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


def sum_at_cells(X: Singles, balls: Balls, tables: Ints, limits: Ints | None = None, n_jobs: int | None = None) -> Ints:
    """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""
    cells, far = assign_cells(X, balls, limits)
    return np.column_stack([sum_cells(cells, balls.cut, tables), far])


def value_of_term(sums: Ints, term: Term) -> Floats:
    """What a term makes of sums: (n,)."""
    shares: Floats = sums / term.divisor
    return -term.weight * shares if term.floor is None else np.log(np.maximum(shares, term.floor)) * term.weight


def add_terms(sums: Sequence[Ints], terms: Terms, n_jobs: int | None = None) -> tuple[Floats, Floats]:
    """Sum of all terms of each row, and of the first, one after the other: (n, L + 1) a view -> (n,), (n,)."""
    if 0 < len(sums[0]) <= _FEW_ROWS:  # all terms at once, as each operation takes longer than its work
        views, columns, divisors, weights, floors = terms.side_by_side
        shares = np.stack(sums)[views, :, columns] / divisors[:, None]
        no_log = np.isnan(floors)[:, None]
        logarithms = np.log(np.where(no_log, 1.0, np.fmax(shares, floors[:, None])))
        parts = np.add.accumulate(np.where(no_log, -shares, logarithms) * weights[:, None])
        return parts[-1], parts[terms.n_first - 1].copy() if terms.n_first else np.zeros(len(parts[0]))
    totals = np.zeros((2, len(sums[0])))

    def work(rows: slice) -> None:
        for number, term in enumerate(terms.terms):
            totals[0, rows] += value_of_term(sums[term.view][rows, term.column], term)
            if number == terms.n_first - 1:
                totals[1, rows] = totals[0, rows]

    map_in_threads(work, slices(len(sums[0]), _BLOCK_TERMS), n_jobs)
    return totals[0], totals[1]


def count_at_cells(X: Singles, balls: Balls, n_jobs: int | None = None) -> Ints:
    """Number of rows in each cell: (n, d) -> (L, S)."""
    return count_cells(assign_cells(X, balls)[0], balls.cut)


def count_cells(cells: Cells, cut: Cut, n_jobs: int | None = None) -> Ints:
    """Number of rows in each cell: (T, n) -> (L, S)."""
    counts = np.zeros((len(cut.levels), cut.n_slots), dtype=np.int64)
    for level, samples in enumerate(_by_level(cells, cut)):
        counts[level] = np.bincount(samples[samples != OUTSIDE], minlength=counts.shape[1])
    return counts


def sum_cells(cells: Cells, cut: Cut, tables: Ints, n_jobs: int | None = None) -> Ints:
    """Sum over samples of the table (L, S) at each row's cell, OUTSIDE adding nothing: (T, n) -> (n, L)."""
    parts = zip(tables, _by_level(cells, cut), strict=True)
    return np.column_stack([np.where(own == OUTSIDE, 0, table[own]).sum(axis=0) for table, own in parts])


def _by_level(cells: Cells, cut: Cut) -> list[Cells]:
    """Cells in the samples of each psi: L times (t, n)."""
    return np.split(cells, cut.ends[1:-1])


def count_groups(cells: Cells, cut: Cut, starts: Ints, n_jobs: int | None = None) -> csr_array:
    """Number of each group's rows in each cell: cells (T, n), groups side by side -> CSR (g, L S).

    starts (g + 1,): first row of each group
    """
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    of_levels = enumerate(_by_level(cells, cut))
    columns = np.vstack([np.where(own == OUTSIDE, -1, own + level * cut.n_slots) for level, own in of_levels])
    inside = columns >= 0
    rows = np.broadcast_to(owners, columns.shape)[inside]
    shape = (len(starts) - 1, len(cut.levels) * cut.n_slots)
    counts = csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns[inside])), shape=shape)
    counts.sum_duplicates()
    return counts


def dot_counts(counts: csr_array, centers: csr_array, n_jobs: int | None = None) -> Ints:
    """Dot products of all rows of counts with all centers, integers: (n, centers)."""
    dots: Ints = (counts.tocsr().astype(np.int64) @ centers.tocsr().astype(np.int64).T).toarray()
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
    dots: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells, levels: tuple[int, ...]
) -> Floats:
    """Squared distance from each center to the nearest different one: dots (m, m) -> (L, t, psi)."""
    radii = np.zeros((len(levels), *slots.shape))
    for i, chosen in enumerate(slots):
        measured = self_dots[chosen], sizes[chosen]
        sq_dists = group_sq_distances(dots[np.ix_(chosen, chosen)], *measured, *measured, unit)
        for level, n_cells in enumerate(levels):
            radii[level, i, :n_cells] = _least_positive(sq_dists[:n_cells, :n_cells])
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


def near_and_far(
    dots: Ints, groups: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...],
    n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Mean distance of groups to the nearest reference groups, ranks[0] of them, and to those of other ranks.

    dots (g, references) -> (g, len(ranks))
    """
    k, places = ranks[0], [rank - 1 for rank in ranks]
    distances = np.empty((len(dots), len(ranks)))

    def work(rows: slice) -> None:
        nearest = sq_dists = _sq_deviations(dots[rows], groups.part(rows), others, sq_norm)
        for place in sorted(set(places), reverse=True):  # of several at once, NumPy takes five times as long
            nearest.partition(place, axis=1)
            nearest = nearest[:, :place]
        near = np.sort(sq_dists[:, :k], axis=1)
        near[~np.isfinite(near)] = 0.0
        total = np.zeros(len(near))
        for column in np.sqrt(near).T:  # from near to far
            total += column
        distances[rows, 0] = total / k
        far = sq_dists[:, places[1:]]
        distances[rows, 1:] = np.sqrt(np.where(np.isfinite(far), far, 0.0))

    map_in_threads(work, slices(len(dots), max(1, _NEAR_PAIRS // max(1, dots.shape[1]))), n_jobs)
    return distances


def _sq_deviations(dots: Ints, groups: Deviations, others: Deviations, sq_norm: float) -> Floats:
    """|z - z_j|^2: (g, references); infinite for the one reference that the group itself is.

    That is one with the same counts and size, told by integers: c.c' = c.c = c'.c' and n = n'. So a group of ``fit`` is
    no neighbour of its own, and learning and scoring are one function of counts and size.
    """
    is_equal = dots == groups.self_dots[:, None]
    twins = np.flatnonzero(is_equal.any(axis=1))
    is_same = is_equal[twins] & (dots[twins] == others.self_dots) & (groups.sizes[twins, None] == others.sizes)
    sq_dists: Floats = dots / (groups.sizes[:, None] * others.sizes)
    sq_dists -= groups.along[:, None]
    sq_dists -= others.along
    sq_dists += sq_norm
    sq_dists *= -2 * groups.factors[:, None]
    sq_dists *= others.factors
    sq_dists += (groups.factors**2 * groups.sq_norms)[:, None] + others.factors**2 * others.sq_norms
    np.maximum(sq_dists, 0, out=sq_dists)
    is_twin = is_same.any(axis=1)
    sq_dists[twins[is_twin], is_same[is_twin].argmax(axis=1)] = np.inf
    return sq_dists


def _least_positive(sq_dists: Array) -> Array:
    """Smallest positive number of each row, 0 if there is none."""
    nearest = np.where(sq_dists > 0, sq_dists, np.inf).min(axis=1)
    return np.where(np.isinf(nearest), 0.0, nearest)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of the rows that keep a block at about a million pairs."""
    return slices(n_rows, max(1, _BLOCK_PAIRS // max(1, n_columns)))
