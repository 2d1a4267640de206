"""Counts of many small bags in little room, and dot products of pairs of them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isobag.backends.arrays import MOST_ROWS, Ints
from isobag.backends.learned import Learned, check, demand

MOST_COLUMNS = 1 << 16
_MOST_COUNT = 255


@dataclass(frozen=True, eq=False)
class PackedCounts(Learned):
    """Counts of bags in cells: bag k has the entries from starts[k] to starts[k + 1], three bytes each.

    A count above 255 is several entries of the same column.
    """

    starts: Ints  # (bags + 1,)
    columns: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint8]

    def validate(self) -> None:
        """Entries of each bag follow those of the one before."""
        check("starts", self.starts, (None,), 0, MOST_ROWS)
        rising = len(self.starts) > 0 and self.starts[0] == 0 and np.all(np.diff(self.starts) >= 0)
        demand(rising, "starts of bags are not in rising order from 0")
        check("columns", self.columns, (self.starts[-1],))
        check("counts", self.counts, (self.starts[-1],))

    def __len__(self) -> int:
        """Number of bags."""
        return len(self.starts) - 1

    def part(self, rows: Ints) -> "PackedCounts":
        """Some of the bags."""
        lengths = np.diff(self.starts)[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        return PackedCounts(ends, self.columns[places], self.counts[places])

    def sparse(self, rows: Ints, n_columns: int) -> csr_array:
        """Some of the bags as CSR (k, n_columns) of integers."""
        part = self.part(rows)
        parts = part.counts.astype(np.int32), part.columns.astype(np.int32), part.starts.astype(np.int32)
        counts = csr_array(parts, shape=(len(rows), n_columns))
        counts.sum_duplicates()
        return counts


def pack_counts(counts: csr_array) -> PackedCounts:
    """The counts of a CSR matrix with at most 65,536 columns."""
    entries = -(-counts.data // _MOST_COUNT)
    columns, values = counts.indices.astype(np.uint16), counts.data
    starts = counts.indptr.astype(np.int64)
    if entries.max(initial=1) > 1:
        ends = np.cumsum(entries)
        last = ends - 1
        columns, rest = np.repeat(columns, entries), values - _MOST_COUNT * (entries - 1)
        values = np.full(len(columns), _MOST_COUNT)
        values[last] = rest
        starts = np.concatenate([[0], ends])[starts]
    return PackedCounts(starts, columns, values.astype(np.uint8))


def dot_pairs(
    bags: PackedCounts, rows: Ints, other: PackedCounts, other_rows: Ints, n_columns: int, n_jobs: int | None = None
) -> Ints:
    """Dot products of the counts of pairs of bags: bags[rows[k]] . other[other_rows[k]], (pairs,)."""
    a, b = bags.sparse(rows, n_columns).astype(np.int64), other.sparse(other_rows, n_columns).astype(np.int64)
    return np.asarray(a.multiply(b).sum(axis=1), dtype=np.int64).reshape(len(rows))
