"""Features in which no two centers differ cost next to nothing: pixels at the edge of images, rare categories."""

from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Floats, Ints

_LEAST_SHARE = 1 / 16
"""Of features without differences: fewer are not worth a copy of the others."""


class Varied(NamedTuple):
    """The features in which points differ and one more, all others, and the value that all points have in these."""

    features: Ints  # (k + 1,)
    others: Ints  # (d - k,)
    values: Floats  # (d - k,)

    def less(self, X: Floats, mean: Floats) -> Floats:
        """X less a mean, in fewer features, as far from points less that mean: (n, d), (k + 1,) -> (n, k + 1).

        What a row adds to the squared distance in the other features is the same for all points. Its root is the last
        feature, 0 for the points: off by d roundings of float64, which tolerances for float32 cover.
        """
        if not len(self.others):
            return X - mean
        kept = X.take(self.features, axis=1)
        off = X.take(self.others, axis=1)
        off -= self.values
        kept[:, -1] = np.sqrt(np.einsum("ij,ij->i", off, off))
        kept -= mean
        return kept

    def mean_of(self, points: Floats) -> Floats:
        """Mean of the points in these features: (k + 1,)."""
        found: Floats = self.less(points, np.zeros(len(self.features))).mean(axis=0)
        return found


def find_varied(points: Floats) -> Varied:
    """The features in which points (m, d) differ, or all where nearly all do."""
    differ = (points != points[0]).any(axis=0)
    others = np.flatnonzero(~differ)
    if len(others) < max(1, _LEAST_SHARE * len(differ)):
        return Varied(np.arange(len(differ)), others[:0], points[0, :0])
    return Varied(np.append(np.flatnonzero(differ), others[0]), others, points[0, others])
