"""Hundreds of dimensions: lower bounds of squared distances from a few axes, then distances of the few left.

Let x' = x - mu, c' = c - mu, and V the d x k matrix of some orthonormal axes. With r the length of what the axes leave
over of a row, x~ = (V'x', r) has the length of x', and

    |x~ - c~|^2 = |V'(x - c)|^2 + (r_x - r_c)^2 <= |x - c|^2,

so that g = |c'|^2 - 2 x~.c~, plus |x'|^2, is a lower bound of the squared distance: a product of float32 matrices with
k + 2 columns. Let R = |x'| + |c'|, u = 2^-24. Four errors are made, and ``loss`` R^2 is more than their sum:

- the product, by rounding to float32: at most e / (1 - e) R^2 with e = (k + 7) u, as in ``compiled.products``;
- axes that are not quite orthonormal, |V'V - 1| <= n: the bound grows by at most n R^2, and r^2 is off by 2 n |x'|^2;
- V'x' in float64: off by at most sqrt(k) d 2^-53 |x'|;
- r, the root of |x'|^2 - |V'x'|^2: with all of this r^2 is off by at most z |x'|^2, z = 4 (n + sqrt(k) d 2^-53), so r
  by sqrt(z) |x'|, and (r_x - r_c)^2 by 2.01 sqrt(z) R^2.

A center whose lower bound exceeds the upper bound of another's distance is not the nearest; how its error depends on
its norm is dealt with as in ``compiled.products``. The squared distance to any other is computed in float32 from x'
and c', s = |fl(x') - fl(c')|^2. Rounding moves both by u R in all, and a sum of d / WIDTH + 6 terms of two roundings
each has a relative error f = (d / WIDTH + 9) u, so that

    |s - exact| <= (f s + 2 u R sqrt(s) + u^2 R^2) / (1 - f),

and ``error_of`` takes more than that, which covers the rounding of the float64 definition many times over, and adds a
term for underflow. What is not certain then, which center is nearest, whether its ball covers the query or how many
octaves away it is, is computed in float64, feature by feature, as in the NumPy backend. Values whose squares overflow
float32 have an infinite error.
"""

import numpy as np

from isobag.backends.arrays import OUTSIDE
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.products import octaves_beyond, sq_distance
from isobag.backends.numba.compiled.singles import WIDTH, measure_single
from isobag.backends.numba.compiled.vectors import pick_unbeaten

MANY = 32
"""Centers of which the one with the least bound is measured before the others."""


@jit
def error_of(sq_dist, reach, d):
    """Largest error of a squared distance found in float32, for reach = |x'| + |c'|."""
    share = (d / WIDTH + 16) * 2.0**-24
    if not (reach < 1e18 and share < 0.009):
        return np.inf
    shift = 2.0**-23 * reach
    return 1.01 * (share * sq_dist + 2 * shift * np.sqrt(sq_dist) + shift * shift) + (d + 8) * 2.0**-120


@jit
def limit_of(high, norm, loss, d):
    """Of centers within the squared distance given, the largest value g can have."""
    # A trillionth more than the root, for its rounding.
    reach = 2 * norm + np.sqrt(high) * (1 + 1e-12)
    return high - norm * norm + loss * reach * reach + (d + 8) * 2.0**-120 if reach < 1e18 else np.inf


@jit
def rounded_up(value):
    """A float32 that is not below the value."""
    return np.float32(value + abs(value) * 2.0**-23 + 2.0**-149)


@jit
def _find_leads(bounds, first, last, least, lead):
    """The least bound of each query and its center, of those from first to last: least, lead (block,) are written."""
    least[:] = np.inf
    lead[:] = first
    for a in range(first, last):
        row = bounds[a]
        name = np.int32(a)
        for q in range(len(least)):
            value = row[q]
            leader = least[q]
            is_less = value < leader
            lead[q] = name if is_less else lead[q]
            least[q] = value if is_less else leader


