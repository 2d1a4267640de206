"""Many dimensions: bounds of all distances from rows of few bits, then distances that remain in doubt, then float64.

Let x' = x - mu, in a unit that is a power of two. A row is kept as numbers z of few bits, and x' = z + e + o, where o
is what lies beyond the range of these numbers and e the rest. Cutting off moves no two rows apart, so

    |z_x - z_c| - |e_x| - |e_c| <= |x - c| <= |z_x - z_c| + |e_x| + |o_x| + |e_c| + |o_c|.

There are two kinds. Shorts are whole numbers of steps s_k, which are powers of two, equal within a group of features:
the product of a group is a whole number in 32 bits, and is multiplied by s_k^2 exactly. Singles are float32, in groups
of 64 features, whose products are summed in float32. Features in which no centers differ are 0 in all of them, and only
add to N = |z|^2 of a query.

Let R^2 = N_x + N_c, and u = 2^-24. Products of G groups are rounded to float32 and added to N_x + N_c one after the
other. They add up to at most R^2, and partial sums to 2 R^2, so that the error is at most (2 G + 3) u R^2, and with
singles 65 u R^2 more. N_x and N_c are taken smaller by a share of (4 G + 16) u, with singles (4 G + 144) u, beforehand,
which also covers the rounding of the root and of the difference in

    b = sqrt(|z_x - z_c|^2 made smaller) - |e_c|,

so that b - |e_x| is a lower bound of the distance.

With v twice that share, |z_x - z_c|^2 is at most r^2 + v R^2, where r = b + |e_c|. As R <= 2 sqrt(N_x) + |z_x - z_c|,
an r of .3 sqrt(N_x) or more is R / 8 or more, and |z_x - z_c| <= r + 4 v R <= r + 4 v (sqrt(N_x) + sqrt(N_c)). So the
upper bound is b, and a term of the center, its width, and a term of the query. A shorter r is at least
|z_x - z_c| / (1 + 2.1 sqrt(v)) - 2 sqrt(v N_x), which gives another factor and another term of the query. All of this
is in float32, each with a millionth more. |e| comes with room for the rounding of x', for underflow, and for the
rounding of the definition.

A center is certainly the nearest where the lower bounds of all others exceed its upper bound. Else all centers that may
be nearest are measured in float32, s = |fl(x') - fl(c')|^2. Let R = |x'| + |c'|. Rounding moves both by u R in all, and
a sum of d / WIDTH + 6 terms of two roundings each has a relative error f = (d / WIDTH + 9) u, so that

    |s - exact| <= (f s + 2 u R sqrt(s) + u^2 R^2) / (1 - f),

and ``error_of`` takes more than that, which covers the rounding of the float64 definition many times over, and adds a
term for underflow. Rows that lie beyond 2^50 units have an infinite error. What is not certain then is computed in
float64, feature by feature, as the NumPy backend does. So are winners of which it is not certain whether their ball
covers the query, or how many octaves away they are. What has to be measured for many queries is written down first, and
then measured center by center, because rows of hundreds of features are slow to come from memory.
"""

from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE
from isobag.backends.numba.compiled import tiles
from isobag.backends.numba.compiled.float64_distances import sq_distance
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.llvm import bits
from isobag.backends.numba.compiled.tiles import LANES, WIDTH
from isobag.backends.numba.compiled.vectors import pick_unbeaten

_UP = np.float32(1 + 2.0**-20)
_DOWN = np.float32(1 - 2.0**-20)
_HALF = np.float32(0.5)
_CERTAIN = np.float32(-np.inf)


class Rows(NamedTuple):
    """Queries, in blocks of LANES; all lengths in units."""

    X: Any  # (n, d)
    singles: Any  # (n, d or more) x' in float32
    norms: Any  # (n,) |x'|, infinite beyond 2^50
    lanes: Any  # (blocks, words, LANES) z
    sq_norms: Any  # (blocks, LANES) N_x, made smaller
    terms: Any  # (blocks, 4, LANES) |e_x|; what an upper bound is more; the same for lengths below the third term


class Centers(NamedTuple):
    """All distinct centers; the last six fields are those of ``tiles``."""

    points: Any  # (m, d)
    singles: Any  # (m, d or more) c' in float32
    norms: Any  # (m,) |c'|
    widths: Any  # (m,) upper less lower bound
    per_word: Any  # numbers in a word: 2 shorts or 1 single
    tiles: Any
    starts: Any
    names: Any
    words: Any
    weights: Any
    terms: Any


