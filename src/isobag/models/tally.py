"""What is counted: rows in the cells of views, as integers, so that counts can be added, merged and taken back exactly.

A Tally counts rows as one set, (L, S) for each view; of groups see ``counted``. Tallies of the same
views add up in any order to the same integers, and what was added can be subtracted: so a model of A and B is finished
from tally(A) + tally(B), and a window slides by + arriving - leaving.
"""

from dataclasses import dataclass

from isobag.backends.arrays import Ints

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
