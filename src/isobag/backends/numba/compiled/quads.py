"""Bounds of distances from bytes, LANES queries at a time: loops written as LLVM vector operations.

Four bytes in 32 bits are a quad: one instruction of some processors multiplies sixteen quads with sixteen others and
adds the products to sixteen sums. ``coarse`` says what is found, and b, |e| and N.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from isobag.backends.arrays import OUTSIDE
from isobag.backends.numba.compiled.llvm import loop
from isobag.backends.numba.compiled.vectors import at, multiply_quads, splat

LANES = 32
"""Queries measured together."""
TILE = 12
"""Centers measured together: with two vectors of queries, 24 registers for sums."""
_WIDTH = 16
_SINGLE, _INT = ir.FloatType(), ir.IntType(32)
_SINGLES, _INTS = ir.VectorType(_SINGLE, _WIDTH), ir.VectorType(_INT, _WIDTH)
_VECTORS = range(0, LANES, _WIDTH)


def _call(builder, name, *args):
    function = ir.FunctionType(args[0].type, [value.type for value in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


@intrinsic
def measure_coarsely(
    typingctx, lanes, block, n_quads, tiles, starts, names, words, sums, weights, sq_norms, terms, bounds
):
    """Write b of all centers and the LANES queries of a block: bounds (m, LANES) float32.

    lanes (blocks, n_quads, LANES): four bytes in 32 bits each, more by 128; tiles (., TILE): the centers that are
    measured together; starts (tiles, G + 1): their entries in each group of features; names (entries,): which quad;
    words (entries, TILE): its bytes; sums (tiles, G, TILE): -128 times the sum of a center's bytes in a group; weights
    (G,): -2 s^2; sq_norms (blocks, LANES): N_x; terms (tiles, 2, TILE): N_c and |e_c|
    """
    others = tiles, starts, names, words, sums, weights, sq_norms, terms, bounds
    signature = types.void(lanes, types.intp, types.intp, *others)

    def generate(context, builder, signature, args):
        lanes, tiles, starts, names, words, sums, weights, sq_norms, terms, bounds = (
            context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, *range(3, 12))
        )
        block, n_quads = args[1:3]
        n_tiles = cgutils.unpack_tuple(builder, tiles.shape)[0]
        n_groups = cgutils.unpack_tuple(builder, weights.shape)[0]
        index = n_tiles.type
        zero, one, tile_size, lane_count = (ir.Constant(index, number) for number in (0, 1, TILE, LANES))
        own = builder.gep(lanes.data, [builder.mul(builder.mul(block, n_quads), lane_count)])
        own_norms = builder.gep(sq_norms.data, [builder.mul(block, lane_count)])

        def load(pointer, offset):
            return builder.load(builder.gep(pointer, [offset]))

        def load_lanes(pointer, offset, kind):
            return [
                builder.load(at(builder, pointer, builder.add(offset, ir.Constant(index, k)), kind), align=4)
                for k in _VECTORS
            ]

        def splat_tile(pointer, offset, kind):
            """A vector of equal values for each center of a tile."""
            return [
                splat(builder, load(pointer, builder.add(offset, ir.Constant(index, k))), kind) for k in range(TILE)
            ]

        def measure_tile(tile, _):
            places = []
            for k in range(TILE):
                center = load(tiles.data, builder.add(builder.mul(tile, tile_size), ir.Constant(index, k)))
                row = builder.mul(builder.sext(center, index), lane_count)
                places.extend(
                    at(builder, bounds.data, builder.add(row, ir.Constant(index, v)), _SINGLES) for v in _VECTORS
                )
            norms = load_lanes(own_norms, zero, _SINGLES)
            term = builder.mul(tile, ir.Constant(index, 2 * TILE))
            values = [builder.fadd(norm, other) for norm in splat_tile(terms.data, term, _SINGLES) for other in norms]
            for place, value in zip(places, values, strict=True):
                builder.store(value, place, align=4)

            def add_group(group, _):
                begin = builder.mul(builder.add(builder.mul(tile, n_groups), group), tile_size)
                totals = [total for total in splat_tile(sums.data, begin, _INTS) for _ in _VECTORS]

                def add_entry(entry, totals):
                    quad = builder.zext(load(names.data, entry), index)
                    queries = load_lanes(own, builder.mul(quad, lane_count), _INTS)
                    own_words = splat_tile(words.data, builder.mul(entry, tile_size), _INTS)
                    pairs = [(query, word) for word in own_words for query in queries]
                    return [multiply_quads(builder, total, *pair) for total, pair in zip(totals, pairs, strict=True)]

                start = builder.add(builder.mul(tile, builder.add(n_groups, one)), group)
                ends = [load(starts.data, place) for place in (start, builder.add(start, one))]
                totals = loop(builder, *ends, totals, add_entry)
                weight = splat(builder, load(weights.data, group), _SINGLES)
                for place, total in zip(places, totals, strict=True):
                    added = builder.fmul(builder.sitofp(total, _SINGLES), weight)
                    builder.store(builder.fadd(builder.load(place, align=4), added), place, align=4)
                return []

            loop(builder, zero, n_groups, [], add_group)
            nothing = ir.Constant(_SINGLES, [0.0] * _WIDTH)
            errors = splat_tile(terms.data, builder.add(term, tile_size), _SINGLES)
            for place, error in zip(places, (error for error in errors for _ in _VECTORS), strict=True):
                value = builder.load(place, align=4)
                value = builder.select(builder.fcmp_ordered(">", value, nothing), value, nothing)
                root = _call(builder, f"llvm.sqrt.v{_WIDTH}f32", value)
                builder.store(builder.fsub(root, error), place, align=4)
            return []

        loop(builder, zero, n_tiles, [], measure_tile)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def compete(typingctx, bounds, chosen, first, last, widths, best, low, second, winner):
    """Let the centers first to last of a partitioning compete for each lane: best, low, second, winner (LANES,).

    bounds (m, LANES) of all points, chosen (psi,), widths (m,): upper bound less lower bound of each point. The winner
    has the least upper bound, best, and a lower bound low; second is the least lower bound of all others.
    """
    signature = types.void(bounds, chosen, types.intp, types.intp, widths, best, low, second, winner)

    def generate(context, builder, signature, args):
        bounds, chosen, widths, *state = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 1, 4, 5, 6, 7, 8)
        )
        index = args[2].type
        kinds = [_SINGLES, _SINGLES, _SINGLES, _INTS]
        places = [
            at(builder, pointer, ir.Constant(index, k), kind)
            for pointer, kind in zip(state, kinds, strict=True)
            for k in _VECTORS
        ]
        n = len(_VECTORS)

        def compare(j, values):
            point = builder.sext(builder.load(builder.gep(chosen, [j])), index)
            row = builder.mul(point, ir.Constant(index, LANES))
            width = splat(builder, builder.load(builder.gep(widths, [point])), _SINGLES)
            name = splat(builder, builder.trunc(j, _INT), _INTS)
            best, low, second, winner = (values[k * n : (k + 1) * n] for k in range(4))
            following = [[], [], [], []]
            for v, k in enumerate(_VECTORS):
                near = builder.load(at(builder, bounds, builder.add(row, ir.Constant(index, k)), _SINGLES), align=4)
                upper = builder.fadd(near, width)
                closer = builder.fcmp_ordered("<", upper, best[v])
                loser = builder.select(closer, low[v], near)
                following[0].append(builder.select(closer, upper, best[v]))
                following[1].append(builder.select(closer, near, low[v]))
                following[2].append(builder.select(builder.fcmp_ordered("<", loser, second[v]), loser, second[v]))
                following[3].append(builder.select(closer, name, winner[v]))
            return [value for values in following for value in values]

        found = loop(builder, args[2], args[3], [builder.load(place, align=4) for place in places], compare)
        for value, place in zip(found, places, strict=True):
            builder.store(value, place, align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pick(typingctx, bounds, chosen, first, last, limits, start, rows, places, size):
    """Append to rows[:size] and places[:size] every lane, more by start, and center whose bound is not above a limit.

    Centers are chosen[first:last] of a partitioning; limits (LANES,) are those of lanes. Returned: the new size
    """
    index = types.intp
    signature = index(bounds, chosen, index, index, limits, index, rows, places, index)

    def generate(context, builder, signature, args):
        bounds, chosen, limits, rows, places = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 1, 4, 6, 7)
        )
        first, last, start, size = args[2], args[3], args[5], args[8]
        index = first.type
        flags, mask = ir.VectorType(ir.IntType(1), _WIDTH), ir.IntType(_WIDTH)
        compress = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_INTS, [_INTS, flags, _INTS]),
            f"llvm.experimental.vector.compress.v{_WIDTH}i32",
        )
        most = [builder.load(at(builder, limits, ir.Constant(index, k), _SINGLES), align=4) for k in _VECTORS]
        begin = splat(builder, builder.trunc(start, _INT), _INTS)
        lanes = [builder.add(begin, ir.Constant(_INTS, list(range(k, k + _WIDTH)))) for k in _VECTORS]

        def pick(a, sizes):
            point = builder.sext(builder.load(builder.gep(chosen, [a])), index)
            row = builder.mul(point, ir.Constant(index, LANES))
            picked = []
            for k, limit in zip(_VECTORS, most, strict=True):
                near = builder.load(at(builder, bounds, builder.add(row, ir.Constant(index, k)), _SINGLES), align=4)
                picked.append(builder.fcmp_unordered("<=", near, limit))
            whole = builder.or_(*(builder.bitcast(each, mask) for each in picked))
            size = sizes[0]
            before = builder.block
            found, after = builder.append_basic_block(), builder.append_basic_block()
            builder.cbranch(builder.icmp_unsigned("!=", whole, ir.Constant(mask, 0)), found, after)
            builder.position_at_end(found)
            more = size
            name = splat(builder, builder.trunc(a, _INT), _INTS)
            for each, own in zip(picked, lanes, strict=True):
                builder.store(builder.call(compress, [own, each, own]), at(builder, rows, more, _INTS), align=4)
                builder.store(name, at(builder, places, more, _INTS), align=4)
                number = _call(builder, f"llvm.ctpop.i{_WIDTH}", builder.bitcast(each, mask))
                more = builder.add(more, builder.zext(number, index))
            builder.branch(after)
            builder.position_at_end(after)
            total = builder.phi(index)
            total.add_incoming(size, before)
            total.add_incoming(more, found)
            return [total]

        return loop(builder, first, last, [size], pick)[0]

    return signature, generate


@intrinsic
def judge(typingctx, least, terms, roots, names, far_root, stretch, reaches, cells):
    """Cells of winners as far as bounds tell; the lanes that are in doubt, as bits.

    least (3, LANES): least upper bound, lower bound of its center, least lower bound of all others; terms (4, LANES) of
    queries, stretch: see ``coarse``; roots, names (LANES,): radius of the winners, in units, and their cells; far_root:
    from where it matters how far out a query is; written: cells (LANES,) and reaches (LANES,), up to which b centers
    may be nearest, -inf where the winner is certain
    """
    signature = types.intp(least, terms, roots, names, types.float32, types.float32, reaches, cells)

    def generate(context, builder, signature, args):
        least, terms, roots, names, reaches, cells = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 1, 2, 3, 6, 7)
        )
        index = context.get_value_type(types.intp)
        up, down = (ir.Constant(_SINGLES, [1 + part * 2.0**-20] * _WIDTH) for part in (1, -1))
        far_root, stretch = (splat(builder, args[k], _SINGLES) for k in (4, 5))
        certain = ir.Constant(_SINGLES, [float("-inf")] * _WIDTH)
        outside = ir.Constant(_INTS, [OUTSIDE] * _WIDTH)
        bits = ir.Constant(index, 0)
        for k in _VECTORS:

            def place(pointer, row, kind, k=k):
                return at(builder, pointer, ir.Constant(index, row * LANES + k), kind)

            def load(pointer, row, kind=_SINGLES, place=place):
                return builder.load(place(pointer, row, kind), align=4)

            best, low, second = (load(least, row) for row in range(3))
            error, gain, floor, other_gain = (load(terms, row) for row in range(4))
            root = load(roots, 0)
            is_short = builder.fcmp_ordered("<", low, floor)
            longer = builder.fadd(builder.fmul(best, stretch), other_gain)
            upper = builder.fmul(builder.select(is_short, longer, builder.fadd(best, gain)), up)
            reach = builder.fadd(upper, error)
            is_certain = builder.fcmp_ordered(">", second, reach)
            more = builder.fmul(upper, up)
            is_inside = builder.fcmp_ordered("<=", more, root)
            is_outside = builder.fcmp_ordered(">", builder.fmul(builder.fsub(low, error), down), root)
            is_near = builder.fcmp_ordered("<", more, far_root)
            is_known = builder.and_(is_certain, builder.or_(is_inside, builder.and_(is_outside, is_near)))
            builder.store(builder.select(is_certain, certain, reach), place(reaches, 0, _SINGLES), align=4)
            builder.store(builder.select(is_inside, load(names, 0, _INTS), outside), place(cells, 0, _INTS), align=4)
            known = builder.zext(builder.bitcast(is_known, ir.IntType(_WIDTH)), index)
            bits = builder.or_(bits, builder.shl(known, ir.Constant(index, k)))
        return builder.xor(bits, ir.Constant(index, (1 << LANES) - 1))

    return signature, generate


@intrinsic
def lowest_bit(typingctx, bits):
    """The number of the lowest bit that is set."""

    def generate(context, builder, signature, args):
        kind = args[0].type
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind, ir.IntType(1)]), f"llvm.cttz.i{kind.width}"
        )
        return builder.call(function, [args[0], ir.Constant(ir.IntType(1), 1)])

    return types.intp(types.intp), generate
