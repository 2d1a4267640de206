"""Scalings in compiled code and in threads: the operations of ``scaling``, one by one, rounded alike."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats
from isobag.backends.numba.compiled import scales
from isobag.backends.threads import map_in_threads, slices
from isobag.data.scaling import LN2, AsinhScaling, LinearScaling, NormalScaling, Scaling

_BLOCK_NUMBERS = 1 << 16
_FACTORS = np.array([1 / (2 * term + 1) for term in range(scales.TERMS, 0, -1)])


def scale(scaling: Scaling, X: Floats, n_jobs: int | None) -> Floats:
    """Scaled copy of X, cut off as ``Scaling.apply`` does: (n, d)."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    scaled = np.empty_like(X)
    work = _compiled(scaling)
    size = max(scales.LANES, _BLOCK_NUMBERS // max(1, X.shape[1]))
    map_in_threads(lambda rows: work(X[rows], scaled[rows]), slices(len(X), size), n_jobs)
    return scaled


@singledispatch
def _compiled(scaling: Scaling) -> Callable[[Floats, Floats], Any]:
    """A function that scales rows (n, d) into others."""
    raise TypeError(f"no compiled {type(scaling).__name__}")


@_compiled.register
def _(scaling: LinearScaling) -> Callable[[Floats, Floats], Any]:
    return lambda X, scaled: scales.scale_linearly(X, scaling.shift, scaling.spread, FARTHEST, scaled)


@_compiled.register
def _(scaling: AsinhScaling) -> Callable[[Floats, Floats], Any]:
    return lambda X, scaled: scales.scale_by_asinh(X, scaling.shift, scaling.spread, FARTHEST, LN2, _FACTORS, scaled)


@_compiled.register
def _(scaling: NormalScaling) -> Callable[[Floats, Floats], Any]:
    knots = scaling.starts, scaling.values, scaling.scores, scaling.slopes

    def work(X: Floats, scaled: Floats) -> None:
        column, places = np.empty(scales.LANES), np.empty(scales.LANES, dtype=np.int64)
        scales.scale_by_knots(X, *knots, FARTHEST, column, places, scaled)

    return work
