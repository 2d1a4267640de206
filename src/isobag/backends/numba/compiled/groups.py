"""Groups of points: counts of cells, dot products of counts, and the nearest of many groups.

Counts and their dot products are integers, so they are exact and no order of summation changes them.
"""

import numpy as np

from isobag.backends.arrays import OUTSIDE
from isobag.backends.numba.compiled.jit import jit

BLOCK = 128


@jit
def count_group_cells(cells, starts, n_cells, n_columns, lengths, columns, counts):
    """Sparse counts of the cells of each group, partitioning after partitioning; how many entries were written.

    cells (t, n), the points of a group side by side; starts (g + 1,) first point of each group; n_columns: n_cells, or
    one more if OUTSIDE is counted as the last column; written: lengths (g,), entries of each group, then the columns
    and counts of all entries
    """
    tally = np.zeros(n_cells + 1, np.int64)
    n_entries = 0
    for g in range(len(starts) - 1):
        before = n_entries
        for i in range(len(cells)):
            for point in range(starts[g], starts[g + 1]):
                tally[cells[i, point]] += 1  # OUTSIDE is the last
            for column in range(n_columns):
                if tally[column] > 0:
                    columns[n_entries] = i * n_columns + column
                    counts[n_entries] = tally[column]
                    n_entries += 1
                    tally[column] = 0
            tally[n_cells] = 0
        lengths[g] = n_entries - before
    return n_entries


@jit
def dot_with_block(starts, columns, counts, dense, dots):
    """Dot products of sparse rows of counts with BLOCK dense ones: dense (columns, BLOCK); dots is written."""
    total = np.empty(BLOCK, counts.dtype)
    for row in range(len(starts) - 1):
        for c in range(BLOCK):
            total[c] = 0
        e = starts[row]
        stop = starts[row + 1]
        while e + 4 <= stop:
            row0 = dense[columns[e]]
            row1 = dense[columns[e + 1]]
            row2 = dense[columns[e + 2]]
            row3 = dense[columns[e + 3]]
            count0 = counts[e]
            count1 = counts[e + 1]
            count2 = counts[e + 2]
            count3 = counts[e + 3]
            for c in range(BLOCK):
                total[c] += (count0 * row0[c] + count1 * row1[c]) + (count2 * row2[c] + count3 * row3[c])
            e += 4
        while e < stop:
            row0 = dense[columns[e]]
            count0 = counts[e]
            for c in range(BLOCK):
                total[c] += count0 * row0[c]
            e += 1
        for c in range(dots.shape[1]):
            dots[row, c] = total[c]


@jit
def measure_groups(dots, self_dot, size, center_self_dots, center_sizes, unit, sq_dists):
    """Squared distances of one mean map N / m to others M / l: (l^2 N.N - 2 l m N.M + m^2 M.M) / (l m)^2.

    Sizes are divided by what m has in common with ``unit``, a divisor of all sizes l. The numerator is an integer,
    exact in float64 below 2^53, so that equal distances compare equal.
    """
    common = _greatest_divisor(size, unit)
    m = np.float64(size // common)
    for c in range(len(dots)):
        other = np.float64(center_sizes[c] // common)
        above = (other * other * self_dot - 2.0 * other * m * dots[c]) + m * m * center_self_dots[c]
        below = other * size
        sq_dists[c] = max(above, 0.0) / (below * below)


@jit
def _greatest_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@jit
def choose_nearest_groups(dots, self_dots, sizes, center_self_dots, center_sizes, unit, slots, levels, sq_radii, cells):
    """Cell of every group in every partitioning of groups, all levels: cells (L, t, n) is written.

    dots (n, centers), slots (t, psi), sq_radii (L, t, psi)
    """
    sq_dists = np.empty(dots.shape[1])
    for g in range(len(dots)):
        measure_groups(dots[g], self_dots[g], sizes[g], center_self_dots, center_sizes, unit, sq_dists)
        for i in range(len(slots)):
            least = np.inf
            winner = 0
            first = 0
            for level in range(len(levels)):
                for j in range(first, levels[level]):
                    if sq_dists[slots[i, j]] < least:
                        least = sq_dists[slots[i, j]]
                        winner = j
                first = levels[level]
                cells[level, i, g] = winner if least <= sq_radii[level, i, winner] else OUTSIDE


@jit
def nearest_other_groups(first, last, dots, rows, center_self_dots, center_sizes, unit, slots, levels, sq_radii):
    """Squared distance from the centers first to last to the nearest different one; rows: the row of dots of each."""
    sq_dists = np.empty(dots.shape[1])
    for own in range(first, last):
        measure_groups(
            dots[rows[own]], center_self_dots[own], center_sizes[own], center_self_dots, center_sizes, unit, sq_dists
        )
        for i in range(len(slots)):
            for j in range(slots.shape[1]):
                if slots[i, j] == own:
                    least = np.inf
                    seen = 0
                    for level in range(len(levels)):
                        for other in slots[i, seen : levels[level]]:
                            if 0.0 < sq_dists[other] < least:
                                least = sq_dists[other]
                        seen = levels[level]
                        if j < seen:
                            sq_radii[level, i, j] = least if least < np.inf else 0.0
