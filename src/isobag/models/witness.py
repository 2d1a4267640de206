"""Where two mean maps differ: the witness function, its exact decomposition, and the features that separate.

The witness of G against D is f(x) = (1/t) <Phi(x), Phi_hat(G) - Phi_hat(D)>: positive where G has too many points,
negative where it has too few. The mean of f over G minus its mean over D is |Phi_hat(G) - Phi_hat(D)|^2 / t, the
difference of the two, so every point of G carries f(x) / |G| of it and every point y of D carries -f(y) / |D|.
"""

import numpy as np

from isobag.backends.arrays import Floats, Ints


def witness(columns: Ints, difference: Floats) -> Floats:
    """Witness at each row, the mean over its cells of the difference of two mean maps: (n, t), (columns,) -> (n,)."""
    # The last column, OUTSIDE, adds nothing.
    values: Floats = np.append(difference, 0.0)[columns].sum(axis=1) / columns.shape[1]
    return values


def separation(A: Floats, a: Floats, B: Floats, b: Floats) -> Floats:
    """How far each feature sets A (n, d), weighted by a (n,), apart from B (m, d), weighted by b (m,): (d,) in [-1, 1].

    The largest difference of the two distribution functions (Kolmogorov and Smirnov's), with the sign of the difference
    of means; 0 if either has no weight.
    """
    if not a.sum() > 0 or not b.sum() > 0:
        return np.zeros(A.shape[1])
    a, b = a / a.sum(), b / b.sum()
    values = np.concatenate([A, B])
    order = np.argsort(values, axis=0, kind="stable")
    steps = np.cumsum(np.concatenate([a, -b])[order], axis=0)
    ranked = np.take_along_axis(values, order, axis=0)
    is_end = np.ones(values.shape, dtype=bool)  # of a run of equal values: within one nothing separates
    is_end[:-1] = ranked[1:] != ranked[:-1]
    distances = np.where(is_end, np.abs(steps), 0.0).max(axis=0)
    signed: Floats = distances * np.where(a @ A >= b @ B, 1.0, -1.0)
    return signed
