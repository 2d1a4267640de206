"""Scales of the Numba backend: the operations of the NumPy backend one by one, rounded alike, in threads."""

import sys
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np

from isobag.backends import numpy as definition
from isobag.backends.arrays import FARTHEST, Floats, Knots, Scales
from isobag.backends.numba import choose
from isobag.backends.numba.compiled import scales as compiled
from isobag.backends.numpy import LN2
from isobag.backends.scales import scale_each
from isobag.backends.threads import map_in_threads, slices

_BLOCK_NUMBERS = 1 << 16
_SMALL_CALLS = 1000
"""After so many small arrays there will be more of them, as when rows come one by one: compiling pays."""
_small_calls = count()
_FACTORS = np.array([1 / (2 * term + 1) for term in range(compiled.TERMS, 0, -1)])


def _compiling_pays(X: Floats) -> bool:
    return X.size > choose.COMPILED_NUMBERS or next(_small_calls) > _SMALL_CALLS


def scale_linearly(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Floats:
    """(x - shift) / spread, limited to +-FARTHEST: (n, d)."""
    if not _compiling_pays(X):
        return definition.scale_linearly(X, shift, spread)
    return _scale(X, lambda X, scaled: compiled.scale_linearly(X, shift, spread, FARTHEST, scaled), n_jobs)


def scale_by_asinh(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Floats:
    """Asinh of what ``scale_linearly`` returns: (n, d)."""
    if not _compiling_pays(X):
        return definition.scale_by_asinh(X, shift, spread)
    return _scale(
        X, lambda X, scaled: compiled.scale_by_asinh(X, shift, spread, FARTHEST, LN2, _FACTORS, scaled), n_jobs
    )


def scale_by_knots(X: Floats, knots: Knots, n_jobs: int | None = None) -> Floats:
    """Score of the knot before x + slope * (x - that knot), limited to +-FARTHEST: (n, d)."""
    if not _compiling_pays(X):
        return definition.scale_by_knots(X, knots)

    def work(X: Floats, scaled: Floats) -> None:
        column, places = np.empty(compiled.CHUNK_ROWS), np.empty(compiled.CHUNK_ROWS, dtype=np.int64)
        compiled.scale_by_knots(X, *knots, FARTHEST, column, places, scaled)

    return _scale(X, work, n_jobs)


def scale_views(X: Floats, scales: Scales, n_jobs: int | None = None) -> Sequence[Floats]:
    """X on the scale of each view: V times (n, d), of few rows by one compiled call."""
    if len(X) > compiled.CHUNK_ROWS or not _compiling_pays(X):
        return scale_each(sys.modules[__name__], X, scales, n_jobs)
    scaled = np.empty((len(scales.kinds), *X.shape))
    compiled.scale_views(np.ascontiguousarray(X, dtype=np.float64), *scales, FARTHEST, LN2, _FACTORS, scaled)
    return scaled  # type: ignore[return-value]  # an array of views is a sequence of them


def _scale(X: Floats, work: Callable[[Floats, Floats], None], n_jobs: int | None) -> Floats:
    """Rows scaled in blocks by a function that writes them: (n, d)."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    scaled = np.empty_like(X)
    if len(X) <= compiled.CHUNK_ROWS:  # as single rows, where the calls below would take longer than the work
        work(X, scaled)
        return scaled
    size = max(compiled.CHUNK_ROWS, _BLOCK_NUMBERS // max(1, X.shape[1]))
    map_in_threads(lambda rows: work(X[rows], scaled[rows]), slices(len(X), size), n_jobs)
    return scaled
