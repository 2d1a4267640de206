"""Partitionings: all randomness, then the fixed centers and radii that everything downstream looks at."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.arrays import Balls, Cells, Floats, Ints, last_level, one_level
from isobag.backends import get_backend

_ROUND = 64


class Partitionings(Balls):
    """The balls of t partitionings, and what can be asked of them."""

    __slots__ = ()

    @property
    def centers(self) -> Floats:
        """The centers, one by one: (t, psi, d)."""
        return self.points[self.slots]

    @property
    def last(self) -> "Partitionings":
        """The same partitionings, without the smaller nested ones."""
        return Partitionings(*last_level(self))

    def at(self, level: int) -> "Partitionings":
        """The nested partitionings of one level alone."""
        return Partitionings(*one_level(self, level))

    @property
    def unbounded(self) -> "Partitionings":
        """The same centers without radii: every point is in the cell of its nearest center."""
        return self._replace(sq_radii=np.full_like(self.sq_radii, np.inf))

    def assign_cells(self, X: Floats, rule: str, backend: str, n_jobs: int | None) -> Cells:
        """Cell of every row in every partitioning: (n, t), OUTSIDE if uncovered."""
        found: Cells = get_backend(backend).assign_cells(X, self, rule, n_jobs)
        return found

    def count_cells(self, X: Floats, backend: str, n_jobs: int | None) -> Ints:
        """Number of rows in each cell of each level: (L, t, psi)."""
        found: Ints = get_backend(backend).count_cells(X, self, n_jobs)
        return found

    def sum_at_cells(self, X: Floats, tables: Ints, backend: str, n_jobs: int | None, rule: str = "nearest") -> Ints:
        """Sum over partitionings of the table at each row's cell: tables (L, t, psi) -> (n, L)."""
        found: Ints = get_backend(backend).sum_at_cells(X, self, tables, rule, n_jobs)
        return found

    def count_and_sum(self, X: Floats, backend: str, n_jobs: int | None) -> tuple[Ints, Ints]:
        """Counts, and the sum of the last level's counts at each row's own cells: (L, t, psi), (n,)."""
        found: tuple[Ints, Ints] = get_backend(backend).count_and_sum(X, self, n_jobs)
        return found


def draw_rows(n_rows: int, n_estimators: int, n_cells: int, random_state: Any) -> Ints:
    """Rows drawn without replacement for each partitioning: (t, psi).

    Nested: the first psi rows, and the first t partitionings, of a larger draw with the same seed are the smaller
    draw. Each partitioning has its own stream of row numbers and keeps the first psi different ones.
    """
    seeds = check_random_state(random_state).randint(0, 2**32, size=(n_estimators, 2), dtype=np.uint64)
    return np.stack([_first_distinct(np.random.default_rng(seed), n_rows, n_cells) for seed in seeds])


def _first_distinct(rng: np.random.Generator, n_rows: int, size: int) -> Ints:
    stream = np.empty(0, dtype=np.int64)
    while True:
        missing = max(size - len(stream), len(stream), _ROUND)
        rounds = [rng.integers(0, n_rows, size=_ROUND) for _ in range(-(-missing // _ROUND))]
        stream = np.concatenate([stream, *rounds])
        _, first = np.unique(stream, return_index=True)
        if len(first) >= size:
            return stream[np.sort(first)[:size]]


def distinct_points(values: Floats) -> tuple[Floats, Ints]:
    """Rows of ``values`` without repetitions, and where each row went: (m, d), (n,)."""
    values = values + 0.0  # -0.0 becomes 0.0, so that equal numbers have equal bits
    _, first, names = np.unique(_hash_rows(values), return_index=True, return_inverse=True)
    if not np.array_equal(values[first][names], values):  # two different rows with one hash
        _, first, names = np.unique(values, axis=0, return_index=True, return_inverse=True)
    return values[first], names


def _hash_rows(values: Floats) -> npt.NDArray[np.uint64]:
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in np.ascontiguousarray(values.T).view(np.uint64):
        hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def nested_levels(n_cells: int) -> tuple[int, ...]:
    """2, 4, 8, ... below ``n_cells``, and ``n_cells`` itself."""
    return (*(2**k for k in range(1, n_cells.bit_length()) if 2**k < n_cells), n_cells)
