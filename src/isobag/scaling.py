"""The paper's scaling to [0, 1] and its friends: (x - shift) / scale, feature by feature, learned on training data."""

from typing import NamedTuple

import numpy as np

from isobag.arrays import Floats


class Scaling(NamedTuple):
    """shift (d,) and scale (d,)."""

    shift: Floats
    scale: Floats

    def apply(self, X: Floats) -> Floats:
        """Scaled copy of X: (n, d)."""
        return (X - self.shift) / self.scale


def _minmax(X: Floats) -> tuple[Floats, Floats]:
    low = X.min(axis=0)
    return low, X.max(axis=0) - low


def _standard(X: Floats) -> tuple[Floats, Floats]:
    return X.mean(axis=0), X.std(axis=0)


def _robust(X: Floats) -> tuple[Floats, Floats]:
    low, middle, high = np.quantile(X, (0.25, 0.5, 0.75), axis=0)
    return middle, high - low


def _none(X: Floats) -> tuple[Floats, Floats]:
    return np.zeros(X.shape[1]), np.ones(X.shape[1])


SCALINGS = {"minmax": _minmax, "standard": _standard, "robust": _robust, None: _none}
"""minmax: to [0, 1]; standard: mean 0 and standard deviation 1; robust: median 0 and quartiles 1 apart; None: as is."""


def fit_scaling(X: Floats, name: str | None) -> Scaling:
    """Learn shift and scale. A feature without spread is only shifted, so a constant one is 0."""
    shift, spread = SCALINGS[name](X)
    # A constant feature has a mean and a deviation off by rounding; its spread is nothing all the same.
    constant = X.min(axis=0) == X.max(axis=0)
    return Scaling(np.where(constant, X[0], shift), np.where(constant | (spread == 0), 1.0, spread))
