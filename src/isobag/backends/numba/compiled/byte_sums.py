"""Rows of COUNTS bytes, multiplied by four bytes at a time and added up in vector registers."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.numba.compiled import target
from isobag.backends.numba.compiled.llvm import at, in_llvm, loop, splat

COUNTS = 128
"""Rows of counts that are added up side by side."""
_INT, _BYTE, _QUAD = ir.IntType(32), ir.IntType(8), 4


def multiply_quads(builder, total, quads, others):
    """Total and the products of four bytes with four others, the latter signed; in one instruction, if there is one."""
    if not target.HAS_QUADS:
        return _multiply_quads_plainly(builder, total, quads, others)
    function = ir.FunctionType(total.type, [total.type] * 3)
    name = "llvm.x86.avx512.vpdpbusd.512"
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), [total, quads, others])


def _multiply_quads_plainly(builder, total, quads, others):
    """The same in instructions that every processor has."""
    n_bytes = _QUAD * total.type.count
    stored = ir.VectorType(_BYTE, n_bytes)
    wide = ir.VectorType(ir.IntType(16), n_bytes)
    quads, others = (
        builder.zext(builder.bitcast(quads, stored), wide),
        builder.sext(builder.bitcast(others, stored), wide),
    )

    def every_second(values, start):
        count = values.type.count // 2
        mask = ir.Constant(ir.VectorType(_INT, count), list(range(start, 2 * count, 2)))
        return builder.shuffle_vector(values, ir.Constant(values.type, ir.Undefined), mask)

    pairs = ir.VectorType(_INT, n_bytes // 2)
    even, odd = (
        builder.mul(*(builder.sext(every_second(each, start), pairs) for each in (quads, others))) for start in (0, 1)
    )
    sums = builder.add(even, odd)
    return builder.add(total, builder.add(every_second(sums, 0), every_second(sums, 1)))


@in_llvm(types.void)
def add_quads(builder, first, last, places, quads, dense, offset, total):
    """Add to total, for e from first to last, the four bytes of quads[e] times those of COUNTS columns, in 32 bits.

    Those of column c are dense[offset + 4 COUNTS places[e] + 4 c] and the three behind, as signed bytes; places (m,)
    uint8, quads (m,) uint32, dense uint8, total (COUNTS,) int32
    """
    width = 16
    kind = ir.VectorType(_INT, width)
    section = builder.gep(dense.data, [offset])
    starts = [ir.Constant(first.type, start) for start in range(0, COUNTS, width)]

    def add_entry(e, sums):
        number = builder.zext(builder.load(builder.gep(places.data, [e])), e.type)
        place = builder.mul(number, ir.Constant(e.type, _QUAD * COUNTS))
        quad = splat(builder, builder.load(builder.gep(quads.data, [e])), kind)
        row = builder.gep(section, [place])
        columns = (at(builder, row, ir.Constant(e.type, _QUAD * start.constant), kind) for start in starts)
        pairs = zip(sums, columns, strict=True)
        return [multiply_quads(builder, value, quad, builder.load(column, align=1)) for value, column in pairs]

    sums = [builder.load(at(builder, total.data, start, kind), align=4) for start in starts]
    for start, value in zip(starts, loop(builder, first, last, sums, add_entry), strict=True):
        builder.store(value, at(builder, total.data, start, kind), align=4)