class Lists(NamedTuple):
    """The distinct centers of each partitioning, their balls, and from where it matters how far out a query is."""

    chosen: Any  # (t, psi) numbers of centers
    cells: Any  # (t, psi) their cells
    ends: Any  # (t, L) how many a level has
    sq_radii: Any  # (L, t, psi), by cell
    roots: Any  # (t, L, psi) radii in units, by distinct center
    limits: Any  # (L,) octaves, -1 for levels that do not count
    far_roots: Any  # (L,) the same as lengths in units
    stretch: Any  # by how much rounding may lengthen short lengths
    unit: Any


class Questions(NamedTuple):
    """Cells in doubt, and distances to be measured, in pairs.

    Where the winner is in doubt, its number is -1 less that of the pairs so far, which are those of all centers of the
    level that may be nearest, and of others.
    """

    runs: Any  # (., 3) partitioning, and where its pairs and questions begin
    levels: Any
    rows: Any
    winners: Any
    numbers: Any  # of the winner's pair
    pair_rows: Any
    pair_places: Any  # of centers, among the distinct ones of their partitioning
    sq_dists: Any
    order: Any  # in which they are measured, so that each center is brought from memory once
    begins: Any  # (m + 1,) where those of each center begin


@jit
def _octaves_beyond(limit, least, most, X, x, points, c):
    """Octaves beyond the limit of the squared distance of X[x] and points[c], which lies between least and most.

    That squared distance is computed only where its octaves are not certain.
    """
    octaves = bits(most) >> OCTAVE_BITS
    if octaves > limit and bits(max(least, 0.0)) >> OCTAVE_BITS != octaves:
        octaves = bits(sq_distance(X, x, points, c)) >> OCTAVE_BITS
    return max(octaves - limit, 0)


@jit
def _error_of(sq_dist, reach, d):
    """Largest error of a squared distance found in float32, for reach = |x'| + |c'|."""
    share = (d / WIDTH + 16) * 2.0**-24
    if not (reach < 1e18 and share < 0.009):
        return np.inf
    shift = 2.0**-23 * reach
    return 1.01 * (share * sq_dist + 2 * shift * np.sqrt(sq_dist) + shift * shift) + (d + 8) * 2.0**-120


@jit
def _measure(rows, block, centers, bounds):
    """Write b of all centers and the queries of a block."""
    _, _, _, _, per_word, own, starts, names, words, weights, terms = centers
    x, norms = rows.lanes, rows.sq_norms
    if per_word == 2:
        tiles.measure_shorts(x, block, own, starts, names, words, weights, norms, terms, bounds)
    else:
        tiles.measure_singles(x, block, own, starts, names, words, weights, norms, terms, bounds)


@jit
def find_cells(rows, centers, lists, bounds, questions, cells, far):
    """Cells under the rule "nearest", all levels of all partitionings: cells (t, L, n) for n rounded up to LANES.

    far (n,): octaves beyond the limits are added; bounds (m + 1, LANES) and questions are room
    """
    t, n_levels = lists.ends.shape
    most_pairs = len(questions.order) - (lists.chosen.shape[1] + n_levels + 1) * LANES
    most_questions = len(questions.levels) - n_levels * LANES
    # Of each level and lane: the place of the center with the least upper bound; half the largest b of centers that may
    # be nearest, -inf where one is certain; 2 where the winner is in doubt, 1 where its ball is, else 0.
    winners = np.empty((n_levels, LANES), np.int32)
    reaches = np.empty((n_levels, LANES), np.float32)
    doubts = np.empty((n_levels, LANES), np.int32)
    n_runs = n_pairs = n_questions = 0
    for block in range(len(rows.lanes)):
        _measure(rows, block, centers, bounds)
        n_lanes = min(LANES, len(far) - block * LANES)
        for i in range(t):
            if n_runs + 1 == len(questions.runs) or n_pairs > most_pairs or n_questions > most_questions:
                _answer(n_runs, rows, centers, lists, questions, cells, far)
                n_runs = n_pairs = n_questions = 0
            _compare(rows.terms[block], centers.widths, i, lists, bounds, winners, reaches, doubts, cells[i], block)
            reaches[:, n_lanes:] = _CERTAIN
            doubts[:, n_lanes:] = 0
            questions.runs[n_runs] = i, n_pairs, n_questions
            n_runs += 1
            state = winners, reaches, doubts
            n_pairs, n_questions = _ask(block, i, lists, bounds, state, questions, n_questions, n_pairs)
            questions.runs[n_runs] = i, n_pairs, n_questions
    _answer(n_runs, rows, centers, lists, questions, cells, far)


