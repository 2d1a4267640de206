"""Scales of the Numba backend: the operations of the NumPy backend one by one, rounded alike, in threads."""

from collections.abc import Callable
from itertools import count

import numpy as np

from isobag.backends import numpy as definition
from isobag.backends.arrays import FAR, Floats, Knots, Singles
from isobag.backends.numba.compiled import scales as compiled
from isobag.backends.numpy import LN2
from isobag.backends.threads import map_in_threads, slices

_BLOCK_NUMBERS = 1 << 16
_COMPILED_NUMBERS = 1 << 17
"""Of fewer numbers, scaling would wait longer for the compiler than it takes."""
_SMALL_CALLS = 1000
"""After so many small arrays there will be more of them, as when rows come one by one: compiling pays."""
_small_calls = count()
_FACTORS = np.array([1 / (2 * term + 1) for term in range(compiled.TERMS, 0, -1)])


def _compiling_pays(X: Floats) -> bool:
    return X.size > _COMPILED_NUMBERS or next(_small_calls) > _SMALL_CALLS


def scale_linearly(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Singles:
    """(x - shift) / spread, limited to +-FAR: (n, d)."""
    if not _compiling_pays(X):
        return definition.scale_linearly(X, shift, spread)
    return _scale(X, lambda X, scaled: compiled.scale_linearly(X, shift, spread, float(FAR), scaled), n_jobs)


def scale_by_asinh(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Singles:
    """Asinh of (x - shift) / spread, limited to +-FAR: (n, d)."""
    if not _compiling_pays(X):
        return definition.scale_by_asinh(X, shift, spread)
    return _scale(
        X, lambda X, scaled: compiled.scale_by_asinh(X, shift, spread, float(FAR), LN2, _FACTORS, scaled), n_jobs
    )


def scale_by_knots(X: Floats, knots: Knots, n_jobs: int | None = None) -> Singles:
    """Score of the knot before x + slope * (x - that knot), limited to +-FAR: (n, d)."""
    if not _compiling_pays(X):
        return definition.scale_by_knots(X, knots)
    d = X.shape[1]
    factors, most = np.empty(d), np.empty(d, dtype=np.int64)
    before = np.empty((d, compiled.BUCKETS), dtype=np.int32)
    compiled.guide_to_knots(knots.starts, knots.values, factors, before, most)
    return _scale(
        X, lambda X, scaled: compiled.scale_by_knots(X, *knots, factors, before, most, float(FAR), scaled), n_jobs
    )


def _scale(X: Floats, work: Callable[[Floats, Singles], None], n_jobs: int | None) -> Singles:
    """Rows scaled in blocks by a function that writes them: (n, d)."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    scaled = np.empty(X.shape, dtype=np.float32)
    if len(X) <= compiled.CHUNK_ROWS:  # as single rows, where the calls below would take longer than the work
        work(X, scaled)
        return scaled
    size = max(compiled.CHUNK_ROWS, _BLOCK_NUMBERS // max(1, X.shape[1]))
    map_in_threads(lambda rows: work(X[rows], scaled[rows]), slices(len(X), size), n_jobs)
    return scaled
