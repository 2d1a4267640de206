"""Rows of a window in the cells of balls whose centers are rows of that window; rows and balls change, counts follow.

A window has places; its rows are at the first ones until all are taken. Center j of partitioning i is the row at place
``slots[i, j]``. ``Sliding`` is what a backend keeps of one view, ``Recounted`` the definition: after every change all
rows are counted again.
"""

from typing import Any, Protocol

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints

Nearest = Any
"""What ``Sliding.find`` returned: nobody else looks inside."""


class Sliding(Protocol):
    """Counts (L, t, psi) of the rows in each cell of each level, and squared radii (L, t, psi) of the balls."""

    counts: Ints
    sq_radii: Floats

    def centers(self) -> Floats:
        """The centers: (t, psi, d)."""

    def find(self, X: Floats, n_jobs: int | None, /) -> Nearest:
        """What ``sum_at`` and ``slide`` need to know of rows: (n, d)."""

    def join(self, parts: list[Nearest], /) -> Nearest:
        """What is known of some rows after what is known of others."""

    def first(self, nearest: Nearest, n: int, /) -> Nearest:
        """What is known of the first n rows."""

    def sum_at(self, nearest: Nearest, limits: Ints | None, n_jobs: int | None, /) -> Ints:
        """Sum over partitionings of the counts at each row's cell: (n, L), with limits as ``sum_at_cells``."""

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None, /) -> Ints:
        """The same of rows of the window, by their places: (k,)."""

    def slide(self, places: Ints, X: Floats, nearest: Nearest, slots: Cells, n_jobs: int | None, /) -> None:
        """Put rows (n, d) at different places, and let the balls be those around the rows at ``slots`` (t, psi)."""


class Recounted:
    """The definition, by the verbs of any backend."""

    def __init__(self, verbs: Any, X: Floats, size: int, slots: Cells, levels: tuple[int, ...], n_jobs: int | None):
        self._verbs = verbs
        self._levels = levels
        self._rows = np.empty((size, X.shape[1]))
        self._n_rows = 0
        self.slide(np.arange(len(X)), X, X, slots, n_jobs)

    def centers(self) -> Floats:
        """The centers: (t, psi, d)."""
        return self._rows[self._slots]

    def find(self, X: Floats, n_jobs: int | None) -> Nearest:
        """The rows themselves."""
        return X

    def join(self, parts: list[Nearest]) -> Nearest:
        """The parts: ``slide`` counts all rows again, whatever is known of some."""
        return parts

    def first(self, nearest: Nearest, n: int) -> Nearest:
        """The first n rows."""
        return nearest[:n]

    def sum_at(self, nearest: Nearest, limits: Ints | None, n_jobs: int | None) -> Ints:
        """Sum over partitionings of the counts at each row's cell: (n, L), or (n, L + 1)."""
        queries = self._verbs.prepare(nearest)
        sums = self._verbs.sum_at_cells(queries, self._balls, self.counts, "nearest", limits, n_jobs)
        found: Ints = self._verbs.fetch(sums)
        return found

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None) -> Ints:
        """The same of rows of the window: (k,)."""
        return self.sum_at(self._rows[places], limits, n_jobs)

    def slide(self, places: Ints, X: Floats, nearest: Nearest, slots: Cells, n_jobs: int | None) -> None:
        """Put rows at places, and count all again."""
        self._rows[places] = X
        self._n_rows = max(self._n_rows, int(places.max()) + 1)
        self._slots = slots.copy()
        rows = self._rows[: self._n_rows]
        self.sq_radii = self._verbs.sq_radii(rows, self._slots, self._levels, n_jobs)
        self._balls = Balls(rows, self._slots, self._levels, self.sq_radii)
        self.counts = self._verbs.count_cells(self._verbs.prepare(rows), self._balls, n_jobs)
