"""Data that are hard on a backend: ties, duplicates, and numbers whose differences are lost in rounding to float32."""

import numpy as np


def duplicates(rng, n, d):
    """Nine rows in ten repeat one of three rows."""
    X = rng.normal(size=(n, d))
    repeated = rng.random(n) < 0.9
    X[repeated] = X[rng.integers(0, 3, repeated.sum())]
    return X


def one_far_row(rng, n, d):
    """One row so far out that all others look alike beside it."""
    X = rng.normal(size=(n, d))
    X[n // 3] = 1e9
    return X


KINDS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "integer grid": lambda rng, n, d: rng.integers(0, 4, (n, d)).astype(float),
    "90 % duplicates": duplicates,
    "1e8 offset": lambda rng, n, d: 1e8 + 20 * rng.normal(size=(n, d)),
    "tiny differences": lambda rng, n, d: 1 + rng.integers(0, 50, (n, d)) * 2.0**-23,
    "subnormal gaps": lambda rng, n, d: rng.integers(-5, 5, (n, d)) * 2.0**-74,
    "mixed magnitudes": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 12, (n, d)),
    "one huge feature": lambda rng, n, d: rng.normal(size=(n, d)) * np.where(np.arange(d) == d // 2, 1e9, 1),
    "one far row": one_far_row,
    "rare values": lambda rng, n, d: rng.integers(0, 3, (n, d)) * np.where(rng.random((n, d)) < 0.02, 1e4, 1),
    "one value": lambda rng, n, d: np.full((n, d), 0.3),
}


def queries(rng, X):
    """Rows of the data, midpoints of two rows (ties on a grid), the reflection of one row in another, far points."""
    a, b = rng.permutation(X), rng.permutation(X)
    return np.vstack([X, (a + b) / 2, 2 * a - b, 7 * X[:9]]).astype(X.dtype)
