"""The nearest center in single precision, certified, else decided in float64: one block of queries at a time.

Let Q be a rotation, s a power of two, and x' = Q (x - mu) / s, the coordinates of a query as real numbers; those of a
center are c'. Both are stored in float32, with an error of at most u = 2^-24 of their length. Let r = |x' - c'| and
b the squared distance computed from what is stored: differences, squares and sums in float32, in any order, fused or
not. Storing moves the distance by at most u (|x'| + |c'|) <= u (2 |x'| + r), and the arithmetic changes the square by
at most the share (d + 4) u. With e = 2 u |x'| therefore

    |b - r^2| <= (d + 8) u b + 2.2 e sqrt(b) + 2.2 e^2,

and the same with r^2 in the place of b on the right. ``tolerance`` is A b + B sqrt(b) + C with slightly larger
constants, which cover the error of rotating in float64, the rounding of the float64 definition, that of the radii and
of the tolerance itself; C has a term for what underflows, in float32 or in the definition.

Let w be the center of the least b. The nearest center by the definition is no farther, r^2 <= b + tolerance, so its
own computed value is at most b + 2 tolerance: ``limit``. If all others exceed it, w is nearest; if not, the
centers within the limit are compared in float64 as defined. A query is certainly inside or outside if b differs from
the squared radius by more than the tolerance. Where coordinates overflow, B is infinite, and infinities and NaN are
never certain.

Before that, whole blocks drop centers. Let m be the middle of the box of a block, h its half widths, and S the sum over
features of h_k |c_k - p_k|. Center p beats center c for every query in the box if |m - c|^2 - |m - p|^2 > 2 S, because
the difference of two squared distances is linear in the query. ``_drop_beaten`` asks for a margin beyond that, with p
the center nearest to m. Let G = 2 |m - c| + 2 |h|, an upper bound of the sum of the distances of x to c and p as they
are stored: these then differ by at least margin / G, and storing accounts for at most 2 u G + 2.1 e of that, e taken at
the largest |x'| of the block. So the margin has to exceed 2 u G^2 + 2.1 e G, and the rounding of the sums themselves,
(d + 6) u (2 |m - c|^2 + 2 S). With G^2 <= 8 |m - c|^2 + 8 |h|^2 and 4.2 e |m - c| <= 2^-15 |m - c|^2 + 4.5 2^15 e^2,

    margin = a (|m - c|^2 + S) + g,   a = 4 (d + 16) u + 2^-15,   g = 20 u |h|^2 + 4.4 e |h| + 5 2^15 e^2

is enough.
"""

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE
from isobag.backends.numba.compiled.blocks import SUPER
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.vectors import (
    LANES,
    PADDING,
    measure_from,
    pick_unbeaten,
    scan_centers,
    spread_from,
)

_LARGEST = np.float32(1e30)
_NOWHERE = np.int32(OUTSIDE)


@jit
def margins(halves, longest):
    """G of each box: halves (boxes, d), longest (boxes,) the largest |x'| in it."""
    found = np.empty(len(halves), np.float32)
    for box in range(len(halves)):
        sq_diagonal = 0.0
        for half in halves[box]:
            sq_diagonal += half * half
        e = 2.0**-23 * longest[box]
        found[box] = 20 * 2.0**-24 * sq_diagonal + 4.4 * e * np.sqrt(sq_diagonal) + 5 * 2.0**15 * e * e + 2.0**-110
    return found


@jit
def _drop_beaten(columns, ends, box, sq_dists, spreads, kept, kept_ends):
    """Positions of the centers that may be nearest to a query of a box at some level; how many.

    columns (d, centers + PADDING) in the order of drawing; ends (L,) centers of each level; box: middle, halves, g;
    written: kept, kept_ends (L,)
    """
    middle, half, margin = box
    d = len(middle)
    n_levels = len(ends)
    measure_from(columns, ends[n_levels - 1], middle, sq_dists)
    share = np.float32(4 * (d + 16) * 2.0**-24 + 2.0**-15)
    size = 0
    first = 0
    nearest = 0
    for level in range(n_levels):
        last = ends[level]
        for c in range(first, last):
            if sq_dists[c] < sq_dists[nearest]:
                nearest = c
        spread_from(columns, first, last, nearest, half, spreads)
        size = pick_unbeaten(sq_dists, spreads, first, last, share, sq_dists[nearest] + margin, kept, size)
        kept_ends[level] = size
        first = last
    return size


@jit
def sq_distance(x, c):
    """Squared distance as defined: float64, features summed in order."""
    total = 0.0
    for k in range(len(x)):
        total += (x[k] - c[k]) * (x[k] - c[k])
    return total


