"""Every center against every query, in float64 and in the order of the definition: no certificate, no tree.

The loop over the centers is written as LLVM vector operations, as those of ``vectors``. Sums of squares are rounded
after every operation, never fused, so that they are the numbers of the NumPy backend.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.llvm import bits, in_llvm, loop
from isobag.backends.numba.compiled.vectors import BLOCK, at, splat

WIDTH = 32
"""Queries measured together: with 512 bits, four registers for sums, or for the least and the winner."""
_DOUBLE = ir.DoubleType()
_DOUBLES = ir.VectorType(_DOUBLE, WIDTH)
_INT = ir.IntType(32)
_INTS = ir.VectorType(_INT, WIDTH)


@in_llvm(types.void)
def measure(builder, lanes, block, start, points, first, last, floor, sq_dists):
    """Write the squared distances of the points first to last to the lanes start to start + WIDTH of a block.

    Those not above the floor are infinite.

    lanes (blocks, d, BLOCK), points (m, d) float64, contiguous; sq_dists (last - first or more, WIDTH)
    """
    d = cgutils.unpack_tuple(builder, points.shape)[1]
    index = d.type
    zero, stride = ir.Constant(index, 0), ir.Constant(index, BLOCK)
    floors, infinite = splat(builder, floor, _DOUBLES), ir.Constant(_DOUBLES, [float("inf")] * WIDTH)
    queries = builder.gep(lanes.data, [builder.add(builder.mul(builder.mul(block, d), stride), start)])

    def measure_one(j, _):
        row = builder.gep(points.data, [builder.mul(j, d)])

        def add(k, totals):
            x = builder.load(at(builder, queries, builder.mul(k, stride), _DOUBLES), align=8)
            gap = builder.fsub(x, splat(builder, builder.load(builder.gep(row, [k])), _DOUBLES))
            return [builder.fadd(totals[0], builder.fmul(gap, gap))]

        total = loop(builder, zero, d, [ir.Constant(_DOUBLES, [0.0] * WIDTH)], add)[0]
        place = builder.mul(builder.sub(j, first), ir.Constant(index, WIDTH))
        is_above = builder.fcmp_ordered(">", total, floors)
        builder.store(builder.select(is_above, total, infinite), at(builder, sq_dists.data, place, _DOUBLES), align=8)
        return []

    loop(builder, first, last, [], measure_one)


@in_llvm(types.void)
def _compete(builder, sq_dists, slots, i, first, last, best, winner):
    """Let the centers first to last of partitioning i compete for each lane: best, winner (WIDTH,).

    sq_dists (m, WIDTH) of all points, slots (t, psi). A later center must be strictly nearer.
    """
    psi = cgutils.unpack_tuple(builder, slots.shape)[1]
    index = psi.type
    own = builder.gep(slots.data, [builder.mul(i, psi)])
    places = [builder.bitcast(best.data, _DOUBLES.as_pointer()), builder.bitcast(winner.data, _INTS.as_pointer())]

    def compare(j, state):
        slot = builder.sext(builder.load(builder.gep(own, [j])), index)
        place = at(builder, sq_dists.data, builder.mul(slot, ir.Constant(index, WIDTH)), _DOUBLES)
        values = builder.load(place, align=8)
        least, names = state
        closer = builder.fcmp_ordered("<", values, least)
        return [
            builder.select(closer, values, least),
            builder.select(closer, splat(builder, builder.trunc(j, _INT), _INTS), names),
        ]

    values = loop(builder, first, last, [builder.load(place, align=8) for place in places], compare)
    for value, place in zip(values, places, strict=True):
        builder.store(value, place, align=8)


@jit
def find_cells(span, lanes, points, slots, levels, sq_radii, limits, room, cells, far):
    """Cells of the blocks span[0]:span[1] in all partitionings, all levels: cells (t, blocks, L, BLOCK).

    lanes (blocks, d, BLOCK), points (m, d), slots (t, psi), levels (L,), sq_radii (L, t, psi)
    limits (L,) of octaves, -1 where none counts; far (blocks, BLOCK), to which those beyond are added where OUTSIDE
    room: squared distances (m, WIDTH), the least of a partitioning and its center (WIDTH,)
    """
    sq_dists, best, winner = room
    for block in range(span[0], span[1]):
        for start in range(0, BLOCK, WIDTH):
            measure(lanes, block, start, points, 0, len(points), -1.0, sq_dists)
            for i in range(len(slots)):
                for q in range(WIDTH):
                    best[q] = np.inf
                    winner[q] = 0
                seen = 0
                for level in range(len(levels)):
                    _compete(sq_dists, slots, i, seen, levels[level], best, winner)
                    seen = levels[level]
                    limit = limits[level]
                    for q in range(WIDTH):
                        cell = winner[q]
                        if best[q] <= sq_radii[level, i, cell]:
                            cells[i, block, level, start + q] = cell
                        else:
                            cells[i, block, level, start + q] = OUTSIDE
                            beyond = (bits(best[q]) >> OCTAVE_BITS) - limit
                            if limit >= 0 and beyond > 0:
                                far[block, start + q] += beyond


@jit
def nearest_other(lanes, centers, slots, levels, room, radii):
    """Squared distance from each center to the nearest different one: radii (L, t * blocks, BLOCK), 0 if none differs.

    lanes (t * blocks, d, BLOCK) and centers (t * psi, d) are the centers of each partitioning in turn, slots (1, psi)
    are 0, 1, ...
    """
    sq_dists, best, winner = room
    psi = slots.shape[1]
    n_blocks = len(lanes) * psi // len(centers)
    for block in range(len(lanes)):
        first = block // n_blocks * psi
        for start in range(0, BLOCK, WIDTH):
            measure(lanes, block, start, centers, first, first + psi, 0.0, sq_dists)
            for q in range(WIDTH):
                best[q] = np.inf
            seen = 0
            for level in range(len(levels)):
                _compete(sq_dists, slots, 0, seen, levels[level], best, winner)
                seen = levels[level]
                for q in range(WIDTH):
                    radii[level, block, start + q] = best[q] if best[q] < np.inf else 0.0
