"""A window of rows whose nearest centers are remembered, so that a ball that is replaced costs two distances a row.

Levels are nested: the first 2 centers, the first 4, and so on. A shell is what a level adds to the one before. Each row
remembers the nearest center of every shell and its squared distance; the nearest center of a level is the nearest of
its shells. A new center competes with the one remembered of its shell; rows that lose theirs search the shell again.
Centers remember their nearest different centers in the same way, which makes the radii. Distances are compared in
float32 first; what that cannot decide, in float64.

The partitionings of all views are side by side, so that one compiled call follows a change in all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Cells, Floats, Ints
from isobag.backends.numba.compiled import sliding as compiled
from isobag.backends.numba.compiled import sliding_search as search
from isobag.backends.numba.compiled import sliding_sums as adding
from isobag.backends.numba.compiled.small_tables import WIDTH
from isobag.backends.numba.compiled.vectors import BLOCK
from isobag.backends.threads import map_in_threads, shares

Shorts = npt.NDArray[np.uint16]
_FEW = 4
"""So many rows are compared with centers one by one; more of them, together."""
_SAMPLE = 256
_NO_PLACES = np.empty(0, dtype=np.int64)


def _units_of(points: Floats) -> tuple[Floats, float]:
    """Where float32 is finest: the middle of some points (m, d), and about their typical distance from it.

    Only speed depends on it.
    """
    middle = np.median(points, axis=0)
    with np.errstate(over="ignore"):
        spread = np.median(np.abs(points - middle), axis=0).max()
    return middle, 2.0 ** int(np.clip(np.log2(spread), -400, 400)) if spread > 0 else 1.0


def _n_blocks(size: int) -> int:
    """Blocks that rows need, or one more, so that no power of two of bytes is between two shells: caches hate that."""
    return -(-size // BLOCK) | 1


def _window_for(n_views: int, size: int, d: int, middles: Floats, units: Floats) -> search.Window:
    """A window without rows."""
    blocks = n_views, _n_blocks(size)
    columns, singles = np.zeros((*blocks, d, BLOCK)), np.zeros((*blocks, d, BLOCK), dtype=np.float32)
    return search.Window(
        np.empty((n_views, size, d)), columns, singles, np.zeros((*blocks, BLOCK)), middles, units
    )  # fmt: skip


class Nearest(NamedTuple):
    """Of rows: the nearest center of each shell and its squared distance (T, L, n), and the rows (V, n, d)."""

    winners: Shorts
    sq_dists: Floats
    X: Floats


class SlidingCells:
    """Rows of a window in blocks of BLOCK, and the nearest center of each shell."""

    def __init__(
        self, X: Sequence[Floats], size: int, slots: Cells, owners: Ints, levels: tuple[int, ...], n_jobs: int | None
    ) -> None:
        (t, psi), d, n_levels = slots.shape, X[0].shape[1], len(levels)
        self._no_limits = np.full((len(X), n_levels), -1)
        self._slots = slots.copy()
        self._n_rows = len(X[0])
        self._window = _window_for(len(X), size, d, np.zeros((len(X), d)), np.ones(len(X)))
        of_levels, of_rows = (t, n_levels, psi), (t, n_levels, _n_blocks(size), BLOCK)
        self._centers = search.Centers(
            owners, np.array([0, *levels]), np.empty((t, psi, d)), np.zeros((t, d, -(-psi // WIDTH) * WIDTH)),
            np.empty((t, psi, d), dtype=np.float32), np.zeros((t, psi)), np.zeros(t),
            np.full(of_levels, -1, dtype=np.int16), np.full(of_levels, np.inf), np.zeros(of_levels),
        )  # fmt: skip
        self._kept = compiled.Kept(
            np.zeros(of_rows, dtype=np.uint16), np.zeros(of_rows), np.zeros(of_rows, dtype=np.float32),
            np.zeros(of_levels, dtype=np.int64),
        )  # fmt: skip
        own = self._centers
        self._tables = own.owners, own.shells, own.columns, own.sq_radii, self._kept.counts
        for view, rows in enumerate(X):
            self.rescale(view, rows, n_jobs)

    def balls(self, view: int) -> tuple[Floats, Floats, Ints]:
        """Centers (t, psi, d), squared radii and counts (L, t, psi) of one view, until the window slides."""
        own = slice(*np.searchsorted(self._centers.owners, [view, view + 1]))
        radii, counts = self._centers.sq_radii[own], self._kept.counts[own]
        return self._centers.points[own], radii.swapaxes(0, 1), counts.swapaxes(0, 1)

    def find(self, X: Sequence[Floats], limits: Ints | None, n_jobs: int | None) -> tuple[Nearest, Ints]:
        """The nearest center of each shell, and sums of the counts at each row's cell."""
        queries = np.asarray(X)
        n_views, n, d = queries.shape
        shape = *self._kept.winners.shape[:2], n
        winners, sq_dists = np.empty(shape, dtype=np.uint16), np.empty(shape)
        nearest = Nearest(winners, sq_dists, queries)
        if n <= _FEW:
            sums, own_limits = self._room_for_sums(n, limits)
            adding.look_up_rows(queries, *self._tables, own_limits, winners, sq_dists, sums)
            return nearest, sums
        places = np.arange(n)
        window = _window_for(n_views, n, d, self._window.middles, self._window.units)
        search.put_rows(0, places, queries, tuple(window))
        map_in_threads(
            lambda part: search.search_blocks(
                part.start, part.stop, tuple(window), tuple(self._centers), winners, sq_dists
            ),
            shares(shape[0], n_jobs),
            n_jobs,
        )
        return nearest, self._sum_at(places, winners, sq_dists, limits, n_jobs)

    def join(self, parts: list[Nearest]) -> Nearest:
        """What is known of some rows after what is known of others."""
        winners, sq_dists, rows = zip(*parts, strict=True)
        joined = np.concatenate(winners, axis=2), np.concatenate(sq_dists, axis=2)
        return Nearest(*joined, np.concatenate(rows, axis=1))

    def first(self, nearest: Nearest, n: int) -> Nearest:
        """What is known of the first n rows."""
        winners, sq_dists, X = nearest
        return Nearest(winners[:, :, :n], sq_dists[:, :, :n], X[:, :n])

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None) -> Ints:
        """The same sums of rows of the window: (k,)."""
        shape = *self._kept.winners.shape[:2], -1
        winners, sq_dists = self._kept.winners.reshape(shape), self._kept.sq_dists.reshape(shape)
        return self._sum_at(places, winners, sq_dists, limits, n_jobs)

    def _sum_at(self, places: Ints, winners: Shorts, sq_dists: Floats, limits: Ints | None, n_jobs: int | None) -> Ints:
        sums, own_limits = self._room_for_sums(len(places), limits)
        tables = self._centers.sq_radii, self._kept.counts, own_limits, sums
        map_in_threads(
            lambda part: adding.sum_levels(
                part.start, part.stop, places, self._centers.owners, winners, sq_dists, *tables
            ),
            shares(len(places), n_jobs),
            n_jobs,
        )
        return sums

    def _room_for_sums(self, n: int, limits: Ints | None) -> tuple[Ints, Ints]:
        n_views, n_levels = self._no_limits.shape
        sums = np.zeros((n_views, n, n_levels + (limits is not None)), dtype=np.int64)
        return sums, self._no_limits if limits is None else limits

    def slide(self, places: Ints, nearest: Nearest, slots: Cells, n_jobs: int | None) -> None:
        """Put rows at places, and let the balls be those around the rows at ``slots``."""
        replaced = np.zeros(self._window.rows.shape[1], dtype=bool)
        replaced[places] = True
        changed = (slots != self._slots) | replaced[slots]
        self._slots = slots.copy()
        n_before, self._n_rows = self._n_rows, max(self._n_rows, int(places.max()) + 1)
        search.put_rows(0, places, nearest.X, tuple(self._window))
        self._follow(places, n_before, changed, nearest, n_jobs)

    def rescale(self, view: int, X: Floats, n_jobs: int | None) -> None:
        """Let the rows of one view be these, in the order of their places: (n, d)."""
        own = self._centers.owners == view
        self._window.middles[view], self._window.units[view] = _units_of(X[self._slots[own].ravel()[:_SAMPLE]])
        search.put_rows(view, np.arange(len(X)), X[None], tuple(self._window))
        changed = np.repeat(own[:, None], self._slots.shape[1], axis=1)
        shape = *self._kept.winners.shape[:2], 0
        nothing = Nearest(np.empty(shape, dtype=np.uint16), np.empty(shape), X[None, :0])
        self._follow(_NO_PLACES, self._n_rows, changed, nothing, n_jobs)

    def _follow(self, places: Ints, n_before: int, changed: Bools, nearest: Nearest, n_jobs: int | None) -> None:
        map_in_threads(
            lambda part: compiled.slide(
                part.start, part.stop, places, n_before, self._n_rows, changed, self._slots, nearest.winners,
                nearest.sq_dists, tuple(self._window), tuple(self._centers), tuple(self._kept),
            ),
            shares(len(changed), n_jobs),
            n_jobs,
        )  # fmt: skip