@jit
def _decide(x, lane, limit, points, slots, singles, names, nearest, least):
    """Nearest in float64 of the centers ``names`` and of an earlier one, ``nearest`` (-1: none) at ``least``.

    Only centers within the limit can win: lane (d,) are the coordinates of the query in float32, x those in float64.
    """
    for name in names:
        total = np.float32(0.0)
        for k in range(len(lane)):
            gap = lane[k] - singles[name, k]
            total += gap * gap
        if not total > limit:
            sq_dist = sq_distance(x, points[slots[name]])
            if sq_dist < least or nearest < 0:
                least = sq_dist
                nearest = name
    return nearest, least


@jit
def _certify(best, second, winner, factor, slopes, offsets, radii, own_radii, errors, sure, named, cells):
    """Tolerances, whether all is certain, and the cells if so, of a block at one level; how many are certain.

    Several short loops, which become vector operations.
    """
    for q in range(LANES):
        own_radii[q] = radii[winner[q]]
    n_sure = np.int32(0)
    for q in range(LANES):
        b = best[q]
        error = factor * b + slopes[q] * np.sqrt(b) + offsets[q]
        certain = (second[q] > b + (error + error)) & (abs(b - own_radii[q]) > error) & (b < _LARGEST)
        errors[q] = error
        sure[q] = np.int32(1) if certain else np.int32(0)
        n_sure += sure[q]
        named[q] = winner[q] if b < own_radii[q] else _NOWHERE
    for q in range(LANES):
        cells[q] = named[q]
    return n_sure


@jit
def find_cells(span, queries, tolerances, exact, centers, radii, cells, logs, shift):
    """Cells of the blocks span[0]:span[1] in one partitioning, all levels: cells (blocks, L, LANES), from span[0] on.

    queries: lanes (blocks, d, LANES), then middles, half widths and g of the boxes of blocks, then of SUPER blocks
    tolerances: A, then B and C of each query, padded to whole blocks
    exact: X (n, d), order (n,), points (m, d), slots (psi,)
    centers: names of distinct centers in the order of drawing, ends (L,) how many of each level, coordinates of all
    centers (psi, d) and of the names (d, names), in float32; radii: squared, (L, psi), scaled in float32 and as defined
    logs: (blocks, L, LANES), or one block if no limit counts, for the octaves of the squared distance to the nearest
    center, of the levels whose limit is not below 0; shift: limits (L,), s^2, and room for two floats of each lane, (2,
    LANES), with the same seen as integers
    """
    lanes, middles, halves, margin, whole_middles, whole_halves, whole_margin = queries
    factor, slopes, offsets = tolerances
    X, order, points, slots = exact
    names, ends, singles, columns = centers
    single_radii, sq_radii = radii
    limits, _, bounds, bound_bits = shift
    d = lanes.shape[1]
    n_levels = len(ends)
    sq_dists = np.empty(len(names) + PADDING, np.float32)
    spreads = np.empty(len(names) + PADDING, np.float32)
    kept = np.empty(len(names) + PADDING, np.int32)
    kept_ends = np.empty(n_levels, np.int64)
    near_names = np.empty(len(names), np.int32)
    near_columns = np.zeros((d, len(names) + PADDING), np.float32)
    near_ends = np.empty(n_levels, np.int64)
    own_names = np.empty(len(names), np.int32)
    best = np.empty(LANES, np.float32)
    second = np.empty(LANES, np.float32)
    winner = np.empty(LANES, np.int32)
    errors = np.empty(LANES, np.float32)
    sure = np.empty(LANES, np.int32)
    named = np.empty(LANES, np.int32)
    own_radii = np.empty(LANES, np.float32)
    lane = np.empty(d, np.float32)
    decided = np.empty(LANES, np.int32)  # the nearest of the first decided_end centers, in float64
    decided_end = np.empty(LANES, np.int64)
    decided_sq = np.empty(LANES)
    measured = np.empty(LANES, np.int32)  # a center whose float64 distance is known
    measured_sq = np.empty(LANES)
    for block in range(span[0], span[1]):
        if block == span[0] or block % SUPER == 0:
            whole = block // SUPER
            box = whole_middles[whole], whole_halves[whole], whole_margin[whole]
            n_near = _drop_beaten(columns, ends, box, sq_dists, spreads, kept, near_ends)
            for k in range(d):
                column = columns[k]
                near = near_columns[k]
                for c in range(n_near):
                    near[c] = column[kept[c]]
            for c in range(n_near):
                near_names[c] = names[kept[c]]
        box = middles[block], halves[block], margin[block]
        n_own = _drop_beaten(near_columns, near_ends, box, sq_dists, spreads, kept, kept_ends)
        for c in range(n_own):
            own_names[c] = near_names[kept[c]]
        for q in range(LANES):
            best[q] = np.inf
            second[q] = np.inf
            winner[q] = 0
            decided[q] = -1
            decided_end[q] = 0
            measured[q] = -1
        first_row = block * LANES
        n_rows = min(LANES, len(order) - first_row)
        own_slopes = slopes[first_row : first_row + LANES]
        own_offsets = offsets[first_row : first_row + LANES]
        first = 0
        for level in range(n_levels):
            last = kept_ends[level]
            if last > first:
                scan_centers(lanes[block], singles, own_names, first, last, best, second, winner)
            first = last
            own = cells[block - span[0], level]
            n_sure = _certify(
                best,
                second,
                winner,
                factor,
                own_slopes,
                own_offsets,
                single_radii[level],
                own_radii,
                errors,
                sure,
                named,
                own,
            )
            has_logs = limits[level] >= 0
            own_logs = logs[(block - span[0]) % len(logs), level]
            if has_logs:
                n_sure = _certify_logs(best, errors, shift, sure, own_logs)
            if n_sure == LANES:
                continue
            for q in range(n_rows):
                if sure[q] == 1:
                    continue
                x = X[order[first_row + q]]
                limit = best[q] + (errors[q] + errors[q])
                j = winner[q]
                if second[q] > limit and best[q] < _LARGEST:
                    if measured[q] != j:
                        measured[q] = j
                        measured_sq[q] = sq_distance(x, points[slots[j]])
                else:
                    for k in range(d):
                        lane[k] = lanes[block, k, q]
                    decided[q], decided_sq[q] = _decide(
                        x,
                        lane,
                        limit,
                        points,
                        slots,
                        singles,
                        own_names[decided_end[q] : last],
                        decided[q],
                        decided_sq[q],
                    )
                    decided_end[q] = last
                    j = decided[q]
                    measured[q] = j
                    measured_sq[q] = decided_sq[q]
                own[q] = j if measured_sq[q] <= sq_radii[level, j] else OUTSIDE
                if has_logs:
                    bounds[0, q] = measured_sq[q]
                    own_logs[q] = bound_bits[0, q] >> OCTAVE_BITS


