"""The default level 2: how far a group is from the groups most like it, and from most groups, whatever their sizes.

Steps and formulas: study/FORMULAS.md, "Groups: distances to other groups".
"""

from dataclasses import dataclass, replace
from math import fsum
from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import MOST_ROWS, Deviations, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.backends.threads import slices
from isobag.models.maps import AnyMaps, LazyMaps
from isobag.models.sizes import SizeLine, fit_size_line
from isobag.partitionings.counts import MeanMaps

N_NEAREST = 10
MOST_REFERENCES = 4096
FAR_SHARES = (20, 4)
"""Far is as far as one of 20, and one of 4, of all reference groups."""
MARGIN, FAR_MARGIN = 2.0, 1.5
"""By how many robust spreads evidence, and distances to far groups, must lie beyond the nearest to overrule them."""
_SCALES = ((0.02, 0.2), (0.1, 0.2), (0.1, np.inf))
"""Least and largest scale of each distance, in medians of the references' |z|.

Where many groups are equal, as sessions of events are, what deviates is odd and no measure of what is usual: hence the
largest. A quarter of all groups can be of several kinds, and then distances to them differ without bound.
"""
UNIT = 2.0**-20
_WEIGHT_BITS, _UNIT_BITS = 44, 20
_KEPT_DOTS = 1 << 24


class Noise(NamedTuple):
    """q (see above), mu (columns,) in units of 2^-20, and the largest size."""

    ratio: float
    population: Ints
    largest: int


