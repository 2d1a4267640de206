"""Scales of rows, operation by operation as NumPy would compute them, so that they are rounded alike."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit

_CHUNK = 512
_LANES = 64
_SIGN = np.int64(-(2**63))
_FRACTION = np.int64((1 << 52) - 1)
_HALF = np.int64(1022 << 52)


@jit
def scale_linearly(X, shift, spread, most, scaled):
    """(x - shift) / spread, cut off at -most and most: X, scaled (n, d), contiguous."""
    n, d = X.shape
    for row in range(n):
        for k in range(d):
            value = (X[row, k] - shift[k]) / spread[k]
            scaled[row, k] = min(max(value, -most), most)


@jit
def scale_by_asinh(X, shift, spread, most, ln2, factors, scaled):
    """Asinh of what ``scale_linearly`` says, as ``isobag.data.scaling.asinh`` computes it.

    factors: the coefficients of the series, the last term first
    """
    scale_linearly(X, shift, spread, most, scaled)
    flat = scaled.reshape(-1)
    flat_bits = flat.view(np.int64)
    sizes = np.empty(_CHUNK)
    roots = np.empty(_CHUNK)
    totals = np.empty(_CHUNK)
    total_bits = totals.view(np.int64)
    halves = np.empty(_CHUNK)
    half_bits = halves.view(np.int64)
    found = np.empty(_CHUNK)
    found_bits = found.view(np.int64)
    squares = np.empty(_CHUNK)
    parts = np.empty(_CHUNK)
    rests = np.empty(_CHUNK)
    for first in range(0, len(flat), _CHUNK):
        size = min(_CHUNK, len(flat) - first)
        own = flat[first : first + size]
        bits = flat_bits[first : first + size]
        for i in range(size):
            x = abs(own[i])
            root = np.sqrt(1 + x * x)
            sizes[i] = x
            roots[i] = root
            totals[i] = x + root
        for i in range(size):  # a total is 1 or more: its bits with the exponent of numbers from 1/2 to 1
            half_bits[i] = (total_bits[i] & _FRACTION) | _HALF
        for i in range(size):
            x = sizes[i]
            is_near = x < 0.75
            above = x if is_near else halves[i] - 0.5
            below = 1 + roots[i] if is_near else halves[i] + 0.5
            s = above / below
            parts[i] = s
            squares[i] = s * s
            rests[i] = 0.0
        for i in range(size):
            rest = 0.0
            for factor in factors:
                rest = (rest + factor) * squares[i]
            rests[i] = rest
        for i in range(size):
            x = sizes[i]
            s = parts[i]
            near = x + x * (rests[i] - squares[i] * (1 + rests[i]))
            rounded_off = (x - (totals[i] - roots[i])) / totals[i]
            exponent = (total_bits[i] >> 52) - 1023
            far = exponent * ln2 + (2 * (s + s * rests[i]) + rounded_off)
            found[i] = near if x < 0.75 else far
        for i in range(size):
            bits[i] = found_bits[i] | (bits[i] & _SIGN)


@jit
def scale_by_knots(X, starts, values, scores, slopes, most, scaled):
    """Score of the knot before x + slope * (x - that knot), cut off: see ``isobag.data.scaling.NormalScaling``."""
    n, d = X.shape
    places = np.empty(_LANES, np.int64)
    column = np.empty(_LANES)
    for first in range(0, n, _LANES):
        size = min(_LANES, n - first)
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
                knot = max(place - 1, a)
                value = scores[knot] + slopes[place + k] * (x - values[knot])
                scaled[first + q, k] = min(max(value, -most), most)
