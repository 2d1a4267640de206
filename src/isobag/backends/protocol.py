"""What a backend must answer: the ``Backend`` protocol, which a module or an object with these functions implements.

Three kinds of values belong to the backend that made them:

Q : queries, rows that ``prepare`` was given, and whatever the backend keeps about them for speed
A : arrays where the backend works: NumPy arrays, or tensors on a device
C : counts of groups (g, columns): a CSR array, or dense counts on a device

Balls are t partitionings of psi centers, with L nested levels. Counts and sums are integers, so no order of summation,
number of threads or size of a block can change them: every backend returns those of ``isobag.backends.numpy``.
"""

from collections.abc import Sequence
from typing import NewType, Protocol, TypeVar

from scipy.sparse import csr_array

from isobag.backends.arrays import Array, Balls, Cells, Deviations, Floats, Ints, Knots, Scales, Weights
from isobag.backends.pairs import PackedCounts
from isobag.backends.sliding import Sliding

Q = TypeVar("Q")
A = TypeVar("A")
C = TypeVar("C")


class Backend(Protocol[Q, A, C]):
    """All arguments are positional; n_jobs is a number of threads as in joblib."""

    def place(self, X: Floats | A, /) -> A:
        """Rows where the backend works: (n, d) float64."""

    def fetch(self, values: A, /) -> Array:
        """Values as a NumPy array."""

    def prepare(self, X: A, /) -> Q:
        """Queries for the functions below: (n, d)."""

    def scale_linearly(self, X: A, shift: Floats, spread: Floats, n_jobs: int | None, /) -> A:
        """(x - shift) / spread, limited to +-FARTHEST: (n, d)."""

    def scale_by_asinh(self, X: A, shift: Floats, spread: Floats, n_jobs: int | None, /) -> A:
        """Asinh of what ``scale_linearly`` returns: (n, d)."""

    def scale_by_knots(self, X: A, knots: Knots, n_jobs: int | None, /) -> A:
        """Piecewise linear through knots, limited to +-FARTHEST: (n, d)."""

    def scale_views(self, X: A, scales: Scales, n_jobs: int | None, /) -> Sequence[A]:
        """X on the scale of each view, in the ways above: V times (n, d)."""

    def floor_shares(self, sums: Ints, own: Weights, /) -> Floats:
        """Sums as shares of the largest, at least the floors, of few rows in host memory: (V, n, C)."""

    def weigh_terms(self, terms: Floats, own: Weights, /) -> Floats:
        """Weighted sums of terms (V, n, C), less what the coarse ones take away, at least the lowest: (n,)."""

    def middle_octave(self, sq_radii: Floats, /) -> int:
        """Octaves of the lower median of those above 0, and of 1 if there are none: (t, m)."""

    def sq_radii(self, points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None, /) -> Floats:
        """Squared distance from each center to the nearest different center; 0 if all are equal: (L, t, psi)."""

    def assign_cells(self, queries: Q, balls: Balls, rule: str, n_jobs: int | None, /) -> A:
        """Cell of every query in every partitioning of the last level, OUTSIDE if uncovered: (n, t)."""

    def assign_levels(self, queries: Q, balls: Balls, n_jobs: int | None, /) -> A:
        """Cell of every query in every partitioning of each level under the rule "nearest": (L, t, n)."""

    def count_cells(self, queries: Q, balls: Balls, n_jobs: int | None, /) -> Ints:
        """Number of queries in each cell of each level: (L, t, psi)."""

    def sum_at_cells(
        self, queries: Q, balls: Balls, tables: Ints, rule: str, limits: Ints | None, n_jobs: int | None, /
    ) -> A:
        """Sum over partitionings of the table (L, t, psi) at the query's cell, OUTSIDE adding nothing: (n, L).

        With limits (L,), one more column: the octaves by which the squared distance to the nearest center exceeds the
        limit, summed over partitionings and levels where the query is OUTSIDE; -1 for levels that do not count.
        """

    def count_and_sum(
        self, queries: Q, balls: Balls, only_last: bool, limits: Ints | None, n_jobs: int | None, /
    ) -> tuple[Ints, A]:
        """``count_cells``, and ``sum_at_cells`` with these counts as tables, of all levels or the last, in one pass."""

    def slide_window(
        self, X: Sequence[Floats], size: int, slots: Cells, owners: Ints, levels: tuple[int, ...], n_jobs: int | None, /
    ) -> Sliding:
        """A window of ``size`` places, with the rows (n, d) of each view at the first, and balls around some of them.

        slots (T, psi): places of the centers; owners (T,): the view of each partitioning, ascending
        """

    def grow_tree(
        self, X: Floats, seed: int, columns: Cells, thresholds: Floats, children: Cells, places: Ints, /
    ) -> None:
        """Split rows at random until each leaf has one row, or equal ones.

        Written, for each node: its column, threshold and children, leaf j as -1 - j; places[j] is a row of leaf j.
        """

    def descend(self, X: Floats, columns: Cells, thresholds: Floats, children: Cells, n_jobs: int | None, /) -> Cells:
        """Leaf of every row in every tree of each level: (L, n, t)."""

    def count_group_cells(self, cells: A, starts: Ints, n_cells: int, n_columns: int, n_jobs: int | None, /) -> C:
        """Number of each group's points in each cell: cells (n, t), groups side by side -> (g, t * n_columns).

        starts (g + 1,): first point of each group. n_columns is n_cells, or one more to count OUTSIDE in a last column.
        """

    def dot_counts(self, counts: C, centers: C, n_jobs: int | None, rows: Ints | None, /) -> A:
        """Dot products of all rows of counts with all centers, integers: (n, centers).

        rows: if given, the rows of counts that are the centers, so that each pair need be multiplied once only
        """

    def dot_pairs(
        self,
        own: PackedCounts,
        rows: Ints,
        other: PackedCounts,
        other_rows: Ints,
        n_columns: int,
        n_jobs: int | None,
        /,
    ) -> Ints:
        """Dot products of the counts of pairs of bags, own[rows[k]] . other[other_rows[k]]: (pairs,)."""

    def near_and_far(
        self, dots: A, own: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...], /
    ) -> Floats:
        """Mean distance of groups to the nearest reference groups, ranks[0] of them, and to those of other ranks.

        dots (g, references) -> (g, len(ranks))
        """

    def group_sq_radii(
        self, dots: A, rows: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells, levels: tuple[int, ...],
        n_jobs: int | None, /,
    ) -> Floats:  # fmt: skip
        """Squared distance from each center to the nearest different one; its dot products are dots[rows]: (L, t, psi).

        unit: a common divisor of the sizes
        """

    def assign_groups(
        self, dots: A, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
        slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None, /,
    ) -> A:  # fmt: skip
        """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""

    def join_cells(self, parts: Sequence[A], /) -> A:
        """Cells of some groups after those of others: (L, t, n)."""

    def count_assigned(self, cells: A, n_cells: int, /) -> Ints:
        """Number of groups in each cell: (L, t, n) -> (L, t, n_cells)."""

    def sum_assigned(self, cells: A, tables: Ints, /) -> Ints:
        """Sum over partitionings of the table at each group's cell: (L, t, n), (L, t, psi) -> (n, L)."""


Queries = NewType("Queries", object)
"""Rows as ``Backend.prepare`` returned them: nobody else looks inside."""

HostBackend = Backend[Q, Array, csr_array]
"""A backend that works in host memory."""
AnyBackend = HostBackend[Queries]
"""A backend to whoever uses it: arrays and counts that are on a device are passed on as if they were NumPy's."""
