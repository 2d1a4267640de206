"""Groups of points: counts of cells, and the nearest of many groups.

Counts and their dot products are integers, so they are exact and no order of summation changes them.
"""

import math

import numpy as np

from isobag.backends.arrays import OUTSIDE, Cells
from isobag.backends.numba.compiled.jit import jit

_TALLIES = 16
"""Cells that are looked at together."""


def make_tally(n_cells: int) -> Cells:
    """Zeros for the cells of a sample, in whole sets of cells that are looked at together."""
    return np.zeros(-(-n_cells // _TALLIES) * _TALLIES, dtype=np.int32)


@jit
def count_groups(cells, starts, firsts, sizes, before, tally, lengths, columns, counts):
    """Sparse counts of the cells of each group, sample after sample; how many entries were written.

    cells (T, n), the rows of a group side by side; starts (g + 1,) first row of each group; of every sample, (T,) each:
    its first slot, its number of slots, and the columns before those of its psi; tally: see ``make_tally``;
    written: lengths (g,), entries of each group, then the columns and counts of all entries, with room for one more
    """
    n_entries = 0
    for g in range(len(starts) - 1):
        start_of_group = n_entries
        for i in range(len(cells)):
            first = firsts[i]
            for row in range(starts[g], starts[g + 1]):
                slot = cells[i, row]
                if slot != OUTSIDE:
                    tally[slot - first] += 1
            for start in range(0, sizes[i], _TALLIES):
                n_points = 0
                for k in range(_TALLIES):
                    n_points += tally[start + k]
                if n_points:
                    for k in range(_TALLIES):  # without a branch: what has no points is written over
                        columns[n_entries] = before[i] + first + start + k
                        counts[n_entries] = tally[start + k]
                        n_entries += tally[start + k] > 0
                        tally[start + k] = 0
        lengths[g] = n_entries - start_of_group
    return n_entries


@jit
def measure_groups(dots, self_dot, size, center_self_dots, center_sizes, unit, sq_dists):
    """Squared distances of one mean map N / m to others M / l: (l^2 N.N - 2 l m N.M + m^2 M.M) / (l m)^2.

    Sizes are divided by what m has in common with ``unit``, a divisor of all sizes l. The numerator is an integer,
    exact in float64 below 2^53, so that equal distances compare equal.
    """
    common = math.gcd(size, unit)
    m = np.float64(size // common)
    for c in range(len(dots)):
        other = np.float64(center_sizes[c] // common)
        above = (other * other * self_dot - 2.0 * other * m * dots[c]) + m * m * center_self_dots[c]
        below = other * size
        sq_dists[c] = max(above, 0.0) / (below * below)


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
