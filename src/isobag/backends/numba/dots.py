"""Dot products of counts: every group with every center, as whole numbers.

Counts are multiplied two columns at a time with those of CENTERS centers side by side, as numbers of 16 bits. A section
of the columns stays in the nearest cache of a core while many groups pass by. All sums are exact, in whatever order.
"""

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from scipy.sparse import csr_array

from isobag.backends import numpy as definition
from isobag.backends.arrays import Array, Cells, Ints
from isobag.backends.counts import rows_of_counts, self_dots
from isobag.backends.numba.jit import jit
from isobag.backends.numba.llvm import HAS_AVX512, at, in_llvm, loop, splat
from isobag.backends.threads import map_in_threads, slices

CENTERS, SECTION = 256 if HAS_AVX512 else 64, 32
"""Centers that are multiplied side by side, and pairs of columns of a section."""
_BLOCK_ROWS = 256
_LARGE_ROWS, _LARGE_COLUMNS = 1 << 10, 1 << 12
_NUMBER, _SUMS, _HALVES = ir.IntType(32), ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(16), 32)
Halves = npt.NDArray[np.int16]


def dot_counts(counts: csr_array, centers: csr_array, n_jobs: int | None = None) -> Ints:
    """Dot products of all rows of counts with all centers: (n, centers), int32 where they fit."""
    is_same = counts is centers  # then each pair is multiplied once
    both = counts.tocsr(), centers.tocsr()  # which may be on a device
    counts, centers = (each if each.has_sorted_indices else each.sorted_indices() for each in both)
    largest, limit = _bounds(counts, centers)
    if largest >= 1 << 15 or limit >= 1 << 31:
        return _dot_large(counts, centers, n_jobs) if limit < 1 << 53 else definition.dot_counts(counts, centers)
    dots: Array = np.empty((counts.shape[0], centers.shape[0]), dtype=np.int32)
    n_sections, blocks = -(-counts.shape[1] // (2 * SECTION)), list(slices(len(dots), _BLOCK_ROWS))
    listed = map_in_threads(lambda rows: _list_pairs(rows_of_counts(counts, rows), n_sections), blocks, n_jobs)

    def work(columns: slice) -> None:
        dense = _aligned_zeros(n_sections * SECTION, CENTERS, 2)
        spread_counts(*_entries(rows_of_counts(centers, columns)), dense)
        for rows, pairs in zip(blocks, listed, strict=True):
            if is_same and rows.stop <= columns.start:
                continue
            sums = np.zeros((rows.stop - rows.start, CENTERS), dtype=np.int32)
            add_products(*pairs, dense, sums)
            dots[rows, columns] = sums[:, : columns.stop - columns.start]
            if is_same:
                dots[columns, rows] = dots[rows, columns].T

    map_in_threads(work, slices(centers.shape[0], CENTERS), n_jobs)
    return dots


def _bounds(counts: csr_array, centers: csr_array) -> tuple[int, float]:
    """The largest count, and what no dot product exceeds: by the longest rows, or by Cauchy and Schwarz."""
    most = [int(each.data.max(initial=0)) for each in (counts, centers)]
    limit = most[0] * most[1] * min(int(np.diff(each.indptr).max(initial=0)) for each in (counts, centers))
    if limit >= 1 << 31:
        limit = 1.001 * np.sqrt(self_dots(counts).max(initial=0) * self_dots(centers).max(initial=0))
    return max(most), limit


def _dot_large(counts: csr_array, centers: csr_array, n_jobs: int | None) -> Ints:
    """The same of large groups, below 2^53: as float64, in which all sums are exact."""
    dots, others = np.zeros((counts.shape[0], centers.shape[0])), centers.tocsc().astype(np.float64)

    def work(rows: slice) -> None:
        part = rows_of_counts(counts, rows).tocsc()
        for columns in slices(counts.shape[1], _LARGE_COLUMNS):
            dots[rows] += part[:, columns].toarray() @ others[:, columns].toarray().T

    map_in_threads(work, slices(len(dots), _LARGE_ROWS), n_jobs)
    return dots.astype(np.int64)


def _entries(counts: csr_array) -> tuple[Ints, Cells, Cells]:
    """First entry of each row, columns and counts."""
    return counts.indptr.astype(np.int64), counts.indices.astype(np.int32), counts.data.astype(np.int32)


def _list_pairs(counts: csr_array, n_sections: int) -> tuple[Ints, Cells, Halves]:
    """Pairs of columns in which rows have counts: first of each row and section, numbers of the pairs, counts."""
    ends = np.zeros(counts.shape[0] * n_sections + 1, dtype=np.int64)
    places, pairs = np.empty(counts.nnz, dtype=np.int32), np.zeros((counts.nnz, 2), dtype=np.int16)
    write_pairs(*_entries(counts), ends[1:].reshape(-1, n_sections), places, pairs)
    return ends.cumsum(), places, pairs


def _aligned_zeros(*shape: int) -> Halves:
    """Zeros from the start of a cache line on: a vector across two of them takes twice as long to load."""
    buffer = np.zeros(np.prod(shape) + 32, dtype=np.int16)
    first = -buffer.ctypes.data % 64 // 2
    return buffer[first : len(buffer) - 32 + first].reshape(shape)


@jit
def write_pairs(starts, columns, counts, n_pairs, places, pairs):
    """The pairs of columns of each row, ascending; n_pairs (rows, sections) counts them, zeros before, as pairs are."""
    end = 0
    for row in range(len(n_pairs)):
        place = -1
        for e in range(starts[row], starts[row + 1]):
            if columns[e] >> 1 != place:
                place = columns[e] >> 1
                n_pairs[row, place // SECTION] += 1
                places[end] = place
                end += 1
            pairs[end - 1, columns[e] & 1] = counts[e]


@jit
def spread_counts(starts, columns, counts, dense):
    """Rows side by side: counts of each pair of columns, to dense (pairs, CENTERS, 2)."""
    for row in range(len(starts) - 1):
        for e in range(starts[row], starts[row + 1]):
            dense[columns[e] >> 1, row, columns[e] & 1] = counts[e]


@jit
def add_products(firsts, places, pairs, dense, sums):
    """Add to sums (rows, CENTERS) int32 the products of each row's pairs with those of the centers."""
    n_sections = (len(firsts) - 1) // len(sums)
    for section in range(n_sections):
        for row in range(len(sums)):
            first = row * n_sections + section
            add_pairs(firsts[first], firsts[first + 1], places, pairs, dense, sums[row])


@in_llvm(types.void)
def add_pairs(builder, first, last, places, pairs, dense, sums):
    """Add pairs[e] times dense[places[e]] to sums (CENTERS,), for e from first to last, with the sums in registers.

    Processors multiply pairs of 16 bits and add them up in one instruction, which LLVM makes of what is written here.
    """
    of_pair = ir.VectorType(_NUMBER, 32)
    starts = [ir.Constant(first.type, start) for start in range(0, CENTERS, 16)]

    def widened(halves):
        return builder.sext(halves, of_pair)

    def add_pair(e, totals):
        place = builder.zext(builder.load(builder.gep(places.data, [e])), e.type)
        others = builder.gep(dense.data, [builder.mul(place, ir.Constant(e.type, 2 * CENTERS))])
        pair = builder.load(builder.gep(builder.bitcast(pairs.data, _NUMBER.as_pointer()), [e]), align=2)
        both = widened(builder.bitcast(splat(builder, pair, _SUMS), _HALVES))
        added = []
        for start, total in zip(starts, totals, strict=True):
            other = builder.load(at(builder, others, ir.Constant(e.type, 2 * start.constant), _HALVES), align=2)
            products, nothing = builder.mul(both, widened(other)), ir.Constant(of_pair, ir.Undefined)
            left, right = (
                builder.shuffle_vector(products, nothing, ir.Constant(_SUMS, list(range(side, 32, 2))))
                for side in (0, 1)
            )
            added.append(builder.add(total, builder.add(left, right)))
        return added

    totals = [builder.load(at(builder, sums.data, start, _SUMS), align=4) for start in starts]
    for start, total in zip(starts, loop(builder, first, last, totals, add_pair), strict=True):
        builder.store(total, at(builder, sums.data, start, _SUMS), align=4)
