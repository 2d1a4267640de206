"""One score from the scores at many psi, in several views, without labels.

Steps and formulas: study/FORMULAS.md, "One score from many psi".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isobag.backends.arrays import Floats, Ints, Term, Terms
from isobag.backends.learned import TINY, Learned, check, demand

FLOOR = 1e-3
COARSE = 8
"""Largest psi that may overrule the mean."""
BEYOND = 0.5
"""By how many spreads a row must be odder at small psi than in the mean for them to overrule it."""
OVERRULED = 0.9
"""How much of the difference they take away."""
_LEAST_SPREAD = 1e-9
"""Rounding alone makes a spread."""
_LOWEST = -708.0  # its exponential is still above 0


@dataclass(frozen=True)
class Average(Learned):
    """Floors (L,) and weights (L,) of the psi of one view, and the weight of how far out a row is."""

    floors: Floats
    weights: Floats
    far_weight: float

    def validate(self) -> None:
        """A floor above 0 and a weight for each psi."""
        check("floors", self.floors, (None,), TINY * 2**-52)
        check("weights", self.weights, self.floors.shape, 0)
        check("far_weight", self.far_weight, (), 0)

    def logarithms(self, path: Floats) -> Floats:
        """Logarithm of the scores at each psi, cut off at the floors: (n, L)."""
        return np.log(np.maximum(path, self.floors))

    def apply(self, path: Floats) -> Floats:
        """Scores from the scores at each psi: (n, L) -> (n,)."""
        return exponential(_sums(self.logarithms(path) * self.weights)[:, -1].copy())


Paths = Sequence[tuple[Floats, Floats | None]]
"""For each view the scores at every psi (n, L), and how far out rows are (n,), None where that does not count."""


@dataclass(frozen=True)
class ViewsAverage(Learned):
    """The score of a row from its scores at every psi of every view.

    views : one for each view, whose weights sum to 1 in all.
    n_coarse : number of psi that may overrule the mean, the smallest; 0 where none does.
    slope, offset : what turns their part of the mean into units of the mean.
    """

    views: tuple[Average, ...]
    n_coarse: int
    slope: float
    offset: float

    def validate(self) -> None:
        """Averages of the same psi, of which at most all overrule."""
        demand(len(self.views) > 0, "there is no average")
        n_levels = len(self.views[0].floors)
        demand(all(len(average.floors) == n_levels for average in self.views), "averages differ in their number of psi")
        check("n_coarse", self.n_coarse, (), 0, n_levels)
        check("slope", self.slope, (), 0)
        check("offset", self.offset, ())

    @property
    def weights(self) -> Floats:
        """Weight of each psi in each view: (V, L)."""
        return np.array([average.weights for average in self.views])

    @property
    def floors(self) -> Floats:
        """Least score that counts at each psi in each view: (V, L)."""
        return np.array([average.floors for average in self.views])

    @property
    def far_weight(self) -> float:
        """Weight of how far out a row is, of all views together."""
        return float(sum(average.far_weight for average in self.views))

    def apply(self, paths: Paths) -> Floats:
        """Scores, above 0 and at most 1: (n,)."""
        return exponential(self.overruled(*self.parts(paths)))

    def overruled(self, mean: Floats, coarse: Floats) -> Floats:
        """The mean of the logarithms as far as the small psi agree, of arrays or tensors: (n,)."""
        if self.n_coarse:
            mean -= OVERRULED * (mean - self.limit(coarse)).clip(0)
        return mean

    def terms(self, largest: Ints, octave: int | None) -> Terms:
        """``parts`` of sums: largest (L,) at each psi, and an octave of how far out rows are, None without."""
        n_levels, (coarse, rest) = len(largest), ([], [])
        for view, average in enumerate(self.views):
            of_view = [
                Term(view, k, int(largest[k]), float(average.weights[k]), float(average.floors[k]))
                for k in range(n_levels)
            ]
            coarse += of_view[: self.n_coarse]
            rest += of_view[self.n_coarse :]
            if octave is not None:
                rest.append(Term(view, n_levels, octave, average.far_weight, None))
        return Terms((*coarse, *rest), len(coarse))

    def parts(self, paths: Paths) -> tuple[Floats, Floats]:
        """The mean of the logarithms, less how far out rows are, and the part of it that is of the small psi: (n,)."""
        logarithms = [
            average.logarithms(path) * average.weights for average, (path, _) in zip(self.views, paths, strict=True)
        ]
        terms = [each[:, : self.n_coarse] for each in logarithms]
        for average, each, (_, far) in zip(self.views, logarithms, paths, strict=True):
            terms.append(each[:, self.n_coarse :])
            if far is not None:
                terms.append(-average.far_weight * far[:, None])
        sums = _sums(np.concatenate(terms, axis=1))
        n_coarse = self.n_coarse * len(self.views)
        return sums[:, -1].copy(), sums[:, n_coarse - 1] if n_coarse else np.zeros(len(sums))

    def limit(self, coarse: Floats) -> Floats:
        """The part of the small psi in units of the mean; they overrule a mean above it: (n,)."""
        return self.offset + self.slope * coarse


def _sums(terms: Floats) -> Floats:
    """Sums of the terms up to each, from the first to the last, whatever the number of rows: (n, k)."""
    sums: Floats = np.add.accumulate(terms, axis=1)
    return sums


def exponential(logarithms: Floats) -> Floats:
    """Of the logarithms, in their place, above 0."""
    np.maximum(logarithms, _LOWEST, out=logarithms)
    return np.exp(logarithms, out=logarithms)


def fit_average(path: Floats, importance: Floats) -> Average:
    """Floors and weights from the scores of the training data (n, L) and how much each psi matters (L,)."""
    (average,) = _with_sum_1([_fit_view(path, importance, None)])
    return average


def fit_views_average(
    paths: Paths, levels: Sequence[int], own_weight: float = 0.0, floor: float = FLOOR
) -> ViewsAverage:
    """Floors, weights and what lets small psi overrule the mean, from the scores of the training data.

    Each psi matters psi^-0.5, in every view alike, and how far out rows are as much as all psi of the view.
    ``own_weight``, from 0 to 1: how much rows are compared with groups of their own. Small psi cannot resolve a group,
    which is a small part of the data, and far out is far from all: so each psi matters psi^(-0.5 (1 - own_weight)), and
    how far out rows are 1 - own_weight times as much. ``floor``: the least score that counts, as a share of the mean.
    """
    importance = np.array(levels) ** (-0.5 * (1 - own_weight))
    n_coarse = sum(psi <= COARSE for psi in levels)
    fitted = [_fit_view(path, importance, far, floor) for path, far in paths]
    views = _with_sum_1([replace(view, far_weight=view.far_weight * (1 - own_weight)) for view in fitted])
    average = ViewsAverage(views, 0 if n_coarse == len(levels) else n_coarse, 0.0, 0.0)
    mean, coarse = average.parts(paths)
    (middle, spread), (coarse_middle, coarse_spread) = _middle_and_spread(mean), _middle_and_spread(coarse)
    if not average.n_coarse or coarse_spread <= _LEAST_SPREAD:
        return ViewsAverage(views, 0, 0.0, 0.0)
    slope = spread / coarse_spread
    return ViewsAverage(views, n_coarse, slope, middle + BEYOND * spread - slope * coarse_middle)


def _fit_view(path: Floats, importance: Floats, far: Floats | None, floor: float = FLOOR) -> Average:
    """Floors and weights of one view, which do not sum to 1 yet."""
    path = np.ascontiguousarray(path)  # in one layout, so that sums are taken in one order
    floors = np.maximum(floor * path.mean(axis=0), np.finfo(float).tiny)
    spreads = Average(floors, importance, 0.0).logarithms(path).std(axis=0)
    is_informative = spreads > _LEAST_SPREAD  # a psi at which all rows score alike has no weight
    weights = np.divide(importance, spreads, out=np.zeros_like(spreads), where=is_informative)
    far_weight = 0.0
    if far is not None:
        spread = float(far.std())
        # New rows may be far out if none is.
        far_weight = float(importance.sum()) / (spread if spread > _LEAST_SPREAD else 1.0)
    return Average(floors, weights if weights.any() else importance, far_weight)


def _with_sum_1(views: Sequence[Average]) -> tuple[Average, ...]:
    total = sum(float(view.weights.sum()) + view.far_weight for view in views)
    return tuple(Average(view.floors, view.weights / total, view.far_weight / total) for view in views)


def _middle_and_spread(values: Floats) -> tuple[float, float]:
    """Median, and median absolute deviation as a standard deviation; this itself, where most are equal."""
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - middle)))
    return middle, spread if spread > _LEAST_SPREAD else float(values.std())
