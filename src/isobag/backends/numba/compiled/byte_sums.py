"""Rows of COUNTS bytes added up in vector registers, as they are or multiplied by four bytes at a time."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.numba.compiled.llvm import in_llvm, loop
from isobag.backends.numba.compiled.vectors import at, multiply_quads, splat

COUNTS = 128
"""Rows of counts that are added up side by side."""
_BYTE, _INT, _QUAD = ir.IntType(8), ir.IntType(32), 4


def _place(builder, places, e, stride):
    """Where the bytes of entry e begin."""
    return builder.mul(builder.zext(builder.load(builder.gep(places.data, [e])), e.type), ir.Constant(e.type, stride))


@in_llvm(types.boolean)
def add_bytes(builder, first, last, places, dense, offset, total):
    """Sum of rows places[e] of COUNTS bytes, from dense[offset] on, e from first to last: total (COUNTS,) is written.

    A sum stops at 255. Returned: whether one has come so far. places (m,), dense and total uint8
    """
    kind = ir.VectorType(_BYTE, COUNTS)
    add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind, kind]), f"llvm.uadd.sat.v{COUNTS}i8"
    )
    section = builder.gep(dense.data, [offset])

    def add_entry(e, sums):
        place = _place(builder, places, e, COUNTS)
        return [builder.call(add, [sums[0], builder.load(at(builder, section, place, kind), align=1)])]

    (sums,) = loop(builder, first, last, [ir.Constant(kind, [0] * COUNTS)], add_entry)
    builder.store(sums, at(builder, total.data, ir.Constant(first.type, 0), kind), align=1)
    mask = ir.IntType(COUNTS)
    full = builder.bitcast(builder.icmp_unsigned("==", sums, ir.Constant(kind, [255] * COUNTS)), mask)
    return builder.icmp_unsigned("!=", full, ir.Constant(mask, 0))


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
        place = _place(builder, places, e, _QUAD * COUNTS)
        own = splat(builder, builder.load(builder.gep(quads.data, [e])), kind)
        row = builder.gep(section, [place])
        columns = (at(builder, row, ir.Constant(e.type, _QUAD * start.constant), kind) for start in starts)
        pairs = zip(sums, columns, strict=True)
        return [multiply_quads(builder, value, own, builder.load(column, align=1)) for value, column in pairs]

    sums = [builder.load(at(builder, total.data, start, kind), align=4) for start in starts]
    for start, value in zip(starts, loop(builder, first, last, sums, add_entry), strict=True):
        builder.store(value, at(builder, total.data, start, kind), align=4)
