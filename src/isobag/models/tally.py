"""What is counted: rows in the cells of views, as integers, so that counts can be added, merged and taken back exactly.

A Tally counts rows as one set, (L, S) for each view; a GroupTally counts them group by group, sparsely. Tallies of
the same views add up in any order to the same integers, and what was added can be subtracted: so a model of A and B is
finished from tally(A) + tally(B), and a window slides by + arriving - leaving.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import Ints
from isobag.backends.counts import merge_counts
from isobag.partitionings.counts import MeanMaps

Tables = tuple[Ints, ...]
"""A table (L, S) for each view."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows counted in the cells of views.

    tables : (L, S) for each view, the number of rows in each cell of each psi.
    n_rows : how many rows were counted.
    """

    tables: Tables
    n_rows: int

    def __add__(self, other: "Tally") -> "Tally":
        """Rows of both."""
        tables = tuple(a + b for a, b in zip(self.tables, other.tables, strict=True))
        return Tally(tables, self.n_rows + other.n_rows)

    def __sub__(self, other: "Tally") -> "Tally":
        """Rows without those of the other, all of which must have been counted here."""
        tables = tuple(a - b for a, b in zip(self.tables, other.tables, strict=True))
        if other.n_rows > self.n_rows or any((table < 0).any() for table in tables):
            raise ValueError("the rows to subtract were never added to this tally.")
        return Tally(tables, self.n_rows - other.n_rows)


@dataclass(frozen=True, eq=False)
class GroupTally:
    """Rows of some groups, counted group by group in the cells of all views side by side.

    numbers : (g,) of the groups, ascending.
    counts : (g, columns), sparse.
    sizes : (g,), how many rows of each group were counted, OUTSIDE or not.
    """

    numbers: Ints
    counts: csr_array
    sizes: Ints

    def __add__(self, other: "GroupTally") -> "GroupTally":
        """Rows of both, merged by group."""
        return merge_tallies([self, other])

    def __sub__(self, other: "GroupTally") -> "GroupTally":
        """Rows without those of the other, all of which must have been counted here; emptied groups are dropped."""
        whole = GroupTally(self.numbers, self.counts.tocsr(), self.sizes)  # counts may be on a device
        merged = whole + GroupTally(other.numbers, -other.counts.tocsr(), -other.sizes)
        if (merged.sizes < 0).any() or (merged.counts.data < 0).any():
            raise ValueError("the rows to subtract were never added to this tally.")
        filled = np.flatnonzero(merged.sizes)
        counts = csr_array(merged.counts[filled])
        counts.eliminate_zeros()
        return GroupTally(merged.numbers[filled], counts, merged.sizes[filled])

    @property
    def maps(self) -> MeanMaps:
        """The groups as mean maps, counts / sizes."""
        return MeanMaps(self.counts, self.sizes)


def merge_tallies(tallies: Sequence[GroupTally]) -> GroupTally:
    """Rows of all of them, merged by group."""
    numbers, places = np.unique(np.concatenate([one.numbers for one in tallies]), return_inverse=True)
    sizes = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sizes, places, np.concatenate([one.sizes for one in tallies]))
    return GroupTally(numbers, merge_counts([one.counts for one in tallies], places, len(numbers)), sizes)
