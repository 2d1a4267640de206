"""Rows of COUNTS bytes added up in vector registers, as they are or multiplied by four bytes at a time."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from isobag.backends.numba.compiled.llvm import loop
from isobag.backends.numba.compiled.vectors import at, multiply_quads, splat

COUNTS = 128
"""Rows of counts that are added up side by side."""
_BYTE, _INT, _QUAD = ir.IntType(8), ir.IntType(32), 4


def _place(builder, places, e, stride):
    """Where the bytes of entry e begin."""
    return builder.mul(builder.zext(builder.load(builder.gep(places, [e])), e.type), ir.Constant(e.type, stride))


@intrinsic
def add_bytes(typingctx, first, last, places, dense, offset, total):
    """Sum of rows places[e] of COUNTS bytes, from dense[offset] on, e from first to last: total (COUNTS,) is written.

    A sum stops at 255. Returned: whether one has come so far. places (m,), dense and total uint8
    """
    signature = types.boolean(types.intp, types.intp, places, dense, types.intp, total)

    def generate(context, builder, signature, args):
        places, dense, total = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (2, 3, 5)
        )
        first, last, offset = args[0], args[1], args[4]
        kind = ir.VectorType(_BYTE, COUNTS)
        add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind]), f"llvm.uadd.sat.v{COUNTS}i8"
        )
        section = builder.gep(dense, [offset])

        def add_entry(e, sums):
            place = _place(builder, places, e, COUNTS)
            return [builder.call(add, [sums[0], builder.load(at(builder, section, place, kind), align=1)])]

        (sums,) = loop(builder, first, last, [ir.Constant(kind, [0] * COUNTS)], add_entry)
        builder.store(sums, at(builder, total, ir.Constant(first.type, 0), kind), align=1)
        mask = ir.IntType(COUNTS)
        full = builder.bitcast(builder.icmp_unsigned("==", sums, ir.Constant(kind, [255] * COUNTS)), mask)
        return builder.icmp_unsigned("!=", full, ir.Constant(mask, 0))

    return signature, generate


@intrinsic
def add_quads(typingctx, first, last, places, quads, dense, offset, total):
    """Add to total, for e from first to last, the four bytes of quads[e] times those of COUNTS columns, in 32 bits.

    Those of column c are dense[offset + 4 COUNTS places[e] + 4 c] and the three behind, as signed bytes; places (m,)
    uint8, quads (m,) uint32, dense uint8, total (COUNTS,) int32
    """
    signature = types.void(types.intp, types.intp, places, quads, dense, types.intp, total)

    def generate(context, builder, signature, args):
        places, quads, dense, total = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (2, 3, 4, 6)
        )
        first, last, offset = args[0], args[1], args[5]
        width = 16
        kind = ir.VectorType(_INT, width)
        section = builder.gep(dense, [offset])
        starts = [ir.Constant(first.type, start) for start in range(0, COUNTS, width)]

        def add_entry(e, sums):
            place = _place(builder, places, e, _QUAD * COUNTS)
            own = splat(builder, builder.load(builder.gep(quads, [e])), kind)
            row = builder.gep(section, [place])
            found = []
            for start, value in zip(starts, sums, strict=True):
                others = builder.load(at(builder, row, ir.Constant(e.type, _QUAD * start.constant), kind), align=1)
                found.append(multiply_quads(builder, value, own, others))
            return found

        sums = [builder.load(at(builder, total, start, kind), align=4) for start in starts]
        for start, value in zip(starts, loop(builder, first, last, sums, add_entry), strict=True):
            builder.store(value, at(builder, total, start, kind), align=4)
        return context.get_dummy_value()

    return signature, generate
