"""Scales: additions, multiplications, divisions and square roots alone, which every machine rounds alike."""

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats, Knots

TERMS = 16
LN2 = float(np.log(2.0))


def scale_linearly(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Floats:
    """(x - shift) / spread, limited to +-FARTHEST: (n, d)."""
    with np.errstate(over="ignore"):
        return np.clip((X - shift) / spread, -FARTHEST, FARTHEST)


def scale_by_asinh(X: Floats, shift: Floats, spread: Floats, n_jobs: int | None = None) -> Floats:
    """Asinh of what ``scale_linearly`` returns: (n, d)."""
    return asinh(scale_linearly(X, shift, spread))


def scale_by_knots(X: Floats, knots: Knots, n_jobs: int | None = None) -> Floats:
    """Score of the knot before x + slope * (x - that knot), limited to +-FARTHEST: (n, d)."""
    starts, values, scores, slopes = knots
    scaled = np.empty(X.shape)
    for j in range(X.shape[1]):
        a, b = starts[j], starts[j + 1]
        place = np.searchsorted(values[a:b], X[:, j], side="right")
        knot = a + np.maximum(place - 1, 0)
        with np.errstate(over="ignore"):
            scaled[:, j] = scores[knot] + slopes[a + j + place] * (X[:, j] - values[knot])
    return np.clip(scaled, -FARTHEST, FARTHEST)


def asinh(X: Floats) -> Floats:
    """log(x + sqrt(x^2 + 1)) with the sign of x, each operation rounded once: the same bits everywhere.

    Below 0.75 that is 2 artanh(s), s = x / (1 + sqrt(x^2 + 1)), or, as 2 s = x (1 - s^2), x and little more. Above, the
    sum is 2 or more: powers of two are taken out of it, and the logarithm of the rest, in [1, 2), adds to theirs.
    """
    x = np.abs(X)
    root = np.sqrt(1 + x * x)
    total = x + root
    half, exponent = np.frexp(total)
    is_near = x < 0.75
    s = np.where(is_near, x / (1 + root), (half - 0.5) / (half + 0.5))
    square = s * s
    rest = np.zeros_like(s)  # artanh(s) = s (1 + rest)
    for term in range(TERMS, 0, -1):
        rest = (rest + 1 / (2 * term + 1)) * square
    near = x + x * (rest - square * (1 + rest))
    rounded_off = (x - (total - root)) / total
    far = (exponent - 1) * LN2 + (2 * (s + s * rest) + rounded_off)
    scaled: Floats = np.copysign(np.where(is_near, near, far), X)
    return scaled
