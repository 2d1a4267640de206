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
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.lanes import distinct_slots
from isobag.backends.numba.compiled.tallies import add_block
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
_SINGLE_OCTAVE_BITS = np.int32(OCTAVE_BITS - 29)
_LEAST_OCTAVES = np.int32((127 - 100) << 12)
"""Octaves of 2^-100 in float32: what is smaller may have lost digits."""


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


@jit_inner
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
def list_centers(placed, slots, levels, names, ends, singles, columns):
    """Distinct centers of a partitioning, how many of each level, coordinates of all centers, those of the distinct.

    placed (m, d) coordinates of all points; written: names (psi,), ends (L,), singles (psi, d), columns (d, room)
    """
    kept = distinct_slots(slots, len(placed))
    d = placed.shape[1]
    ends[:] = 0
    for c in range(len(kept)):
        names[c] = kept[c]
        for level in range(len(levels)):
            ends[level] += kept[c] < levels[level]
        for k in range(d):
            columns[k, c] = placed[slots[kept[c]], k]
    for j in range(len(slots)):
        for k in range(d):
            singles[j, k] = placed[slots[j], k]


@jit
def sq_distance(x, c):
    """Squared distance as defined: float64, features summed in order."""
    total = 0.0
    for k in range(len(x)):
        total += (x[k] - c[k]) * (x[k] - c[k])
    return total


@jit_inner
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


@jit_inner
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
def find_cells(span, queries, tolerances, exact, centers, radii, shift, cells, far):
    """Cells of the blocks span[0]:span[1] in one partitioning, all levels: cells (blocks, L, LANES), from span[0] on.

    queries: lanes (blocks, d, LANES), then middles, half widths and g of the boxes of blocks, then of SUPER blocks
    tolerances: A, then B and C of each query, padded to whole blocks
    exact: the queries (n, d) in the order of the blocks, points (m, d), slots (psi,)
    centers: names of distinct centers in the order of drawing, ends (L,) how many of each level, coordinates of all
    centers (psi, d) and of the names (d, room), in float32; radii: squared, (L, psi), scaled in float32 and as defined
    shift: limits (L,) of the octaves of squared distances, -1 where none counts, and what has to be added to octaves of
    float32, or a negative number if they are of no use
    far: (all blocks, LANES), to which octaves beyond the limits are added where OUTSIDE
    """
    lanes, middles, halves, margin, whole_middles, whole_halves, whole_margin = queries
    factor, slopes, offsets = tolerances
    X, points, slots = exact
    names, ends, singles, columns = centers
    single_radii, sq_radii = radii
    limits, octave_shift = shift
    d = lanes.shape[1]
    n_levels = len(ends)
    n_names = ends[n_levels - 1]
    sq_dists = np.empty(n_names + PADDING, np.float32)
    spreads = np.empty(n_names + PADDING, np.float32)
    kept = np.empty(n_names + PADDING, np.int32)
    kept_ends = np.empty(n_levels, np.int64)
    near_names = np.empty(n_names, np.int32)
    near_columns = np.zeros((d, n_names + PADDING), np.float32)
    near_ends = np.empty(n_levels, np.int64)
    own_names = np.empty(n_names, np.int32)
    best = np.empty(LANES, np.float32)
    second = np.empty(LANES, np.float32)
    winner = np.empty(LANES, np.int32)
    errors = np.empty(LANES, np.float32)
    sure = np.empty(LANES, np.int32)
    named = np.empty(LANES, np.int32)
    own_radii = np.empty(LANES, np.float32)
    bounds = np.empty((2, LANES), np.float32)
    bound_bits = bounds.view(np.int32)
    exact_bound = np.empty(1)
    exact_bits = exact_bound.view(np.int64)
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
        n_rows = min(LANES, len(X) - first_row)
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
            limit = limits[level]
            if limit >= 0:
                n_sure = _certify_far(best, errors, named, limit, octave_shift, bounds, bound_bits, sure, far[block])
            if n_sure == LANES:
                continue
            for q in range(n_rows):
                if sure[q] == 1:
                    continue
                x = X[first_row + q]
                reach = best[q] + (errors[q] + errors[q])
                j = winner[q]
                if second[q] > reach and best[q] < _LARGEST:
                    if measured[q] != j:
                        measured[q] = j
                        measured_sq[q] = sq_distance(x, points[slots[j]])
                else:
                    for k in range(d):
                        lane[k] = lanes[block, k, q]
                    decided[q], decided_sq[q] = _decide(
                        x,
                        lane,
                        reach,
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
                if measured_sq[q] <= sq_radii[level, j]:
                    own[q] = j
                    continue
                own[q] = OUTSIDE
                if limit >= 0:
                    exact_bound[0] = measured_sq[q]
                    far[block, q] += max(0, (exact_bits[0] >> OCTAVE_BITS) - limit)


@jit_inner
def _certify_far(best, errors, named, limit, octave_shift, bounds, bits, sure, far):
    """Add the octaves beyond the limit where certainly OUTSIDE, and certain themselves; how many lanes are certain.

    Octaves are certain if both ends of the tolerance agree, or if neither is beyond the limit. Of a float32 they are
    its bits shifted by 11, but for the difference of the exponents' origins and the scale. The ends are moved out a
    little more, as they are rounded.
    """
    for q in range(LANES):
        bounds[0, q] = (best[q] - errors[q]) * np.float32(1 - 2.0**-22)
        bounds[1, q] = (best[q] + errors[q]) * np.float32(1 + 2.0**-22)
    own_limit = np.int32(limit - octave_shift)
    useful = np.int32(1) if octave_shift >= 0 else np.int32(0)
    n_sure = np.int32(0)
    for q in range(LANES):
        low = bits[0, q] >> _SINGLE_OCTAVE_BITS
        high = bits[1, q] >> _SINGLE_OCTAVE_BITS
        is_inside = named[q] >= 0
        certain = (low == high) & (low > _LEAST_OCTAVES) | (high <= own_limit)
        sure[q] &= np.int32(1) if is_inside else (useful if certain else np.int32(0))
        n_sure += sure[q]
        beyond = low - own_limit
        far[q] += beyond if (sure[q] == 1) & (not is_inside) & (beyond > 0) else np.int32(0)
    return n_sure


def octave_shift(sq_scale: float) -> int:
    """What octaves of float32 numbers, times a power of two, lack: see ``_certify_far``; -1 if that is too small."""
    exponent = np.frexp(sq_scale)[1] - 1
    return int(1023 - 127 + exponent) << 12 if exponent > -800 else -1


@jit
def sum_blocks(span, queries, tolerances, exact, centers, radii, shift, tables, sums, far):
    """Add to the sums of some blocks, (all blocks, L, LANES), the tables at the cells of all partitionings.

    As ``find_cells``, for all partitionings one after the other: slots (t, psi), centers and radii with an axis more in
    front but for the radii as defined, (L, t, psi); tables (t, L, psi + 1) with a zero for OUTSIDE at the end.
    """
    X, points, slots = exact
    names, ends, singles, columns = centers
    single_radii, sq_radii = radii
    cells = np.empty((span[1] - span[0], ends.shape[1], LANES), np.int16)
    for i in range(len(slots)):
        own_exact = X, points, slots[i]
        own_centers = names[i], ends[i], singles[i], columns[i]
        own_radii = single_radii[i], sq_radii[:, i]
        find_cells(span, queries, tolerances, own_exact, own_centers, own_radii, shift, cells, far)
        for block in range(len(cells)):
            add_block(cells[block], tables[i], sums[span[0] + block])
