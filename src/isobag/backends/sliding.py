"""Rows of a window in the cells of balls whose centers are rows of that window; rows and balls change, counts follow.

A window has places; its rows are at the first ones until all are taken. Center j of partitioning i is the row at place
``slots[i, j]``, on the scale of the view that owns the partitioning. ``Sliding`` is what a backend keeps of V views,
``Recounted`` the definition: after every change all rows are counted again.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from isobag.backends.arrays import Balls, Cells, Floats, Ints

Nearest = Any
"""What ``Sliding.find`` returned: nobody else looks inside."""


class Sliding(Protocol):
    """A window, and the balls and counts of every view."""

    def balls(self, view: int, /) -> tuple[Floats, Floats, Ints]:
        """Centers (t, psi, d), squared radii and counts (L, t, psi) of one view, until the window slides."""

    def find(self, X: Sequence[Floats], limits: Ints | None, n_jobs: int | None, /) -> tuple[Nearest, Ints]:
        """What ``slide`` needs to know of rows, (n, d) on the scale of each view, and sums that scores are made of.

        These are over the partitionings of each view, of the counts at each row's cell: (V, n, L), with limits (V, L)
        one more column, as ``sum_at_cells``.
        """

    def join(self, parts: list[Nearest], /) -> Nearest:
        """What is known of some rows after what is known of others."""

    def first(self, nearest: Nearest, n: int, /) -> Nearest:
        """What is known of the first n rows."""

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None, /) -> Ints:
        """The same sums of rows of the window, by their places: (k,)."""

    def slide(self, places: Ints, nearest: Nearest, slots: Cells, n_jobs: int | None, /) -> None:
        """Put rows at different places, and let the balls be those around the rows at ``slots`` (T, psi)."""

    def rescale(self, view: int, X: Floats, n_jobs: int | None, /) -> None:
        """Let the rows of one view, in the order of their places, be these (n, d): they have another scale."""


class Recounted:
    """The definition, by the verbs of any backend."""

    def __init__(
        self, verbs: Any, X: Sequence[Floats], size: int, slots: Cells, owners: Ints, levels: tuple[int, ...],
        n_jobs: int | None,
    ) -> None:  # fmt: skip
        self._verbs, self._levels, self._slots = verbs, levels, slots
        self._parts = [slice(*np.searchsorted(owners, [view, view + 1])) for view in range(len(X))]
        self._rows = np.empty((len(X), size, X[0].shape[1]))
        self._n_rows = len(X[0])
        for view, own in enumerate(X):
            self._rows[view, : self._n_rows] = verbs.fetch(own)
        self._recount(n_jobs)

    def balls(self, view: int) -> tuple[Floats, Floats, Ints]:
        """Centers (t, psi, d), squared radii and counts (L, t, psi) of one view."""
        own = self._balls[view]
        return own.points[own.slots], own.sq_radii, self._counts[view]

    def find(self, X: Sequence[Floats], limits: Ints | None, n_jobs: int | None) -> tuple[Nearest, Ints]:
        """The rows themselves, and sums of the counts at each row's cell."""
        sums = [
            self._verbs.fetch(
                self._verbs.sum_at_cells(
                    self._verbs.prepare(own), balls, counts, "nearest", None if limits is None else limits[view], n_jobs
                )
            )
            for view, (own, balls, counts) in enumerate(zip(X, self._balls, self._counts, strict=True))
        ]
        return X, np.array(sums)

    def join(self, parts: list[Nearest]) -> Nearest:
        """All rows."""
        return [np.concatenate([self._verbs.fetch(own) for own in views]) for views in zip(*parts, strict=True)]

    def first(self, nearest: Nearest, n: int) -> Nearest:
        """The first n rows."""
        return [own[:n] for own in nearest]

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None) -> Ints:
        """The same sums of rows of the window: (k,)."""
        return self.find(list(self._rows[:, places]), limits, n_jobs)[1]

    def slide(self, places: Ints, nearest: Nearest, slots: Cells, n_jobs: int | None) -> None:
        """Put rows at places, and count all again."""
        self._rows[:, places] = nearest
        self._n_rows = max(self._n_rows, int(places.max()) + 1)
        self._slots = slots
        self._recount(n_jobs)

    def rescale(self, view: int, X: Floats, n_jobs: int | None) -> None:
        """Let the rows of one view be these, and count all again."""
        self._rows[view, : len(X)] = self._verbs.fetch(X)
        self._recount(n_jobs)

    def _recount(self, n_jobs: int | None) -> None:
        self._balls, self._counts = [], []
        for rows, part in zip(self._rows[:, : self._n_rows], self._parts, strict=True):
            slots = np.ascontiguousarray(self._slots[part])
            radii = self._verbs.sq_radii(rows, slots, self._levels, n_jobs)
            self._balls.append(Balls(rows.copy(), slots, self._levels, radii))
            self._counts.append(self._verbs.count_cells(self._verbs.prepare(rows), self._balls[-1], n_jobs))
