"""Which engine answers. Every choice of the Numba backend is made here.

Cells of rows, the first line that applies:

==========  =====================  =========  ==================  ====================================================
features    rows                   rule       engine              what it buys
==========  =====================  =========  ==================  ====================================================
any         at most 4,096, and     nearest    ``small_tables``    compares all pairs in float64: hardly anything to
            131,072 numbers                                       compile, so the first use takes a third of the time
up to 96    more                   any        ``float32_blocks``  blocks of neighbours drop most centers at once;
                                                                  the rest in float32, the doubtful in float64; equal
                                                                  rows of few features are searched once
97 or more  more                   any        ``many``            rows rounded to few bits bound all distances; few
                                                                  are left to measure
==========  =====================  =========  ==================  ====================================================

``small_tables`` and ``float32_blocks`` need fewer than 32,768 cells, whose numbers take 16 bits; ``float32_blocks``
also needs centers whose typical distance is an ordinary number. Where they cannot be used, the next line applies, and
at last ``many``.

Scales are NumPy's up to 131,072 numbers, so that nobody waits for a compiler to save milliseconds, and compiled beyond,
or after 1,000 calls.
"""

from typing import Protocol

from isobag.backends.arrays import Balls, Cells, Ints
from isobag.backends.numba import float32_blocks, many, small_tables
from isobag.backends.numba.queries import Queries

SMALL_ROWS, SMALL_NUMBERS = 1 << 12, 1 << 17
COMPILED_NUMBERS = 1 << 17
"""Of fewer numbers, scaling would wait longer for the compiler than it takes."""


class Engine(Protocol):
    """A search for cells: the functions of ``isobag.backends.numba``, with all arguments given."""

    def assign_cells(self, queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells, /) -> None:
        """Write the cell of every query at each level into cells (L, t, n); one level unless the rule is "nearest"."""

    def sum_at_cells(
        self, queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None, /
    ) -> Ints:
        """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""

    def count_and_sum(
        self, queries: Queries, balls: Balls, first: int, n_jobs: int | None, limits: Ints | None, /
    ) -> tuple[Ints, Ints]:
        """Counts of all queries (L, t, psi), and what ``sum_at_cells`` makes of those from the level ``first`` on."""


def engine_for(queries: Queries, balls: Balls, rule: str = "nearest") -> Engine:
    """The engine that finds the cells of queries."""
    n, d = queries.X.shape
    if n <= SMALL_ROWS and n * d <= SMALL_NUMBERS and small_tables.fits(balls, rule):
        return small_tables
    return float32_blocks if d < many.LEAST_FEATURES and float32_blocks.fits(balls) else many
