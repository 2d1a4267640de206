"""Many dimensions: squared distances from matrix products in float32, certified, else decided in float64.

With x' = x - mu and c' = c - mu, a product of float32 matrices gives g = |c'|^2 - 2 x'.c', and the squared distance is
g + |x'|^2. Let u = 2^-24. Storing x', c' and |c'|^2 in float32 costs a relative error u each, and a sum of d + 1
products in any order, fused or not, at most (d + 1) u / (1 - (d + 1) u) of the sum of their absolute values. So

    |g - exact| <= e / (1 - e) (|x'| + |c'|)^2   with e = (d + 6) u,

and ``tolerance`` takes e = (d + 8) u, which covers the rounding of the float64 definition itself many times over, and
adds a term for underflow.
Let w be the center of the least g, s its squared distance so found, and e(c) the tolerance of a center. The nearest
center is no farther than sqrt(s + e(w)), so its norm |c'| is at most |x'| + sqrt(s + e(w)): call the tolerance at that
norm e'. Its g is then at most that of w plus e(w) + e', and w is certainly the nearest where all other g are larger. A
center that lies far out has a large tolerance, but as it is far from x as well, it spoils nothing for the others. A
query is certainly inside or outside when it is more than e(w) from the boundary. What is not certain is computed again
in float64, feature by feature, as in the NumPy backend. Values whose squares overflow float32 have an infinite
tolerance, and comparisons are written so that infinities and NaN are never certain.
"""

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE
from isobag.backends.numba.compiled.jit import jit


@jit
def tolerance(norm, center_norm, d):
    """Largest error of an approximate squared distance, for norms |x'| and |c'| (or an upper bound of |c'|)."""
    reach = norm + center_norm
    if not reach < 1e18:
        return np.inf  # squares overflow float32
    error = (d + 8) * 2.0**-24
    return error / (1 - error) * reach * reach + (d + 8) * 2.0**-120 if error < 1 else np.inf


@jit
def margin(norm, sq_dist, d):
    """Largest error of any center within the squared distance given of a query of this norm."""
    # A trillionth more than the root, for its rounding.
    return tolerance(norm, norm + np.sqrt(max(sq_dist, 0.0)) * (1 + 1e-12), d)


@jit
def sq_distance(x, c):
    """Squared distance, features summed in order."""
    total = 0.0
    for k in range(len(x)):
        total += (x[k] - c[k]) * (x[k] - c[k])
    return total


@jit
def octaves_beyond(limit, least, most, x, c, one):
    """Octaves beyond the limit of the squared distance of x and c, which lies between least and most; one (1,) is room.

    That squared distance is computed only where its octaves are not certain.
    """
    bits = one.view(np.int64)
    one[0] = most
    octaves = bits[0] >> OCTAVE_BITS
    if octaves <= limit:
        return 0
    one[0] = max(least, 0.0)
    if bits[0] >> OCTAVE_BITS != octaves:
        one[0] = sq_distance(x, c)
    return max((bits[0] >> OCTAVE_BITS) - limit, 0)


@jit
def scan_nearest(products, X, norms, points, center_norms, slots, levels, sq_radii, limits, cells, far):
    """Cells under the rule "nearest", all levels of one partitioning, for a block of queries.

    products (points, block) approximate |c'|^2 - 2 x'.c'; X (block, d); norms (block,); center_norms (points,);
    slots (psi,); sq_radii (L, psi); written: cells (L, block); added to far (block,): octaves beyond limits (L,), where
    not negative, from queries OUTSIDE to their nearest center
    """
    n_queries, d = X.shape
    one = np.empty(1)
    best = np.full(n_queries, np.inf, np.float32)
    second = np.full(n_queries, np.inf, np.float32)
    winner = np.zeros(n_queries, np.int32)
    first = 0
    for level in range(len(levels)):
        for j in range(first, levels[level]):
            row = products[slots[j]]
            name = np.int32(j)
            for q in range(n_queries):
                value = row[q]
                leader = best[q]
                loser = leader if leader > value else value
                second[q] = loser if loser < second[q] else second[q]
                winner[q] = name if value < leader else winner[q]
                best[q] = value if value < leader else leader
        first = levels[level]
        for q in range(n_queries):
            j = winner[q]
            error = tolerance(norms[q], center_norms[slots[j]], d)
            sq_dist = best[q] + norms[q] * norms[q]
            limit = best[q] + error + margin(norms[q], sq_dist + error, d)
            least = sq_dist - error
            most = sq_dist + error
            if not (second[q] > limit and abs(sq_dist - sq_radii[level, j]) > error):
                j, least = _nearest_exactly(products[:, q], X[q], points, slots[: levels[level]], limit)
                most = least
            is_outside = least > sq_radii[level, j]
            cells[level, q] = OUTSIDE if is_outside else j
            if is_outside and limits[level] >= 0:
                far[q] += octaves_beyond(limits[level], least, most, X[q], points[slots[j]], one)


