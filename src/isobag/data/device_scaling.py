"""Scalings of tensors on a device: the operations of ``scaling``, one by one, so that they are rounded alike.

Tensors are never divided by a plain number, which CUDA would turn into a multiplication by its inverse.
"""

from functools import singledispatch
from math import sqrt
from typing import Any

from isobag.backends.arrays import FARTHEST
from isobag.backends.torch import torch
from isobag.backends.torch.devices import square_root
from isobag.data.scaling import LN2, TERMS, AsinhScaling, LinearScaling, NormalScaling, Scaling


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
    size = X.abs()
    square = size * size
    return _log1p(size + square / (1 + square_root(1 + square))).copysign(X)


def _log1p(x: Any) -> Any:
    fraction, exponent = torch.frexp(1 + x)
    is_low = fraction < sqrt(0.5)
    fraction, exponent = torch.where(is_low, 2 * fraction, fraction), exponent - is_low.to(exponent.dtype)
    is_near = x < 0.5
    s = torch.where(is_near, x / (2 + x), (fraction - 1) / (fraction + 1))
    square = s * s
    total = torch.zeros_like(s)
    for term in range(TERMS, -1, -1):
        total = (total * square).add_(1 / (2 * term + 1))
    return 2 * s * total + torch.where(is_near, 0, exponent).to(x.dtype) * LN2
