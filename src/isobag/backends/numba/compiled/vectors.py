"""One loop in vector registers: LANES queries against a list of centers, in single precision.

Written as LLVM vector operations, because the loop vectoriser does not keep the running best in registers. A vector of
any width is legal on every processor: LLVM splits it into the registers that are there, so the width chosen here
decides how fast the loop is and never what it finds.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from isobag.backends.numba.compiled.llvm import store_packed, target_has

LANES = 64
_SINGLE = ir.FloatType()
_INT = ir.IntType(32)
_WIDTH = 64 if target_has("avx512f") else 32
"""Queries that share the registers: with two centers at a time 20 registers of 512 bits, or 12 of 256 and some room."""


def splat(builder, value, kind):
    """A vector of equal values."""
    vector = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    mask = ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count)
    return builder.shuffle_vector(vector, ir.Constant(kind, ir.Undefined), mask)


def at(builder, pointer, offset, kind):
    """Where a vector begins, some elements after a pointer."""
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def _muladd(builder, kind):
    """A b + c, fused where that is one instruction."""
    function = ir.FunctionType(kind, [kind] * 3)
    return cgutils.get_or_insert_function(builder.module, function, f"llvm.fmuladd.v{kind.count}f32")


@intrinsic
def scan_centers(typingctx, lanes, centers, names, first, last, best, second, winner):
    """Let the centers ``names[first:last]`` compete for each lane: best, second (LANES,) squared distances, winner.

    lanes (d, LANES) and centers (m, d) float32, contiguous; names (m,) int32. A later center must be strictly nearer.
    ``second`` is the least squared distance of all centers but the winner.
    """
    signature = types.void(lanes, centers, names, first, last, best, second, winner)

    def generate(context, builder, signature, args):
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, args, strict=True)
            if isinstance(kind, types.Array)
        ]
        lanes, centers, names, best, second, winner = (array.data for array in arrays)
        d = cgutils.unpack_tuple(builder, arrays[0].shape)[0]
        index = d.type
        first, last = (context.cast(builder, args[k], signature.args[k], types.intp) for k in (3, 4))
        singles, ints = ir.VectorType(_SINGLE, _WIDTH), ir.VectorType(_INT, _WIDTH)
        muladd = _muladd(builder, singles)
        zero = ir.Constant(index, 0)

        def load(pointer, offset, kind):
            return builder.load(at(builder, pointer, offset, kind), align=4)

        def compete(start, stop, step, chunk):
            """Centers start to stop, ``step`` at a time, against one chunk of lanes."""
            offset = ir.Constant(index, chunk)
            before = builder.block
            head, body, tail = (builder.append_basic_block(name) for name in ("head", "body", "tail"))
            state = [load(best, offset, singles), load(second, offset, singles), load(winner, offset, ints)]
            builder.branch(head)
            builder.position_at_end(head)
            j = builder.phi(index)
            j.add_incoming(start, before)
            phis = []
            for value in state:
                phi = builder.phi(value.type)
                phi.add_incoming(value, before)
                phis.append(phi)
            builder.cbranch(builder.icmp_signed("<=", builder.add(j, ir.Constant(index, step)), stop), body, tail)
            builder.position_at_end(body)
            own = [builder.load(builder.gep(names, [builder.add(j, ir.Constant(index, s))])) for s in range(step)]
            rows = [builder.gep(centers, [builder.mul(builder.sext(name, index), d)]) for name in own]
            features, done = builder.append_basic_block("features"), builder.append_basic_block("done")
            builder.branch(features)
            builder.position_at_end(features)
            k = builder.phi(index)
            k.add_incoming(zero, body)
            totals = []
            for _ in range(step):
                phi = builder.phi(singles)
                phi.add_incoming(ir.Constant(singles, [0.0] * _WIDTH), body)
                totals.append(phi)
            x = load(lanes, builder.add(builder.mul(k, ir.Constant(index, LANES)), offset), singles)
            following = []
            for row, total in zip(rows, totals, strict=True):
                gap = builder.fsub(x, splat(builder, builder.load(builder.gep(row, [k])), singles))
                following.append(builder.call(muladd, [gap, gap, total]))
            next_k = builder.add(k, ir.Constant(index, 1))
            k.add_incoming(next_k, features)
            for phi, value in zip(totals, following, strict=True):
                phi.add_incoming(value, features)
            builder.cbranch(builder.icmp_signed("<", next_k, d), features, done)
            builder.position_at_end(done)
            leader, runner_up, name = phis
            for value, own_name in zip(following, own, strict=True):
                closer = builder.fcmp_ordered("<", value, leader)
                loser = builder.select(closer, leader, value)
                runner_up = builder.select(builder.fcmp_ordered("<", loser, runner_up), loser, runner_up)
                name = builder.select(closer, splat(builder, own_name, ints), name)
                leader = builder.select(closer, value, leader)
            next_j = builder.add(j, ir.Constant(index, step))
            j.add_incoming(next_j, done)
            for phi, value in zip(phis, (leader, runner_up, name), strict=True):
                phi.add_incoming(value, done)
            builder.branch(head)
            builder.position_at_end(tail)
            for pointer, phi, kind in zip((best, second, winner), phis, (singles, singles, ints), strict=True):
                builder.store(phi, at(builder, pointer, offset, kind), align=4)
            return j

        for chunk in range(0, LANES, _WIDTH):
            reached = compete(first, last, 2, chunk)
            compete(reached, last, 1, chunk)
        return context.get_dummy_value()

    return signature, generate


PADDING = 32
"""Room that rows of centers and of what is measured of them must have at their end."""


def _sum_over_features(builder, arrays, first, last, totals, add):
    """For c from first to last and a few more: totals[c] by ``add(total, coordinates, k, row)``, feature by feature."""
    columns = arrays.data
    d, stride = cgutils.unpack_tuple(builder, arrays.shape)
    index = d.type
    singles = ir.VectorType(_SINGLE, PADDING)
    before = builder.block
    head, body, features, done, tail = (builder.append_basic_block() for _ in range(5))
    builder.branch(head)
    builder.position_at_end(head)
    c = builder.phi(index)
    c.add_incoming(first, before)
    builder.cbranch(builder.icmp_signed("<", c, last), body, tail)
    builder.position_at_end(body)
    builder.branch(features)
    builder.position_at_end(features)
    k = builder.phi(index)
    total = builder.phi(singles)
    k.add_incoming(ir.Constant(index, 0), body)
    total.add_incoming(ir.Constant(singles, [0.0] * PADDING), body)
    place = builder.add(builder.mul(k, stride), c)
    following = add(total, builder.load(at(builder, columns, place, singles), align=4), k, builder.mul(k, stride))
    next_k = builder.add(k, ir.Constant(index, 1))
    k.add_incoming(next_k, features)
    total.add_incoming(following, features)
    builder.cbranch(builder.icmp_signed("<", next_k, d), features, done)
    builder.position_at_end(done)
    builder.store(following, at(builder, totals, c, singles), align=4)
    c.add_incoming(builder.add(c, ir.Constant(index, PADDING)), done)
    builder.branch(head)
    builder.position_at_end(tail)


@intrinsic
def measure_from(typingctx, columns, last, middle, sq_dists):
    """Write sq_dists[c] = |columns[:, c] - middle|^2 for c < last, in float32: columns (d, room) contiguous."""
    signature = types.void(columns, types.intp, middle, sq_dists)

    def generate(context, builder, signature, args):
        columns, middle, sq_dists = (
            context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2, 3)
        )
        singles = ir.VectorType(_SINGLE, PADDING)
        muladd = _muladd(builder, singles)

        def add(total, values, k, _):
            gap = builder.fsub(values, splat(builder, builder.load(builder.gep(middle.data, [k])), singles))
            return builder.call(muladd, [gap, gap, total])

        _sum_over_features(builder, columns, ir.Constant(args[1].type, 0), args[1], sq_dists.data, add)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def spread_from(typingctx, columns, first, last, other, half, spreads):
    """Write spreads[c] = sum_k half_k |columns[k, c] - columns[k, other]| for first <= c < last, in float32."""
    signature = types.void(columns, types.intp, types.intp, types.intp, half, spreads)

    def generate(context, builder, signature, args):
        columns, half, spreads = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 4, 5))
        singles = ir.VectorType(_SINGLE, PADDING)
        muladd = _muladd(builder, singles)
        absolute = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(singles, [singles]), f"llvm.fabs.v{PADDING}f32"
        )

        def add(total, values, k, row):
            place = builder.load(builder.gep(columns.data, [builder.add(row, args[3])]))
            gap = builder.call(absolute, [builder.fsub(values, splat(builder, place, singles))])
            width = splat(builder, builder.load(builder.gep(half.data, [k])), singles)
            return builder.call(muladd, [gap, width, total])

        _sum_over_features(builder, columns, args[1], args[2], spreads.data, add)
        return context.get_dummy_value()

    return signature, generate


_PICKED = 16


@intrinsic
def pick_unbeaten(typingctx, sq_dists, spreads, first, last, share, bound, kept, size):
    """Append to kept[:size] every c from first to last unless it is beaten; the new size.

    Beaten is sq_dists[c] - share sq_dists[c] > bound + (2 + share) spreads[c], never with NaN.
    """
    signature = types.intp(sq_dists, spreads, types.intp, types.intp, types.float32, types.float32, kept, types.intp)

    def generate(context, builder, signature, args):
        sq_dists, spreads, kept = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 1, 6)
        )
        _, _, first, last, share, bound, _, size = args
        index = first.type
        singles, ints = (ir.VectorType(kind, _PICKED) for kind in (_SINGLE, _INT))
        mask = ir.IntType(_PICKED)
        ones = cgutils.get_or_insert_function(builder.module, ir.FunctionType(mask, [mask]), f"llvm.ctpop.i{_PICKED}")
        count_up = ir.Constant(ints, list(range(_PICKED)))
        more = splat(builder, builder.fadd(share, ir.Constant(_SINGLE, 2.0)), singles)
        shares, bounds = splat(builder, share, singles), splat(builder, bound, singles)
        before = builder.block
        head, body, tail = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        c, n_kept = builder.phi(index), builder.phi(index)
        c.add_incoming(first, before)
        n_kept.add_incoming(size, before)
        builder.cbranch(builder.icmp_signed("<", c, last), body, tail)
        builder.position_at_end(body)
        near, spread = (builder.load(at(builder, array, c, singles), align=4) for array in (sq_dists, spreads))
        reach = builder.fadd(bounds, builder.fmul(more, spread))
        unbeaten = builder.fcmp_unordered("<=", builder.fsub(near, builder.fmul(shares, near)), reach)
        left = builder.trunc(builder.sub(last, c), _INT)
        valid = builder.icmp_signed("<", count_up, splat(builder, left, ints))
        picked = builder.and_(unbeaten, valid)
        places = builder.add(count_up, splat(builder, builder.trunc(c, _INT), ints))
        store_packed(builder, places, picked, builder.gep(kept, [n_kept]))
        added = builder.zext(builder.call(ones, [builder.bitcast(picked, mask)]), index)
        c.add_incoming(builder.add(c, ir.Constant(index, _PICKED)), body)
        n_kept.add_incoming(builder.add(n_kept, added), body)
        builder.branch(head)
        builder.position_at_end(tail)
        return n_kept

    return signature, generate


COUNTS = 128
"""Rows of counts that are added up side by side."""
_BYTE, _QUAD = ir.IntType(8), 4
HAS_QUADS = target_has("avx512vnni")
"""Whether the processor multiplies four bytes by four others and adds the products to a sum, all at once."""


def _add_entries(builder, first, last, sums, add):
    """For e from first to last, sums by ``add(e, sums)``; what they are in the end."""
    before = builder.block
    head, body, tail = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    e, *phis = (builder.phi(value.type) for value in (first, *sums))
    for phi, value in zip((e, *phis), (first, *sums), strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", e, last), body, tail)
    builder.position_at_end(body)
    following = (builder.add(e, ir.Constant(e.type, 1)), *add(e, phis))
    for phi, value in zip((e, *phis), following, strict=True):
        phi.add_incoming(value, body)
    builder.branch(head)
    builder.position_at_end(tail)
    return phis


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

        (sums,) = _add_entries(builder, first, last, [ir.Constant(kind, [0] * COUNTS)], add_entry)
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
        for start, value in zip(starts, _add_entries(builder, first, last, sums, add_entry), strict=True):
            builder.store(value, at(builder, total, start, kind), align=4)
        return context.get_dummy_value()

    return signature, generate


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
