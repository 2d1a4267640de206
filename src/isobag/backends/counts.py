"""Counts of groups in cells, (g, columns): CSR arrays of integers, or whatever a backend keeps on a device instead."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from isobag.backends.arrays import Array, Floats, Ints
from isobag.backends.threads import slices

if TYPE_CHECKING:
    from isobag.backends.torch.counts import Counts

_BLOCK_ENTRIES = 1 << 20
"""SciPy makes wider copies of all entries that it multiplies: of so many at a time."""


def self_dots(counts: "Counts") -> Floats:
    """Dot product of each row of counts with itself: (g,)."""
    if not isinstance(counts, csr_array):
        return counts.self_dots

    def of_block(block: csr_array) -> Floats:
        squares = csr_array((block.data.astype(np.float64) ** 2, block.indices, block.indptr), shape=block.shape)
        return np.asarray(squares.sum(axis=1), dtype=np.float64)

    return np.concatenate(list(_by_blocks(counts, lambda block, _: of_block(block))))


def total_counts(counts: "Counts", weights: Ints) -> Ints:
    """Sum over the rows of counts times whole weights: (g,) -> (columns,)."""
    if not isinstance(counts, csr_array):
        return counts.total(weights)
    return reduce(np.add, _by_blocks(counts, lambda block, rows: block.T @ weights[rows]))


def dot_vector(counts: "Counts", vector: Ints) -> Ints:
    """Dot product of each row of counts with a vector of whole numbers: (columns,) -> (g,)."""
    if not isinstance(counts, csr_array):
        return counts.dot(vector)
    return np.concatenate(list(_by_blocks(counts, lambda block, _: block @ vector)))


def _by_blocks(counts: csr_array, function: Callable[[csr_array, slice], Array]) -> Iterator[Array]:
    """What a function makes of the rows of counts, some at a time, and their places."""
    n_rows = counts.shape[0]
    for rows in slices(max(1, n_rows), max(1, n_rows * _BLOCK_ENTRIES // max(1, counts.nnz))):
        yield function(rows_of_counts(counts, rows), rows)


def rows_of_counts(counts: csr_array, rows: slice) -> csr_array:
    """Consecutive rows of counts, without a copy of their entries."""
    ends = counts.indptr[rows.start : rows.stop + 1]
    entries = slice(ends[0], ends[-1])
    shape = (len(ends) - 1, counts.shape[1])
    return csr_array((counts.data[entries], counts.indices[entries], ends - ends[0]), shape=shape, copy=False)


def join_counts(parts: Sequence[csr_array]) -> csr_array:
    """Counts of the same groups in the cells of several views, side by side."""
    return parts[0] if len(parts) == 1 else csr_array(hstack([part.tocsr() for part in parts], format="csr"))


def stack_counts(parts: Iterator[csr_array], most_entries: int) -> csr_array:
    """Rows of all parts, one below the other; parts are dropped as they come, so that there is one copy of all.

    most_entries : an upper bound; what is not written to takes no memory.
    """
    first = next(parts)
    if not isinstance(first, csr_array):
        every = [first, *parts]
        n_groups = sum(part.shape[0] for part in every)
        return first.merged(every, np.arange(n_groups), n_groups)
    columns, counts = np.empty(most_entries, dtype=np.int32), np.empty(most_entries, dtype=first.dtype)
    starts, n_columns = [np.zeros(1, dtype=np.int64)], first.shape[1]
    for part in chain([first], parts):
        entries = slice(starts[-1][-1], starts[-1][-1] + part.nnz)
        columns[entries], counts[entries] = part.indices, part.data
        starts.append(entries.start + part.indptr[1:].astype(np.int64))
    joined = np.concatenate(starts)
    # SciPy widens both index arrays to the wider of the two.
    joined = joined.astype(np.int32) if joined[-1] < 2**31 else joined
    return csr_array((counts[: joined[-1]], columns[: joined[-1]], joined), shape=(len(joined) - 1, n_columns))


def merge_counts(parts: Sequence[csr_array], numbers: Ints, n_groups: int) -> csr_array:
    """Counts of all groups; row k of all parts together is of group numbers[k], a group may be in several."""
    first = parts[0]
    if not isinstance(first, csr_array):
        return first.merged(parts, numbers, n_groups)
    counts = first if len(parts) == 1 else csr_array(vstack(parts, format="csr"))
    if np.array_equal(numbers, np.arange(n_groups)):
        return counts
    # Whole numbers: whatever the order in which they are added up, the sums are the same.
    places = csr_array(
        (np.ones(len(numbers), counts.dtype), (numbers, np.arange(len(numbers)))), shape=(n_groups, len(numbers))
    )
    merged = csr_array(places @ counts)
    merged.sort_indices()
    return merged
