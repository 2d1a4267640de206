"""Features in which no two centers differ cost next to nothing: pixels at the edge of images, rare categories."""

from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Floats, Ints

_LEAST_SHARE = 1 / 16
"""Of features without differences: fewer are not worth a copy of the others."""


class Varied(NamedTuple):
    """The features in which points differ, all others, and the value that all points have in each of these."""

    features: Ints  # (k,)
    others: Ints  # (d - k,)
    values: Floats  # (d - k,)

    def of(self, X: Floats) -> Floats:
        """Rows as far from points as those of X, in fewer features: (n, d) -> (n, k + 1).

        What a row adds to the squared distance in the other features is the same for all points. Its root is one more
        feature, 0 for the points: off by d roundings of float64, which tolerances for float32 cover.
        """
        if not len(self.others):
            return X
        off = X[:, self.others] - self.values
        return np.column_stack((X[:, self.features], np.sqrt(np.einsum("ij,ij->i", off, off))))


def find_varied(points: Floats) -> Varied:
    """The features in which points (m, d) differ, or all where nearly all do."""
    differ = (points != points[0]).any(axis=0)
    if np.count_nonzero(~differ) < _LEAST_SHARE * len(differ):
        differ[:] = True
    others = np.flatnonzero(~differ)
    return Varied(np.flatnonzero(differ), others, points[0, others])
