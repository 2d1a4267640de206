"""What a backend must implement: the ``Backend`` protocol, by a module or an object with these functions.

Two kinds of values belong to the backend that made them:

A : arrays where the backend works: NumPy arrays, or tensors on a device
C : counts of groups (g, columns): a CSR array, or dense counts on a device

Slots of a pool are cut into samples of every psi, T in all, see ``isobag.backends.samples``. Distances are float32
in the order of features, counts and sums are integers, so no order of summation, number of threads or size of a block
can change them: every backend returns those of ``isobag.backends.numpy``.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from scipy.sparse import csr_array

from isobag.backends.arrays import Array, Balls, Cells, Deviations, Floats, Ints, Knots, Singles, Terms
from isobag.backends.samples import Cut

A = TypeVar("A")
C = TypeVar("C")


class Backend(Protocol[A, C]):
    """All arguments are positional; n_jobs is a number of threads as in joblib."""

    def place(self, X: Array | A, /) -> A:
        """Rows where the backend works: (n, d)."""

    def fetch(self, values: A, /) -> Array:
        """Values as a NumPy array."""

    def scale_linearly(self, X: A, shift: Floats, spread: Floats, n_jobs: int | None, /) -> A:
        """(x - shift) / spread, limited to +-FAR and rounded: (n, d) float32."""

    def scale_by_asinh(self, X: A, shift: Floats, spread: Floats, n_jobs: int | None, /) -> A:
        """Asinh of (x - shift) / spread, limited and rounded: (n, d) float32."""

    def scale_by_knots(self, X: A, knots: Knots, n_jobs: int | None, /) -> A:
        """Piecewise linear through knots, limited and rounded: (n, d) float32."""

    def sq_radii(self, pool: Singles, slots: Cells, levels: tuple[int, ...], n_jobs: int | None, /) -> Singles:
        """Squared distance from each center to the nearest different one of its sample, 0 if there is none: (L, S)."""

    def assign_cells(self, X: A, balls: Balls, limits: Ints | None, n_jobs: int | None, /) -> tuple[A, A]:
        """The slot whose ball each row is in for every sample, OUTSIDE for none: (T, n); how far out rows are: (n,).

        How far out: the sum over samples of the octaves by which the squared distance to the nearest center exceeds the
        limit of its psi (L,), where the row is OUTSIDE; -1 for psi that do not count.
        """

    def sum_at_cells(self, X: A, balls: Balls, tables: Ints, limits: Ints | None, n_jobs: int | None, /) -> A:
        """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""

    def add_terms(self, sums: Sequence[A], terms: Terms, n_jobs: int | None, /) -> tuple[A, A]:
        """Sum of all terms of each row, and of the first, one after the other: (n, L + 1) a view -> (n,), (n,)."""

    def count_at_cells(self, X: A, balls: Balls, n_jobs: int | None, /) -> Ints:
        """Number of rows in each cell: (n, d) -> (L, S)."""

    def count_cells(self, cells: A, cut: Cut, n_jobs: int | None, /) -> Ints:
        """Number of rows in each cell: (T, n) -> (L, S)."""

    def sum_cells(self, cells: A, cut: Cut, tables: Ints, n_jobs: int | None, /) -> A:
        """Sum over samples of the table (L, S) at each row's cell, OUTSIDE adding nothing: (T, n) -> (n, L)."""

    def count_groups(self, cells: A, cut: Cut, starts: Ints, n_jobs: int | None, /) -> C:
        """Number of each group's rows in each cell: cells (T, n), groups side by side -> (g, L S).

        starts (g + 1,): first row of each group
        """

    def dot_counts(self, counts: C, centers: C, n_jobs: int | None, /) -> A:
        """Dot products of all rows of counts with all centers, integers: (n, centers)."""

    def near_and_far(
        self, dots: A, groups: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...],
        n_jobs: int | None, /,
    ) -> Floats:  # fmt: skip
        """Mean distance of groups to the nearest reference groups, ranks[0] of them, and to those of other ranks.

        dots (g, references) -> (g, len(ranks))
        """

    def assign_groups(
        self, dots: A, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
        slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None, /,
    ) -> Cells:  # fmt: skip
        """Cell of every group in every partitioning of groups, for each level: (L, t, n).

        unit: a common divisor of the sizes
        """


AnyBackend = Backend[Array, csr_array]
"""A backend to whoever uses it: arrays and counts that are on a device are passed on as if they were NumPy's."""
