"""Hundreds of dimensions: all distances coarsely, from rows rounded to bytes, then those that remain in doubt.

Let x' = x - mu, rounded to z_k = s_k l_k with whole numbers l_k from -127 to 127, and x' = z + e + o, where o is what
lies beyond 127 s_k and e the rest. Bytes are multiplied and added exactly, so that |z_x - z_c| is known but for the
rounding of a few sums. Cutting off moves no two rows apart, so

    |z_x - z_c| - |e_x| - |e_c| <= |x - c| <= |z_x - z_c| + |e_x| + |o_x| + |e_c| + |o_c|.

Steps s_k are powers of two, equal within a group of features: the product of a group is a whole number in 32 bits, and
is multiplied by s_k^2 exactly. Let N = |z|^2, R^2 = N_x + N_c, and u = 2^-24. Products of G groups are rounded to
float32 and added to N_x + N_c one after the other. They add up to at most R^2, and partial sums to 2 R^2, so that the
error is at most (2 G + 3) u R^2. N_x and N_c are taken smaller by a share of (4 G + 16) u beforehand, which also covers
the rounding of the root and of the difference in

    b = sqrt(|z_x - z_c|^2 made smaller) - |e_c|,

so that b - |e_x| is a lower bound of the distance.

With v = 2 (4 G + 16) u, |z_x - z_c|^2 is at most r^2 + v R^2, where r = b + |e_c|. As R <= 2 sqrt(N_x) + |z_x - z_c|,
an r of .3 sqrt(N_x) or more is R / 8 or more, and |z_x - z_c| <= r + 4 v R <= r + 4 v (sqrt(N_x) + sqrt(N_c)). So the
upper bound is b, and a term of the center, its width, and a term of the query. A shorter r is at least
|z_x - z_c| / (1 + 2.1 sqrt(v)) - 2 sqrt(v N_x), which gives another factor and another term of the query. All of this
is in float32, each with a millionth more. Lengths are in a unit that is about the typical step, and |e| comes with room
for the rounding of x' and for that of the definition.

A center is certainly the nearest where the lower bounds of all others exceed its upper bound. Else all centers that may
be nearest are measured in float32, with the error that ``filtered`` explains, and if that is not enough in float64, as
the NumPy backend does. So are winners of which it is not certain whether their ball covers the query, or how many
octaves away they are. What has to be measured for many queries is written down first, and then measured center by
center, because rows of hundreds of features are slow to come from memory.
"""

import numpy as np

from isobag.backends.arrays import OUTSIDE
from isobag.backends.numba.compiled.filtered import error_of
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.products import octaves_beyond, sq_distance
from isobag.backends.numba.compiled.quads import LANES, TILE, compete, judge, lowest_bit, measure_coarsely, pick
from isobag.backends.numba.compiled.singles import measure_single

MOST = 127
"""Largest number of steps."""