@jit
def _compare(terms, widths, i, lists, bounds, winners, reaches, doubts, cells, block):
    """Cells of the LANES queries of a block in partitioning i, as far as bounds tell: cells (L, n)."""
    # Least upper bound, lower bound of its center, least lower bound of all others, place of that center.
    least = np.empty((4, LANES), np.float32)
    best, low, second, winner = least
    least[:3] = np.inf
    winner[:] = 0
    roots = np.empty(LANES, np.float32)
    first = 0
    for level in range(len(winners)):
        tiles.compete(bounds, lists.chosen[i], first, lists.ends[i, level], widths, least)
        first = lists.ends[i, level]
        far_root = lists.far_roots[level]
        own = cells[level, block * LANES : (block + 1) * LANES]
        for q in range(LANES):
            winners[level, q] = winner[q]
            roots[q] = lists.roots[i, level, winners[level, q]]
            own[q] = lists.cells[i, winners[level, q]]
        for q in range(LANES):
            upper = best[q] + terms[1, q]
            longer = best[q] * lists.stretch + terms[3, q]
            upper = (longer if low[q] < terms[2, q] else upper) * _UP
            lower = (low[q] - terms[0, q]) * _DOWN
            reach = upper + terms[0, q]
            is_certain = second[q] > reach
            is_inside = upper * _UP <= roots[q]
            is_known = is_inside | ((lower > roots[q]) & (upper * _UP < far_root))
            own[q] = own[q] if is_inside else np.int32(OUTSIDE)
            reaches[level, q] = _CERTAIN if is_certain else reach * _HALF
            doubts[level, q] = (np.int32(0) if is_known else np.int32(1)) if is_certain else np.int32(2)


@jit
def _ask(block, i, lists, bounds, state, questions, n_questions, n_pairs):
    """Questions where cells are in doubt, and the pairs that have to be measured; how many of each there are now."""
    winners, reaches, doubts = state
    begin = block * LANES
    for level in range(len(winners) - 1, 0, -1):  # a center of one level may be the nearest of a later one
        for q in range(LANES):
            reaches[level - 1, q] = max(reaches[level - 1, q], reaches[level, q] * _UP)
    zero = np.float32(0)
    first = 0
    for level in range(len(winners)):
        for a in range(first, lists.ends[i, level]):
            near = bounds[lists.chosen[i, a]]
            last = pick_unbeaten(near, reaches[level], 0, LANES, zero, zero, questions.pair_rows, n_pairs)
            for p in range(n_pairs, last):
                questions.pair_rows[p] += begin
                questions.pair_places[p] = a
            n_pairs = last
        first = lists.ends[i, level]
        n_candidates = n_pairs
        for q in range(LANES):
            if doubts[level, q] == 0:
                continue
            questions.levels[n_questions] = level
            questions.rows[n_questions] = begin + q
            questions.winners[n_questions] = winners[level, q]
            questions.numbers[n_questions] = -1 - n_candidates
            if doubts[level, q] == 1:
                questions.pair_rows[n_pairs] = begin + q
                questions.pair_places[n_pairs] = winners[level, q]
                questions.numbers[n_questions] = n_pairs
                n_pairs += 1
            n_questions += 1
    return n_pairs, n_questions


@jit
def _measure_pairs(n_runs, rows, centers, chosen, questions):
    """Squared distances of all pairs in float32, center by center."""
    runs, begins, places = questions.runs, questions.begins, questions.pair_places
    begins[:] = 0
    for run in range(n_runs):
        for p in range(runs[run, 1], runs[run + 1, 1]):
            begins[chosen[runs[run, 0], places[p]] + 1] += 1
    for c in range(1, len(begins)):
        begins[c] += begins[c - 1]
    for run in range(n_runs):
        for p in range(runs[run, 1], runs[run + 1, 1]):
            c = chosen[runs[run, 0], places[p]]
            questions.order[begins[c]] = p
            begins[c] += 1
    first = 0
    for c in range(len(begins) - 1):
        for p in questions.order[first : begins[c]]:
            questions.sq_dists[p] = tiles.measure_single(rows.singles, questions.pair_rows[p], centers.singles, c)
        first = begins[c]


