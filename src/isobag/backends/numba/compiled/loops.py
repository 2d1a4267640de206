"""Loops that carry vectors in registers, written as LLVM's instructions."""

from llvmlite import ir


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
