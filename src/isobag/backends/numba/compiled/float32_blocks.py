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

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE, Array, aligned
from isobag.backends.numba.compiled.block_order import SUPER
from isobag.backends.numba.compiled.float64_distances import sq_distance
from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.llvm import bits
from isobag.backends.numba.compiled.vectors import (
    BLOCK,
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


def make_room(psi: int, n_levels: int, d: int) -> tuple[Array, ...]:
    """What ``find_cells`` keeps of the centers that some blocks, and then one, cannot rule out, and of the lanes."""
    return (
        aligned((2, psi + PADDING), np.float32),  # squared distances from the middle of a box, and spreads
        aligned((psi + PADDING,), np.int32),  # places of centers
        aligned((2, psi), np.int32),  # names of the centers for SUPER blocks, and for a block
        aligned((d, psi + PADDING), np.float32),  # coordinates of those for SUPER blocks
        aligned((2, n_levels), np.int64),  # how many there are of each level
        aligned((d,), np.float32),  # coordinates of a query
        aligned((4, BLOCK), np.float32),  # best and second best squared distance, tolerance, radius of the winner
        aligned((5, BLOCK), np.int32),  # winner, 1 if certain, its cell; in float64, the nearest, and one measured
        aligned((BLOCK,), np.int64),  # of how many centers the nearest was found in float64
        aligned((2, BLOCK)),  # squared distances of these two centers
    )


@jit_inner
def _drop_beaten(columns, ends, middle, half, margin, sq_dists, spreads, kept, kept_ends):
    """Positions of the centers that may be nearest to a query of a box at some level; how many.

    columns (d, centers + PADDING) in the order of drawing; ends (L,) centers of each level; a box: middle, half, g;
    written: kept, kept_ends (L,)
    """
    n_levels = len(ends)
    measure_from(columns, ends[n_levels - 1], middle, sq_dists)
    share = np.float32(4 * (len(middle) + 16) * 2.0**-24 + 2.0**-15)
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


@jit_inner
def _certify(best, second, winner, factor, slopes, offsets, radii, own_radii, errors, sure, named, cells):
    """Tolerances, whether all is certain, and the cells if so, of a block at one level; how many are certain.

    Several short loops, which become vector operations.
    """
    for q in range(BLOCK):
        own_radii[q] = radii[winner[q]]
    n_sure = np.int32(0)
    for q in range(BLOCK):
        b = best[q]
        error = factor * b + slopes[q] * np.sqrt(b) + offsets[q]
        certain = (second[q] > b + (error + error)) & (abs(b - own_radii[q]) > error) & (b < _LARGEST)
        errors[q] = error
        sure[q] = np.int32(1) if certain else np.int32(0)
        n_sure += sure[q]
        named[q] = winner[q] if b < own_radii[q] else _NOWHERE
    for q in range(BLOCK):
        cells[q] = named[q]
    return n_sure


@jit
def find_cells(
    span, chosen, queries, tolerances, exact, centers, radii, limits, octave_shift, room, cells, far, tables, sums
):
    """Cells of the blocks span[0]:span[1] in the partitionings chosen[0]:chosen[1], all levels.

    queries: lanes (blocks, d, BLOCK), boxes of blocks (2, blocks, d), their middles and half widths, and g of each;
    then boxes of SUPER blocks and their g
    tolerances: A, then B and C of each query, (blocks, BLOCK)
    exact: the queries (n, d) in the order of the blocks, points (m, d), slots (t, psi)
    centers: names (t, psi) of distinct centers in the order of drawing, ends (t, L) how many of each level, coordinates
    of all centers (t, psi, d) and of the names (t, d, psi + PADDING), in float32
    radii: squared, in float32 and scaled (t, L, psi), and as defined (L, t, psi)
    limits (L,) of the octaves of squared distances, -1 where none counts; octave_shift: what has to be added to octaves
    of float32, or a negative number if they are of no use
    written: cells (partitionings, blocks, L, BLOCK), from the first ones on, the last over the first where there is no
    room for all; far (all blocks, BLOCK), to which octaves beyond the limits are added where OUTSIDE
    tables (t, L, psi + 1) with a zero for OUTSIDE at the end, which at the cells are added to sums (all blocks, L,
    BLOCK), or no tables
    """
    lanes, boxes, margins, wholes, whole_margins = queries
    factor, slopes, offsets = tolerances
    X, points, slots = exact
    names, ends, coordinates, columns = centers
    single_radii, sq_radii = radii
    measured, kept, own_names, near_columns, own_ends, lane, singles, ints, decided_ends, doubles = room
    sq_dists, spreads = measured[0], measured[1]
    best, second, errors, own_radii = singles[0], singles[1], singles[2], singles[3]
    winner, sure, named, decided, known = ints[0], ints[1], ints[2], ints[3], ints[4]
    decided_sq, known_sq = doubles[0], doubles[1]
    d = lanes.shape[1]
    for i in range(chosen[0], chosen[1]):
        for block in range(span[0], span[1]):
            if block == span[0] or block % SUPER == 0:
                whole = block // SUPER
                n_near = _drop_beaten(
                    columns[i],
                    ends[i],
                    wholes[0, whole],
                    wholes[1, whole],
                    whole_margins[whole],
                    sq_dists,
                    spreads,
                    kept,
                    own_ends[0],
                )
                for k in range(d):
                    for c in range(n_near):
                        near_columns[k, c] = columns[i, k, kept[c]]
                for c in range(n_near):
                    own_names[0, c] = names[i, kept[c]]
            n_own = _drop_beaten(
                near_columns,
                own_ends[0],
                boxes[0, block],
                boxes[1, block],
                margins[block],
                sq_dists,
                spreads,
                kept,
                own_ends[1],
            )
            for c in range(n_own):
                own_names[1, c] = own_names[0, kept[c]]
            for q in range(BLOCK):
                best[q] = np.inf
                second[q] = np.inf
                winner[q] = 0
                decided[q] = -1
                known[q] = -1
                decided_ends[q] = 0
            first = 0
            for level in range(len(limits)):
                last = own_ends[1, level]
                if last > first:
                    scan_centers(lanes[block], coordinates[i], own_names[1], first, last, best, second, winner)
                first = last
                own = cells[(i - chosen[0]) % len(cells), block - span[0], level]
                n_sure = _certify(
                    best,
                    second,
                    winner,
                    factor,
                    slopes[block],
                    offsets[block],
                    single_radii[i, level],
                    own_radii,
                    errors,
                    sure,
                    named,
                    own,
                )
                limit = limits[level]
                if limit >= 0:
                    n_sure = _certify_far(best, errors, named, limit, octave_shift, sure, far[block])
                if n_sure == BLOCK:
                    continue
                for q in range(BLOCK):
                    x = block * BLOCK + q
                    if sure[q] == 1 or x >= len(X):
                        continue
                    reach = best[q] + (errors[q] + errors[q])
                    if second[q] > reach and best[q] < _LARGEST:
                        if known[q] != winner[q]:
                            known[q] = winner[q]
                            known_sq[q] = sq_distance(X, x, points, slots[i, winner[q]])
                    else:
                        for k in range(d):
                            lane[k] = lanes[block, k, q]
                        nearest = decided[q]
                        for c in range(decided_ends[q], last):
                            # Only centers within reach can win.
                            name = own_names[1, c]
                            if not _single_sq_distance(lane, coordinates[i, name]) > reach:
                                sq_dist = sq_distance(X, x, points, slots[i, name])
                                if sq_dist < decided_sq[q] or nearest < 0:
                                    decided_sq[q] = sq_dist
                                    nearest = name
                        decided_ends[q] = last
                        decided[q] = nearest
                        known[q] = nearest
                        known_sq[q] = decided_sq[q]
                    if known_sq[q] <= sq_radii[level, i, known[q]]:
                        own[q] = known[q]
                        continue
                    own[q] = OUTSIDE
                    beyond = (bits(known_sq[q]) >> OCTAVE_BITS) - limit
                    if limit >= 0 and beyond > 0:
                        far[block, q] += beyond
            if len(tables) > 0:
                for level in range(len(limits)):
                    own = cells[(i - chosen[0]) % len(cells), block - span[0], level]
                    table = tables[i, level]
                    total = sums[block, level]
                    for q in range(BLOCK):
                        total[q] += table[own[q]]


@jit_inner
def _within_reach(low, high, points, slots, sq_radii, names, n_names, kept):
    """Write to kept those of some centers whose balls reach a box from low to high, (d,) each; how many.

    Rounding is monotone: the rounded distance from a center to the box is at most the rounded distance to any query.
    """
    size = 0
    for a in range(n_names):
        name = names[a]
        nearest = 0.0
        for k in range(len(low)):
            c = points[slots[name], k]
            below = low[k] - c
            above = c - high[k]
            gap = below if below > above else above
            nearest += gap * gap if gap > 0.0 else 0.0
        kept[size] = name
        size += not nearest > sq_radii[name]
    return size


@jit
def find_covering(X, low, high, points, slots, names, sq_radii, smallest, cells):
    """Cells of some blocks in one partitioning under the rules "covering" and "smallest": cells (blocks, 1, BLOCK).

    X (n, d) in blocks, whose boxes are from low to high (blocks, d); names: the distinct centers of slots (psi,)
    """
    d = X.shape[1]
    lanes, sq_dists = np.zeros((d, BLOCK)), np.empty(BLOCK)
    keys, winners = np.empty(BLOCK), np.empty(BLOCK, np.int32)  # the winner's radius or, under "covering", distance
    near_names, own_names = np.empty((2, len(names)), np.int32)
    low_corner, high_corner = np.empty((2, d))
    n_near = 0
    for block in range(len(cells)):
        if block % SUPER == 0:
            for k in range(d):
                low_corner[k] = low[block : block + SUPER, k].min()
                high_corner[k] = high[block : block + SUPER, k].max()
            n_near = _within_reach(low_corner, high_corner, points, slots, sq_radii, names, len(names), near_names)
        n_own = _within_reach(low[block], high[block], points, slots, sq_radii, near_names, n_near, own_names)
        winners[:] = OUTSIDE
        start = block * BLOCK
        for q in range(min(BLOCK, len(X) - start)):
            for k in range(d):
                lanes[k, q] = X[start + q, k]
        for name in own_names[:n_own]:
            radius = sq_radii[name]
            sq_dists[:] = 0.0
            for k in range(d):
                c = points[slots[name], k]
                for q in range(BLOCK):
                    sq_dists[q] += (lanes[k, q] - c) * (lanes[k, q] - c)
            for q in range(BLOCK):
                key = radius if smallest else sq_dists[q]
                is_better = (sq_dists[q] <= radius) & ((winners[q] == _NOWHERE) | (key < keys[q]))
                keys[q] = key if is_better else keys[q]
                winners[q] = name if is_better else winners[q]
        cells[block, 0] = winners


@jit_inner
def _single_sq_distance(lane, center):
    """Squared distance in float32."""
    total = np.float32(0.0)
    for k in range(len(lane)):
        total += (lane[k] - center[k]) * (lane[k] - center[k])
    return total


@jit_inner
def _certify_far(best, errors, named, limit, octave_shift, sure, far):
    """Add the octaves beyond the limit where certainly OUTSIDE, and certain themselves; how many lanes are certain.

    Octaves are certain if both ends of the tolerance agree, or if neither is beyond the limit. Of a float32 they are
    its bits shifted by 11, but for the difference of the exponents' origins and the scale. The ends are moved out a
    little more, as they are rounded.
    """
    own_limit = np.int32(limit - octave_shift)
    useful = np.int32(octave_shift >= 0)
    n_sure = np.int32(0)
    for q in range(BLOCK):
        low = bits((best[q] - errors[q]) * np.float32(1 - 2.0**-22)) >> _SINGLE_OCTAVE_BITS
        high = bits((best[q] + errors[q]) * np.float32(1 + 2.0**-22)) >> _SINGLE_OCTAVE_BITS
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
