"""A window of rows whose nearest centers are remembered, so that a ball that is replaced costs two distances a row.

Levels are nested: the first 2 centers, the first 4, and so on. A shell is what a level adds to the one before. Each row
remembers the nearest center of every shell and its squared distance; the nearest center of a level is the nearest of
its shells. A new center competes with the one remembered of its shell; rows that lose theirs search the shell again.
Centers remember their nearest different centers in the same way, which makes the radii.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Cells, Floats, Ints
from isobag.backends.numba.compiled import sliding as compiled
from isobag.backends.numba.compiled.vectors import BLOCK
from isobag.backends.threads import map_in_threads, shares

Shorts = npt.NDArray[np.uint16]
_FEW = 4
"""So many rows are compared with centers one by one; more of them, together."""


class Nearest(NamedTuple):
    """Of rows: the nearest center of each shell and its squared distance (t, L, n), and the rows (n, d)."""

    winners: Shorts
    sq_dists: Floats
    X: Floats


class SlidingCells:
    """Rows of a window in blocks of BLOCK, the nearest center of each shell, and the cell at each level."""

    def __init__(self, X: Floats, size: int, slots: Cells, levels: tuple[int, ...], n_jobs: int | None) -> None:
        (t, psi), d = slots.shape, X.shape[1]
        n_blocks, n_levels = -(-size // BLOCK), len(levels)
        self._shells = np.array([0, *levels])
        self._slots = slots.copy()
        self._centers = np.ascontiguousarray(X[slots].transpose(0, 2, 1))  # (t, d, psi)
        self._n_rows = 0
        self._rows = np.empty((size, d))
        self._lanes = np.full((n_blocks, d, BLOCK), np.nan)
        self._winners = np.full((n_blocks, t, n_levels, BLOCK), compiled.NO_CELL, dtype=np.uint16)
        self._sq_dists = np.full((n_blocks, t, n_levels, BLOCK), np.inf)
        self._cells = np.full((n_blocks, t, n_levels, BLOCK), compiled.NO_CELL, dtype=np.uint16)
        self._others = np.full((t, n_levels, psi), -1, dtype=np.int16)
        self._to_others = np.full((t, n_levels, psi), np.inf)
        self.counts = np.zeros((n_levels, t, psi), dtype=np.int64)
        self.sq_radii = np.zeros((n_levels, t, psi))
        self._find_radii(np.ones((t, psi), dtype=bool), n_jobs)
        places = np.arange(len(X))
        self._put(places, X, self.find(X, n_jobs))
        self._change(places, np.zeros((t, psi), dtype=bool), n_jobs)

    def centers(self) -> Floats:
        """The centers: (t, psi, d)."""
        return np.ascontiguousarray(self._centers.transpose(0, 2, 1))

    def find(self, X: Floats, n_jobs: int | None) -> Nearest:
        """The nearest center of each shell: (n, d)."""
        (t, d, _), n = self._centers.shape, len(X)
        n_levels = len(self._shells) - 1
        winners, sq_dists = np.empty((t, n_levels, n), dtype=np.uint16), np.empty((t, n_levels, n))
        if n <= _FEW:
            compiled.search_rows(X, self._centers, self._shells, winners, sq_dists)
            return Nearest(winners, sq_dists, X)
        columns = np.zeros((d, n + compiled.AT_ONCE))
        columns[:, :n] = X.T

        def work(part: slice) -> None:
            compiled.search_columns(columns, self._centers[part], self._shells, winners[part], sq_dists[part])

        map_in_threads(work, shares(t, n_jobs), n_jobs)
        return Nearest(winners, sq_dists, X)

    def join(self, parts: list[Nearest]) -> Nearest:
        """What is known of some rows after what is known of others."""
        winners, sq_dists, rows = zip(*parts, strict=True)
        return Nearest(np.concatenate(winners, axis=2), np.concatenate(sq_dists, axis=2), np.concatenate(rows))

    def sum_at(self, nearest: Nearest, limits: Ints | None, n_jobs: int | None) -> Ints:
        """Sum over partitionings of the counts at each row's cell: (n, L), or (n, L + 1)."""
        n, n_levels = len(nearest.X), len(self.counts)
        sums = np.zeros((n, n_levels + (limits is not None)), dtype=np.int64)
        own_limits = np.full(n_levels, -1) if limits is None else limits

        def work(part: slice) -> None:
            compiled.sum_levels(
                part.start, part.stop, nearest.winners, nearest.sq_dists, self.sq_radii, self.counts, own_limits, sums
            )

        map_in_threads(work, shares(n, n_jobs), n_jobs)
        return sums

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None) -> Ints:
        """The same of rows of the window: (k,)."""
        blocks, lanes = places // BLOCK, places % BLOCK
        winners = self._winners[blocks, :, :, lanes].transpose(1, 2, 0)
        sq_dists = self._sq_dists[blocks, :, :, lanes].transpose(1, 2, 0)
        return self.sum_at(
            Nearest(np.ascontiguousarray(winners), np.ascontiguousarray(sq_dists), np.empty((len(places), 0))),
            limits,
            n_jobs,
        )

    def slide(self, places: Ints, X: Floats, nearest: Nearest, slots: Cells, n_jobs: int | None) -> None:
        """Put rows at places, and let the balls be those around the rows at ``slots``."""
        replaced = np.zeros(self._lanes.shape[0] * BLOCK, dtype=bool)
        replaced[places] = True
        changed = (slots != self._slots) | replaced[slots]
        self._slots = slots.copy()
        self._put(places, X, nearest)
        numbers, cells = np.nonzero(changed)
        own = slots[numbers, cells]
        self._centers[numbers, :, cells] = self._rows[own]
        self._find_radii(changed, n_jobs)
        self._change(places, changed, n_jobs)

    def _find_radii(self, changed: Bools, n_jobs: int | None) -> None:
        """Squared radii, from those before some centers changed: (t, psi)."""

        def work(part: slice) -> None:
            compiled.update_radii(
                part.start, part.stop, changed, self._centers, self._shells, self._others, self._to_others,
                self.sq_radii,
            )  # fmt: skip

        map_in_threads(work, shares(len(changed), n_jobs), n_jobs)

    def _put(self, places: Ints, X: Floats, nearest: Nearest) -> None:
        self._n_rows = max(self._n_rows, int(places.max()) + 1)
        kept = self._rows, self._lanes, self._winners, self._sq_dists
        compiled.put_rows(places, X, nearest.winners, nearest.sq_dists, *kept)

    def _change(self, places: Ints, changed: Bools, n_jobs: int | None) -> None:
        """Nearest centers, cells and counts, after rows at some places and some centers (t, psi) changed."""
        fresh = np.zeros((len(self._lanes), BLOCK), dtype=bool)
        fresh[places // BLOCK, places % BLOCK] = True
        numbers, cells = np.nonzero(changed)
        own, names = np.unique(self._slots[numbers, cells], return_inverse=True)
        points = self._rows[own]
        shells = np.searchsorted(self._shells, cells, side="right") - 1
        entries = np.stack([numbers, cells, shells, names.reshape(-1)], axis=1).astype(np.int64)
        is_changed = np.add.reduceat(changed, self._shells[:-1], axis=1) > 0  # (t, L)
        is_stale = np.logical_or.accumulate(is_changed, axis=1)
        n_blocks = -(-self._n_rows // BLOCK)
        kept = self._winners, self._sq_dists
        if len(entries):
            map_in_threads(
                lambda part: compiled.offer_centers(part.start, part.stop, points, entries, self._lanes, *kept),
                shares(n_blocks, n_jobs),
                n_jobs,
            )
            map_in_threads(
                lambda part: compiled.search_lost(
                    part.start, part.stop, self._rows[: self._n_rows], is_changed, self._centers, self._shells, *kept
                ),
                shares(len(changed), n_jobs),
                n_jobs,
            )

        def work(part: slice) -> Ints:
            added = np.zeros_like(self.counts)
            compiled.recount(
                part.start, part.stop, is_stale, fresh, self._shells, self.sq_radii, *kept, self._cells, added
            )
            return added

        for added in map_in_threads(work, shares(n_blocks, n_jobs), n_jobs):
            self.counts += added
