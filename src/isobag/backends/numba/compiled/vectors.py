"""One loop in vector registers: BLOCK queries against a list of centers, in single precision.

Written as LLVM vector operations, because the loop vectoriser does not keep the running best in registers. A vector of
any width is legal on every processor: LLVM splits it into the registers that are there, so the width chosen here
decides how fast the loop is and never what it finds.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.numba.compiled import target
from isobag.backends.numba.compiled.jit import jit_inner
from isobag.backends.numba.compiled.llvm import in_llvm, loop

BLOCK = 64
"""Queries of a block."""
_SINGLE = ir.FloatType()
_INT = ir.IntType(32)
_WIDTH = 64 if target.HAS_AVX512 else 32
"""Queries that share the registers: with two centers at a time 20 registers of 512 bits, or 12 of 256 and some room."""


def splat(builder, value, kind):
    """A vector of equal values."""
    vector = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    mask = ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count)
    return builder.shuffle_vector(vector, ir.Constant(kind, ir.Undefined), mask)


def at(builder, pointer, offset, kind):
    """Where a vector begins, some elements after a pointer."""
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def muladd(builder, kind):
    """A b + c, fused where that is one instruction."""
    function = ir.FunctionType(kind, [kind] * 3)
    return cgutils.get_or_insert_function(builder.module, function, f"llvm.fmuladd.v{kind.count}f32")


@in_llvm(types.void)
def scan_centers(builder, lanes, centers, names, first, last, best, second, winner):
    """Let the centers ``names[first:last]`` compete for each lane: best, second (BLOCK,) squared distances, winner.

    lanes (d, BLOCK) and centers (m, d) float32, contiguous; names (m,) int32. A later center must be strictly nearer.
    ``second`` is the least squared distance of all centers but the winner.
    """
    d = cgutils.unpack_tuple(builder, lanes.shape)[0]
    index = d.type
    singles, ints = ir.VectorType(_SINGLE, _WIDTH), ir.VectorType(_INT, _WIDTH)
    fused = muladd(builder, singles)
    zero = ir.Constant(index, 0)

    def load(pointer, offset, kind):
        return builder.load(at(builder, pointer, offset, kind), align=4)

    def compete(start, stop, step, chunk):
        """Centers start to stop, ``step`` at a time, against one chunk of lanes."""
        offset = ir.Constant(index, chunk)

        def compare(j, state):
            own = [builder.load(builder.gep(names.data, [builder.add(j, ir.Constant(index, s))])) for s in range(step)]
            rows = [builder.gep(centers.data, [builder.mul(builder.sext(name, index), d)]) for name in own]

            def add(k, totals):
                x = load(lanes.data, builder.add(builder.mul(k, ir.Constant(index, BLOCK)), offset), singles)
                values = [splat(builder, builder.load(builder.gep(row, [k])), singles) for row in rows]
                gaps = [builder.fsub(x, value) for value in values]
                return [builder.call(fused, [gap, gap, total]) for gap, total in zip(gaps, totals, strict=True)]

            leader, runner_up, name = state
            sq_dists = loop(builder, zero, d, [ir.Constant(singles, [0.0] * _WIDTH)] * step, add)
            for value, own_name in zip(sq_dists, own, strict=True):
                closer = builder.fcmp_ordered("<", value, leader)
                loser = builder.select(closer, leader, value)
                runner_up = builder.select(builder.fcmp_ordered("<", loser, runner_up), loser, runner_up)
                name = builder.select(closer, splat(builder, own_name, ints), name)
                leader = builder.select(closer, value, leader)
            return [leader, runner_up, name]

        places = [at(builder, array.data, offset, kind) for array, kind in zip(state, kinds, strict=True)]
        before = [builder.load(place, align=4) for place in places]
        for place, value in zip(places, loop(builder, start, stop, before, compare, step), strict=True):
            builder.store(value, place, align=4)

    state, kinds = (best, second, winner), (singles, singles, ints)
    odd = builder.and_(builder.sub(last, first), ir.Constant(index, 1))
    for chunk in range(0, BLOCK, _WIDTH):
        compete(first, builder.sub(last, odd), 2, chunk)
        compete(builder.sub(last, odd), last, 1, chunk)


PADDING = 32
"""Room that rows of centers and of what is measured of them must have at their end."""


def _sum_over_features(builder, arrays, first, last, totals, add):
    """For c from first to last and a few more: totals[c] by ``add(total, coordinates, k, row)``, feature by feature."""
    columns = arrays.data
    d, stride = cgutils.unpack_tuple(builder, arrays.shape)
    singles = ir.VectorType(_SINGLE, PADDING)

    def measure(c, _):
        def add_feature(k, total):
            row = builder.mul(k, stride)
            values = builder.load(at(builder, columns, builder.add(row, c), singles), align=4)
            return [add(total[0], values, k, row)]

        (total,) = loop(builder, ir.Constant(d.type, 0), d, [ir.Constant(singles, [0.0] * PADDING)], add_feature)
        builder.store(total, at(builder, totals, c, singles), align=4)
        return []

    loop(builder, first, last, [], measure, PADDING)


@in_llvm(types.void)
def measure_from(builder, columns, last, middle, sq_dists):
    """Write sq_dists[c] = |columns[:, c] - middle|^2 for c < last, in float32: columns (d, room) contiguous."""
    singles = ir.VectorType(_SINGLE, PADDING)
    fused = muladd(builder, singles)

    def add(total, values, k, _):
        gap = builder.fsub(values, splat(builder, builder.load(builder.gep(middle.data, [k])), singles))
        return builder.call(fused, [gap, gap, total])

    _sum_over_features(builder, columns, ir.Constant(last.type, 0), last, sq_dists.data, add)


@in_llvm(types.void)
def spread_from(builder, columns, first, last, other, half, spreads):
    """Write spreads[c] = sum_k half_k |columns[k, c] - columns[k, other]| for first <= c < last, in float32."""
    singles = ir.VectorType(_SINGLE, PADDING)
    fused = muladd(builder, singles)
    absolute = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(singles, [singles]), f"llvm.fabs.v{PADDING}f32"
    )

    def add(total, values, k, row):
        place = builder.load(builder.gep(columns.data, [builder.add(row, other)]))
        gap = builder.call(absolute, [builder.fsub(values, splat(builder, place, singles))])
        width = splat(builder, builder.load(builder.gep(half.data, [k])), singles)
        return builder.call(fused, [gap, width, total])

    _sum_over_features(builder, columns, first, last, spreads.data, add)


_PICKED = 16


@jit_inner
def _pick_one_by_one(sq_dists, spreads, first, last, share, bound, kept, size):
    """As ``_pick_by_compress``."""
    for c in range(first, last):
        kept[size] = c
        size += not sq_dists[c] - share * sq_dists[c] > bound + (np.float32(2.0) + share) * spreads[c]
    return size


@in_llvm(types.intp)
def _pick_by_compress(builder, sq_dists, spreads, first, last, share, bound, kept, size):
    """Append to kept[:size] every c from first to last unless it is beaten; the new size.

    Beaten is sq_dists[c] - share sq_dists[c] > bound + (2 + share) spreads[c], never with NaN.
    """
    singles, ints, flags = (ir.VectorType(kind, _PICKED) for kind in (_SINGLE, _INT, ir.IntType(1)))
    mask = ir.IntType(_PICKED)
    name, kind = f"llvm.experimental.vector.compress.v{_PICKED}i32", ir.FunctionType(ints, [ints, flags, ints])
    compress = cgutils.get_or_insert_function(builder.module, kind, name)
    ones = cgutils.get_or_insert_function(builder.module, ir.FunctionType(mask, [mask]), f"llvm.ctpop.i{_PICKED}")
    count_up = ir.Constant(ints, list(range(_PICKED)))
    more = splat(builder, builder.fadd(share, ir.Constant(_SINGLE, 2.0)), singles)
    shares, bounds = splat(builder, share, singles), splat(builder, bound, singles)

    def pick(c, n_kept):
        near, spread = (builder.load(at(builder, array.data, c, singles), align=4) for array in (sq_dists, spreads))
        reach = builder.fadd(bounds, builder.fmul(more, spread))
        unbeaten = builder.fcmp_unordered("<=", builder.fsub(near, builder.fmul(shares, near)), reach)
        left = builder.trunc(builder.sub(last, c), _INT)
        valid = builder.icmp_signed("<", count_up, splat(builder, left, ints))
        picked = builder.and_(unbeaten, valid)
        places = builder.add(count_up, splat(builder, builder.trunc(c, _INT), ints))
        packed = builder.call(compress, [places, picked, places])
        builder.store(packed, at(builder, kept.data, n_kept[0], ints), align=4)
        added = builder.zext(builder.call(ones, [builder.bitcast(picked, mask)]), first.type)
        return [builder.add(n_kept[0], added)]

    return loop(builder, first, last, [size], pick, _PICKED)[0]


pick_unbeaten = _pick_by_compress if target.HAS_COMPRESS else _pick_one_by_one

_BYTE, _QUAD = ir.IntType(8), 4
HAS_QUADS = target.HAS_QUADS


def multiply_quads(builder, total, own, others):
    """Total and the products of four bytes with four others, the latter signed; in one instruction, if there is one."""
    if not HAS_QUADS:
        return _multiply_quads_plainly(builder, total, own, others)
    function = ir.FunctionType(total.type, [total.type] * 3)
    name = "llvm.x86.avx512.vpdpbusd.512"
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), [total, own, others])


def _multiply_quads_plainly(builder, total, own, others):
    """The same in instructions that every processor has."""
    n_bytes = _QUAD * total.type.count
    stored = ir.VectorType(_BYTE, n_bytes)
    wide = ir.VectorType(ir.IntType(16), n_bytes)
    own, others = builder.zext(builder.bitcast(own, stored), wide), builder.sext(builder.bitcast(others, stored), wide)

    def every_second(values, start):
        count = values.type.count // 2
        mask = ir.Constant(ir.VectorType(_INT, count), list(range(start, 2 * count, 2)))
        return builder.shuffle_vector(values, ir.Constant(values.type, ir.Undefined), mask)

    pairs = ir.VectorType(_INT, n_bytes // 2)
    even, odd = (
        builder.mul(*(builder.sext(every_second(each, start), pairs) for each in (own, others))) for start in (0, 1)
    )
    sums = builder.add(even, odd)
    return builder.add(total, builder.add(every_second(sums, 0), every_second(sums, 1)))