@jit
def _nearest_exactly(products, x, points, slots, limit):
    """Cell and squared distance of the nearest of the centers whose product is not above the limit."""
    least = np.inf
    cell = 0
    for j in range(len(slots)):
        if not products[slots[j]] > limit:
            sq_dist = sq_distance(x, points[slots[j]])
            if sq_dist < least:
                least = sq_dist
                cell = j
    return cell, least


@jit
def scan_covering(products, X, norms, points, center_norms, slots, sq_radii, smallest, cells):
    """Cells under the rules "covering" and "smallest" for one partitioning and a block of queries: cells (block,)."""
    n_queries, d = X.shape
    for q in range(n_queries):
        sq_norm = norms[q] * norms[q]
        least = np.inf  # the winner's radius or, under "covering", its distance
        most = np.inf  # no center of a larger approximate distance can win
        cell = OUTSIDE
        for j in range(len(slots)):
            sq_dist = products[slots[j], q] + sq_norm
            error = tolerance(norms[q], center_norms[slots[j]], d)
            if sq_dist - error > sq_radii[j] or sq_dist - error > most:
                continue
            if smallest and cell != OUTSIDE and sq_radii[j] >= least:
                continue
            if not smallest or not sq_dist + error < sq_radii[j]:
                sq_dist = sq_distance(X[q], points[slots[j]])
                if sq_dist > sq_radii[j]:
                    continue
            if smallest:
                least = sq_radii[j]
                cell = j
            elif sq_dist < least:
                least = sq_dist
                most = sq_dist
                cell = j
        cells[q] = cell


@jit
def nearest_other(products, norms, block, points, slots, levels, radii):
    """Squared distance from each center that is one of points[block[0]:block[1]] to the nearest different one.

    products (block, points) approximate |c'|^2 - 2 x'.c'; slots (t, psi); radii (L, t, psi) is written
    """
    d = points.shape[1]
    for i in range(slots.shape[0]):
        chosen = slots[i]
        for j in range(len(chosen)):
            own = chosen[j]
            if own < block[0] or own >= block[1]:
                continue
            row = products[own - block[0]]
            limit = np.inf
            least = np.inf
            first = 0
            for level in range(len(levels)):
                for other in chosen[first : levels[level]]:
                    if not row[other] > limit and other != own:
                        sq_dist = sq_distance(points[own], points[other])
                        if 0.0 < sq_dist < least:  # points differ, but their squared distance may underflow
                            least = sq_dist
                            limit = least - norms[own] * norms[own] + margin(norms[own], least, d)
                first = levels[level]
                if j < first:
                    radii[level, i, j] = least if least < np.inf else 0.0


@jit
def count_block(cells, counts):
    """Add one to the count of each query's cell: cells (L, block), counts (L, psi)."""
    for level in range(cells.shape[0]):
        for cell in cells[level]:
            if cell != OUTSIDE:
                counts[level, cell] += 1


@jit
def add_at_cells(cells, table, sums):
    """Add to each query's sum the table at its cell: cells (n,), table (psi,), sums (n,)."""
    for q in range(len(cells)):
        if cells[q] != OUTSIDE:
            sums[q] += table[cells[q]]
