"""Partitionings: what all mechanisms promise, and all randomness of drawing."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Cells, Floats, Ints, is_first
from isobag.backends.learned import Learned, demand
from isobag.backends.threads import slices

_ROUND = 64
_COMPARED_ROWS = 1 << 10
_BLOCK_DRAWS = 1 << 20
"""Most numbers drawn at once."""
Seeds = npt.NDArray[np.uint64]
Prepared = Any
"""What ``Partitionings.prepare`` returned: rows or groups, as the mechanism alone needs them."""


class Partitionings(Learned, ABC):
    """t partitionings into psi cells each, and L nested levels of them, by the first levels[l] rows drawn.

    Queries are rows or groups that ``prepare`` was given, scaled as the rows drawn were. A mechanism is a frozen data
    class of this kind, and a function that makes one of what was drawn.
    """

    levels: tuple[int, ...]
    """Number of rows drawn for each level, ascending; the last is psi."""
    of_groups: ClassVar[bool] = False

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features of what is partitioned, d."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of partitionings, t."""

    @abstractmethod
    def at(self, level: int) -> Self:
        """The nested partitionings of one level alone."""

    @abstractmethod
    def prepare(self, X: Any, compute: Compute) -> Prepared:
        """Queries for the methods below, from rows (n, d) or from mean maps."""

    @abstractmethod
    def assign(self, queries: Prepared, compute: Compute, rule: str = "nearest") -> Cells:
        """Cell of every query in every partitioning of the last level: (n, t), OUTSIDE if uncovered."""

    def assign_levels(self, queries: Prepared, compute: Compute) -> Cells:
        """Cell of every query in every partitioning of each level: (L, t, n), OUTSIDE if uncovered."""
        return np.stack([self.at(level).assign(queries, compute).T for level in range(len(self.levels))])

    @abstractmethod
    def count(self, queries: Prepared, compute: Compute) -> Ints:
        """Number of queries in each cell of each level: (L, t, psi)."""

    @abstractmethod
    def sum_at(
        self, queries: Prepared, tables: Ints, compute: Compute, rule: str = "nearest", limits: Ints | None = None
    ) -> Ints:
        """Sum over partitionings of the table at each query's cell: tables (L, t, psi) -> (n, L).

        With ``limits`` (L,), as ``far_limits`` has them, one more column: how far out queries are, the sum over
        partitionings and levels of the octaves beyond the limit, where OUTSIDE.
        """

    def count_and_sum(
        self, queries: Prepared, compute: Compute, only_last: bool = False, limits: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Counts (L, t, psi), and what ``sum_at`` makes of them for these queries, of all levels or the last."""
        counts = self.count(queries, compute)
        sums = self.sum_at(queries, counts, compute, limits=limits)
        return counts, sums[:, -1:] if only_last else sums

    def far_limits(self) -> Ints | None:
        """Octaves beyond which a query is far out, for each level, -1 for levels that do not count: (L,).

        None where nothing is OUTSIDE.
        """
        return None

    def count_groups(
        self, queries: Prepared, starts: Ints, count_outside: bool, compute: Compute, rule: str = "nearest"
    ) -> csr_array:
        """Number of each group's queries in each cell, from starts[k] to starts[k + 1] those of group k: (g, columns).

        ``count_outside``: OUTSIDE counts as the last cell of its partitioning.
        """
        n_cells = self.levels[-1]
        cells = self.assign(queries, compute, rule)
        return compute.verbs.count_group_cells(cells, starts, n_cells, n_cells + count_outside, compute.n_jobs)

    def anchors(self) -> tuple[Any, Cells] | None:
        """A row drawn for each cell: all drawn (m, d), and the number of each cell's (t, psi); None: there are none."""
        return None

    def nearest_levels(self, queries: Prepared, compute: Compute) -> Cells:
        """The cell at each level whose anchor a query is to be compared with, covered or not: (L, t, n)."""
        return self.assign_levels(queries, compute)

    def check_levels(self) -> None:
        """Refuse levels that are not in rising order from 2 on."""
        rising = [1, *self.levels, MOST_ROWS]
        demand(len(rising) > 2 and all(a < b for a, b in pairwise(rising)), "levels are not in rising order from 2 on")


@dataclass(frozen=True)
class Drawn:
    """What partitionings are made from: row j of partitioning i is ``points[slots[i, j]]``.

    points : (m, d), or groups; slots : (t, psi); seeds : (t, 2), for whatever else a mechanism draws.
    """

    points: Any
    slots: Cells
    seeds: Seeds


def draw_seeds(n_estimators: int, random_state: Any) -> Seeds:
    """A seed for each partitioning, a smaller draw being the start of a larger one: (t, 2)."""
    seeds: Seeds = check_random_state(random_state).randint(0, 2**32, size=(n_estimators, 2), dtype=np.uint64)
    return seeds


def draw_rows(n_rows: int, seeds: Seeds, n_cells: int) -> Ints:
    """Rows drawn without replacement for each partitioning: (t, psi).

    Nested: the first psi rows, and the first t partitionings, of a larger draw with the same seed are the smaller
    draw. Each partitioning has its own stream of row numbers and keeps the first psi different ones.
    """
    rows = np.empty((len(seeds), n_cells), dtype=np.int64)
    for own in slices(len(seeds), max(1, _BLOCK_DRAWS // n_cells)):
        generators = [np.random.default_rng(seed) for seed in seeds[own]]
        rows[own] = _first_distinct(generators, n_rows, n_cells)
    return rows


def _first_distinct(generators: list[np.random.Generator], n_rows: int, size: int) -> Ints:
    """The first ``size`` different numbers of each stream: (streams, size)."""
    chosen = np.empty((len(generators), size), dtype=np.int64)
    missing = np.arange(len(generators))
    streams = np.empty((len(generators), 0), dtype=np.int64)
    while len(missing):
        # In even portions: a generator that makes two numbers at once has then none left over.
        known = streams.shape[1]
        more = -(-max(size - known, known, _ROUND) // _ROUND) * _ROUND
        drawn = [generators[i].integers(0, n_rows, size=more) for i in missing]
        streams = np.concatenate([streams, drawn], axis=1)
        first = is_first(streams)
        done = first.sum(axis=1) >= size
        kept = first[done] & (first[done].cumsum(axis=1, dtype=np.int32) <= size)
        chosen[missing[done]] = streams[done][kept].reshape(-1, size)
        missing, streams = missing[~done], streams[~done]
    return chosen


def distinct_points(values: Floats) -> tuple[Floats, Ints]:
    """Rows of ``values`` without repetitions, and where each row went: (m, d), (n,)."""
    values = values + 0.0  # -0.0 becomes 0.0, so that equal numbers have equal bits
    _, first, names = np.unique(_hash_rows(values), return_index=True, return_inverse=True)
    points = values[first]
    blocks = slices(len(values), _COMPARED_ROWS)
    if not all(np.array_equal(points[names[own]], values[own]) for own in blocks):  # two different rows with one hash
        _, first, names = np.unique(values, axis=0, return_index=True, return_inverse=True)
        points = values[first]
    return points, names.ravel()  # with an axis, NumPy 2.0 alone gives (n, 1)


def _hash_rows(values: Floats) -> Seeds:
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in np.ascontiguousarray(values.T).view(np.uint64):
        hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def nested_levels(n_cells: int) -> tuple[int, ...]:
    """2, 4, 8, ... below ``n_cells``, and ``n_cells`` itself."""
    return (*(2**k for k in range(1, n_cells.bit_length()) if 2**k < n_cells), n_cells)
