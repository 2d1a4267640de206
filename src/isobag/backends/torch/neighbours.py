"""Distances of groups to near and far groups, from dot products on the device; see ``models/neighbours.py``.

The operations of its ``_sq_distances`` and ``_near_and_far`` in their order, each rounded once. Tensors are divided
by tensors: by a plain number, CUDA would multiply by its inverse.
"""

from typing import Any

import torch

from isobag.backends.torch.devices import square_root, tensor


def near_and_far(dots: torch.Tensor, own: Any, others: Any, sq_norm: float, ranks: tuple[int, ...]) -> torch.Tensor:
    """Mean distance to the nearest references, and to those of other ranks: (g, references) -> (g, 3)."""
    device = dots.device

    def column(values: Any) -> torch.Tensor:
        return tensor(values, device)[:, None]

    def row(values: Any) -> torch.Tensor:
        return tensor(values, device)

    exact = dots.to(torch.float64)
    is_same = (exact == column(own.self_dots)) & (exact == row(others.self_dots))
    is_same &= column(own.sizes) == row(others.sizes)
    found = exact.div_(column(own.sizes) * row(others.sizes))
    found -= column(own.along)
    found -= row(others.along)
    found += sq_norm
    found *= column(-2 * own.factors)
    found *= row(others.factors)
    found += column(own.factors**2 * own.sq_norms) + row(others.factors**2 * others.sq_norms)
    found.clamp_min_(0)
    first = torch.zeros_like(is_same).scatter_(1, is_same.to(torch.uint8).argmax(dim=1, keepdim=True), True)
    found.masked_fill_(is_same & first, float("inf"))
    ordered = found.topk(max(ranks), dim=1, largest=False, sorted=True).values
    ordered = square_root(torch.where(torch.isfinite(ordered), ordered, 0.0))
    total = ordered[:, 0].clone()
    for each in ordered.t()[1 : ranks[0]]:
        total += each
    near = total / torch.full_like(total, ranks[0])
    return torch.stack([near, *(ordered[:, rank - 1] for rank in ranks[1:])], dim=1)
