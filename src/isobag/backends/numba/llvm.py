"""Pieces of LLVM's instructions: loops that carry vectors in registers, and the bits of numbers."""

import inspect

from llvmlite import ir
from numba import types
from numba.core import codegen, config
from numba.extending import intrinsic

# Features of the target: NUMBA_CPU_FEATURES if set, none for NUMBA_CPU_NAME=generic, else those of the host.
_chosen = config.CPU_FEATURES  # type: ignore[attr-defined]  # set when Numba reads its environment
HAS_AVX512 = "+avx512f" in (codegen.get_host_cpu_features() if _chosen is None else _chosen).split(",")
_AS_INTEGER = {types.float32: types.int32, types.float64: types.int64}


def in_llvm(returned):
    """Make a function that writes LLVM instructions one that compiled code can call; what it returns has this type.

    It is called with a builder, arrays (``data`` points to their first element) and numbers: integers as indices.
    """

    def decorate(write):
        def resolve(typingctx, *args):
            kinds = [types.intp if isinstance(kind, types.Integer) else kind for kind in args]

            def generate(context, builder, signature, args):
                pairs = zip(signature.args, args, strict=True)
                values = (
                    context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
                    for kind, value in pairs
                )
                value = write(builder, *values)
                return context.get_dummy_value() if value is None else value

            return returned(*kinds), generate

        resolve.__signature__ = inspect.signature(write)  # the builder's place is that of typingctx
        return intrinsic(resolve)

    return decorate


def loop(builder, first, last, carried, body, step=1):
    """For j from first to last by steps: carried = body(j, carried), a list of vectors; what they are at the end."""
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    j = builder.phi(first.type)
    phis = [builder.phi(value.type) for value in carried]
    builder.cbranch(builder.icmp_signed("<", j, last), inside, after)
    builder.position_at_end(inside)
    following = [builder.add(j, ir.Constant(first.type, step)), *body(j, phis)]
    for phi, start, end in zip((j, *phis), (first, *carried), following, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(end, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return phis


def splat(builder, value, kind):
    """A vector of equal values."""
    number = ir.IntType(32)
    vector = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(number, 0))
    mask = ir.Constant(ir.VectorType(number, kind.count), [0] * kind.count)
    return builder.shuffle_vector(vector, ir.Constant(kind, ir.Undefined), mask)


def at(builder, pointer, offset, kind):
    """Where a vector begins, some elements after a pointer."""
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


@intrinsic
def bits(typingctx, number):
    """The bits of a float32 or float64, as an integer of that width."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return _AS_INTEGER[number](number), generate


@intrinsic
def number_of(typingctx, bits):
    """The float64 that has these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return types.float64(types.int64), generate
