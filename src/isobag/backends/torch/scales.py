"""Scales of tensors on a device: the operations of the NumPy backend one by one, so that they are rounded alike.

Tensors are never divided by a plain number, which CUDA would turn into a multiplication by its inverse.
"""

import torch

from isobag.backends.arrays import FARTHEST, Floats, Knots
from isobag.backends.numpy import LN2, TERMS
from isobag.backends.torch.devices import square_root


def scale_linearly(X: torch.Tensor, shift: Floats, spread: Floats) -> torch.Tensor:
    """(x - shift) / spread, limited to +-FARTHEST: (n, d)."""
    return (X - X.new_tensor(shift)).div_(X.new_tensor(spread)).clamp_(-FARTHEST, FARTHEST)


def scale_by_knots(X: torch.Tensor, knots: Knots) -> torch.Tensor:
    """Score of the knot before x + slope * (x - that knot), limited to +-FARTHEST: (n, d)."""
    scaled = torch.empty_like(X)
    values, scores, slopes = (X.new_tensor(own) for own in (knots.values, knots.scores, knots.slopes))
    for j in range(X.shape[1]):
        a, b = int(knots.starts[j]), int(knots.starts[j + 1])
        column = X[:, j].contiguous()
        place = torch.searchsorted(values[a:b], column, right=True)
        knot = (place - 1).clamp_min_(0).add_(a)
        steps = slopes[place + (a + j)] * (column - values[knot])
        scaled[:, j] = scores[knot] + steps
    return scaled.clamp_(-FARTHEST, FARTHEST)


def asinh(X: torch.Tensor) -> torch.Tensor:
    """As ``isobag.backends.numpy.asinh``."""
    x = X.abs()
    root = square_root(1 + x * x)
    total = x + root
    half, exponent = torch.frexp(total)
    is_near = x < 0.75
    s = torch.where(is_near, x / (1 + root), (half - 0.5) / (half + 0.5))
    square = s * s
    rest = torch.zeros_like(s)
    for term in range(TERMS, 0, -1):
        rest = rest.add_(1 / (2 * term + 1)).mul_(square)
    near = x + x * (rest - square * (1 + rest))
    rounded_off = (x - (total - root)) / total
    far = (exponent - 1).to(x.dtype) * LN2 + (2 * (s + s * rest) + rounded_off)
    return torch.where(is_near, near, far).copysign(X)