@jit
def find_cells(queries, centers, lists, limits, room, cells, far):
    """Cells under the rule "nearest", all levels of all partitionings, for some blocks of queries: cells (t, L, n).

    n is that of the queries, rounded up to a multiple of LANES.

    queries: lanes (blocks, quads, LANES), N_x (blocks, LANES), terms of bounds (blocks, 4, LANES), see ``_compare``; X
    (n, d), x' in float32, |x'| (n,); lanes whose |e| is large, as bits (blocks,)
    centers: what ``quads.measure_coarsely`` needs; widths (m,), points (m, d), c' in float32, |c'| (m,)
    lists: of each partitioning its distinct centers (t, psi), their cells (t, psi), how many a level has (t, L),
    squared radii (L, t, psi), and their roots in units, by distinct center (t, L, psi)
    limits: of octaves (L,), those as lengths in units (L,), the share by which rounding may lengthen short lengths, and
    the unit
    far (n,), to which octaves beyond are added
    room: bounds (m, LANES); state: see ``_compare``; questions: see ``_ask``; pairs: see ``_answer``
    """
    lanes, sq_norms = queries[:2]
    tiles, starts, names, words, sums, weights, terms = centers[:7]
    t, n_levels = lists[2].shape
    bounds, state, questions, pairs = room
    runs = questions[0]
    most_pairs = len(pairs[0]) - (lists[0].shape[1] + n_levels) * LANES - 16
    most_questions = len(questions[1]) - n_levels * LANES
    n_runs = n_pairs = n_questions = 0
    for block in range(len(lanes)):
        measure_coarsely(
            lanes, block, lanes.shape[1], tiles, starts, names, words, sums, weights, sq_norms, terms, bounds
        )
        for i in range(t):
            if n_runs + 1 == len(runs) or n_pairs > most_pairs or n_questions > most_questions:
                _answer(n_runs, queries, centers, lists, limits[0], questions, pairs, cells, far)
                n_runs = n_pairs = n_questions = 0
            _compare(block, i, len(far), queries[2][block], centers[7], lists, limits, bounds, state, cells)
            if queries[6][block]:
                _tighten(block, i, queries, centers, lists[0], limits[3], state)
            _reach_on(state)
            runs[n_runs] = i, n_pairs, n_questions
            n_pairs, n_questions = _ask(block, i, lists, bounds, state, questions, n_questions, pairs, n_pairs)
            n_runs += 1
            runs[n_runs] = i, n_pairs, n_questions
    _answer(n_runs, queries, centers, lists, limits[0], questions, pairs, cells, far)


@jit
def _compare(block, i, n, terms, widths, lists, limits, bounds, state, cells):
    """Cells of the LANES queries of a block in partitioning i, as far as bounds tell.

    terms (4, LANES) of the queries: |e_x|; what is to be added to an upper bound, the same for lengths below the third
    term, which are rounded more; widths (m,) of centers: upper less lower bound
    state: names (L, LANES) of the centers with the least upper bounds; the largest b of centers that may be nearest
    (L, LANES), -inf where the winner is certain; the same, of a level and all behind; the lanes whose cells are in
    doubt, as bits (L,); what is so far least (3, LANES), and who (LANES,), its radius and its cell
    """
    chosen, kept, ends, _, all_roots = lists
    _, far_roots, stretch, _ = limits
    names, reaches, _, open_lanes, least, winner, roots, own_cells = state
    best, low, second = least
    n_levels = ends.shape[1]
    begin = block * LANES
    own = (1 << min(LANES, n - begin)) - 1
    best[:] = np.inf
    low[:] = np.inf
    second[:] = np.inf
    winner[:] = 0
    first = 0
    for level in range(n_levels):
        compete(bounds, chosen[i], first, ends[i, level], widths, best, low, second, winner)
        first = ends[i, level]
        for q in range(LANES):
            a = winner[q]
            names[level, q] = a
            roots[q] = all_roots[i, level, a]
            own_cells[q] = kept[i, a]
        found = cells[i, level, begin : begin + LANES]
        bits = judge(least, terms, roots, own_cells, far_roots[level], stretch, reaches[level], found)
        open_lanes[level] = bits & own
    for q in range(min(LANES, n - begin), LANES):
        reaches[:, q] = -np.inf


@jit
def _tighten(block, i, queries, centers, chosen, unit, state):
    """Measure the winners in doubt of queries whose bounds are wide: fewer centers may be nearer then."""
    X, singles, norms, wide = queries[3:7]
    center_singles, center_norms = centers[9:11]
    names, reaches = state[:2]
    left = wide[block]
    while left:
        q = lowest_bit(left)
        left &= left - 1
        x = block * LANES + q
        last = -1
        reach = np.float32(np.inf)
        for level in range(len(names)):
            if reaches[level, q] == -np.inf:
                continue
            if names[level, q] != last:
                last = names[level, q]
                c = chosen[i, last]
                sq_dist = np.float64(measure_single(singles, x, center_singles, c))
                sq_dist += error_of(sq_dist, norms[x] + center_norms[c], X.shape[1])
                reach = np.float32((np.sqrt(sq_dist) / unit + queries[2][block, 0, q]) * (1 + 2.0**-20))
            reaches[level, q] = min(reaches[level, q], reach)