@jit
def _certify_logs(best, errors, shift, sure, logs):
    """Logarithms of a block at one level, certain if both ends of the tolerance agree; how many are certain."""
    _, unscale, bounds, bits = shift
    for q in range(LANES):
        b = np.float64(best[q])
        error = np.float64(errors[q])
        bounds[0, q] = (b - error) * unscale
        bounds[1, q] = (b + error) * unscale
    n_sure = np.int32(0)
    for q in range(LANES):
        low = bits[0, q] >> OCTAVE_BITS
        sure[q] = sure[q] if low == bits[1, q] >> OCTAVE_BITS else np.int32(0)
        n_sure += sure[q]
        logs[q] = low
    return n_sure


@jit
def add_far(cells, logs, limits, far):
    """Add up octaves beyond the limits, where OUTSIDE: cells and logs (blocks, L, LANES), far (blocks, LANES)."""
    for block in range(len(logs)):
        for level in range(logs.shape[1]):
            limit = limits[level]
            if limit >= 0:
                for q in range(LANES):
                    beyond = logs[block, level, q] - limit
                    counts = cells[block, level, q] == OUTSIDE and beyond > 0
                    far[block, q] += beyond if counts else 0


@jit
def count_blocks(cells, n, counts):
    """Add one to the count of each query's cell: cells (blocks, L, LANES) of n queries, counts (L, psi)."""
    for block in range(len(cells)):
        for level in range(cells.shape[1]):
            own = cells[block, level]
            own_counts = counts[level]
            for q in range(min(LANES, n - block * LANES)):
                if own[q] != OUTSIDE:
                    own_counts[own[q]] += 1


@jit
def add_blocks(cells, first, tables, sums):
    """Add the tables at the cells, from level ``first`` on: cells (t, blocks, L, LANES), sums (blocks, L, LANES).

    tables (t, L, psi + 1) have a zero for OUTSIDE at the end
    """
    for block in range(len(sums)):
        for i in range(len(tables)):
            for level in range(sums.shape[1]):
                own = cells[i, block, first + level]
                total = sums[block, level]
                table = tables[i, level]
                for q in range(LANES):
                    total[q] += table[own[q]]
