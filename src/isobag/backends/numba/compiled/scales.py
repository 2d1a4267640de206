"""Scales of rows, operation by operation as NumPy would compute them, so that they are rounded alike."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit, jit_inner
from isobag.backends.numba.compiled.llvm import bits, number_of

CHUNK_ROWS = 512
"""Rows that a feature is scaled in together: its knots are brought from memory once for all of them."""
BUCKETS = 2048
"""Parts of a feature's range, each with the number of knots before it, so that few are left to search."""
TERMS = 16
"""Of the series of asinh: a number that is known to the compiler, which then computes several rows at once."""
_SIGN = np.int64(-(2**63))
_FRACTION = np.int64((1 << 52) - 1)
_HALF = np.int64(1022 << 52)


@jit
def scale_linearly(X, shift, spread, most, scaled):
    """(x - shift) / spread, limited at -most and most: X, scaled (n, d) float32, contiguous."""
    n, d = X.shape
    for row in range(n):
        for k in range(d):
            value = (X[row, k] - shift[k]) / spread[k]
            value = most if value > most else value
            scaled[row, k] = -most if value < -most else value


@jit
def scale_by_asinh(X, shift, spread, most, ln2, factors, scaled):
    """Asinh of what ``scale_linearly`` says, as ``isobag.backends.numpy.asinh`` computes it.

    factors (TERMS,): the coefficients of the series, the last term first
    """
    n, d = X.shape
    for row in range(n):
        for k in range(d):
            value = (X[row, k] - shift[k]) / spread[k]
            value = most if value > most else value
            value = -most if value < -most else value
            x = abs(value)
            root = np.sqrt(1 + x * x)
            total = x + root
            is_near = x < 0.75
            # a total is 1 or more: its bits with the exponent of numbers from 1/2 to 1
            half = number_of((bits(total) & _FRACTION) | _HALF)
            s = (x if is_near else half - 0.5) / (1 + root if is_near else half + 0.5)
            square = s * s
            rest = 0.0
            for term in range(TERMS):
                rest = (rest + factors[term]) * square
            near = x + x * (rest - square * (1 + rest))
            rounded_off = (x - (total - root)) / total
            far = ((bits(total) >> 52) - 1023) * ln2 + (2 * (s + s * rest) + rounded_off)
            scaled[row, k] = number_of(bits(near if is_near else far) | (bits(value) & _SIGN))


@jit_inner
def bucket_of(x, low, factor):
    """Which of the BUCKETS equal parts of a feature's range x is in: a function that never falls."""
    place = (x - low) * factor
    place = BUCKETS - 1 if place > BUCKETS - 1 else place
    return np.int64(place if place > 0 else 0)


@jit
def guide_to_knots(starts, values, factors, before, most):
    """How many knots of each feature lie before each bucket (d, BUCKETS), and the most in one (d,), at least 1."""
    for k in range(len(most)):
        a, end = starts[k], starts[k + 1]
        factor = BUCKETS / (values[end - 1] - values[a]) if end - a > 1 else 0.0
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
def scale_by_knots(X, starts, values, scores, slopes, factors, before, most_knots, most, scaled):
    """Score of the knot before x + slope * (x - that knot), limited: see ``isobag.backends.numpy``."""
    n, d = X.shape
    column, places = np.empty(CHUNK_ROWS), np.empty(CHUNK_ROWS, dtype=np.int64)
    for first in range(0, n, CHUNK_ROWS):
        size = n - first if n - first < CHUNK_ROWS else CHUNK_ROWS
        for k in range(d):
            a, end, length = starts[k], starts[k + 1], most_knots[k]
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
                value = most if value > most else value
                scaled[first + q, k] = -most if value < -most else value
