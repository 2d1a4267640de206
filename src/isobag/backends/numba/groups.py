"""Functions of the Numba backend for groups: counts of cells and cells of groups among groups."""

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import Cells, Floats, Ints
from isobag.backends.numba.compiled import groups
from isobag.backends.samples import Cut
from isobag.backends.threads import map_in_threads, shares


def count_groups(cells: Cells, cut: Cut, starts: Ints, n_jobs: int | None = None) -> csr_array:
    """Number of each group's rows in each cell: cells (T, n), groups side by side -> CSR (g, L S)."""
    n_samples = cut.counts
    firsts = np.concatenate(cut.starts)
    before = np.repeat(np.arange(len(n_samples)) * cut.n_slots, n_samples)
    sizes = np.repeat(cut.levels, n_samples)

    def work(share: slice) -> tuple[Ints, Cells, Cells]:
        bounds = starts[share.start : share.stop + 1]
        lengths = np.diff(bounds)
        capacity = 1 + int((np.minimum(lengths[:, None], cut.levels).sum(axis=0) * n_samples).sum())
        n_entries_of = np.empty(len(lengths), dtype=np.int64)
        columns, counts = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.int32)
        tally = groups.make_tally(cut.levels[-1])
        n_entries = groups.count_groups(cells, bounds, firsts, sizes, before, tally, n_entries_of, columns, counts)
        return n_entries_of, columns[:n_entries], counts[:n_entries]

    counted = map_in_threads(work, shares(len(starts) - 1, n_jobs), n_jobs)
    lengths, columns, counts = counted[0] if len(counted) == 1 else map(np.concatenate, zip(*counted, strict=True))
    shape = (len(starts) - 1, len(cut.levels) * cut.n_slots)
    ends = np.concatenate([[0], lengths.cumsum()])
    # SciPy widens both index arrays to the wider of the two.
    return csr_array((counts, columns, ends.astype(np.int32) if ends[-1] < 2**31 else ends), shape=shape)


def assign_groups(
    dots: Ints, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int, slots: Cells,
    levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
) -> Cells:  # fmt: skip
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    cells = np.empty((len(levels), len(slots), len(dots)), dtype=np.int32)

    def work(share: slice) -> None:
        queries, centers = (dots[share], self_dots[share], sizes[share]), (center_self_dots, center_sizes, unit)
        groups.choose_nearest_groups(*queries, *centers, slots, np.array(levels), sq_radii, cells[:, :, share])

    map_in_threads(work, shares(len(dots), n_jobs), n_jobs)
    return cells
