"""Scalings of tensors on a device: the operations of ``scaling``, one by one, so that they are rounded alike.

Tensors are never divided by a plain number, which CUDA would turn into a multiplication by its inverse.
"""

from functools import singledispatch
from typing import Any

from isobag.backends.arrays import FARTHEST
from isobag.backends.torch import torch
from isobag.backends.torch.devices import explained, square_root
from isobag.data.scaling import LN2, TERMS, AsinhScaling, LinearScaling, NormalScaling, Scaling

__all__ = ["asinh", "explained", "scale"]


@singledispatch
def scale(scaling: Scaling, X: Any) -> Any:
    """Scaled copy of X: (n, d) float64."""
    raise TypeError(f"no {type(scaling).__name__} on a device")


@scale.register
def _(scaling: LinearScaling, X: Any) -> Any:
    return (X - X.new_tensor(scaling.shift)).div_(X.new_tensor(scaling.spread))


@scale.register
def _(scaling: AsinhScaling, X: Any) -> Any:
    linear = (X - X.new_tensor(scaling.shift)).div_(X.new_tensor(scaling.spread))
    return asinh(linear.clamp_(-FARTHEST, FARTHEST))


@scale.register
def _(scaling: NormalScaling, X: Any) -> Any:
    scaled = torch.empty_like(X)
    values, scores, slopes = (X.new_tensor(own) for own in (scaling.values, scaling.scores, scaling.slopes))
    for j in range(scaling.n_features):
        a, b = int(scaling.starts[j]), int(scaling.starts[j + 1])
        column = X[:, j].contiguous()
        place = torch.searchsorted(values[a:b], column, right=True)
        knot = (place - 1).clamp_min_(0).add_(a)
        steps = slopes[place + (a + j)] * (column - values[knot])
        scaled[:, j] = scores[knot] + steps
    return scaled


def asinh(X: Any) -> Any:
    """As ``scaling.asinh``."""
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