@jit
def _reach_on(state):
    """The largest reach of a level and all behind, a little more."""
    reaches, most_behind = state[1:3]
    n_levels = len(reaches)
    up = np.float32(1 + 2.0**-20)
    for q in range(LANES):
        most_behind[n_levels - 1, q] = reaches[n_levels - 1, q] * up
    for level in range(n_levels - 2, -1, -1):
        for q in range(LANES):
            most_behind[level, q] = max(reaches[level, q] * up, most_behind[level + 1, q])


@jit
def _ask(block, i, lists, bounds, state, questions, n_questions, pairs, n_pairs):
    """Questions where cells are in doubt, and the pairs that have to be measured; how many of each there are now.

    questions: runs (., 3), each a partitioning, and where its pairs and questions begin; level, query and winner, and
    the number of the winner's pair. Where the winner is in doubt that is -1 less the number of pairs so far, which are
    those of all centers of the level that may be nearest, and of others.
    """
    chosen, _, ends = lists[:3]
    names, reaches, most_behind, open_lanes = state[:4]
    _, levels, rows, winners, numbers = questions
    pair_rows, pair_places = pairs[:2]
    begin = block * LANES
    first = 0
    for level in range(ends.shape[1]):
        n_pairs = pick(
            bounds, chosen[i], first, ends[i, level], most_behind[level], begin, pair_rows, pair_places, n_pairs
        )
        first = ends[i, level]
        n_candidates = n_pairs
        left = open_lanes[level]
        while left:
            q = lowest_bit(left)
            left &= left - 1
            levels[n_questions] = level
            rows[n_questions] = begin + q
            winners[n_questions] = names[level, q]
            numbers[n_questions] = -1 - n_candidates
            if reaches[level, q] == -np.inf:
                pair_rows[n_pairs] = begin + q
                pair_places[n_pairs] = names[level, q]
                numbers[n_questions] = n_pairs
                n_pairs += 1
            n_questions += 1
    return n_pairs, n_questions


@jit
def _answer(n_runs, queries, centers, lists, limits, questions, pairs, cells, far):
    """Measure all pairs and answer all questions.

    pairs: query, place of the center among the distinct ones of its partitioning, squared distance; the order in which
    they are measured, so that each center is brought from memory once; and where those of each center begin (m + 1,)
    """
    X, singles, norms = queries[3:6]
    points, center_singles, center_norms = centers[8:11]
    chosen, kept, _, sq_radii, _ = lists
    runs, levels, rows, winners, numbers = questions
    pair_rows, pair_places, sq_dists, order, begins = pairs
    begins[:] = 0
    for run in range(n_runs):
        own = chosen[runs[run, 0]]
        for p in range(runs[run, 1], runs[run + 1, 1]):
            begins[own[pair_places[p]] + 1] += 1
    for c in range(1, len(begins)):
        begins[c] += begins[c - 1]
    for run in range(n_runs):
        own = chosen[runs[run, 0]]
        for p in range(runs[run, 1], runs[run + 1, 1]):
            c = own[pair_places[p]]
            order[begins[c]] = p
            begins[c] += 1
    first = 0
    for c in range(len(begins) - 1):
        for k in range(first, begins[c]):
            p = order[k]
            sq_dists[p] = measure_single(singles, pair_rows[p], center_singles, c)
        first = begins[c]
    d = X.shape[1]
    one = np.empty(1)
    # Of the nearest center measured: its squared distance and the bounds of that; the lower bound of all others.
    nearest = np.empty((4, LANES))
    best, low, high, second = nearest
    leader = np.empty(LANES, np.int32)
    for run in range(n_runs):
        i = runs[run, 0]
        nearest[:] = np.inf
        leader[:] = -1
        begin = runs[run, 1]
        p = begin
        for question in range(runs[run, 2], runs[run + 1, 2]):
            level, x, a, number = levels[question], rows[question], winners[question], numbers[question]
            q = x % LANES
            least, most = 0.0, np.inf
            if number >= 0:
                sq_dist = np.float64(sq_dists[number])
                error = error_of(sq_dist, norms[x] + center_norms[chosen[i, a]], d)
                if error < np.inf:
                    least, most = sq_dist - error, sq_dist + error
            else:
                while p < -1 - number:
                    lane = pair_rows[p] % LANES
                    sq_dist = np.float64(sq_dists[p])
                    error = error_of(sq_dist, norms[pair_rows[p]] + center_norms[chosen[i, pair_places[p]]], d)
                    if not error < np.inf:
                        second[lane] = -np.inf
                    elif sq_dist < best[lane]:
                        second[lane] = min(second[lane], low[lane])
                        best[lane] = sq_dist
                        low[lane] = sq_dist - error
                        high[lane] = sq_dist + error
                        leader[lane] = pair_places[p]
                    elif pair_places[p] != leader[lane]:
                        second[lane] = min(second[lane], sq_dist - error)
                    p += 1
                if second[q] > high[q]:
                    a = leader[q]
                    least, most = low[q], high[q]
                else:
                    a, least = _nearest_exactly(x, begin, -1 - number, X, points, chosen[i], pairs)
                    most = least
            radius = sq_radii[level, i, kept[i, a]]
            c = chosen[i, a]
            if not (least > radius or most <= radius):
                least = most = sq_distance(X[x], points[c])
            cells[i, level, x] = kept[i, a]
            if least > radius:
                cells[i, level, x] = OUTSIDE
                if limits[level] >= 0:
                    far[x] += octaves_beyond(limits[level], least, most, X[x], points[c], one)


