"""Distances of groups to the groups nearest to them, from dot products on the device.

The operations of ``isobag.backends.numpy.mean_of_nearest`` in their order, each rounded once. Tensors are
divided by tensors: by a plain number, CUDA would multiply by its inverse.
"""

import torch

from isobag.backends.arrays import Deviations, Floats
from isobag.backends.torch.devices import square_root, tensor


def mean_of_nearest(dots: torch.Tensor, own: Deviations, others: Deviations, sq_norm: float, k: int) -> torch.Tensor:
    """Mean distance to the k nearest references, the group itself left out: (g, references) -> (g,)."""
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
    near = sq_dists.topk(k, dim=1, largest=False, sorted=True).values
    near = square_root(torch.where(torch.isfinite(near), near, 0.0))
    total = near[:, 0].clone()
    for each in near.t()[1:]:
        total += each
    return total / torch.full_like(total, k)
