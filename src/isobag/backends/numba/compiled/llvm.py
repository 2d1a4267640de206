"""Pieces of LLVM's instructions: loops that carry vectors in registers, packed stores, and the bits of numbers."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

_AS_INTEGER = {types.float32: types.int32, types.float64: types.int64}
_FEATURES = frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))


def target_has(feature):
    """Whether Numba compiles for processors with a feature: not always this one, see NUMBA_CPU_NAME."""
    return f"+{feature}" in _FEATURES


def store_packed(builder, values, mask, pointer):
    """Store the values whose mask is set one after the other; what lies in the rest of a vector's place is lost."""
    count, flags = values.type.count, mask.type
    if target_has("avx512f"):  # in a register: to memory it is slow on some processors
        name, kinds = f"llvm.experimental.vector.compress.v{count}i32", [values.type, flags, values.type]
        compress = cgutils.get_or_insert_function(builder.module, ir.FunctionType(values.type, kinds), name)
        packed = builder.call(compress, [values, mask, values])
        builder.store(packed, builder.bitcast(pointer, values.type.as_pointer()), align=4)
        return
    # Where no instruction packs a vector, LLVM refuses the function above, and makes this one of single stores.
    name, kinds = f"llvm.masked.compressstore.v{count}i32", [values.type, pointer.type, flags]
    compress = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
    builder.call(compress, [values, pointer, mask])


def loop(builder, first, last, carried, body):
    """For j from first to last: carried = body(j, carried), a list of vectors; what they are at the end."""
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    j = builder.phi(first.type)
    phis = [builder.phi(value.type) for value in carried]
    builder.cbranch(builder.icmp_signed("<", j, last), inside, after)
    builder.position_at_end(inside)
    following = [builder.add(j, ir.Constant(first.type, 1)), *body(j, phis)]
    for phi, start, end in zip((j, *phis), (first, *carried), following, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(end, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return phis


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
