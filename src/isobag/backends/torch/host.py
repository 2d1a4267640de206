"""Tensors in host memory: the Numba backend, on the memory that tensors and arrays share."""

import numpy as np
import torch

from isobag.backends.arrays import OUTSIDE, Balls, Floats
from isobag.backends.compute import Compute
from isobag.backends.protocol import Queries

BY_FEATURE = False
NUMBA = Compute("numba").verbs


def rows_at_once(balls: Balls, room: float) -> int:
    """Most queries of a pass: any number, the backend cuts them into blocks itself."""
    return 1 << 40


def _queries(x: torch.Tensor) -> Queries:
    """Queries of the Numba backend from rows (d, n)."""
    return NUMBA.prepare(np.ascontiguousarray(x.t().numpy()))


def assign(x: torch.Tensor, balls: Balls, rule: str) -> torch.Tensor:
    """Cell of every query in every partitioning of the only level: (t, n) int32."""
    return torch.from_numpy(NUMBA.assign_cells(_queries(x), balls, rule, None).T)


def count(
    x: torch.Tensor, balls: Balls, keep: bool = False, limits: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Number of queries in each cell (L, t, psi), the cells (L, t, n), and the octaves beyond the limits (n,)."""
    queries = _queries(x)
    kept = torch.from_numpy(NUMBA.assign_levels(queries, balls, None))
    far = None
    if limits is not None:
        no_tables = np.zeros(balls.sq_radii.shape, dtype=np.int64)
        far = torch.from_numpy(NUMBA.sum_at_cells(queries, balls, no_tables, "nearest", limits.numpy(), None)[:, -1])
    return count_kept(kept, balls.slots.shape[1]), kept, far


def count_kept(kept: torch.Tensor, n_cells: int) -> torch.Tensor:
    """Number of queries in each cell: (L, t, n) -> (L, t, n_cells) int64; on a GPU too."""
    n_levels, t, _ = kept.shape
    # OUTSIDE is counted in a column of its own in front, which is then left out.
    rows = torch.arange(n_levels * t, device=kept.device).view(-1, t, 1) * (n_cells + 1)
    counts = torch.zeros(n_levels * t * (n_cells + 1), dtype=torch.int64, device=kept.device)
    places = (kept + 1 + rows).flatten()
    counts.scatter_add_(0, places, counts.new_ones(1).expand(len(places)))
    return counts.view(n_levels, t, n_cells + 1)[:, :, 1:].contiguous()


def sum_at(
    x: torch.Tensor, balls: Balls, tables: torch.Tensor, rule: str, limits: torch.Tensor | None = None
) -> torch.Tensor:
    """Sums over partitionings of the tables at the queries' cells: (L, n) int64, one row more with ``limits``."""
    given = None if limits is None else limits.numpy()
    return torch.from_numpy(NUMBA.sum_at_cells(_queries(x), balls, tables.numpy(), rule, given, None).T)


def sum_kept(kept: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """Sums of the tables at cells that were kept: (L, t, n), (L, t, psi) -> (L, n) int64."""
    values = tables.gather(2, kept.clamp_min(0).to(torch.int64))
    return torch.where(kept == OUTSIDE, 0, values).sum(dim=1)


def sq_radii(points: torch.Tensor, slots: torch.Tensor, levels: tuple[int, ...]) -> torch.Tensor:
    """Squared distance from each center to the nearest different one: points (d, m) -> (L, t, psi)."""
    rows: Floats = np.ascontiguousarray(points.t().numpy())
    return torch.from_numpy(NUMBA.sq_radii(rows, slots.numpy(), levels, None))
