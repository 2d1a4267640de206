"""Scales of the Numba backend: the operations of the NumPy backend one by one, rounded alike, in threads."""

from collections.abc import Callable
from itertools import count

import numpy as np

from isobag.backends import numpy as definition
from isobag.backends.arrays import FAR, Floats, Knots, Singles
from isobag.backends.numba.jit import jit, jit_inner
from isobag.backends.numba.llvm import bits, number_of
from isobag.backends.numpy import LN2, TERMS
from isobag.backends.threads import map_in_threads, slices

_BLOCK_NUMBERS, _COMPILED_NUMBERS, _SMALL_CALLS = 1 << 16, 1 << 17, 1000
"""Of fewer numbers, scaling would wait longer for the compiler than it takes, unless there are many such arrays."""
_small_calls = count()
_CHUNK_ROWS = 512
"""Rows that a feature is scaled in together: its knots are brought from memory once for all of them."""
_BUCKETS = 2048
"""Parts of a feature's range, each with the number of knots before it, so that few are left to search."""
_MOST = float(FAR)
_FACTORS = np.array([1 / (2 * term + 1) for term in range(TERMS, 0, -1)])
_SIGN = np.int64(-(2**63))
_FRACTION = np.int64((1 << 52) - 1)
_HALF = np.int64(1022 << 52)
Scale = Callable[[Floats], Singles]


