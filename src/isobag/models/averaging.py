"""One score from the scores at many psi, without labels.

score(x) = exp(sum_k w_k log max(s_k(x), floor_k) - w_far far(x)), a weighted geometric mean of the scores s_k at psi_k,
less how far out x is. Above 0, at most 1.

Ratios of similarities mean the same at every psi, differences do not: hence logarithms. Each psi is weighted by how
much it matters, divided by the spread of its logarithms over the training data, so that none is louder than its weight.
The floor, a thousandth of the mean, keeps one psi at which a point has no similarity at all from deciding alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isobag.backends.arrays import Floats, held

FLOOR = 1e-3
_LOWEST = -708.0  # its exponential is still above 0


@dataclass(frozen=True)
class Average:
    """floors (L,) and weights (L,), which sum to 1 together with the weight of how far out a row is."""

    floors: Floats = held(1, np.finfo(float).tiny * 2**-52, np.finfo(float).max)
    weights: Floats = held(1, 0, np.finfo(float).max)
    far_weight: float = held(0, 0, np.finfo(float).max)

    def logarithms(self, path: Floats) -> Floats:
        """Logarithm of the scores at each psi, cut off at the floors: (n, L)."""
        return np.log(np.maximum(path, self.floors))

    def apply(self, path: Floats, far: Floats | None = None) -> Floats:
        """Scores from the scores at each psi (n, L), and from how far out rows are (n,): (n,)."""
        # Column by column: a matrix product may add up in another order for another number of rows, and what is made
        # of one column stays in the cache.
        total = np.zeros(len(path))
        for column, floor, weight in zip(path.T, self.floors, self.weights, strict=True):
            part = np.maximum(column, floor)
            np.log(part, out=part)
            part *= weight
            total += part
        if far is not None:
            total -= self.far_weight * far
        np.maximum(total, _LOWEST, out=total)
        return np.exp(total, out=total)


def fit_average(path: Floats, importance: Floats, far: Floats | None = None) -> Average:
    """Floors and weights from the scores of the training data (n, L) and how much each psi matters (L,).

    With ``far`` (n,), how far out they are, that matters as much as all psi together.
    """
    path = np.ascontiguousarray(path)  # in one layout, so that sums are taken in one order
    floors = np.maximum(FLOOR * path.mean(axis=0), np.finfo(float).tiny)
    spreads = Average(floors, importance, 0.0).logarithms(path).std(axis=0)
    some = spreads > 1e-9  # rounding alone makes a spread; a psi that tells no rows apart has no say
    weights = np.divide(importance, spreads, out=np.zeros_like(spreads), where=some)
    far_weight = 0.0
    if far is not None:
        spread = float(far.std())
        far_weight = float(importance.sum()) / (spread if spread > 1e-9 else 1.0)  # new rows may be far out if none is
    if not weights.any():
        weights = importance
    total = weights.sum() + far_weight
    return Average(floors, weights / total, float(far_weight / total))


def problems_of_average(average: Average | None, n_levels: int, wanted: bool) -> Iterator[str]:
    """What does not fit, of an average that comes from a file."""
    if (average is not None) != wanted:
        yield "average: need one where psi is averaged over, and only there"
    if average is not None and not average.floors.shape == average.weights.shape == (n_levels,):
        yield f"average: need one weight for each of {n_levels} psi"
