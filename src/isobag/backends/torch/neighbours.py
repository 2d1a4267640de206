"""Distances of groups to near and far groups, from dot products on the device.

The operations of ``isobag.backends.numpy.near_and_far`` in their order, each rounded once. Tensors are
divided by tensors: by a plain number, CUDA would multiply by its inverse.
"""

import torch

from isobag.backends.arrays import Deviations, Floats
from isobag.backends.torch.devices import square_root, tensor


def near_and_far(
    dots: torch.Tensor, own: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...]
) -> torch.Tensor:
    """Mean distance to the nearest references, and to those of other ranks: (g, references) -> (g, len(ranks))."""
    device = dots.device

    def column(values: Floats) -> torch.Tensor:
        return tensor(values, device)[:, None]

    def row(values: Floats) -> torch.Tensor:
        return tensor(values, device)

    exact = dots.to(torch.float64)
    is_same = (exact == column(own.self_dots)) & (exact == row(others.self_dots))
    is_same &= column(own.sizes) == row(others.sizes)
    sq_dists = exact.div_(column(own.sizes) * row(others.sizes))
    sq_dists -= column(own.along)
    sq_dists -= row(others.along)
    sq_dists += sq_norm
    sq_dists *= column(-2 * own.factors)
    sq_dists *= row(others.factors)
    sq_dists += column(own.factors**2 * own.sq_norms) + row(others.factors**2 * others.sq_norms)
    sq_dists.clamp_min_(0)
    first = torch.zeros_like(is_same).scatter_(1, is_same.to(torch.uint8).argmax(dim=1, keepdim=True), True)
    sq_dists.masked_fill_(is_same & first, float("inf"))
    ordered = sq_dists.topk(max(ranks), dim=1, largest=False, sorted=True).values
    ordered = square_root(torch.where(torch.isfinite(ordered), ordered, 0.0))
    total = ordered[:, 0].clone()
    for each in ordered.t()[1 : ranks[0]]:
        total += each
    near = total / torch.full_like(total, ranks[0])
    return torch.stack([near, *(ordered[:, rank - 1] for rank in ranks[1:])], dim=1)
