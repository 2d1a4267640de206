"""Bounds of distances of LANES queries to centers, TILE centers at a time: loops written as LLVM vector operations.

A word is 32 bits of a row: two shorts or one float32. One instruction multiplies the words of sixteen
queries with one of a center and adds the products to sixteen sums. ``certified`` says what is found, and b, |e| and N.
"""

from functools import partial

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.numba.compiled import target
from isobag.backends.numba.compiled.llvm import in_llvm, loop
from isobag.backends.numba.compiled.vectors import at, splat

LANES = 32
"""Queries measured together."""
WIDTH = 64
"""Features of a distance in float32 that are added side by side."""
_WIDTH = 16
_VECTORS = range(0, LANES, _WIDTH)
TILE = 12 if target.HAS_AVX512 else 6 if "avx2" in target.FEATURES else 3
_PARTS = [_VECTORS] if target.HAS_AVX512 else [[k] for k in _VECTORS]
"""Centers measured together, and the vectors of queries: as many sums as registers can hold, and a few to spare."""
_SINGLE, _INT, _SHORT = ir.FloatType(), ir.IntType(32), ir.IntType(16)
_SINGLES, _INTS = ir.VectorType(_SINGLE, _WIDTH), ir.VectorType(_INT, _WIDTH)


def _call(builder, name, *args):
    function = ir.FunctionType(args[0].type, [value.type for value in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


def _add_pairs(builder, total, own, others):
    """Total and the products of two shorts with two others."""
    if target.HAS_QUADS:
        return _call(builder, "llvm.x86.avx512.vpdpwssd.512", total, own, others)
    stored = ir.VectorType(_SHORT, 2 * _WIDTH)
    own, others = (builder.bitcast(each, stored) for each in (own, others))
    for start in (0, 1):  # LLVM makes one instruction of the sum of these products, if there is one
        mask = ir.Constant(_INTS, list(range(start, 2 * _WIDTH, 2)))
        halves = [builder.shuffle_vector(each, ir.Constant(stored, ir.Undefined), mask) for each in (own, others)]
        total = builder.add(total, builder.mul(*(builder.sext(half, _INTS) for half in halves)))
    return total


def _add_singles(builder, total, own, others):
    return _call(builder, f"llvm.fmuladd.v{_WIDTH}f32", own, others, total)


def _generate(kind, add, builder, lanes, block, tiles, starts, names, words, weights, sq_norms, terms, bounds):
    """Write b of all centers and the queries of a block: bounds (m, LANES) float32.

    lanes (blocks, words, LANES): words of queries; tiles (., TILE): the centers that are measured together; starts
    (tiles, G + 1): their entries in each group of features; names (entries,): which word; words (entries, TILE): those
    of the centers; weights (G,): -2 s^2; sq_norms (blocks, LANES): N_x; terms (tiles, 2, TILE): N_c and |e_c|
    """
    n_words, n_tiles, n_groups = (
        cgutils.unpack_tuple(builder, array.shape)[axis] for array, axis in ((lanes, 1), (tiles, 0), (weights, 0))
    )
    index = n_tiles.type
    zero, one, tile_size, lane_count = (ir.Constant(index, number) for number in (0, 1, TILE, LANES))
    all_words, center_words = (builder.bitcast(each.data, kind.element.as_pointer()) for each in (lanes, words))

    def load(pointer, offset):
        return builder.load(builder.gep(pointer, [offset]))

    def load_lanes(pointer, offset, vectors, kind):
        places = [builder.add(offset, ir.Constant(index, k)) for k in vectors]
        return [builder.load(at(builder, pointer, place, kind), align=4) for place in places]

    def splat_tile(pointer, offset, kind):
        """A vector of equal values for each center of a tile."""
        return [splat(builder, load(pointer, builder.add(offset, ir.Constant(index, k))), kind) for k in range(TILE)]

    own = builder.gep(all_words, [builder.mul(builder.mul(block, n_words), lane_count)])

    def measure(tile, vectors):
        places = []
        for k in range(TILE):
            center = load(tiles.data, builder.add(builder.mul(tile, tile_size), ir.Constant(index, k)))
            row = builder.mul(builder.sext(center, index), lane_count)
            places.extend(at(builder, bounds.data, builder.add(row, ir.Constant(index, v)), _SINGLES) for v in vectors)
        norms = load_lanes(sq_norms.data, builder.mul(block, lane_count), vectors, _SINGLES)
        term = builder.mul(tile, ir.Constant(index, 2 * TILE))
        values = [builder.fadd(norm, other) for norm in splat_tile(terms.data, term, _SINGLES) for other in norms]
        for place, value in zip(places, values, strict=True):
            builder.store(value, place, align=4)

        def add_group(group, _):
            totals = [ir.Constant(kind, [0] * _WIDTH)] * len(places)

            def add_entry(entry, totals):
                word = builder.mul(builder.zext(load(names.data, entry), index), lane_count)
                queries = load_lanes(own, word, vectors, kind)
                own_words = splat_tile(center_words, builder.mul(entry, tile_size), kind)
                pairs = [(query, center) for center in own_words for query in queries]
                return [add(builder, total, *pair) for total, pair in zip(totals, pairs, strict=True)]

            start = builder.add(builder.mul(tile, builder.add(n_groups, one)), group)
            ends = [load(starts.data, place) for place in (start, builder.add(start, one))]
            totals = loop(builder, *ends, totals, add_entry)
            weight = splat(builder, load(weights.data, group), _SINGLES)
            for place, total in zip(places, totals, strict=True):
                added = builder.fmul(total if kind == _SINGLES else builder.sitofp(total, _SINGLES), weight)
                builder.store(builder.fadd(builder.load(place, align=4), added), place, align=4)
            return []

        loop(builder, zero, n_groups, [], add_group)
        nothing = ir.Constant(_SINGLES, [0.0] * _WIDTH)
        errors = splat_tile(terms.data, builder.add(term, tile_size), _SINGLES)
        for place, error in zip(places, (error for error in errors for _ in vectors), strict=True):
            value = builder.load(place, align=4)
            value = builder.select(builder.fcmp_ordered(">", value, nothing), value, nothing)
            root = _call(builder, f"llvm.sqrt.v{_WIDTH}f32", value)
            builder.store(builder.fsub(root, error), place, align=4)

    def measure_tile(tile, _):
        for vectors in _PARTS:
            measure(tile, vectors)
        return []

    loop(builder, zero, n_tiles, [], measure_tile)


def _kernel(kind, add):
    """A compiled function that measures tiles of words of one kind, whose products ``add`` adds to sums."""
    return in_llvm(types.void)(partial(_generate, kind, add))


measure_shorts = _kernel(_INTS, _add_pairs)
measure_singles = _kernel(_SINGLES, _add_singles)


@in_llvm(types.void)
def compete(builder, bounds, chosen, first, last, widths, state):
    """Let the centers first to last of a partitioning compete for each lane: state (4, LANES), see ``certified``.

    bounds (m, LANES) of all points, chosen (psi,), widths (m,): upper bound less lower bound of each point. The winner
    is written as its place, a whole number in float32.
    """
    index = first.type
    places = [at(builder, state.data, ir.Constant(index, k), _SINGLES) for k in range(0, 4 * LANES, _WIDTH)]

    def compare(j, values):
        point = builder.sext(builder.load(builder.gep(chosen.data, [j])), index)
        width = splat(builder, builder.load(builder.gep(widths.data, [point])), _SINGLES)
        name = splat(builder, builder.uitofp(j, _SINGLE), _SINGLES)
        following = []
        for v, k in enumerate(_VECTORS):
            best, low, second, winner = values[v :: len(_VECTORS)]
            row = builder.add(builder.mul(point, ir.Constant(index, LANES)), ir.Constant(index, k))
            near = builder.load(at(builder, bounds.data, row, _SINGLES), align=4)
            upper = builder.fadd(near, width)
            closer = builder.fcmp_ordered("<", upper, best)
            loser = builder.select(closer, low, near)
            second = builder.select(builder.fcmp_ordered("<", loser, second), loser, second)
            own = zip((upper, near, name), (best, low, winner), strict=True)
            best, low, winner = (builder.select(closer, new, old) for new, old in own)
            following.append((best, low, second, winner))
        return [value for values in zip(*following, strict=True) for value in values]

    values = loop(builder, first, last, [builder.load(place, align=4) for place in places], compare)
    for value, place in zip(values, places, strict=True):
        builder.store(value, place, align=4)


@in_llvm(types.float32)
def measure_single(builder, queries, q, centers, c):
    """|queries[q] - centers[c]|^2 in float32: rows of a multiple of WIDTH numbers, contiguous.

    Each lane sums every WIDTH-th feature, then lanes are added in pairs: a term is part of d / WIDTH + 6 sums. The
    order is that of WIDTH lanes on every processor, whatever registers it has.
    """
    width = cgutils.unpack_tuple(builder, queries.shape)[1]
    index, singles = width.type, ir.VectorType(_SINGLE, WIDTH)
    rows = [builder.gep(array.data, [builder.mul(row, width)]) for array, row in ((queries, q), (centers, c))]

    def add(step, totals):
        k = builder.mul(step, ir.Constant(index, WIDTH))
        gap = builder.fsub(*(builder.load(at(builder, row, k, singles), align=4) for row in rows))
        return [_call(builder, f"llvm.fmuladd.v{WIDTH}f32", gap, gap, totals[0])]

    n_steps = builder.udiv(width, ir.Constant(index, WIDTH))
    (total,) = loop(builder, ir.Constant(index, 0), n_steps, [ir.Constant(singles, [0.0] * WIDTH)], add)
    size = WIDTH
    while size > 1:
        size //= 2
        kind = ir.VectorType(_INT, size)
        halves = [ir.Constant(kind, list(range(start, start + size))) for start in (0, size)]
        total = builder.fadd(*(builder.shuffle_vector(total, total, half) for half in halves))
    return builder.extract_element(total, ir.Constant(_INT, 0))