@dataclass(frozen=True, eq=False)
class Neighbours(Learned):
    """Reference groups, the noise of their mean maps, and what distances are usual at each size."""

    references: MeanMaps
    ratio: float
    population: Ints
    largest: int
    lines: tuple[SizeLine, ...]

    def validate(self) -> None:
        """A population of the references' columns, and a line for each kind of distance."""
        demand(len(self.references) > 0, "there are no references")
        check("ratio", self.ratio, (), 0)
        check("population", self.population, (self.width,), 0, 1 << 21)
        check("largest", self.largest, (), 1, MOST_ROWS)
        demand(len(self.lines) == 1 + len(FAR_SHARES), f"there are {len(self.lines)} lines; need {1 + len(FAR_SHARES)}")

    @property
    def width(self) -> int:
        """Number of columns of the mean maps."""
        return int(self.references.counts.shape[1])

    def scores(self, maps: AnyMaps, compute: Compute) -> Floats:
        """How usual each group is for its size: (g,), above 0, higher = more normal."""
        return bounded(self.oddness(self.distances(maps, compute), maps.sizes))

    def distances(self, maps: AnyMaps, compute: Compute) -> Floats:
        """Mean distance to the nearest reference groups, and distances to the N/20-th and N/4-th nearest: (g, 3)."""
        others, sq_norm = self.deviations(self.references), _sq_norm(self.population)
        ranks = _ranks(len(self.references))

        def distances_of(block: MeanMaps) -> Floats:
            deviations, distances = self.deviations(block), np.empty((len(block), len(ranks)))
            for rows in slices(len(block), max(1, _KEPT_DOTS // len(self.references))):
                is_all = rows.stop - rows.start == len(block)
                counts = block.counts if is_all else block.counts[rows]
                dots = compute.backend.dot_counts(counts, self.references.counts, compute.n_jobs)
                part = deviations.part(rows)
                distances[rows] = compute.backend.near_and_far(dots, part, others, sq_norm, ranks, compute.n_jobs)
            return distances

        return maps.map(distances_of)

    def deviations(self, maps: MeanMaps) -> Deviations:
        """Deviations of mean maps from the population, as parts of distances."""
        along, self_dots, sizes = _along(maps, self.population), maps.self_dots, maps.sizes.astype(np.float64)
        n = np.minimum(sizes, self.largest)
        sq_norms = np.maximum(self_dots / sizes**2 - 2 * along + _sq_norm(self.population), 0)
        return Deviations(np.sqrt(n / (1 + self.ratio * n)), sq_norms, along, self_dots, sizes)

    def oddness(self, distances: Floats, sizes: Ints) -> Floats:
        """By how many robust spreads a group is farther from others than is usual at its size: (g, 3) -> (g,)."""
        near, *far = (line.normalise(own, sizes) for line, own in zip(self.lines, distances.T, strict=True))
        oddness: Floats = np.maximum(near, np.maximum.reduce(far) - FAR_MARGIN)
        return oddness


def fit_neighbours(maps: AnyMaps, n_partitionings: int, compute: Compute) -> tuple[Neighbours, Floats]:
    """Learn from groups; also their scores: (g,)."""
    chosen = choose_references(len(maps))
    if isinstance(maps, LazyMaps) and len(chosen) == len(maps):
        maps = maps[chosen]
    references = maps if isinstance(maps, MeanMaps) and len(chosen) == len(maps) else maps[chosen]
    model = Neighbours(references, *estimate_noise(references, n_partitionings), ())
    distances = model.distances(maps, compute)
    deviations = model.deviations(references)
    unit = float(np.median(deviations.factors * np.sqrt(deviations.sq_norms)))
    lines = [
        fit_size_line(own, references.sizes, unit, *bounds, sloped=k == 0)
        for k, (own, bounds) in enumerate(zip(distances[chosen].T, _SCALES, strict=True))
    ]
    model = replace(model, lines=tuple(lines))
    return model, bounded(model.oddness(distances, maps.sizes))


def choose_references(n_groups: int) -> Ints:
    """Numbers of the groups that stand for all, ascending: all, or as many as there may be."""
    if n_groups <= MOST_REFERENCES:
        return np.arange(n_groups)
    return np.sort(np.random.default_rng(0).choice(n_groups, MOST_REFERENCES, replace=False))


def bounded(values: Floats) -> Floats:
    """1 / (u + sqrt(1 + u^2)), in a form that loses no digits: (g,) -> (g,)."""
    root = np.sqrt(1 + values * values)
    return np.where(values > 0, 1 / (np.maximum(values, 0) + root), root - np.minimum(values, 0))


def estimate_noise(maps: MeanMaps, n_partitionings: int) -> Noise:
    """Analysis of variance of the mean maps: within groups from their points, between groups from what is left."""
    n = maps.sizes.astype(np.float64)
    squares = maps.self_dots / n**2
    within = fsum(n * (n_partitionings - squares)) / fsum(n - 1) if n.max() > 1 else 0.0
    ratio = 0.0
    for _ in range(3):  # weights depend on the ratio and the ratio on weights; more rounds change nothing that matters
        weights = n / (1 + ratio * n)
        weights = weights / fsum(weights)
        population = _population(maps, weights)
        spread = fsum(weights * (squares - 2 * _along(maps, population) + _sq_norm(population)))
        expected = fsum(weights * (1 - weights) / n)
        between = fsum(weights * (1 - weights))
        if within > 0 and between > 0:
            ratio = max(spread - within * expected, 0.0) / between / within
    return Noise(ratio, population, int(maps.sizes.max()))


def _population(maps: MeanMaps, weights: Floats) -> Ints:
    """Weighted mean of the mean maps in units of 2^-20, from whole numbers, so in whatever order: (columns,)."""
    whole = np.rint(weights / fsum(weights) / maps.sizes * 2.0**_WEIGHT_BITS).astype(np.int64)
    half = 1 << (_WEIGHT_BITS - _UNIT_BITS - 1)
    return (maps.total(whole) + half) >> (_WEIGHT_BITS - _UNIT_BITS)


def _along(maps: MeanMaps, population: Ints) -> Floats:
    """Dot product of each mean map with the population's: (g,)."""
    return maps.dot(population) * UNIT / maps.sizes


def _sq_norm(population: Ints) -> float:
    return int(population @ population) * UNIT**2  # below 2^63: shares of t partitionings in units of 2^-20


def _ranks(n_references: int) -> tuple[int, ...]:
    """How many nearest references there are, and which nearest ones are far."""
    most = max(n_references - 1, 1)
    nearest = min(N_NEAREST, most)
    return (nearest, *(min(max(-(-n_references // share), nearest), most) for share in FAR_SHARES))
