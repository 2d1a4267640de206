"""Level 2 on a device: cells of groups among groups, and their distances, from dot products of counts."""

import numpy as np

from isobag.backends.arrays import OUTSIDE, Cells, Deviations, Floats, Ints
from isobag.backends.threads import slices
from isobag.backends.torch.devices import tensor, torch

_BLOCK_PAIRS = 1 << 26


def assign_groups(
    dots: torch.Tensor, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
    slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    device, n, (t, psi) = dots.device, len(dots), slots.shape
    radii, columns = tensor(sq_radii, device), tensor(slots, device, torch.int64).flatten()
    every = torch.arange(t, device=device)
    cells = torch.empty((len(levels), t, n), dtype=torch.int32, device=device)
    for groups in slices(n, max(1, _BLOCK_PAIRS // (t * psi))):
        of_groups = dots[groups], self_dots[groups], sizes[groups]
        sq_dists = _sq_distances(*of_groups, center_self_dots, center_sizes, unit)[:, columns].view(-1, t, psi)
        for level, size in enumerate(levels):
            least, place = sq_dists[:, :, :size].min(dim=2)  # the first of several
            chosen = torch.where(least <= radii[level][every, place], place, OUTSIDE)
            cells[level, :, groups] = chosen.t().to(torch.int32)
    return cells


def _sq_distances(
    dots: torch.Tensor, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int
) -> torch.Tensor:
    """The operations of ``isobag.backends.numpy.group_sq_distances`` in their order, each rounded once."""
    device, common = dots.device, np.gcd(sizes, unit)
    m = tensor((sizes // common).astype(np.float64), device)[:, None]
    others = (tensor(center_sizes, device) // tensor(common, device)[:, None]).to(torch.float64)
    of_groups, of_centers = tensor(self_dots, device)[:, None], tensor(center_self_dots, device)
    above = (others * others * of_groups - 2 * others * m * dots.to(torch.float64)) + m * m * of_centers
    below = others * tensor(sizes.astype(np.float64), device)[:, None]
    return above.clamp_min_(0).div_(below * below)


def near_and_far(
    dots: torch.Tensor, groups: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...],
    n_jobs: int | None = None,
) -> torch.Tensor:  # fmt: skip
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
