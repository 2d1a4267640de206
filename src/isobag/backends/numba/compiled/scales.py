"""Scales of rows, operation by operation as NumPy would compute them, so that they are rounded alike."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.llvm import bits, number_of

CHUNK_ROWS = 512
"""Rows that a feature is scaled in together: its knots are brought from memory once for all of them."""
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


@jit
def scale_by_knots(X, starts, values, scores, slopes, most, scaled):
    """Score of the knot before x + slope * (x - that knot), limited: see ``isobag.backends.numpy``."""
    n, d = X.shape
    column, places = np.empty(CHUNK_ROWS), np.empty(CHUNK_ROWS, dtype=np.int64)
    for first in range(0, n, CHUNK_ROWS):
        size = n - first if n - first < CHUNK_ROWS else CHUNK_ROWS
        for k in range(d):
            a = starts[k]
            for q in range(size):
                column[q] = X[first + q, k]
                places[q] = a
            length = starts[k + 1] - a
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
