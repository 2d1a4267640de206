"""Verbs of the Numba backend for groups of points: counts of cells, and cells of groups among groups."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isobag.backends.arrays import Cells, Floats, Ints
from isobag.backends.numba.compiled import dots as products
from isobag.backends.numba.compiled import groups
from isobag.backends.numba.compiled.groups import BLOCK
from isobag.backends.numba.compiled.vectors import COUNTS
from isobag.backends.numpy import self_dots
from isobag.backends.threads import map_in_threads, shares, slices


def count_group_cells(cells: Cells, starts: Ints, n_cells: int, n_columns: int, n_jobs: int | None) -> csr_array:
    """Number of each group's points in each cell: cells (n, t), groups side by side -> CSR (g, t * n_columns)."""
    by_partitioning = np.ascontiguousarray(cells.T)

    def work(share: slice) -> tuple[Ints, Cells, Cells]:
        own = starts[share.start : share.stop + 1]
        capacity = int(np.minimum(np.diff(own), n_columns).sum()) * len(by_partitioning)
        lengths = np.empty(len(own) - 1, dtype=np.int64)
        columns = np.empty(capacity, dtype=np.int32)
        counts = np.empty(capacity, dtype=np.int32)
        n_entries = groups.count_group_cells(by_partitioning, own, n_cells, n_columns, lengths, columns, counts)
        return lengths, columns[:n_entries].copy(), counts[:n_entries].copy()

    found = map_in_threads(work, shares(len(starts) - 1, n_jobs), n_jobs)
    lengths, columns, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    shape = (len(starts) - 1, len(by_partitioning) * n_columns)
    ends = np.concatenate([[0], lengths.cumsum()])
    # SciPy widens both index arrays to the wider of the two.
    return csr_array((counts, columns, ends.astype(np.int32) if ends[-1] < 2**31 else ends), shape=shape)


def dot_counts(counts: csr_array, centers: csr_array, n_jobs: int | None, rows: Ints | None = None) -> Ints:
    """Dot products of all rows of counts with all centers: (n, centers), int32 where they fit.

    rows: if given, the rows of counts that are the centers, whose products are then found once for each pair
    """
    largest = np.sqrt(self_dots(counts).max() * self_dots(centers).max())  # Cauchy and Schwarz
    dtype = np.int32 if largest < 2**30 else np.int64
    count, center_count = (int(own.data.max(initial=0)) for own in (counts, centers))
    if center_count < 2**8 and count * center_count <= products.LARGEST:
        return _dot_small_counts(counts, centers, dtype, n_jobs, rows)
    narrow = np.int16 if center_count < 2**15 else dtype
    starts, columns = counts.indptr.astype(np.int64, copy=False), counts.indices.astype(np.int32, copy=False)
    values = counts.data.astype(dtype, copy=False)
    found = np.empty((counts.shape[0], centers.shape[0]), dtype=dtype)

    def work(block: slice) -> None:
        dense = np.zeros((centers.shape[1], BLOCK), dtype=narrow)
        part = centers[block].tocoo()
        dense[part.col, part.row] = part.data
        groups.dot_with_block(starts, columns, values, dense, found[:, block])

    map_in_threads(work, slices(centers.shape[0], BLOCK), n_jobs)
    return found


def _dot_small_counts(
    counts: csr_array, centers: csr_array, dtype: npt.DTypeLike, n_jobs: int | None, rows: Ints | None
) -> Ints:
    """The same for counts whose products fit into 16 bits, a section of the columns after another."""
    if not counts.has_sorted_indices:
        counts = counts.sorted_indices()
    columns, values = counts.indices.astype(np.int32, copy=False), counts.data.astype(np.int16)
    sections = list(slices(counts.shape[1], products.SECTION))
    firsts, sums = np.zeros((2, counts.shape[0], len(sections) + 1), dtype=np.int64)
    products.find_sections(counts.indptr.astype(np.int64, copy=False), columns, values, len(sections), firsts, sums)
    by_column = centers.tocsc()
    parts = [by_column[:, section].tocsr() for section in sections]
    dots = np.empty((counts.shape[0], centers.shape[0]), dtype=dtype)
    # Rows that are no centers, then the centers, of which a block needs those of its own and later blocks only.
    rows = np.arange(0) if rows is None else rows
    wanted = np.concatenate([np.setdiff1d(np.arange(len(dots)), rows), rows])
    n_others = len(dots) - len(rows)

    def work(block: slice) -> None:
        chosen = np.concatenate([wanted[:n_others], rows[block.start :]])
        own = np.zeros((len(chosen), COUNTS), dtype=dtype)
        bounds, own_sums = np.ascontiguousarray(firsts[chosen].T), np.ascontiguousarray(sums[chosen].T)
        dense = np.empty((products.SECTION, COUNTS), dtype=np.uint8)
        for number, section in enumerate(sections):
            dense[:] = 0
            part = parts[number][block].tocoo()
            dense[part.col, part.row] = part.data
            entries = bounds[number], bounds[number + 1], own_sums[number], columns, values
            products.add_section(*entries, section.start, dense, int(part.data.max(initial=0)), own)
        dots[chosen, block] = own[:, : block.stop - block.start]
        if len(rows):
            dots[rows[block], block.stop :] = own[n_others + block.stop - block.start :, : block.stop - block.start].T

    map_in_threads(work, slices(centers.shape[0], COUNTS), n_jobs)
    return dots


def group_sq_radii(
    dots: Ints,
    rows: Ints,
    self_dots: Floats,
    sizes: Ints,
    unit: int,
    slots: Cells,
    levels: tuple[int, ...],
    n_jobs: int | None,
) -> Floats:
    """Squared distance from each center to the nearest different one; its dot products are dots[rows]: (L, t, psi)."""
    radii = np.zeros((len(levels), *slots.shape))

    def work(share: slice) -> None:
        groups.nearest_other_groups(
            share.start, share.stop, dots, rows, self_dots, sizes, unit, slots, np.array(levels), radii
        )

    map_in_threads(work, shares(len(rows), n_jobs), n_jobs)
    return radii


def assign_groups(
    dots: Ints,
    self_dots: Floats,
    sizes: Ints,
    center_self_dots: Floats,
    center_sizes: Ints,
    unit: int,
    slots: Cells,
    levels: tuple[int, ...],
    sq_radii: Floats,
    n_jobs: int | None,
) -> Cells:
    """Cell of every group in every partitioning of groups, for each level: (L, n, t)."""
    cells = np.empty((len(levels), len(slots), len(dots)), dtype=np.int32)

    def work(share: slice) -> None:
        groups.choose_nearest_groups(
            dots[share],
            self_dots[share],
            sizes[share],
            center_self_dots,
            center_sizes,
            unit,
            slots,
            np.array(levels),
            sq_radii,
            cells[:, :, share],
        )

    map_in_threads(work, shares(len(dots), n_jobs), n_jobs)
    return cells.transpose(0, 2, 1)
