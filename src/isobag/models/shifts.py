"""How far the column means of a bag are from what is usual for the entity at this time.

Where a mix of values changes, or a level, all rows say so together, and the means of the columns show it sooner than
distances between bags do. Over the columns that vary, with within-bag variance v of each:

1. usual   u = (sum of the rows at that phase + 2 K m) / (rows at that phase + 2 K), K rows a period with mean m over
           all; the phase is that of ``volume``
2. shift   s = mean over columns of (mean - u)^2 / v / (1 / n + 1 / rows behind u + q)
3. slowly  against the first 28 bags of the entity, the rows of the latest bag of each weekday are put together, with
           u = m and q (1 / 7 + 1 / 28): what is small on each day adds up; where periods are days, or longer than that,
           and the entity has such bags in the last two weeks

With more than 64 columns this is left out: distances between bags alone count.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.models.bags import MISSING, PeriodLines

MOST_COLUMNS = 64
WEEK = 7
"""Periods that are put together where a slow change is looked for."""
_SHRINKAGE, _VARIANCE_ROWS = 2.0, 50.0


class UsualMeans(NamedTuple):
    """Of each entity: usual means and variances of a row (e, d), and the number of rows behind them (e,)."""

    means: Floats
    variances: Floats
    n_rows: Floats

    def shifts(self, entities: Ints, sizes: Ints | Floats, means: Floats, between: float) -> Floats:
        """S (see above) of bags: (b,), MISSING where nothing is known."""
        known = self.n_rows[entities] > 0
        shifts = np.full(len(entities), MISSING)
        own = entities[known]
        noise = 1 / sizes[known] + 1 / self.n_rows[own] + between
        variances = self.variances[own]
        total, number = np.zeros(len(own)), np.zeros(len(own))
        for column in range(means.shape[1]):
            varies = variances[:, column] > 0
            away = (means[known, column] - self.means[own, column]) ** 2
            total += np.divide(away, variances[:, column], out=np.zeros(len(own)), where=varies)
            number += varies
        shifts[known] = total / np.maximum(number, 1) / noise
        return shifts


class LatestMeans(NamedTuple):
    """Of each entity: sums of the columns (e, d), rows (e,) and number (e,) of its latest bags."""

    sums: Floats
    n_rows: Floats
    n_bags: Ints

    def with_bags(self, entities: Ints, sizes: Ints, means: Floats) -> tuple[Floats, Floats]:
        """Rows (b,) and means (b, d) of bags together with the latest ones."""
        n_rows = self.n_rows[entities] + sizes
        return n_rows, (self.sums[entities] + sizes[:, None] * means) / n_rows[:, None]


def latest_means(periods: Sequence[PeriodLines], number: int, n_entities: int, n_columns: int) -> LatestMeans:
    """From the latest joined line of each other weekday, in the two weeks that a period ends."""
    latest = LatestMeans(np.zeros((n_entities, n_columns)), np.zeros(n_entities), np.zeros(n_entities, dtype=np.int64))
    is_seen = np.zeros((WEEK, n_entities), dtype=bool)
    is_seen[number % WEEK] = True
    for period in periods[: -2 * WEEK : -1]:
        if period.number <= number - 2 * WEEK:
            break
        seen = is_seen[period.number % WEEK]
        lines = np.flatnonzero(period.usable & ~seen[period.entities])
        own, sizes = period.entities[lines], period.sizes[lines].astype(np.float64)
        latest.sums[own] += sizes[:, None] * period.means[lines]
        latest.n_rows[own] += sizes
        latest.n_bags[own] += 1
        seen[own] = True
    return latest


def usual_means(
    periods: Sequence[PeriodLines],
    recent: Bools,
    same: Bools,
    n_entities: int,
    n_columns: int,
    most_age: int | None = None,
) -> UsualMeans:
    """From the joined lines of periods: recent ones, and ones that have the present phase.

    Only those younger than ``most_age`` count.
    """
    sums, squares = np.zeros((2, n_entities, n_columns)), np.zeros((n_entities, n_columns))
    rows, n_bags = np.zeros((2, n_entities)), np.zeros(n_entities)
    for period, is_recent, is_same in zip(periods, recent, same, strict=True):
        known = period.joined & (period.sizes > 0)
        if most_age is not None:
            known &= period.ages < most_age
        own, sizes = period.entities[known], period.sizes[known].astype(np.float64)
        weighted = sizes[:, None] * period.means[known]
        for kind in np.flatnonzero([is_recent, is_same]):
            sums[kind][own] += weighted
            rows[kind][own] += sizes
        if not is_recent:
            continue
        squares[own] += sizes[:, None] * period.spreads[known].astype(np.float64) ** 2
        n_bags[own] += 1
    every = np.maximum(rows[0], 1.0)[:, None]
    overall = sums[0] / every
    pooled = squares.sum(axis=0) / max(float(rows[0].sum()), 1.0)
    variances = (squares + _VARIANCE_ROWS * pooled) / (rows[0][:, None] + _VARIANCE_ROWS)
    if not same.any():
        return UsualMeans(overall, variances, rows[0])
    extra = _SHRINKAGE * rows[0] / np.maximum(n_bags, 1)
    behind = rows[1] + extra
    means = (sums[1] + extra[:, None] * overall) / np.maximum(behind, 1.0)[:, None]
    return UsualMeans(means, variances, np.minimum(behind, rows[0]))
