"""The torch backend on one device."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from types import ModuleType

import numpy as np
import torch

from isobag.backends import numpy as definition
from isobag.backends.arrays import Array, Balls, Cells, Deviations, Floats, Ints, Knots, Scales, one_level
from isobag.backends.numba import trees
from isobag.backends.numba.groups import dot_pairs
from isobag.backends.scales import scale_each
from isobag.backends.sliding import Recounted, Sliding
from isobag.backends.threads import slices
from isobag.backends.torch import groups, host, neighbours, scales
from isobag.backends.torch.counts import Counts, DeviceCounts, as_device_counts, count_groups, dot_products
from isobag.backends.torch.devices import Placed, explained, free_memory, tensor


class Queries:
    """Rows on the device: X (n, d) float64."""

    def __init__(self, X: torch.Tensor) -> None:
        self.X = X

    @cached_property
    def by_feature(self) -> torch.Tensor:
        """The rows, feature after feature: (d, n)."""
        return self.X.t().contiguous()

    def parts(self, size: int, by_feature: bool) -> Iterator[torch.Tensor]:
        """Some rows after others, (d, m) each: feature after feature in memory, or row after row."""
        n = len(self.X)
        if not by_feature:
            return (self.X[own].contiguous().t() for own in slices(n, size))
        if n <= size:
            return iter([self.by_feature])
        return (self.X[own].t().contiguous() for own in slices(n, size))


class TorchBackend:
    """What ``isobag.backends.protocol.Backend`` asks for, on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def place(self, X: Placed) -> torch.Tensor:
        """Rows on the device, as float64."""
        with explained(self.device):
            return tensor(X, self.device, torch.float64)

    def fetch(self, values: Placed) -> Array:
        """Values as a NumPy array; those that are one already stay as they are."""
        if isinstance(values, np.ndarray):
            return values
        with explained(self.device):
            return _host(values.t()).T if values.ndim == 2 else _host(values)

    def prepare(self, X: Placed) -> Queries:
        """Queries for the methods below: (n, d)."""
        return Queries(self.place(X))

    def scale_linearly(self, X: Placed, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Placed:
        """(x - shift) / spread, limited to +-FARTHEST: (n, d). Rows in host memory stay there, in all three scales."""
        if isinstance(X, np.ndarray):
            return definition.scale_linearly(X, shift, spread)
        with explained(self.device):
            return scales.scale_linearly(X, shift, spread)

    def scale_by_asinh(self, X: Placed, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Placed:
        """Asinh of what ``scale_linearly`` returns: (n, d)."""
        if isinstance(X, np.ndarray):
            return definition.scale_by_asinh(X, shift, spread)
        with explained(self.device):
            return scales.asinh(scales.scale_linearly(X, shift, spread))

    def scale_by_knots(self, X: Placed, knots: Knots, n_jobs: int | None = None) -> Placed:
        """Piecewise linear through knots, limited to +-FARTHEST: (n, d)."""
        if isinstance(X, np.ndarray):
            return definition.scale_by_knots(X, knots)
        with explained(self.device):
            return scales.scale_by_knots(X, knots)

    def scale_views(self, X: Placed, scales: Scales, n_jobs: int | None = None) -> Sequence[Placed]:
        """X on the scale of each view: V times (n, d)."""
        return scale_each(self, X, scales, n_jobs)

    def sq_radii(self, points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> Floats:
        """Squared distance from each center to the nearest different center: (L, t, psi)."""
        with explained(self.device):
            own = tensor(points, self.device, torch.float64).t().contiguous()
            return _host(self._engine(len(own)).sq_radii(own, tensor(slots, self.device, torch.int32), levels))

    def assign_cells(self, queries: Queries, balls: Balls, rule: str, n_jobs: int | None = None) -> torch.Tensor:
        """Cell of every query in every partitioning, of the last level: (n, t) int32."""
        own = _only(balls, len(balls.levels) - 1)
        with explained(self.device):
            engine, parts = self._parts(queries, own)
            return torch.cat([engine.assign(x, own, rule) for x in parts], dim=1).t()

    def assign_levels(self, queries: Queries, balls: Balls, n_jobs: int | None = None) -> torch.Tensor:
        """Cell of every query in every partitioning of each level under the rule "nearest": (L, t, n) int32."""
        levels = (one_level(balls, level) for level in range(len(balls.levels)))
        return torch.stack([self.assign_cells(queries, own, "nearest").t() for own in levels])

    def count_cells(self, queries: Queries, balls: Balls, n_jobs: int | None = None) -> Ints:
        """Number of queries in each cell of each level: (L, t, psi)."""
        with explained(self.device):
            engine, parts = self._parts(queries, balls)
            total = torch.zeros(balls.sq_radii.shape, dtype=torch.int64, device=self.device)
            for x in parts:
                total += engine.count(x, balls)[0]
            return _host(total)

    def sum_at_cells(
        self, queries: Queries, balls: Balls, tables: Ints, rule: str = "nearest", limits: Ints | None = None,
        n_jobs: int | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Sum over partitionings of the table at the query's cell, OUTSIDE adding nothing: (n, L).

        With ``limits``, one more column: that of ``isobag.backends.numpy.sum_far``
        """
        with explained(self.device):
            if rule != "nearest":  # every psi is looked up for itself
                parts = []
                for level, psi in enumerate(balls.levels):
                    own = _only(balls, level)
                    table = tensor(tables[level : level + 1, :, :psi], self.device, torch.int64)
                    engine, blocks = self._parts(queries, own)
                    parts.append(torch.cat([engine.sum_at(x, own, table, rule) for x in blocks], dim=1).t())
                if limits is not None:
                    no_tables = np.zeros(balls.sq_radii.shape, dtype=np.int64)
                    parts.append(self.sum_at_cells(queries, balls, no_tables, limits=limits)[:, -1:])
                return torch.cat(parts, dim=1)
            table, given = tensor(tables, self.device, torch.int64), self._limits(limits)
            engine, blocks = self._parts(queries, balls)
            return torch.cat([engine.sum_at(x, balls, table, rule, given) for x in blocks], dim=1).t()

    def _limits(self, limits: Ints | None) -> torch.Tensor | None:
        return None if limits is None else tensor(limits, self.device, torch.int64)

    def count_and_sum(
        self, queries: Queries, balls: Balls, only_last: bool = False, limits: Ints | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Ints, torch.Tensor]:  # fmt: skip
        """Counts of all queries (L, t, psi), and what ``sum_at_cells`` makes of them, of all levels or the last.

        In one pass, where there is room for the cells.
        """
        n, (n_levels, t, _) = len(queries.X), balls.sq_radii.shape
        first = n_levels - 1 if only_last else 0
        if 4 * n * t * n_levels > self._room() or (only_last and limits is not None):
            counts = self.count_cells(queries, balls)
            own, tables = (one_level(balls, -1), counts[-1:]) if only_last else (balls, counts)
            return counts, self.sum_at_cells(queries, own, tables, limits=limits)
        with explained(self.device):
            engine, parts = self._parts(queries, balls)
            total = torch.zeros(balls.sq_radii.shape, dtype=torch.int64, device=self.device)
            kept, far, given = [], [], self._limits(limits)
            for x in parts:
                counts, cells, beyond = engine.count(x, balls, True, given)
                total += counts
                kept.append(cells[first:].clone() if first else cells)
                far.append(beyond)
            sums = torch.cat([engine.sum_kept(cells, total[first:]) for cells in kept], dim=1)
            if given is not None:
                sums = torch.cat([sums, torch.cat(far)[None]])
            return _host(total), sums.t()

    def _room(self) -> float:
        """Bytes that cells may take until they are counted, or the list of those in doubt."""
        return 0.4 * free_memory(self.device) if self.device.type == "cuda" else float(1 << 32)

    def count_group_cells(
        self, cells: Placed, starts: Ints, n_cells: int, n_columns: int, n_jobs: int | None = None
    ) -> DeviceCounts:
        """Number of each group's points in each cell: cells (n, t), groups side by side -> (g, t * n_columns)."""
        with explained(self.device):
            return count_groups(tensor(cells.T, self.device), starts, n_cells, n_columns)

    def dot_counts(
        self, counts: Counts, centers: Counts, n_jobs: int | None = None, rows: Ints | None = None
    ) -> torch.Tensor:
        """Dot products of all rows of counts with all centers, exact integers on the device: (n, centers)."""
        with explained(self.device):
            own, others = as_device_counts(counts, self.device), as_device_counts(centers, self.device)
            return dot_products(own, others)

    def near_and_far(
        self, dots: Placed, own: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...]
    ) -> Floats:
        """Distances of groups to near and far references, from dot products on the device: (g, len(ranks))."""
        with explained(self.device):
            return _host(neighbours.near_and_far(tensor(dots, self.device), own, others, sq_norm, ranks))

    def group_sq_radii(
        self, dots: Placed, rows: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells,
        levels: tuple[int, ...], n_jobs: int | None = None,
    ) -> Floats:  # fmt: skip
        """Squared distance from each center to the nearest different one; its dot products are dots[rows]."""
        with explained(self.device):
            on_device = tensor(dots, self.device)
            return _host(groups.group_sq_radii(on_device, rows, self_dots, sizes, unit, slots, levels))

    def assign_groups(
        self, dots: Placed, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
        slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
        with explained(self.device):
            own, others = (tensor(dots, self.device), self_dots, sizes), (center_self_dots, center_sizes, unit)
            return groups.assign_groups(*own, *others, slots, levels, sq_radii)

    def join_cells(self, parts: Sequence[Placed]) -> torch.Tensor:
        """Cells of some groups after those of others: (L, t, n)."""
        with explained(self.device):
            return torch.cat([tensor(part, self.device) for part in parts], dim=2)

    def count_assigned(self, cells: Placed, n_cells: int) -> Ints:
        """Number of groups in each cell: (L, t, n) -> (L, t, n_cells)."""
        with explained(self.device):
            return _host(host.count_kept(tensor(cells, self.device), n_cells))

    def sum_assigned(self, cells: Placed, tables: Ints) -> Ints:
        """Sum over partitionings of the table at each group's cell: (L, t, n), (L, t, n_cells) -> (n, L)."""
        with explained(self.device):
            table = tensor(tables, self.device, torch.int64)
            return self.fetch(self._engine(1).sum_kept(tensor(cells, self.device), table).t())

    def slide_window(
        self, X: Sequence[Floats], size: int, slots: Cells, owners: Ints, levels: tuple[int, ...],
        n_jobs: int | None = None,
    ) -> Sliding:  # fmt: skip
        """A window of ``size`` places with rows, and balls around those at ``slots``; all is counted anew."""
        return Recounted(self, X, size, slots, owners, levels, n_jobs)

    # Sums of few rows and radii are in host memory.
    floor_shares, weigh_terms = staticmethod(definition.floor_shares), staticmethod(definition.weigh_terms)
    middle_octave = staticmethod(definition.middle_octave)
    # Bags are in host memory, and trees are grown there.
    dot_pairs, grow_tree = staticmethod(dot_pairs), staticmethod(trees.grow_tree)

    def descend(
        self, X: Floats, columns: Cells, thresholds: Floats, children: Cells, n_jobs: int | None = None
    ) -> Cells:
        """Leaf of every row in every tree of each level, found on the processor: (L, n, t)."""
        return trees.descend(np.ascontiguousarray(X), columns, thresholds, children, n_jobs)

    def _engine(self, n_features: int) -> ModuleType:
        """The module that does the work: Numba in host memory, or Triton kernels for few or for many features."""
        if not groups.uses_kernels(self.device):
            return host
        from isobag.backends.torch import direct, products  # noqa: PLC0415, Triton is not there without a GPU

        return direct if n_features <= direct.MOST_FEATURES else products

    def _parts(self, queries: Queries, balls: Balls) -> tuple[ModuleType, Iterator[torch.Tensor]]:
        """An engine, and the queries as it takes them at once."""
        engine = self._engine(queries.X.shape[1])
        return engine, queries.parts(engine.rows_at_once(balls, self._room()), engine.BY_FEATURE)


def _only(balls: Balls, level: int) -> Balls:
    """One level alone; balls that have no other are themselves, so that what was made of them is found again."""
    return balls if len(balls.levels) == 1 else one_level(balls, level)


def _host(values: torch.Tensor) -> Array:
    """The values as a NumPy array; from a GPU through pinned memory, which is kept for the next time."""
    if not values.is_cuda:
        array: Array = values.numpy()
        return array
    pinned: Array = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values).numpy()
    return pinned
