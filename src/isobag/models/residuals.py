"""Rows less the location of their own group, in its spread: column by column, so that no column widens another's cells.

Steps and formulas: study/FORMULAS.md, "Rows within groups: locations".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import FARTHEST, MOST_ROWS, Bools, Floats, Ints
from isobag.backends.learned import TINY, Learned, check, demand
from isobag.data.labelled import LabelledRows
from isobag.data.rows import Rows, sample_rows
from isobag.data.scaling import LEAST_SPREAD, fit_scalings

MOST_NUMBERS = 1 << 25
"""Groups times columns, beyond which locations would take too much memory: then there are no residuals."""
MOST_OF_GROUP = 1 << 12
"""Rows of a group that its location and spread are from, evenly spread."""
_LARGEST_RATIO = 1e9
_MOST_FACTOR = 1e100


@dataclass(frozen=True, eq=False)
class Residuals(Learned):
    """What makes residuals of rows, and the model of these.

    centers, spreads : (g + 1, d), of each group, and last of all rows.
    factor : what scores of residuals are multiplied by to be compared.
    sizes : (g,), rows of each group of ``fit``, 0 of groups that this model has not seen.
    """

    model: Any
    centers: Floats
    spreads: Floats
    factor: float
    sizes: Ints

    def validate(self) -> None:
        """Centers and spreads of each group of the model, and of all."""
        demand(self.model.baseline is None, "the model of residuals has counts of groups")
        check("sizes", self.sizes, (None,), 0, MOST_ROWS)
        shape = (len(self.sizes) + 1, self.model.views.n_features)
        check("centers", self.centers, shape, -FARTHEST, FARTHEST)
        check("spreads", self.spreads, shape, TINY, FARTHEST)
        check("factor", self.factor, (), 1 / _MOST_FACTOR, _MOST_FACTOR)

    def of(self, rows: LabelledRows) -> Rows:
        """The residuals of rows."""
        return rows.on_host.mapped(lambda X, owners: _divided(X - self.centers[owners], self.spreads[owners])).plain

    def usual(self, owner: int) -> Floats:
        """Rows that show what is usual in a group, UNSEEN for all rows: residuals at its center, in its spread."""
        rows: Floats = self.centers[owner] + self.spreads[owner] * self.model.reference
        return rows

    def lower(self, scores: Floats, rows: LabelledRows, compute: Compute) -> Floats:
        """The scores of rows (n,), or those of their residuals where these are lower."""
        return self.lower_of(scores, self.model.scores(self.of(rows), compute), rows.owners)

    def lower_of(self, scores: Floats, of_residuals: Floats, owners: Ints) -> Floats:
        """The same, of scores of residuals that are known: (n,)."""
        return np.where(self._are_seen(owners), np.minimum(scores, of_residuals * self.factor), scores)

    def explain(self, contributions: Floats, rows: LabelledRows, of_rows: Any, compute: Compute) -> Floats:
        """What features contribute to the scores of rows (n, d), or to those of residuals where these are lower.

        of_rows : the model of the rows themselves, which found ``contributions``.
        """
        of_residuals: Floats = self.model.explain(self.of(rows), compute)
        apart = of_rows.log_typical(compute) - self.model.log_typical(compute) - np.log(self.factor)
        is_odder = self._are_seen(rows.owners) & (of_residuals.sum(axis=1) + apart > contributions.sum(axis=1))
        return np.where(is_odder[:, None], of_residuals + apart / of_residuals.shape[1], contributions)

    def _are_seen(self, owners: Ints) -> Bools:
        is_seen: Bools = np.append(self.sizes, 0)[owners] > 0  # the last is of UNSEEN
        return is_seen


def fit_residuals(
    rows: LabelledRows, scores: Floats, fit: Callable[[Rows], tuple[Any, Floats]]
) -> tuple[Residuals | None, Floats]:
    """What makes residuals, None where groups do not differ, and the scores of the rows (n,), lowered by it."""
    located = residuals_of(rows)
    if located is None:
        return None, scores
    center, spread, left = located
    model, of_residuals = fit(left)
    factor = np.exp(np.median(np.log(scores)) - np.median(np.log(of_residuals)))
    factor = float(np.clip(factor, 1 / _MOST_FACTOR, _MOST_FACTOR))
    residuals = Residuals(model, center.shrunk, np.maximum(spread.shrunk, TINY), factor, rows.sizes)
    return residuals, residuals.lower_of(scores, of_residuals, rows.owners)


def residuals_of(rows: LabelledRows) -> "tuple[_Medians, _Medians, Rows] | None":
    """Location and spread of each group, and the residuals of rows, each left out; None where groups do not differ."""
    if rows.n_groups * rows.n_features > MOST_NUMBERS:
        return None
    rows = rows.on_host
    center = _find_medians(rows, np.median(sample_rows(rows), axis=0), 4.0)
    apart = rows.mapped(lambda X, owners: X - center.without(X, owners))
    distances = apart.mapped(lambda X, owners: np.abs(X))
    spread = _find_medians(distances, _usual_distance(sample_rows(distances)), 1.0)
    spread = spread._replace(sizes=spread.sizes - 1)
    if not center.ratios.any() and not spread.ratios.any():
        return None
    return center, spread, apart.mapped(lambda X, owners: _divided(X, spread.without(np.abs(X), owners))).plain


class _Medians(NamedTuple):
    """Medians of each group and column, and how they are shrunk towards those of all.

    middle : (g, d); below, at, above : (g, d), without a row that lies there.
    of_all, ratios : (d,); sizes : (g,).
    """

    middle: Floats
    below: Floats
    at: Floats
    above: Floats
    of_all: Floats
    ratios: Floats
    sizes: Ints
    power: float

    @property
    def shrunk(self) -> Floats:
        """Of each group, and last of all rows: (g + 1, d)."""
        return np.vstack([self._shrink(self.middle, self.sizes), self.of_all])

    def without(self, X: Floats, owners: Ints) -> Floats:
        """Of the group of each row without the row itself: X (n, d), owners (n,) -> (n, d)."""
        middle = self.middle[owners]
        others = np.where(middle > X, self.below[owners], np.where(middle < X, self.above[owners], self.at[owners]))
        return self._shrink(others, self.sizes[owners] - 1)

    def _shrink(self, medians: Floats, sizes: Ints) -> Floats:
        rest = (1 + self.ratios * np.maximum(sizes, 0)[:, None]) ** -self.power
        shrunk: Floats = (1 - rest) * medians + rest * self.of_all
        return shrunk


def _usual_distance(sample: Floats) -> Floats:
    """The median of distances (m, d), or their mean where most are practically 0: (d,), above 0."""
    middle, mean = np.median(sample, axis=0), sample.mean(axis=0)
    return np.where(middle > LEAST_SPREAD * mean, middle, np.where(mean > 0, mean, 1.0))


def _find_medians(rows: LabelledRows, of_all: Floats, power: float) -> _Medians:
    """Medians of the groups of rows, and how much groups differ; of_all (d,): the median of all."""
    scaling = fit_scalings(rows, ["normal"])["normal"]
    middle, below, at, above = medians = np.zeros((4, rows.n_groups, rows.n_features))
    totals, squares = np.zeros((2, rows.n_groups, rows.n_features))
    sample = rows.part(_spread_in_groups(rows.owners, rows.n_groups))
    for X, owners in _whole_groups(sample):
        groups, starts, sizes = np.unique(owners, return_index=True, return_counts=True)
        scores = scaling.apply(X)
        ends, half, is_odd = starts + sizes - 1, starts + sizes // 2, sizes % 2 == 1
        before, after = np.maximum(half - 1, starts), np.minimum(half + 1, ends)
        for column in range(X.shape[1]):
            values = X[np.lexsort((X[:, column], owners)), column]
            low, mid, high = values[before], values[half], values[after]
            medians[:, groups, column] = np.where(
                is_odd,
                [mid, (mid + high) / 2, (low + high) / 2, (low + mid) / 2],
                [(low + mid) / 2, mid, mid, low],
            )
            for sums, parts in ((totals, scores[:, column]), (squares, scores[:, column] ** 2)):
                sums[:, column] += np.bincount(owners, parts, rows.n_groups)
    sizes = sample.sizes
    return _Medians(middle, below, at, above, of_all, _ratios(totals, squares, sizes), sizes, power)


def _ratios(totals: Floats, squares: Floats, sizes: Ints) -> Floats:
    """Variance between groups over the variance within, of each column, by one-way analysis of variance: (d,).

    totals, squares (g, d): sums of the values and of their squares.
    """
    seen = sizes > 0
    sizes, n_rows, n_groups = sizes[seen], int(sizes.sum()), int(seen.sum())
    if n_groups < 2 or n_rows == n_groups:
        return np.zeros(totals.shape[1])
    explained = (totals[seen] ** 2 / sizes[:, None]).sum(axis=0)
    within = np.maximum(squares[seen].sum(axis=0) - explained, 0) / (n_rows - n_groups)
    spread = (explained - totals.sum(axis=0) ** 2 / n_rows) / (n_groups - 1)
    between = np.maximum(spread - within, 0) * (n_groups - 1) / (n_rows - float((sizes**2).sum()) / n_rows)
    is_some = between > LEAST_SPREAD * (between + within)  # not of rounding
    ratios = np.divide(
        between, within, out=np.full(len(within), _LARGEST_RATIO), where=within > between / _LARGEST_RATIO
    )
    return np.where(is_some, ratios, 0.0)


def _divided(residuals: Floats, spreads: Floats) -> Floats:
    with np.errstate(over="ignore"):
        divided: Floats = np.clip(residuals / np.maximum(spreads, TINY), -FARTHEST, FARTHEST)
    return divided


def _spread_in_groups(owners: Ints, n_groups: int) -> Ints:
    """Numbers of at most so many rows of each group, evenly spread over its rows: ascending."""
    sizes = np.bincount(owners, minlength=n_groups)
    if sizes.max(initial=0) <= MOST_OF_GROUP:
        return np.arange(len(owners))
    order = np.argsort(owners, kind="stable")
    places = np.empty(len(owners), dtype=np.int64)
    places[order] = np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners[order]]
    return np.flatnonzero(places * MOST_OF_GROUP % sizes[owners] < MOST_OF_GROUP)


def _whole_groups(rows: LabelledRows) -> Iterator[tuple[Floats, Ints]]:
    """Rows sorted by group, and the group of each: (m, d), (m,) at a time; no group is in two parts."""
    rest, rest_owners = np.empty((0, rows.n_features)), np.empty(0, dtype=np.int64)
    for block in rows.owned_blocks():
        X, owners = np.concatenate([rest, block.X]), np.concatenate([rest_owners, block.owners])
        start = int(np.searchsorted(owners, owners.max(initial=0)))
        if start:
            yield X[:start], owners[:start]
        rest, rest_owners = X[start:], owners[start:]
    yield rest, rest_owners
