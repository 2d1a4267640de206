"""Level 2 on a device: cells of groups among groups, and their distances, from dot products of counts."""

import numpy as np

from isobag.backends import numpy as definition
from isobag.backends.arrays import OUTSIDE, Cells, Deviations, Floats, Ints
from isobag.backends.torch.devices import tensor, torch, uses_kernels


def group_sq_radii(
    dots: torch.Tensor, rows: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells, levels: tuple[int, ...],
    n_jobs: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Squared distance from each center to the nearest different one; its dot products are dots[rows]: (L, t, psi)."""
    if not uses_kernels(dots.device):
        of_centers = rows, self_dots, sizes, unit, slots, levels
        return torch.from_numpy(definition.group_sq_radii(dots.numpy(), *of_centers))
    from isobag.backends.torch import group_kernels  # noqa: PLC0415, Triton need not be there

    t, psi = slots.shape
    parts = [tensor(part, dots.device) for part in (rows, self_dots, sizes, np.gcd(sizes, unit), slots)]
    radii = torch.zeros((len(levels), t, psi), dtype=torch.float64, device=dots.device)
    group_kernels.nearest_other_groups[(-(-psi // 16), t)](
        dots, dots.stride(0), *parts, _levels(levels, dots.device), radii, t, psi, len(levels),
        rows=16, columns=64, enable_fp_fusion=False,
    )  # fmt: skip
    return radii


def assign_groups(
    dots: torch.Tensor, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
    slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    device, n, (t, psi) = dots.device, len(dots), slots.shape
    of_groups = self_dots, sizes, center_self_dots, center_sizes
    if not uses_kernels(device):
        return torch.from_numpy(definition.assign_groups(dots.numpy(), *of_groups, unit, slots, levels, sq_radii))
    from isobag.backends.torch import group_kernels  # noqa: PLC0415, Triton need not be there

    parts = [tensor(part, device) for part in (*of_groups[:2], np.gcd(sizes, unit), *of_groups[2:], slots)]
    cells = torch.empty((len(levels), t, n), dtype=torch.int32, device=device)
    if n:
        group_kernels.assign_groups[(-(-n // 16), t)](
            dots, dots.stride(0), *parts, _levels(levels, device), tensor(sq_radii, device), cells,
            n, t, psi, len(levels), rows=16, columns=64, enable_fp_fusion=False,
        )  # fmt: skip
    return cells


def _levels(levels: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(levels, dtype=torch.int32, device=device)


def count_assigned(cells: torch.Tensor, n_cells: int) -> torch.Tensor:
    """Number of groups in each cell: (L, t, n) -> (L, t, n_cells)."""
    n_levels, t, _ = cells.shape
    counts = torch.zeros((n_levels, t, n_cells + 1), dtype=torch.int64, device=cells.device)
    places = cells.to(torch.int64) + 1  # OUTSIDE is counted in front
    return counts.scatter_add_(2, places, torch.ones_like(places))[:, :, 1:].contiguous()


def sum_assigned(cells: torch.Tensor, tables: Ints) -> torch.Tensor:
    """Sum over partitionings of the table at each group's cell: (L, t, n), (L, t, psi) -> (n, L)."""
    values = tensor(tables, cells.device).gather(2, cells.clamp_min(0).to(torch.int64))
    return torch.where(cells == OUTSIDE, 0, values).sum(dim=1).t().contiguous()


def near_and_far(
    dots: torch.Tensor, groups: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...]
) -> torch.Tensor:
    """Mean distance to the nearest references, and to those of other ranks: (g, references) -> (g, len(ranks)).

    The operations of ``isobag.backends.numpy.near_and_far`` in their order, each rounded once. Tensors are divided by
    tensors: by a plain number, CUDA would multiply by its inverse.
    """

    def column(values: Floats) -> torch.Tensor:
        return tensor(values, dots.device)[:, None]

    def row(values: Floats) -> torch.Tensor:
        return tensor(values, dots.device)

    exact = dots.to(torch.float64)
    is_same = (exact == column(groups.self_dots)) & (exact == row(others.self_dots))
    is_same &= column(groups.sizes) == row(others.sizes)
    sq_dists = exact.div_(column(groups.sizes) * row(others.sizes))
    sq_dists -= column(groups.along)
    sq_dists -= row(others.along)
    sq_dists += sq_norm
    sq_dists *= column(-2 * groups.factors)
    sq_dists *= row(others.factors)
    sq_dists += column(groups.factors**2 * groups.sq_norms) + row(others.factors**2 * others.sq_norms)
    sq_dists.clamp_min_(0)
    first = torch.zeros_like(is_same).scatter_(1, is_same.to(torch.uint8).argmax(dim=1, keepdim=True), True)
    sq_dists.masked_fill_(is_same & first, float("inf"))
    ordered = sq_dists.topk(max(ranks), dim=1, largest=False, sorted=True).values
    ordered = torch.where(torch.isfinite(ordered), ordered, 0.0)
    # torch's own root is not correctly rounded on all processors
    ordered = ordered.sqrt() if ordered.is_cuda else torch.from_numpy(np.sqrt(ordered.numpy()))
    total = ordered[:, 0].clone()
    for each in ordered.t()[1 : ranks[0]]:
        total += each
    near = total / torch.full_like(total, ranks[0])
    return torch.stack([near, *(ordered[:, rank - 1] for rank in ranks[1:])], dim=1)
