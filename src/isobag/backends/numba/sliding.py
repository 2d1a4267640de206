"""A window of rows whose nearest centers are remembered, so that a ball that is replaced costs two distances a row.

Levels are nested: the first 2 centers, the first 4, and so on. A shell is what a level adds to the one before. Each row
remembers the nearest center of every shell and its squared distance; the nearest center of a level is the nearest of
its shells. A new center competes with the one remembered of its shell; rows that lose theirs search the shell again.
Centers remember their nearest different centers in the same way, which makes the radii. Distances are compared in
float32 first; what that cannot decide, in float64.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Cells, Floats, Ints
from isobag.backends.numba.compiled import sliding as compiled
from isobag.backends.numba.compiled import sliding_search as search
from isobag.backends.numba.compiled.vectors import BLOCK
from isobag.backends.threads import map_in_threads, shares

Shorts = npt.NDArray[np.uint16]
Singles = npt.NDArray[np.float32]
_FEW = 4
"""So many rows are compared with centers one by one; more of them, together."""
_SAMPLE = 256


class _Units(NamedTuple):
    """Where float32 is finest: rows are (x - middle) / unit."""

    middle: Floats
    unit: float  # a power of two

    @property
    def sq_unit(self) -> float:
        return self.unit * self.unit


def _units_of(points: Floats) -> _Units:
    """The middle of some points (m, d), and about their typical distance from it; only speed depends on it."""
    middle = np.median(points, axis=0)
    with np.errstate(over="ignore"):
        spread = np.median(np.abs(points - middle), axis=0).max()
    return _Units(middle, 2.0 ** int(np.clip(np.log2(spread), -400, 400)) if spread > 0 else 1.0)


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
        self._no_limits = np.full(n_levels, -1)
        self._slots = slots.copy()
        self._centers = np.ascontiguousarray(X[slots].transpose(0, 2, 1))  # (t, d, psi)
        self._n_rows = 0
        self._rows = np.empty((size, d))
        self._units = _units_of(X[slots.ravel()[:_SAMPLE]])
        self._singles = np.zeros((n_blocks, d, BLOCK), dtype=np.float32)
        self._norms = np.zeros((n_blocks, BLOCK))
        self._bounds = np.full((t, n_levels, n_blocks, BLOCK), -np.inf, dtype=np.float32)
        self._winners = np.full((t, n_levels, n_blocks, BLOCK), compiled.NO_CELL, dtype=np.uint16)
        self._sq_dists = np.full((t, n_levels, n_blocks, BLOCK), np.inf)
        self._others = np.full((t, n_levels, psi), -1, dtype=np.int16)
        self._to_others = np.full((t, n_levels, psi), np.inf)
        self.counts = np.zeros((n_levels, t, psi), dtype=np.int64)
        self.sq_radii = np.zeros((n_levels, t, psi))
        self._center_singles, self._center_norms = np.empty((t, psi, d), dtype=np.float32), np.empty((t, psi))
        everything = np.ones((t, psi), dtype=bool)
        self._find_radii(everything, n_jobs)
        places = np.arange(len(X))
        compiled.put_singles(places, *self._round(X), self._singles, self._norms)
        self._round_centers(np.nonzero(everything))
        self._put(places, X, self.find(X, n_jobs))
        self._recount(np.ones((t, n_levels), dtype=bool), n_jobs)

    def centers(self) -> Floats:
        """The centers: (t, psi, d)."""
        return np.ascontiguousarray(self._centers.transpose(0, 2, 1))

    def find(self, X: Floats, n_jobs: int | None) -> Nearest:
        """The nearest center of each shell: (n, d)."""
        t, n = len(self._centers), len(X)
        n_levels = len(self._shells) - 1
        winners, sq_dists = np.empty((t, n_levels, n), dtype=np.uint16), np.empty((t, n_levels, n))
        if n <= _FEW:
            search.search_rows(X, self._centers, self._shells, winners, sq_dists)
            return Nearest(winners, sq_dists, X)
        singles, norms = self._round(X)

        def work(part: slice) -> None:
            search.search_blocks(
                X, singles, norms, self._centers[part], self._center_singles[part], self._reaches[part], self._shells,
                winners[part], sq_dists[part],
            )  # fmt: skip

        map_in_threads(work, shares(t, n_jobs), n_jobs)
        return Nearest(winners, sq_dists, X)

    def join(self, parts: list[Nearest]) -> Nearest:
        """What is known of some rows after what is known of others."""
        winners, sq_dists, rows = zip(*parts, strict=True)
        return Nearest(np.concatenate(winners, axis=2), np.concatenate(sq_dists, axis=2), np.concatenate(rows))

    def first(self, nearest: Nearest, n: int) -> Nearest:
        """What is known of the first n rows."""
        winners, sq_dists, X = nearest
        return nearest if n == len(X) else Nearest(winners[:, :, :n], sq_dists[:, :, :n], X[:n])

    def sum_at(self, nearest: Nearest, limits: Ints | None, n_jobs: int | None) -> Ints:
        """Sum over partitionings of the counts at each row's cell: (n, L), or (n, L + 1)."""
        return self._sum_at(np.arange(len(nearest.X)), nearest.winners, nearest.sq_dists, limits, n_jobs)

    def sum_at_places(self, places: Ints, limits: Ints | None, n_jobs: int | None) -> Ints:
        """The same of rows of the window: (k,)."""
        shape = *self._winners.shape[:2], -1
        return self._sum_at(places, self._winners.reshape(shape), self._sq_dists.reshape(shape), limits, n_jobs)

    def _sum_at(self, places: Ints, winners: Shorts, sq_dists: Floats, limits: Ints | None, n_jobs: int | None) -> Ints:
        sums = np.zeros((len(places), len(self.counts) + (limits is not None)), dtype=np.int64)
        own_limits = self._no_limits if limits is None else limits
        kept = places, winners, sq_dists, self.sq_radii, self.counts, own_limits, sums
        if len(places) <= _FEW:
            compiled.sum_levels(0, len(places), *kept)
            return sums
        map_in_threads(
            lambda part: compiled.sum_levels(part.start, part.stop, *kept), shares(len(places), n_jobs), n_jobs
        )
        return sums

    def slide(self, places: Ints, X: Floats, nearest: Nearest, slots: Cells, n_jobs: int | None) -> None:
        """Put rows at places, and let the balls be those around the rows at ``slots``."""
        replaced = np.zeros(len(self._singles) * BLOCK, dtype=bool)
        replaced[places] = True
        changed = (slots != self._slots) | replaced[slots]
        is_changed = np.logical_or.reduceat(changed, self._shells[:-1], axis=1)  # (t, L)
        is_stale = np.logical_or.accumulate(is_changed, axis=1)
        self._count(places[places < self._n_rows], -1, is_stale, n_jobs)
        self._slots = slots.copy()
        compiled.put_singles(places, *self._round(X), self._singles, self._norms)
        self._put(places, X, nearest)
        numbers, cells = np.nonzero(changed)
        self._centers[numbers, :, cells] = self._rows[slots[numbers, cells]]
        self._round_centers((numbers, cells))
        self._find_radii(changed, n_jobs)
        self._find_nearest(changed, is_changed, n_jobs)
        self._count(places, 1, is_stale, n_jobs)
        self._recount(is_stale, n_jobs)

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
        compiled.put_rows(
            places, X, nearest.winners, nearest.sq_dists, self._units.sq_unit, self._rows, self._norms, self._winners,
            self._sq_dists, self._bounds,
        )  # fmt: skip

    def _round(self, X: Floats) -> tuple[Singles, Floats]:
        """Rows in float32, in blocks (blocks, d, BLOCK), and their norms (blocks, BLOCK)."""
        n_blocks = -(-len(X) // BLOCK)
        singles, norms = np.zeros((n_blocks, X.shape[1], BLOCK), dtype=np.float32), np.zeros((n_blocks, BLOCK))
        search.round_rows(X, self._units.middle, self._units.unit, singles, norms)
        return singles, norms

    def _round_centers(self, which: tuple[npt.NDArray[np.intp], ...]) -> None:
        """Some centers in float32 (t, psi, d), as the rows that they are, and the largest norm of each partitioning."""
        blocks, lanes = np.divmod(self._slots[which], BLOCK)
        self._center_singles[which] = self._singles[blocks, :, lanes]
        self._center_norms[which] = self._norms[blocks, lanes]
        self._reaches = self._center_norms.max(axis=1)

    def _find_nearest(self, changed: Bools, is_changed: Bools, n_jobs: int | None) -> None:
        """Nearest centers, after some centers (t, psi), which are of some shells (t, L), changed."""
        numbers, cells = np.nonzero(changed)
        if not len(numbers):
            return
        own, names = np.unique(self._slots[numbers, cells], return_inverse=True)
        shells = np.searchsorted(self._shells, cells, side="right") - 1
        entries = np.stack([numbers, cells, shells, names.reshape(-1)], axis=1).astype(np.int64)
        kept = self._singles, self._norms, self._winners, self._sq_dists, self._bounds
        map_in_threads(
            lambda part: compiled.search_lost(
                part.start, part.stop, self._rows[: self._n_rows], changed, is_changed, self._centers,
                self._center_singles, self._reaches, self._shells, *self._units, *kept[1:],
            ),
            shares(len(changed), n_jobs),
            n_jobs,
        )  # fmt: skip
        map_in_threads(
            lambda part: compiled.offer_centers(
                part.start, part.stop, own.astype(np.int64), entries, self._units.sq_unit, self._rows, *kept
            ),
            shares(-(-self._n_rows // BLOCK), n_jobs),
            n_jobs,
        )

    def _count(self, places: Ints, step: int, is_stale: Bools, n_jobs: int | None) -> None:
        """Count rows at some places in or out, at the levels that are not stale (t, L)."""
        kept = self.sq_radii, self._winners, self._sq_dists, self.counts
        map_in_threads(
            lambda part: compiled.count_rows(part.start, part.stop, places, step, is_stale, *kept),
            shares(len(is_stale), n_jobs),
            n_jobs,
        )

    def _recount(self, is_stale: Bools, n_jobs: int | None) -> None:
        """Count all rows at the levels that are stale (t, L)."""
        kept = self.sq_radii, self._winners, self._sq_dists, self.counts
        map_in_threads(
            lambda part: compiled.recount(part.start, part.stop, self._n_rows, is_stale, *kept),
            shares(len(is_stale), n_jobs),
            n_jobs,
        )
