"""Rows of COUNTS bytes, multiplied by four bytes at a time and added up in vector registers."""

from llvmlite import ir
from numba import types

from isobag.backends.numba.compiled.llvm import in_llvm, loop
from isobag.backends.numba.compiled.vectors import at, multiply_quads, splat

COUNTS = 128
"""Rows of counts that are added up side by side."""
_INT, _QUAD = ir.IntType(32), 4


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
        own = splat(builder, builder.load(builder.gep(quads.data, [e])), kind)
        row = builder.gep(section, [place])
        columns = (at(builder, row, ir.Constant(e.type, _QUAD * start.constant), kind) for start in starts)
        pairs = zip(sums, columns, strict=True)
        return [multiply_quads(builder, value, own, builder.load(column, align=1)) for value, column in pairs]

    sums = [builder.load(at(builder, total.data, start, kind), align=4) for start in starts]
    for start, value in zip(starts, loop(builder, first, last, sums, add_entry), strict=True):
        builder.store(value, at(builder, total.data, start, kind), align=4)