@jit
def scan_filtered(
    bounds,
    X,
    singles,
    norms,
    points,
    center_singles,
    center_norms,
    chosen,
    kept,
    ends,
    sq_radii,
    loss,
    limits,
    cells,
    far,
):
    """Cells under the rule "nearest", all levels of one partitioning, for a block of queries.

    bounds (distinct, room) are g of the centers points[chosen], which differ and have the cells ``kept``, of which
    level l has the first ends[l], with room for the block in sixteens; X (block, d) and points (m, d), and both less mu
    in float32, rows padded with zeros; norms (block,) and (m,) of x' and c'; sq_radii (L, psi); written: cells (L,
    block); added to far (block,): octaves beyond limits (L,), where not negative, from queries OUTSIDE to their nearest
    center
    """
    n_queries, d = X.shape
    room = bounds.shape[1]
    one = np.empty(1)
    # Of the nearest center so far: its squared distance, and the bounds of that; the lower bound of all others that
    # were computed; the largest g of centers that may be nearer.
    best, low, high, second, limit = np.full((5, n_queries), np.inf)
    half_limit = np.full(room, np.inf, np.float32)
    winner = np.zeros(n_queries, np.int32)
    lead = np.empty(room, np.int32)
    least_bound = np.empty(room, np.float32)
    picked = np.empty(room + 16, np.int32)
    zero = np.float32(0)
    first = 0
    for level in range(len(ends)):
        last = ends[level]
        # Among many, the most promising one comes first: a good limit spares the others.
        start = first
        if last - first >= MANY:
            _find_leads(bounds, first, last, least_bound, lead)
            start = first - 1
        for a in range(start, last):
            is_lead = a < first
            row = least_bound if is_lead else bounds[a]
            n_picked = pick_unbeaten(row, half_limit, 0, n_queries, zero, zero, picked, 0)
            for p in range(n_picked):
                q = np.int64(picked[p])
                center = np.int64(lead[q]) if is_lead else a
                if start < first <= a and lead[q] == a:
                    continue
                c = chosen[center]
                sq_dist = np.float64(measure_single(singles, q, center_singles, c))
                error = error_of(sq_dist, norms[q] + center_norms[c], d)
                if not error < np.inf:
                    second[q] = -np.inf
                elif sq_dist < best[q]:
                    second[q] = min(second[q], low[q])
                    best[q] = sq_dist
                    low[q] = sq_dist - error
                    high[q] = sq_dist + error
                    winner[q] = center
                    limit[q] = limit_of(high[q], norms[q], loss, d)
                    half_limit[q] = rounded_up(0.5 * limit[q])
                else:
                    second[q] = min(second[q], sq_dist - error)
        first = last
        for q in range(n_queries):
            nearest = np.int64(winner[q])
            if second[q] > high[q]:
                radius = sq_radii[level, kept[nearest]]
                if not (low[q] > radius or high[q] <= radius):
                    low[q] = high[q] = sq_distance(X[q], points[chosen[nearest]])
                least, most = low[q], high[q]
            else:
                nearest, least = _nearest_exactly(bounds[:last, q], X[q], points, chosen, limit[q])
                most = least
            j = kept[nearest]
            is_outside = least > sq_radii[level, j]
            cells[level, q] = OUTSIDE if is_outside else j
            if is_outside and limits[level] >= 0:
                far[q] += octaves_beyond(limits[level], least, most, X[q], points[chosen[nearest]], one)


@jit
def _nearest_exactly(bounds, x, points, chosen, limit):
    """Number and squared distance of the nearest of the centers whose bound is not above the limit."""
    least = np.inf
    nearest = 0
    for a in range(len(bounds)):
        if not bounds[a] > limit:
            sq_dist = sq_distance(x, points[chosen[a]])
            if sq_dist < least:
                least = sq_dist
                nearest = a
    return nearest, least
