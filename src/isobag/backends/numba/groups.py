"""Groups of points: counts of cells, and cells of groups among groups.

Counts and their dot products are integers, so they are exact and no order of summation changes them.
"""

import math

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import OUTSIDE, Cells, Floats, Ints
from isobag.backends.numba.jit import jit
from isobag.backends.samples import Cut
from isobag.backends.threads import map_in_threads, shares

_TALLIES = 16
"""Cells that are looked at together."""


def count_groups(cells: Cells, cut: Cut, starts: Ints, n_jobs: int | None = None) -> csr_array:
    """Number of each group's rows in each cell: cells (T, n), groups side by side -> CSR (g, L S)."""
    n_samples, firsts = cut.counts, np.concatenate(cut.starts)
    before, sizes = np.repeat(np.arange(len(n_samples)) * cut.n_slots, n_samples), np.repeat(cut.levels, n_samples)

    def work(share: slice) -> tuple[Ints, Cells, Cells]:
        bounds = starts[share.start : share.stop + 1]
        lengths = np.diff(bounds)
        capacity = 1 + int((np.minimum(lengths[:, None], cut.levels).sum(axis=0) * n_samples).sum())
        columns, counts = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.int32)
        tally = np.zeros(-(-cut.levels[-1] // _TALLIES) * _TALLIES, dtype=np.int32)
        n_entries = write_counts(cells, bounds, firsts, sizes, before, tally, lengths, columns, counts)
        return lengths, columns[:n_entries], counts[:n_entries]

    counted = map_in_threads(work, shares(len(starts) - 1, n_jobs), n_jobs)
    lengths, columns, counts = counted[0] if len(counted) == 1 else map(np.concatenate, zip(*counted, strict=True))
    ends = np.concatenate([[0], lengths.cumsum()])
    # SciPy widens both index arrays to the wider of the two.
    ends = ends.astype(np.int32) if ends[-1] < 2**31 else ends
    return csr_array((counts, columns, ends), shape=(len(starts) - 1, cut.n_cells))


def assign_groups(
    dots: Ints, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int, slots: Cells,
    levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
) -> Cells:  # fmt: skip
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    cells = np.empty((len(levels), len(slots), len(dots)), dtype=np.int32)

    def work(share: slice) -> None:
        queries, centers = (dots[share], self_dots[share], sizes[share]), (center_self_dots, center_sizes, unit)
        choose_nearest_groups(*queries, *centers, slots, np.array(levels), sq_radii, cells[:, :, share])

    map_in_threads(work, shares(len(dots), n_jobs), n_jobs)
    return cells


@jit
def write_counts(cells, starts, firsts, sizes, before, tally, lengths, columns, counts):
    """Sparse counts of the cells of each group, sample after sample; how many entries were written.

    cells (T, n), the rows of a group side by side; starts (g + 1,) first row of each group; of every sample, (T,) each:
    its first slot, its number of slots, and the columns before those of its psi; tally: zeros for a sample's cells;
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
