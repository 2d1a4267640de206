"""Squared distances, 64 queries at a time or from centers to a box, in the order of the NumPy backend."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.llvm import loop
from isobag.backends.numba.compiled.vectors import at, splat

AT_ONCE = 64
"""Queries that are measured together: those of a leaf of the box tree."""
WIDTH = 32
"""Queries that compete together: with 512 bits, four registers of sums, four of the least and four of winners."""
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_LONGS = ir.VectorType(ir.IntType(64), WIDTH)


@intrinsic
def scan_candidates(typingctx, columns, query, candidates, first, last, best, winner, lane):
    """Let the candidates first to last compete for WIDTH queries from one on; best, winner from a lane on.

    columns (d, queries) with AT_ONCE columns to spare, candidates (d, m) float64; best (AT_ONCE,) float64, winner
    (AT_ONCE,) int64. Squares are summed in the order of features. A later candidate must be strictly nearer.
    """
    signature = types.void(columns, types.intp, candidates, types.intp, types.intp, best, winner, types.intp)

    def generate(context, builder, signature, args):
        columns, candidates, best, winner = (
            context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2, 5, 6)
        )
        _, query, _, first, last, _, _, lane = args
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

        found = loop(builder, first, last, [builder.load(place, align=8) for place in places], compare)
        for value, place in zip(found, places, strict=True):
            builder.store(value, place, align=8)
        return context.get_dummy_value()

    return signature, generate


@jit_inner
def measure_box(candidates, size, low, high, near, far):
    """Least and greatest squared distance from each candidate to a box, bounds of what measure_lanes returns."""
    for a in range(size):
        near[a] = 0.0
        far[a] = 0.0
    for k in range(len(low)):
        column = candidates[k]
        lowest = low[k]
        highest = high[k]
        for a in range(size):
            below = lowest - column[a]
            above = column[a] - highest
            gap = below if below > above else above
            gap = gap if gap > 0.0 else 0.0
            reach = -below if -below > -above else -above
            near[a] += gap * gap
            far[a] += reach * reach


@jit
def padded(d):
    """Features rounded up to a multiple of four; the added ones are zero in queries and centers and change no sum."""
    return d + -d % 4


@jit
def measure_lanes(lanes, candidates, a, sq_dists):
    """Squared distances of one candidate to AT_ONCE queries, features in order: lanes (padded, AT_ONCE)."""
    for q in range(AT_ONCE):
        sq_dists[q] = 0.0
    for k in range(0, len(lanes), 4):
        c0 = candidates[k, a]
        c1 = candidates[k + 1, a]
        c2 = candidates[k + 2, a]
        c3 = candidates[k + 3, a]
        for q in range(AT_ONCE):
            x0 = lanes[k, q] - c0
            x1 = lanes[k + 1, q] - c1
            x2 = lanes[k + 2, q] - c2
            x3 = lanes[k + 3, q] - c3
            sq_dists[q] = (((sq_dists[q] + x0 * x0) + x1 * x1) + x2 * x2) + x3 * x3