@jit
def _answer(n_runs, rows, centers, lists, questions, cells, far):
    """Measure all pairs and answer all questions."""
    _measure_pairs(n_runs, rows, centers, lists.chosen, questions)
    d = rows.X.shape[1]
    sq_unit = lists.unit * lists.unit
    # Of the nearest center measured: its squared distance and the bounds of that; the lower bound of all others.
    nearest = np.empty((4, LANES))
    best, low, high, second = nearest
    leader = np.empty(LANES, np.int32)
    for run in range(n_runs):
        i, begin, first = questions.runs[run]
        chosen = lists.chosen[i]
        nearest[:] = np.inf
        leader[:] = -1
        p = begin
        for question in range(first, questions.runs[run + 1, 2]):
            level, x = questions.levels[question], questions.rows[question]
            a, number = questions.winners[question], questions.numbers[question]
            least, most = 0.0, np.inf
            if number >= 0:
                sq_dist = np.float64(questions.sq_dists[number])
                error = _error_of(sq_dist, rows.norms[x] + centers.norms[chosen[a]], d)
                if error < np.inf:
                    least, most = (sq_dist - error) * sq_unit, (sq_dist + error) * sq_unit
            else:
                while p < -1 - number:
                    place = questions.pair_places[p]
                    q = questions.pair_rows[p] % LANES
                    sq_dist = np.float64(questions.sq_dists[p])
                    error = _error_of(sq_dist, rows.norms[questions.pair_rows[p]] + centers.norms[chosen[place]], d)
                    if not error < np.inf:
                        second[q] = -np.inf
                    elif sq_dist < best[q]:
                        second[q] = min(second[q], low[q])
                        best[q], low[q], high[q] = sq_dist, sq_dist - error, sq_dist + error
                        leader[q] = place
                    elif place != leader[q]:
                        second[q] = min(second[q], sq_dist - error)
                    p += 1
                q = x % LANES
                if second[q] > high[q]:
                    a, least, most = leader[q], low[q] * sq_unit, high[q] * sq_unit
                else:
                    a, least = _nearest_exactly(x, begin, p, rows.X, centers.points, chosen, questions)
                    most = least
            cell = lists.cells[i, a]
            radius = lists.sq_radii[level, i, cell]
            if not (least > radius or most <= radius):
                least = most = sq_distance(rows.X, x, centers.points, chosen[a])
            cells[i, level, x] = cell
            if least > radius:
                cells[i, level, x] = OUTSIDE
                if lists.limits[level] >= 0:
                    pair = rows.X, x, centers.points, chosen[a]
                    far[x] += _octaves_beyond(lists.limits[level], least, most, *pair)


@jit
def _nearest_exactly(x, first, last, X, points, chosen, questions):
    """Place and squared distance of the nearest center of some pairs, the first of equals."""
    least = np.inf
    nearest = questions.pair_places[first]
    for p in range(first, last):
        if questions.pair_rows[p] == x:
            a = questions.pair_places[p]
            sq_dist = sq_distance(X, x, points, chosen[a])
            if sq_dist < least or (sq_dist == least and a < nearest):
                least = sq_dist
                nearest = a
    return nearest, least


@jit
def find_covering(rows, centers, lists, smallest, bounds, cells):
    """Cells under the rules "covering" and "smallest", of the only level: cells (t, 1, n)."""
    for block in range(len(rows.lanes)):
        _measure(rows, block, centers, bounds)
        for x in range(block * LANES, min((block + 1) * LANES, len(rows.X))):
            near = bounds[:, x - block * LANES]
            error = rows.terms[block, 0, x - block * LANES]
            for i in range(len(lists.chosen)):
                least = np.inf  # the winner's radius or, under "covering", its squared distance
                cell = OUTSIDE
                for a in range(lists.ends[i, 0]):
                    c = lists.chosen[i, a]
                    radius = lists.sq_radii[0, i, lists.cells[i, a]]
                    if (near[c] - error) * _DOWN > lists.roots[i, 0, a] * _UP:
                        continue
                    if smallest and cell != OUTSIDE and radius >= least:
                        continue
                    sq_dist = sq_distance(rows.X, x, centers.points, c)
                    if sq_dist <= radius and (smallest or sq_dist < least):
                        least = radius if smallest else sq_dist
                        cell = lists.cells[i, a]
                cells[i, 0, x] = cell
