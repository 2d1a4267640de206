"""Squared distance of two rows in single precision, WIDTH features at a time.

Written as LLVM vector operations, because a compiler that may not reorder sums adds one feature after the other. The
order is that of WIDTH lanes on every processor, whatever registers it has.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 64
_SINGLE = ir.FloatType()
_INT = ir.IntType(32)


@intrinsic
def measure_single(typingctx, queries, q, centers, c):
    """|queries[q] - centers[c]|^2 in float32: rows of a multiple of WIDTH numbers, contiguous.

    Each lane sums every WIDTH-th feature, then lanes are added in pairs: a term is part of d / WIDTH + 6 sums.
    """
    signature = types.float32(queries, types.intp, centers, types.intp)

    def generate(context, builder, signature, args):
        queries, centers = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2))
        width = cgutils.unpack_tuple(builder, queries.shape)[1]
        index = width.type
        singles = ir.VectorType(_SINGLE, WIDTH)
        muladd = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(singles, [singles] * 3), f"llvm.fmuladd.v{WIDTH}f32"
        )
        rows = [builder.gep(array.data, [builder.mul(args[k], width)]) for array, k in ((queries, 1), (centers, 3))]
        before = builder.block
        head, body, tail = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        k, total = builder.phi(index), builder.phi(singles)
        k.add_incoming(ir.Constant(index, 0), before)
        total.add_incoming(ir.Constant(singles, [0.0] * WIDTH), before)
        builder.cbranch(builder.icmp_signed("<", k, width), body, tail)
        builder.position_at_end(body)
        x, z = (builder.load(builder.bitcast(builder.gep(row, [k]), singles.as_pointer()), align=4) for row in rows)
        gap = builder.fsub(x, z)
        total.add_incoming(builder.call(muladd, [gap, gap, total]), body)
        k.add_incoming(builder.add(k, ir.Constant(index, WIDTH)), body)
        builder.branch(head)
        builder.position_at_end(tail)
        found, size = total, WIDTH
        while size > 1:
            size //= 2
            halves = [
                builder.shuffle_vector(
                    found, found, ir.Constant(ir.VectorType(_INT, size), list(range(start, start + size)))
                )
                for start in (0, size)
            ]
            found = builder.fadd(*halves)
        return builder.extract_element(found, ir.Constant(_INT, 0))

    return signature, generate
