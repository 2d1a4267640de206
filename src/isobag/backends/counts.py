"""Counts of groups in cells, (g, columns): CSR arrays of integers, or whatever a backend keeps on a device instead."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, vstack

from isobag.backends.arrays import Floats, Ints

if TYPE_CHECKING:
    from isobag.backends.torch.counts import Counts


def self_dots(counts: "Counts") -> Floats:
    """Dot product of each row of counts with itself: (g,)."""
    if not isinstance(counts, csr_array):
        return counts.self_dots()
    squares = csr_array((counts.data.astype(np.float64) ** 2, counts.indices, counts.indptr), shape=counts.shape)
    return np.asarray(squares.sum(axis=1), dtype=np.float64)


def total_counts(counts: "Counts", weights: Ints) -> Ints:
    """Sum over the rows of counts times whole weights: (g,) -> (columns,)."""
    total: Ints = counts.T @ weights if isinstance(counts, csr_array) else counts.total(weights)
    return total


def dot_vector(counts: "Counts", vector: Ints) -> Ints:
    """Dot product of each row of counts with a vector of whole numbers: (columns,) -> (g,)."""
    dots: Ints = counts @ vector if isinstance(counts, csr_array) else counts.dot(vector)
    return dots


def join_counts(parts: Sequence[csr_array]) -> csr_array:
    """Counts of the same groups in the cells of several views, side by side."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return _join_rows(parts) if isinstance(first, csr_array) else first.side_by_side(parts)


def _join_rows(parts: Sequence[csr_array]) -> csr_array:
    """Rows joined one by one: with an entry or more for most partitionings, each is worth a copy of its own."""
    starts = np.concatenate([[0], np.cumsum(np.stack([np.diff(part.indptr) for part in parts], axis=1))])
    columns, counts = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=parts[0].dtype)
    width = 0
    for k, part in enumerate(parts):
        own = zip(part.indptr[:-1].tolist(), part.indptr[1:].tolist(), strict=True)
        for begin, (start, stop) in zip(starts[k : -1 : len(parts)].tolist(), own, strict=True):
            end = begin + stop - start
            np.add(part.indices[start:stop], width, out=columns[begin:end])
            counts[begin:end] = part.data[start:stop]
        width += part.shape[1]
    ends = starts[:: len(parts)]
    # SciPy widens both index arrays to the wider of the two.
    ends = ends.astype(np.int32) if starts[-1] < 2**31 else ends
    return csr_array((counts, columns, ends), shape=(parts[0].shape[0], width))


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