@jit
def _nearest_exactly(x, first, last, X, points, chosen, pairs):
    """Number and squared distance of the nearest center of some pairs, the first of equals."""
    pair_rows, pair_places = pairs[:2]
    least = np.inf
    nearest = pair_places[first]
    for p in range(first, last):
        if pair_rows[p] == x:
            a = pair_places[p]
            sq_dist = sq_distance(X[x], points[chosen[a]])
            if sq_dist < least or (sq_dist == least and a < nearest):
                least = sq_dist
                nearest = a
    return nearest, least


@jit
def round_rows(centered, inverse_unit, inverses, steps, columns, bias, words, singles, lengths):
    """Rows in whole steps: words (n, bytes) are written, each more by ``bias``, feature k in columns[k].

    centered (n, d) times inverse_unit are in units, as steps are; inverses (d,) of the steps. Also written: centered in
    float32 (n, d or more), and lengths in units (4, n): |e|, |o|, |z|^2 and |x'|^2
    """
    n, d = centered.shape
    most = MOST + 0.5
    for row in range(n):
        rest = 0.0
        beyond = 0.0
        total = 0.0
        whole = 0.0
        for k in range(d):
            x = centered[row, k]
            singles[row, k] = x
            x *= inverse_unit
            inside = min(max(x, -most * steps[k]), most * steps[k])
            level = min(max(np.rint(inside * inverses[k]), -127.0), 127.0)
            value = level * steps[k]
            rest += (inside - value) * (inside - value)
            beyond += (x - inside) * (x - inside)
            total += value * value
            whole += x * x
            words[row, columns[k]] = np.int32(level) + bias
        lengths[0, row] = np.sqrt(rest)
        lengths[1, row] = np.sqrt(beyond)
        lengths[2, row] = total
        lengths[3, row] = whole


@jit
def pack_tiles(words, tiles, quads, starts, names, packed, sums):
    """Centers of tiles as ``quads.measure_coarsely`` wants them, without the quads in which all are zero; their number.

    words (m, quads) of the centers, quads (G + 1,): those of each group; the others are written: see there
    """
    size = 0
    for tile in range(len(tiles)):
        for group in range(len(quads) - 1):
            starts[tile, group] = size
            for quad in range(quads[group], quads[group + 1]):
                is_used = False
                for k in range(TILE):
                    word = words[tiles[tile, k], quad]
                    packed[size, k] = word
                    if word != 0:
                        is_used = True
                        for shift in (24, 16, 8, 0):  # the bytes of a word, with their signs
                            sums[tile, group, k] -= 128 * (np.int32(word << shift) >> 24)
                if is_used:
                    names[size] = quad
                    size += 1
        starts[tile, len(quads) - 1] = size
    return size
