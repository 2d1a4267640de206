"""Triton kernels for many features: cells from half-precision matrix products, certified, else decided in float64.

With x' = s (x - mu) and c' = s (c - mu), s a power of two, let X and C be x' and c' rounded to float16, and p their
product by tensor cores, which multiply exactly and add up in float32, perhaps cutting off instead of rounding: an error
of at most 2^-23 of the absolute sum for each of d additions. With the lengths rho of what rounding took away, which are
known, and by Cauchy and Schwarz,

    |x'.c' - p| <= rho_x |c'| + |X| rho_c + d 2^-23 |X| |C|,

so that |c'|^2 - 2 p is |x' - c'|^2 - |x'|^2 up to twice that. ``low`` and ``high`` bound it from both sides, with 2^-19
of all terms for the float32 arithmetic here. A center whose low is above the least high of all cannot be the nearest.
Where one center is left and its ball surely covers the query or surely does not, all is decided. The others are put on
a list, for which ``rescan`` measures the centers that are left in float64, in any order of the features: an error of at
most (d + 4) 2^-53 each. What is closer than that goes on to ``kernels.decide``, the definition.
"""

import triton
import triton.language as tl

from isobag.backends.torch.kernels import _act


@triton.jit
def _bounds(products, sq_norms, norms, losses, at_product, at_center, there, slope, reach, sound):
    """Lower and upper bounds of |x' - c'|^2 - |x'|^2."""
    product = tl.load(products + at_product, mask=there, other=0.0)
    sq_norm = tl.load(sq_norms + at_center)
    error = slope * tl.load(norms + at_center) + reach * tl.load(losses + at_center)
    low = sq_norm - 2.0 * product - error
    high = low + 2.0 * error + sq_norm * 2.0**-17
    low = tl.where(sound, low, float("-inf"))
    high = tl.where(sound, high, float("inf"))
    return tl.where(there, low, float("inf")), tl.where(there, high, float("inf"))


@triton.jit
def round_rows(x, middle, factors, values, slopes, reaches, sq_norms, d, width, block: tl.constexpr):
    """One query of x (n, d), centered, scaled and rounded to float16: values (n, width), 0 beyond d.

    factors: the scale, the relative error of a product, and 2 with some slack. Of a query that float16 cannot hold, the
    slope is infinite.
    """
    q = tl.program_id(0)
    scale = tl.load(factors)
    sq_length = tl.zeros([block], tl.float64)
    sq_loss = tl.zeros([block], tl.float64)
    own = values + tl.cast(q, tl.int64) * width
    for first in range(0, width, block):
        k = first + tl.arange(0, block)
        there = k < d
        value = tl.load(x + tl.cast(q, tl.int64) * d + k, mask=there, other=0.0)
        value = (value - tl.load(middle + k, mask=there, other=0.0)) * scale
        fits = tl.abs(value) <= 65504.0
        half = tl.where(fits, value, 0.0).to(tl.float16)
        loss = tl.where(fits, value - half.to(tl.float64), float("inf"))
        sq_length += value * value
        sq_loss += loss * loss
        tl.store(own + k, half, mask=k < width)
    length = tl.sqrt(tl.sum(sq_length, axis=0))
    loss = tl.sqrt(tl.sum(sq_loss, axis=0))
    sound = loss < float("inf")
    slope = tl.load(factors + 2) * (loss + tl.load(factors + 1) * (length + loss))
    tl.store(slopes + q, tl.where(sound, slope, float("inf")).to(tl.float32))
    tl.store(reaches + q, tl.where(sound, tl.load(factors + 2) * (length + loss), 0.0).to(tl.float32))
    tl.store(sq_norms + q, tl.where(sound, length * length, 0.0).to(tl.float32))


