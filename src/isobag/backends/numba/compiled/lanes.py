"""Rows of a block against centers, written as LLVM vector operations, and bits that say which of them to look at."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isobag.backends.numba.compiled.llvm import in_llvm, loop
from isobag.backends.numba.compiled.small_tables import WIDTH
from isobag.backends.numba.compiled.vectors import BLOCK, at, muladd, splat

_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_LONGS = ir.VectorType(ir.IntType(64), WIDTH)
_SINGLES, _SHORTS = ir.VectorType(ir.FloatType(), BLOCK), ir.VectorType(ir.IntType(16), BLOCK)
_LENGTHS = ir.VectorType(ir.DoubleType(), BLOCK)


@in_llvm(types.void)
def scan_candidates(builder, columns, query, candidates, first, last, best, winner, lane):
    """Let the candidates first to last compete for WIDTH queries from one on; best, winner from a lane on.

    columns (d, queries), candidates (d, m) float64; best (queries,) float64, winner (queries,) int64. Squares are
    summed in the order of features. A later candidate must be strictly nearer.
    """
    d, n_queries = cgutils.unpack_tuple(builder, columns.shape)
    stride = cgutils.unpack_tuple(builder, candidates.shape)[1]
    zero = ir.Constant(d.type, 0)
    queries = builder.gep(columns.data, [query])
    places = [at(builder, best.data, lane, _DOUBLES), at(builder, winner.data, lane, _LONGS)]

    def compare(j, state):
        own = builder.gep(candidates.data, [j])

        def add(k, totals):
            x = builder.load(at(builder, queries, builder.mul(k, n_queries), _DOUBLES), align=8)
            coordinate = builder.load(builder.gep(own, [builder.mul(k, stride)]))
            gap = builder.fsub(x, splat(builder, coordinate, _DOUBLES))
            return [builder.fadd(totals[0], builder.fmul(gap, gap))]

        total = loop(builder, zero, d, [ir.Constant(_DOUBLES, [0.0] * WIDTH)], add)[0]
        least, names = state
        closer = builder.fcmp_ordered("<", total, least)
        return [builder.select(closer, total, least), builder.select(closer, splat(builder, j, _LONGS), names)]

    ends = loop(builder, first, last, [builder.load(place, align=8) for place in places], compare)
    for value, place in zip(ends, places, strict=True):
        builder.store(value, place, align=8)


@in_llvm(types.void)
def measure_centers(builder, x, columns, first, last, sq_dists):
    """Write the squared distances of x (d,) to the centers first to last, and some more before and after them.

    columns (d, m) float64, sq_dists (m,): m is a multiple of WIDTH. Squares are summed in the order of features.
    """
    d, stride = cgutils.unpack_tuple(builder, columns.shape)

    def measure(j, _):
        def add(k, totals):
            place = at(builder, columns.data, builder.add(builder.mul(k, stride), j), _DOUBLES)
            value = splat(builder, builder.load(builder.gep(x.data, [k])), _DOUBLES)
            gap = builder.fsub(value, builder.load(place, align=8))
            return [builder.fadd(totals[0], builder.fmul(gap, gap))]

        total = loop(builder, ir.Constant(d.type, 0), d, [ir.Constant(_DOUBLES, [0.0] * WIDTH)], add)[0]
        builder.store(total, at(builder, sq_dists.data, j, _DOUBLES), align=8)
        return []

    loop(builder, builder.and_(first, ir.Constant(first.type, -WIDTH)), last, [], measure, WIDTH)


@in_llvm(types.int64)
def flag_nearer(builder, singles, lanes, points, point, d, term, bounds, row):
    """A bit for each lane whose bound is not below its squared distance from a point less a term, in float32.

    singles (., BLOCK): the d rows from ``lanes`` on; points: d numbers from ``point`` on; bounds (., BLOCK): one row
    """
    width = ir.Constant(d.type, BLOCK)
    own = builder.gep(points.data, [point])
    fused = muladd(builder, _SINGLES)

    def add(k, totals):
        x = builder.load(at(builder, singles.data, builder.mul(builder.add(lanes, k), width), _SINGLES), align=4)
        gap = builder.fsub(x, splat(builder, builder.load(builder.gep(own, [k])), _SINGLES))
        return [builder.call(fused, [gap, gap, totals[0]])]

    (total,) = loop(builder, ir.Constant(d.type, 0), d, [ir.Constant(_SINGLES, [0.0] * BLOCK)], add)
    offered = builder.fsub(total, splat(builder, term, _SINGLES))
    bound = builder.load(at(builder, bounds.data, builder.mul(row, width), _SINGLES), align=4)
    return builder.bitcast(builder.fcmp_unordered("<=", offered, bound), ir.IntType(BLOCK))


@in_llvm(types.void)
def keep_nearer(builder, winners, sq_dists, row, nearest, best, level):
    """Where the squared distance in a row of (., BLOCK) is below best[level], that and its winner are the next best.

    nearest, best (., BLOCK): what is known at a level is written to the next.
    """
    width = ir.Constant(row.type, BLOCK)
    start, before = builder.mul(row, width), builder.mul(level, width)
    after = builder.add(before, width)
    offered = builder.load(at(builder, sq_dists.data, start, _LENGTHS), align=8)
    least = builder.load(at(builder, best.data, before, _LENGTHS), align=8)
    closer = builder.fcmp_ordered("<", offered, least)
    own = builder.load(at(builder, winners.data, start, _SHORTS), align=2)
    names = builder.load(at(builder, nearest.data, before, _SHORTS), align=2)
    builder.store(builder.select(closer, own, names), at(builder, nearest.data, after, _SHORTS), align=2)
    builder.store(builder.select(closer, offered, least), at(builder, best.data, after, _LENGTHS), align=8)


@in_llvm(types.intp)
def lowest_bit(builder, flags):
    """Number of the lowest bit that is set."""
    return builder.cttz(flags, ir.Constant(ir.IntType(1), 1))


@in_llvm(types.void)
def prefetch(builder, array, place):
    """Ask for the memory at a place of a contiguous array, which is needed soon."""
    kind = ir.IntType(8).as_pointer()
    number = ir.IntType(32)
    function = ir.FunctionType(ir.VoidType(), [kind, number, number, number])
    call = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
    address = builder.bitcast(builder.gep(array.data, [place]), kind)
    builder.call(call, [address, *(ir.Constant(number, value) for value in (0, 3, 1))])
