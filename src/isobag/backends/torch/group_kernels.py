"""Triton kernels for groups: cells of mean maps among mean maps, from integer dot products, in float64.

The numerator of a squared distance is an integer, exact below 2^53, so that equal distances compare equal; see
``numpy.group_sq_distances``, whose operations these are, in the same order and not fused.
"""

import triton
import triton.language as tl


@triton.jit
def _sq_distance(dot, self_dot, size, common, center_self_dot, center_size):
    m = (size // common).to(tl.float64)
    other = (center_size // common).to(tl.float64)
    above = (other * other * self_dot - 2.0 * other * m * dot.to(tl.float64)) + m * m * center_self_dot
    below = other * size.to(tl.float64)
    return tl.maximum(above, 0.0) / (below * below)


@triton.jit
def assign_groups(
    dots, row_length, self_dots, sizes, common, center_self_dots, center_sizes, slots, levels, sq_radii, cells,
    n, t, psi, n_levels, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """Cell of every group in one partitioning of groups, all levels: cells (L, t, n) is written."""
    g = tl.program_id(0) * rows + tl.arange(0, rows)
    i = tl.program_id(1)
    live = g < n
    self_dot = tl.load(self_dots + g, mask=live, other=0.0)[:, None]
    size = tl.load(sizes + g, mask=live, other=1)[:, None]
    unit = tl.load(common + g, mask=live, other=1)[:, None]
    row = dots + tl.cast(g, tl.int64)[:, None] * row_length
    least = tl.full([rows], float("inf"), tl.float64)
    winner = tl.zeros([rows], tl.int32)
    for level in range(n_levels):
        begin = tl.load(levels + level - 1, mask=level > 0, other=0)
        end = tl.load(levels + level)
        for first in range(begin, end, columns):
            j = first + tl.arange(0, columns)
            there = j < end
            slot = tl.load(slots + i * psi + j, mask=there, other=0)
            dot = tl.load(row + slot[None, :], mask=live[:, None] & there[None, :], other=0)
            of_center = tl.load(center_self_dots + slot)[None, :], tl.load(center_sizes + slot)[None, :]
            sq_dist = _sq_distance(dot, self_dot, size, unit, of_center[0], of_center[1])
            sq_dist = tl.where(there[None, :], sq_dist, float("inf"))
            closest = tl.min(sq_dist, axis=1)
            place = tl.min(tl.where(sq_dist == closest[:, None], j[None, :], 2147483647), axis=1)
            winner = tl.where(closest < least, place, winner)
            least = tl.minimum(least, closest)
        sq_radius = tl.load(sq_radii + tl.cast(level * t + i, tl.int64) * psi + winner)
        cell = tl.where(least <= sq_radius, winner, -1)
        tl.store(cells + tl.cast(level * t + i, tl.int64) * n + g, cell, mask=live)


@triton.jit
def nearest_other_groups(
    dots, row_length, rows_of, self_dots, sizes, common, slots, levels, radii,
    t, psi, n_levels, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """Squared distance from each center to the nearest different one: radii (L, t, psi) is written."""
    i = tl.program_id(1)
    j = tl.program_id(0) * rows + tl.arange(0, rows)
    own = tl.load(slots + i * psi + j, mask=j < psi, other=0)
    row = dots + tl.load(rows_of + own)[:, None] * row_length
    self_dot = tl.load(self_dots + own)[:, None]
    size = tl.load(sizes + own)[:, None]
    unit = tl.load(common + own)[:, None]
    least = tl.full([rows], float("inf"), tl.float64)
    for level in range(n_levels):
        begin = tl.load(levels + level - 1, mask=level > 0, other=0)
        end = tl.load(levels + level)
        for first in range(begin, end, columns):
            other = first + tl.arange(0, columns)
            there = (other < end)[None, :]
            slot = tl.load(slots + i * psi + other, mask=other < end, other=0)
            dot = tl.load(row + slot[None, :])
            sq_dist = _sq_distance(
                dot, self_dot, size, unit, tl.load(self_dots + slot)[None, :], tl.load(sizes + slot)[None, :]
            )
            least = tl.minimum(least, tl.min(tl.where((sq_dist > 0) & there, sq_dist, float("inf")), axis=1))
        radius = tl.where(least < float("inf"), least, 0.0)
        tl.store(radii + tl.cast(level * t + i, tl.int64) * psi + j, radius, mask=j < end)


@triton.jit
def count_cells(cells, starts, firsts, dense, n, width, before, psi, block: tl.constexpr, bins: tl.constexpr):
    """Cells of one group's rows in one sample, counted: cells (t, n) -> dense (g, width), slot s in ``before`` + s."""
    g = tl.program_id(0)
    i = tl.program_id(1)
    first = tl.load(firsts + i)
    end = tl.load(starts + g + 1)
    total = tl.zeros([bins], tl.int32)
    for start in range(tl.load(starts + g), end, block):
        row = start + tl.arange(0, block)
        cell = tl.load(cells + tl.cast(i, tl.int64) * n + row, mask=row < end, other=-1).to(tl.int32)
        total += tl.histogram(tl.where(cell < 0, 0, cell - first), bins, mask=cell >= 0)
    column = tl.arange(0, bins)
    place = dense + tl.cast(g, tl.int64) * width + before + first + column
    tl.store(place, total.to(dense.dtype.element_ty), mask=column < psi)