@triton.jit
def scan_products(
    products, n, names, ends, sq_norms, norms, losses, slopes, reaches, query_sq_norms, scaled_radii,
    out, kept, far_out, limits, tables, todo_list, n_todo,
    t, psi, places, n_levels, rows: tl.constexpr, columns: tl.constexpr,
    kind: tl.constexpr, keep: tl.constexpr, far: tl.constexpr,
):  # fmt: skip
    """Cells of a block of queries in one partitioning, all levels; products (n, t * places).

    Each column of the block keeps the two lowest of its bounds; columns are compared once, at the end of a level. Only
    the center with the lowest can be the nearest if its upper bound is below all other lower ones.
    """
    q = tl.program_id(0) * rows + tl.arange(0, rows)
    i = tl.program_id(1)
    live = q < n
    slope = tl.load(slopes + q, mask=live, other=0.0)
    reach = tl.load(reaches + q, mask=live, other=0.0)
    sq_length = tl.load(query_sq_norms + q, mask=live, other=0.0)
    sound = slope < float("inf")
    slope = tl.where(sound, slope, 0.0)
    row = tl.cast(q, tl.int64) * (tl.cast(t, tl.int64) * places)
    first_place = tl.cast(i, tl.int64) * places
    best = tl.full([rows, columns], float("inf"), tl.float32)
    second = tl.full([rows, columns], float("inf"), tl.float32)
    winner = tl.zeros([rows, columns], tl.int32)
    for level in range(n_levels):
        begin = tl.load(ends + i * n_levels + level - 1, mask=level > 0, other=0)
        end = tl.load(ends + i * n_levels + level)
        for first in range(begin, end, columns):
            j = first + tl.arange(0, columns)
            there = j < end
            at = first_place + j
            product = tl.load(products + row[:, None] + at[None, :], mask=live[:, None] & there[None, :], other=0.0)
            sq_norm = tl.load(sq_norms + at, mask=there, other=float("inf"))[None, :]
            norm = tl.load(norms + at, mask=there, other=0.0)[None, :]
            loss = tl.load(losses + at, mask=there, other=0.0)[None, :]
            low = sq_norm - 2.0 * product - (slope[:, None] * norm + reach[:, None] * loss)
            second = tl.minimum(second, tl.maximum(best, low))
            winner = tl.where(low < best, j[None, :], winner)
            best = tl.minimum(best, low)
        lowest = tl.min(best, axis=1)
        place = tl.min(tl.where(best == lowest[:, None], winner, 2147483647), axis=1)
        is_lowest = (best == lowest[:, None]) & (winner == place[:, None])
        other = tl.min(tl.where(is_lowest, second, best), axis=1)
        place = tl.where(place < end, place, 0)  # where nothing compares, as with infinite sums
        at = first_place + place
        low, high = _bounds(products, sq_norms, norms, losses, row + at, at, live, slope, reach, sound)
        cell = tl.maximum(tl.load(names + at), 0)
        sq_radius = tl.load(scaled_radii + tl.cast(level * t + i, tl.int64) * psi + cell)
        alone = sound & (other > high)
        inside = alone & (high + sq_length * (1 + 2.0**-18) < sq_radius * (1 - 2.0**-20))
        outside = alone & (low + sq_length * (1 - 2.0**-18) > sq_radius * (1 + 2.0**-20))
        certain = inside | outside
        if far:  # the distance itself is wanted
            certain = inside | (outside & (tl.load(limits + level + tl.zeros([rows], tl.int32)) < 0))
        verdict = tl.where(inside, -1.0, 1.0).to(tl.float64)
        _act(
            kind, keep, False, 0, q, i, level, 0, cell, verdict, tl.zeros([rows], tl.float64), live & certain,
            out, kept, far_out, limits, tables, n, t, psi,
        )  # fmt: skip
        doubtful = live & (certain == 0)
        at_end = tl.atomic_add(
            n_todo + tl.zeros([rows], tl.int32), tl.full([rows], 1, tl.int32), mask=doubtful, sem="relaxed"
        )
        tl.store(todo_list + at_end, (q * t + i) * n_levels + level, mask=doubtful)


@triton.jit
def rescan(
    x, products, n, names, ends, centers, sq_norms, norms, losses, slopes, reaches, sq_radii,
    out, kept, far_out, limits, tables, todo_list, n_todo, last_list, n_last,
    t, psi, places, d, n_levels, width: tl.constexpr, features: tl.constexpr,
    kind: tl.constexpr, keep: tl.constexpr, far: tl.constexpr,
):  # fmt: skip
    """The listed queries, one after the other, in float64 for the centers that may be the nearest: x (n, d)."""
    total = tl.load(n_todo)
    j = tl.arange(0, width)
    k = tl.arange(0, features)
    one = tl.arange(0, 1)
    for number in range(tl.program_id(0), total, tl.num_programs(0)):
        entry = tl.load(todo_list + number)
        level = entry % n_levels
        i = (entry // n_levels) % t
        q = entry // n_levels // t
        there = j < tl.load(ends + i * n_levels + level)
        slope = tl.load(slopes + q)
        sound = slope < float("inf")
        slope = tl.where(sound, slope, 0.0)
        at = tl.cast(i, tl.int64) * places + tl.where(there, j, 0)
        row = tl.cast(q, tl.int64) * (tl.cast(t, tl.int64) * places)
        low, high = _bounds(products, sq_norms, norms, losses, row + at, at, there, slope, tl.load(reaches + q), sound)
        left = there & (low <= tl.min(high, axis=0)) & (tl.load(names + at) >= 0)
        best = tl.full([1], float("inf"), tl.float64)
        second = tl.full([1], float("inf"), tl.float64)
        winner = tl.zeros([1], tl.int32)
        place = tl.min(tl.where(left, j, width), axis=0)
        while place < width:
            center = centers + (tl.cast(i, tl.int64) * places + place) * d
            parts = tl.zeros([features], tl.float64)
            for start in range(0, d, features):
                mask = start + k < d
                own = tl.load(x + tl.cast(q, tl.int64) * d + start + k, mask=mask, other=0.0)
                step = own - tl.load(center + start + k, mask=mask, other=0.0)
                parts += step * step
            sq_dist = tl.sum(parts, axis=0) + tl.zeros([1], tl.float64)
            second = tl.minimum(second, tl.maximum(best, sq_dist))
            winner = tl.where(sq_dist < best, place, winner)
            best = tl.minimum(best, sq_dist)
            left = left & (j > place)
            place = tl.min(tl.where(left, j, width), axis=0)
        cell = tl.maximum(tl.load(names + tl.cast(i, tl.int64) * places + winner), 0)
        sq_radius = tl.load(sq_radii + tl.cast(level * t + i, tl.int64) * psi + cell)
        share = (tl.cast(d, tl.float64) + 8.0) * 2.0**-51  # in float32, 1 + share would be 1
        certain = (second > best * (1 + share)) & (tl.abs(best - sq_radius) > best * share) & (best > 1e-270)
        if far:
            below = (best * (1 - share)).to(tl.int64, bitcast=True) >> 40
            above = (best * (1 + share)).to(tl.int64, bitcast=True) >> 40
            certain = certain & ((best < sq_radius) | (below == above) | (tl.load(limits + level + one) < 0))
        certain = certain & (best < float("inf"))
        _act(
            kind, keep, far, 0, q + one, i, level, 0, cell, best, sq_radius, certain,
            out, kept, far_out, limits, tables, n, t, psi,
        )  # fmt: skip
        doubtful = certain == 0
        at_end = tl.atomic_add(n_last + one, tl.full([1], 1, tl.int32), mask=doubtful, sem="relaxed")
        tl.store(last_list + at_end, entry + one, mask=doubtful)