def scale_linearly(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Singles:
    """(x - shift) / spread, limited to +-FAR: (n, d)."""
    plain: Scale = lambda X: definition.scale_linearly(X, shift, spread)  # noqa: E731
    return _scale(X, plain, lambda X, scaled: write_linearly(X, shift, spread, scaled), n_jobs)


def scale_by_asinh(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Singles:
    """Asinh of (x - shift) / spread, limited to +-FAR: (n, d)."""
    plain: Scale = lambda X: definition.scale_by_asinh(X, shift, spread)  # noqa: E731
    return _scale(X, plain, lambda X, scaled: write_by_asinh(X, shift, spread, scaled), n_jobs)


def scale_by_knots(X: Floats, knots: Knots, n_jobs: int | None = None) -> Singles:
    """Score of the knot before x + slope * (x - that knot), limited to +-FAR: (n, d)."""
    plain: Scale = lambda X: definition.scale_by_knots(X, knots)  # noqa: E731
    guide = np.zeros(X.shape[1]), np.zeros((X.shape[1], 1), dtype=np.int32), np.diff(knots.starts)
    if len(X) > _CHUNK_ROWS and X.size > _COMPILED_NUMBERS:  # else the guide would take longer than the search
        guide = guide[0], np.empty((X.shape[1], _BUCKETS), dtype=np.int32), guide[2]
        guide_to_knots(knots.starts, knots.values, *guide)
    return _scale(X, plain, lambda X, scaled: write_by_knots(X, *knots, *guide, scaled), n_jobs)


def _scale(X: Floats, plain: Scale, write: Callable[[Floats, Singles], None], n_jobs: int | None) -> Singles:
    """Rows scaled by NumPy, or in blocks by a function that writes them: (n, d)."""
    if X.size <= _COMPILED_NUMBERS and next(_small_calls) <= _SMALL_CALLS:
        return plain(X)
    X = np.ascontiguousarray(X, dtype=np.float64)
    scaled = np.empty(X.shape, dtype=np.float32)
    if len(X) <= _CHUNK_ROWS:  # as single rows, where the calls below would take longer than the work
        write(X, scaled)
        return scaled
    size = max(_CHUNK_ROWS, _BLOCK_NUMBERS // max(1, X.shape[1]))
    map_in_threads(lambda rows: write(X[rows], scaled[rows]), slices(len(X), size), n_jobs)
    return scaled


@jit
def write_linearly(X, shift, spread, scaled):
    """(x - shift) / spread, limited: X, scaled (n, d) float32, contiguous."""
    n, d = X.shape
    for row in range(n):
        for k in range(d):
            value = (X[row, k] - shift[k]) / spread[k]
            value = _MOST if value > _MOST else value
            scaled[row, k] = -_MOST if value < -_MOST else value


@jit
def write_by_asinh(X, shift, spread, scaled):
    """Asinh of what ``write_linearly`` says, as ``isobag.backends.numpy.asinh`` computes it."""
    n, d = X.shape
    for row in range(n):
        for k in range(d):
            value = (X[row, k] - shift[k]) / spread[k]
            value = _MOST if value > _MOST else value
            value = -_MOST if value < -_MOST else value
            x = abs(value)
            root = np.sqrt(1 + x * x)
            total = x + root
            is_near = x < 0.75
            # a total is 1 or more: its bits with the exponent of numbers from 1/2 to 1
            half = number_of((bits(total) & _FRACTION) | _HALF)
            s = (x if is_near else half - 0.5) / (1 + root if is_near else half + 0.5)
            square = s * s
            rest = 0.0
            for term in range(len(_FACTORS)):
                rest = (rest + _FACTORS[term]) * square
            near = x + x * (rest - square * (1 + rest))
            rounded_off = (x - (total - root)) / total
            far = ((bits(total) >> 52) - 1023) * LN2 + (2 * (s + s * rest) + rounded_off)
            scaled[row, k] = number_of(bits(near if is_near else far) | (bits(value) & _SIGN))


@jit_inner
def bucket_of(x, low, factor):
    """Which of the BUCKETS equal parts of a feature's range x is in: a function that never falls."""
    place = (x - low) * factor
    place = _BUCKETS - 1 if place > _BUCKETS - 1 else place
    return np.int64(place if place > 0 else 0)


@jit
def guide_to_knots(starts, values, factors, before, most):
    """How many knots of each feature lie before each bucket (d, BUCKETS), and the most in one (d,), at least 1."""
    for k in range(len(most)):
        a, end = starts[k], starts[k + 1]
        factor = _BUCKETS / (values[end - 1] - values[a]) if end - a > 1 else 0.0
        factors[k] = factor if factor < np.inf else 0.0
        most[k], knot, filled = 1, a, 0
        while knot < end:
            bucket, first = bucket_of(values[knot], values[a], factors[k]), knot
            before[k, filled : bucket + 1] = first - a
            filled = bucket + 1
            while knot < end and bucket_of(values[knot], values[a], factors[k]) == bucket:
                knot += 1
            most[k] = max(most[k], knot - first)
        before[k, filled:] = end - a


@jit
def write_by_knots(X, starts, values, scores, slopes, factors, before, most, scaled):
    """Score of the knot before x + slope * (x - that knot), limited: see ``isobag.backends.numpy``."""
    n, d = X.shape
    column, places = np.empty(_CHUNK_ROWS), np.empty(_CHUNK_ROWS, dtype=np.int64)
    for first in range(0, n, _CHUNK_ROWS):
        size = n - first if n - first < _CHUNK_ROWS else _CHUNK_ROWS
        for k in range(d):
            a, end, length = starts[k], starts[k + 1], most[k]
            for q in range(size):
                column[q] = X[first + q, k]
                place = a + before[k, bucket_of(column[q], values[a], factors[k])]
                places[q] = place if place < end - length else end - length
            while length > 1:  # halving, the same steps for all rows: how many knots are not above x
                half = length // 2
                for q in range(size):
                    places[q] += half if values[places[q] + half - 1] <= column[q] else 0
                length -= half
            for q in range(size):
                x = column[q]
                place = places[q] + (1 if values[places[q]] <= x else 0)
                knot = place - 1 if place > a else a
                value = scores[knot] + slopes[place + k] * (x - values[knot])
                value = _MOST if value > _MOST else value
                scaled[first + q, k] = -_MOST if value < -_MOST else value
