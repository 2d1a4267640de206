"""The definition in plain torch, one partitioning after the other: for the processor, and to test without a GPU."""

import torch

from isobag.backends.arrays import OCTAVE_BITS, OUTSIDE, Balls
from isobag.backends.threads import slices
from isobag.backends.torch.devices import tensor

_BLOCK_PAIRS = 1 << 21
BY_FEATURE = True


def rows_at_once(balls: Balls, room: float) -> int:
    """Most queries of a pass: any number, they are cut into blocks where they are measured."""
    return 1 << 40


def sq_distances(x: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Squared distances, features summed in order, each operation rounded once: (d, n), (d, m) -> (n, m)."""
    total = torch.zeros((x.shape[1], centers.shape[1]), dtype=torch.float64, device=x.device)
    for own, other in zip(x, centers, strict=True):
        step = own[:, None] - other[None, :]
        step *= step
        total += step
    return total


def choose_cells(sq_dists: torch.Tensor, sq_radii: torch.Tensor, rule: str) -> torch.Tensor:
    """Cell of each query from its distances to the centers of one partitioning: (n, psi), (psi,) -> (n,) int32."""
    inside = sq_dists <= sq_radii
    infinite = torch.full_like(sq_dists, float("inf"))
    if rule == "nearest":
        chosen = sq_dists.argmin(dim=1)
    elif rule == "covering":
        chosen = torch.where(inside, sq_dists, infinite).argmin(dim=1)
    else:
        chosen = torch.where(inside, sq_radii, infinite).argmin(dim=1)
        # A Voronoi cell has an infinite radius, which cannot be told from "not covered".
        chosen = torch.where(torch.isinf(sq_radii[chosen]), inside.to(torch.uint8).argmax(dim=1), chosen)
    covered = inside.gather(1, chosen[:, None])[:, 0]
    return torch.where(covered, chosen, OUTSIDE).to(torch.int32)


def find_cells(x: torch.Tensor, balls: Balls, level: int, rule: str) -> torch.Tensor:
    """Cell of every query in every partitioning of one level: (t, n) int32."""
    psi = balls.levels[level]
    points = tensor(balls.points, x.device, torch.float64).t().contiguous()
    slots = tensor(balls.slots[:, :psi].astype("int64"), x.device)
    sq_radii = tensor(balls.sq_radii[level, :, :psi], x.device)
    cells = torch.empty((len(slots), x.shape[1]), dtype=torch.int32, device=x.device)
    for i, chosen in enumerate(slots):
        for own in slices(x.shape[1], max(1, _BLOCK_PAIRS // psi)):
            cells[i, own] = choose_cells(sq_distances(x[:, own], points[:, chosen]), sq_radii[i], rule)
    return cells


def assign(x: torch.Tensor, balls: Balls, rule: str) -> torch.Tensor:
    """Cell of every query in every partitioning of the only level: (t, n) int32."""
    return find_cells(x, balls, 0, rule)


def count(
    x: torch.Tensor, balls: Balls, keep: bool = False, limits: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Number of queries in each cell (L, t, psi) int32, the cells (L, t, n), and the octaves beyond the limits (n,)."""
    kept = torch.stack([find_cells(x, balls, level, "nearest") for level in range(len(balls.levels))])
    far = None if limits is None else sum_far(x, balls, limits)
    return count_kept(kept, balls.slots.shape[1]).to(torch.int32), kept, far


def count_kept(kept: torch.Tensor, n_cells: int) -> torch.Tensor:
    """Number of queries in each cell: (L, t, n) -> (L, t, n_cells) int64."""
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
    levels = range(len(balls.levels))
    sums = [sum_kept(find_cells(x, balls, own, rule)[None], tables[own : own + 1])[0] for own in levels]
    return torch.stack(sums if limits is None else [*sums, sum_far(x, balls, limits)])


def sum_far(x: torch.Tensor, balls: Balls, limits: torch.Tensor) -> torch.Tensor:
    """Octaves of the squared distance to the nearest center beyond the limits, where OUTSIDE: (n,) int64."""
    total = torch.zeros(x.shape[1], dtype=torch.int64, device=x.device)
    points = tensor(balls.points, x.device, torch.float64).t().contiguous()
    for level, limit in enumerate(limits.tolist()):
        if limit < 0:
            continue
        psi, sq_radii = balls.levels[level], tensor(balls.sq_radii[level], x.device)
        for i, chosen in enumerate(tensor(balls.slots[:, :psi].astype("int64"), x.device)):
            for own in slices(x.shape[1], max(1, _BLOCK_PAIRS // psi)):
                sq_dist, nearest = sq_distances(x[:, own], points[:, chosen]).min(dim=1)
                beyond = ((sq_dist.view(torch.int64) >> OCTAVE_BITS) - limit).clamp_min(0)
                total[own] += torch.where(sq_dist > sq_radii[i][nearest], beyond, 0)
    return total


def sum_kept(kept: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """Sums of the tables at cells that were kept: (L, t, n), (L, t, psi) -> (L, n) int64."""
    values = tables.gather(2, kept.clamp_min(0).to(torch.int64))
    return torch.where(kept == OUTSIDE, 0, values).sum(dim=1)


def sq_radii(points: torch.Tensor, slots: torch.Tensor, levels: tuple[int, ...]) -> torch.Tensor:
    """Squared distance from each center to the nearest different one: points (d, m) -> (L, t, psi)."""
    radii = torch.zeros((len(levels), *slots.shape), dtype=torch.float64, device=points.device)
    for i, chosen in enumerate(slots.to(torch.int64)):
        for level, psi in enumerate(levels):
            centers = points[:, chosen[:psi]]
            for own in slices(psi, max(1, _BLOCK_PAIRS // psi)):
                radii[level, i, own] = least_positive(sq_distances(centers[:, own], centers))
    return radii


def least_positive(sq_dists: torch.Tensor) -> torch.Tensor:
    """Smallest positive number of each row, 0 if there is none."""
    nearest = torch.where(sq_dists > 0, sq_dists, float("inf")).amin(dim=1)
    return torch.where(torch.isinf(nearest), 0.0, nearest)
