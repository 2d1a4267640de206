"""The backend for GPUs, by torch and Triton: the integers of the NumPy backend, computed where the rows lie.

Rows in host memory are sent to the device block by block; see docs/gpu.md for when a GPU pays.
"""

from collections.abc import Sequence
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np

from isobag.backends.arrays import Array, Balls, Cells, Deviations, Floats, Ints, Knots, Singles, Terms
from isobag.backends.meter import report
from isobag.backends.pairs import dot_pairs
from isobag.backends.samples import Cut
from isobag.backends.threads import slices
from isobag.backends.torch import groups, rows
from isobag.backends.torch.counts import Counts, DeviceCounts, as_device_counts, count_cells, count_groups, dot_products
from isobag.backends.torch.devices import Placed, explained, resolve, tensor, to_host, torch
from isobag.backends.torch.terms import add_terms

__all__ = ["TorchBackend", "on", "torch"]
F = TypeVar("F")
_COUNTED_ROWS = 1 << 21


def on(device: str | None) -> "TorchBackend":
    """The backend on a device: "cuda" (or None), "cuda:1", "cpu", or "auto" for a GPU if there is one."""
    return _backend(str(resolve(device)))


@cache
def _backend(name: str) -> "TorchBackend":
    return TorchBackend(resolve(name))


def _there(verb: F) -> F:
    """The verb, with its device as the current one, and its errors explained."""

    @wraps(verb)  # type: ignore[arg-type]
    def explained_verb(self: "TorchBackend", *args: Any, **options: Any) -> Any:
        with explained(self.device):
            return verb(self, *args, **options)  # type: ignore[operator]

    return explained_verb  # type: ignore[return-value]


class TorchBackend:
    """The verbs of ``isobag.backends.protocol`` on one device; numbers of threads are not used."""

    dot_pairs = staticmethod(dot_pairs)  # of bags in host memory

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @_there
    def place(self, X: Placed) -> torch.Tensor:
        """Rows on the device: (n, d)."""
        return tensor(X, self.device)

    @_there
    def fetch(self, values: Placed) -> Array:
        """Values as a NumPy array."""
        return to_host(values) if isinstance(values, torch.Tensor) else values

    @_there
    def scale_linearly(self, X: Placed, shift: Floats, spread: Floats, n_jobs: int | None = None) -> torch.Tensor:
        """(x - shift) / spread, limited to +-FAR: (n, d)."""
        return rows.scale(self.place(X), rows.LINEAR, shift, spread)

    @_there
    def scale_by_asinh(self, X: Placed, shift: Floats, spread: Floats, n_jobs: int | None = None) -> torch.Tensor:
        """Asinh of (x - shift) / spread, limited to +-FAR: (n, d)."""
        return rows.scale(self.place(X), rows.ASINH, shift, spread)

    @_there
    def scale_by_knots(self, X: Placed, knots: Knots, n_jobs: int | None = None) -> torch.Tensor:
        """Score of the knot before x + slope * (x - that knot), limited to +-FAR: (n, d)."""
        return rows.scale_by_knots(self.place(X), knots)

    @_there
    def sq_radii(self, pool: Singles, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Singles:
        """Squared distance from each center to the nearest different one of its sample, 0 if there is none: (L, S)."""
        return to_host(rows.sq_radii(pool, slots, Cut(levels, len(slots)), self.device))

    @_there
    def assign_cells(
        self, X: Placed, balls: Balls, limits: Ints | None = None, n_jobs: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The slot whose ball each row is in for every sample (T, n), OUTSIDE for none; how far out rows are (n,)."""
        report(len(X))
        return rows.assign_cells(self.place(X), balls, limits)

    @_there
    def sum_at_cells(
        self, X: Placed, balls: Balls, tables: Ints, limits: Ints | None = None, n_jobs: int | None = None
    ) -> torch.Tensor:
        """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""
        report(len(X))
        return rows.sum_at_cells(self.place(X), balls, tables, limits)

    @_there
    def add_terms(
        self, sums: Sequence[Placed], terms: Terms, n_jobs: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sum of all terms of each row, and of the first, one after the other: (n, L + 1) a view -> (n,), (n,)."""
        return add_terms([self.place(each) for each in sums], terms, n_jobs)

    @_there
    def count_at_cells(self, X: Placed, balls: Balls, n_jobs: int | None = None) -> Ints:
        """Number of rows in each cell: (n, d) -> (L, S)."""
        X = self.place(X)
        counts = np.zeros(balls.sq_radii.shape, dtype=np.int64)
        for some in slices(len(X), _COUNTED_ROWS):
            counts += self.count_cells(self.assign_cells(X[some], balls)[0], balls.cut)
        return counts

    @_there
    def count_cells(self, cells: Placed, cut: Cut, n_jobs: int | None = None) -> Ints:
        """Number of rows in each cell: (T, n) -> (L, S)."""
        return to_host(count_cells(self.place(cells), cut))

    @_there
    def sum_cells(self, cells: Placed, cut: Cut, tables: Ints, n_jobs: int | None = None) -> torch.Tensor:
        """Sum over samples of the table (L, S) at each row's cell, OUTSIDE adding nothing: (T, n) -> (n, L)."""
        return rows.sum_cells(self.place(cells), cut, tables)

    @_there
    def count_groups(self, cells: Placed, cut: Cut, starts: Ints, n_jobs: int | None = None) -> DeviceCounts:
        """Number of each group's rows in each cell: cells (T, n), groups side by side -> (g, L S)."""
        return count_groups(self.place(cells), cut, starts)

    @_there
    def dot_counts(
        self, counts: Counts, centers: Counts, n_jobs: int | None = None, rows: Ints | None = None
    ) -> torch.Tensor:
        """Dot products of all rows of counts with all centers, integers: (n, centers)."""
        return dot_products(as_device_counts(counts, self.device), as_device_counts(centers, self.device))

    @_there
    def near_and_far(
        self, dots: Placed, groups_: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...]
    ) -> Floats:
        """Mean distance of groups to the nearest reference groups, and to those of other ranks: (g, len(ranks))."""
        return to_host(groups.near_and_far(self.place(dots), groups_, others, sq_norm, ranks))

    @_there
    def group_sq_radii(
        self, dots: Placed, rows: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells,
        levels: tuple[int, ...], n_jobs: int | None = None,
    ) -> Floats:  # fmt: skip
        """Squared distance from each center to the nearest different one; its dot products are dots[rows]."""
        return to_host(groups.group_sq_radii(self.place(dots), rows, self_dots, sizes, unit, slots, levels))

    @_there
    def assign_groups(
        self, dots: Placed, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
        slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
        of_centers = center_self_dots, center_sizes, unit
        return groups.assign_groups(self.place(dots), self_dots, sizes, *of_centers, slots, levels, sq_radii)

    @_there
    def join_cells(self, parts: Sequence[Placed]) -> torch.Tensor:
        """Cells of some groups after those of others: (L, t, n)."""
        return torch.cat([self.place(part) for part in parts], dim=2)

    @_there
    def count_assigned(self, cells: Placed, n_cells: int) -> Ints:
        """Number of groups in each cell: (L, t, n) -> (L, t, n_cells)."""
        return to_host(groups.count_assigned(self.place(cells), n_cells))

    @_there
    def sum_assigned(self, cells: Placed, tables: Ints) -> Ints:
        """Sum over partitionings of the table at each group's cell: (L, t, n), (L, t, psi) -> (n, L)."""
        return to_host(groups.sum_assigned(self.place(cells), tables))
