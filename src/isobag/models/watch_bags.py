"""Summaries of bags: what is kept of the rows of an entity in a period."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand

QUANTILES = (0.1, 0.5, 0.9)
PARTS_OF_DAY = 4
ROWS, MEAN, SPREAD, QUANTILE, MISSING, PAIR, SHARE, HOURS = (
    "rows", "mean", "spread", "quantile", "missing", "pair", "share", "hours",
)  # fmt: skip
_MOST_VALUES, _MOST_SHARES, _LEAST_SHARE, _SPREAD_FLOOR = 50, 8, 0.02, 1e-2
_DAY_HOURS, _SAMPLE = 24, 1 << 16
_MOST_PAIRED, _LEAST_ROWS, _LARGEST = 14, 5, 3.0


@dataclass(frozen=True)
class BagRows(Learned):
    """Rows of entities, in numbers.

    entity, period, hour (n,); digest (n,) : stands for all cells of a row, to know it again. numbers (n, c), NaN for
    none; texts (n, k): numbers of their values, -1 for none.
    """

    entity: Ints
    period: Ints
    hour: npt.NDArray[np.int8]
    digest: Ints
    numbers: Floats
    texts: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.entity)

    def take(self, rows: Ints | Bools | slice) -> "BagRows":
        """Some of the rows."""
        if isinstance(rows, np.ndarray) and rows.dtype == bool and rows.all():
            return self
        return BagRows(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def and_also(self, more: "BagRows") -> "BagRows":
        """These rows and then more."""
        return BagRows(
            *(np.concatenate([getattr(rows, name) for rows in (self, more)]) for name in self.__dataclass_fields__)
        )

    def in_order(self) -> "BagRows":
        """Sorted by period, entity and digest, in whatever order they came."""
        return self.take(np.lexsort((self.digest, self.entity, self.period)))

    def validate(self) -> None:
        """As many of everything."""
        for name in ("period", "hour", "digest", "numbers", "texts"):
            demand(len(getattr(self, name)) == len(self), f"{name} is not of all rows")
        demand(self.numbers.ndim == self.texts.ndim == 2, "columns are not by row")
        demand(not len(self) or int(self.entity.min()) >= 0, "a row has no entity")


@dataclass(frozen=True)
class BagSummary(Learned):
    """One summary: its kind, the number of its column (-1 for none), and which quantile, value or part it is of."""

    kind: str
    column: int = -1
    part: int = -1


@dataclass(frozen=True)
class Schema(Learned):
    """Which columns are summarised and how, learned once, from the periods of the warm-up.

    numbers, texts : numbers of their columns. scales : usual spread of each number in a bag, 0 of a constant.
    values : of each text, the values with a share of their own; others share one, and none has its own.
    never : for each number whether none was missing; for each text whether there were no other values, and none.
    """

    numbers: tuple[int, ...]
    texts: tuple[int, ...]
    scales: tuple[float, ...]
    values: tuple[tuple[int, ...], ...]
    never: tuple[tuple[bool, ...], ...]
    has_hours: bool

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Which two numbers are looked at together: all pairs of the first."""
        return list(combinations(range(min(len(self.numbers), _MOST_PAIRED)), 2))

    @property
    def summaries(self) -> tuple[BagSummary, ...]:
        """All of them, in order."""
        parts = [BagSummary(ROWS)]
        for c in range(len(self.numbers)):
            parts += [BagSummary(MEAN, c), BagSummary(SPREAD, c)]
            parts += [BagSummary(QUANTILE, c, k) for k in range(len(QUANTILES))] + [BagSummary(MISSING, c)]
        parts += [BagSummary(PAIR, *pair) for pair in self.pairs]
        for c, codes in enumerate(self.values):
            parts += [BagSummary(SHARE, c, k) for k in range(len(codes) + 2)]
        return (*parts, *(BagSummary(HOURS, -1, k) for k in range(PARTS_OF_DAY * self.has_hours)))

    @property
    def units(self) -> Ints:
        """For each summary the number of the spread it is measured by, -1 for none: (S,)."""
        spread = {one.column: j for j, one in enumerate(self.summaries) if one.kind == SPREAD}
        return np.array([spread[one.column] if one.kind in (MEAN, QUANTILE) else -1 for one in self.summaries])


def learn_schema(rows: BagRows, is_chosen: Sequence[bool], has_hours: bool) -> tuple[Schema, tuple[str, ...]]:
    """Which columns to summarise, and for each column, numbers first, why it is not ("" if it is).

    is_chosen : for each column, numbers first, whether the user named it.
    """
    n_numbers = rows.numbers.shape[1]
    part = np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(np.int64)
    reasons: list[str] = []
    scales: list[float] = []
    values: list[tuple[int, ...]] = []
    never: list[tuple[bool, ...]] = []
    for j in range(n_numbers):
        x = rows.numbers[:, j]
        x = x[~np.isnan(x)]
        n_distinct = len(np.unique(rows.numbers[part, j]))
        is_id = n_distinct > max(100, 0.95 * len(part)) and bool((x == np.floor(x)).all())
        reasons.append("" if is_chosen[j] else "no values" if not len(x) else "an identifier" if is_id else "")
    for k in range(rows.texts.shape[1]):
        n_distinct = len(np.unique(rows.texts[rows.texts[:, k] >= 0, k]))
        many = "" if n_distinct <= _MOST_VALUES else f"{n_distinct:,} values"
        reasons.append(("no values" if not n_distinct else many) if not is_chosen[n_numbers + k] else "")
    numbers = [j for j in range(n_numbers) if not reasons[j]]
    texts = [k for k in range(rows.texts.shape[1]) if not reasons[n_numbers + k]]
    for j in numbers:
        x = rows.numbers[:, j]
        low, high = np.nanquantile(x[part] if len(x) else np.zeros(1), (0.25, 0.75))
        spread = float(high - low) / 1.35 or float(np.nanstd(x))
        scales.append(spread if np.isfinite(spread) else 0.0)
        never.append((not np.isnan(x).any(),))
    for k in texts:
        counts = np.bincount(rows.texts[:, k] + 1)
        codes = [c - 1 for c in np.argsort(-counts, kind="stable") if c and counts[c] >= _LEAST_SHARE * len(rows)]
        values.append(tuple(int(c) for c in codes[:_MOST_SHARES]))
        never.append((int(sum(counts[c + 1] for c in values[-1])) == int(counts[1:].sum()), not counts[0]))
    schema = Schema(tuple(numbers), tuple(texts), tuple(scales), tuple(values), tuple(never), has_hours)
    return schema, tuple(reasons)


def summarise(schema: Schema, rows: BagRows, starts: Ints) -> Floats:
    """Summaries of bags from rows sorted by bag; starts (g,) is the first row of each: (g, S), NaN for none."""
    sizes = np.diff(np.append(starts, len(rows)))
    owner, sizes_ = np.repeat(np.arange(len(starts)), sizes), sizes.astype(np.float64)
    columns = [np.log(sizes_ + 0.5)]
    for c, (j, scale) in enumerate(zip(schema.numbers, schema.scales, strict=True)):
        columns += _of_numbers(rows.numbers[:, j], starts, owner, sizes_, scale, schema.never[c][0])
    columns += _correlations(schema, rows.numbers, starts, owner)
    for c, (k, values) in enumerate(zip(schema.texts, schema.values, strict=True)):
        codes = rows.texts[:, k]
        place = np.full(max([*values, int(codes.max(initial=0))]) + 2, len(values))
        place[list(values)] = np.arange(len(values))
        place[-1] = len(values) + 1  # of -1, no value
        never = (*(False for _ in values), *schema.never[len(schema.numbers) + c])
        columns += _shares(place[codes], never, owner, sizes_)
    if schema.has_hours:
        columns += _shares(
            rows.hour.astype(np.int64) * PARTS_OF_DAY // _DAY_HOURS, (False,) * PARTS_OF_DAY, owner, sizes_
        )
    return np.stack(columns, axis=1)


def _of_numbers(x: Floats, starts: Ints, owner: Ints, sizes: Floats, scale: float, never: bool) -> list[Floats]:
    is_gap = np.isnan(x)
    n = sizes - (np.add.reduceat(is_gap, starts, dtype=np.float64) if is_gap.any() else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.add.reduceat(np.where(is_gap, 0.0, x), starts) / n
        centred = np.where(is_gap, 0.0, x - mean[owner])
        variance = np.add.reduceat(centred**2, starts) / np.maximum(n - 1, 1)
        spread = np.where(n >= 2, np.log(variance + (_SPREAD_FLOOR * (scale or 1.0)) ** 2) / 2, np.nan)
    ordered = x[np.lexsort((x, owner))]  # NaN behind all numbers of its bag
    last, quantiles = np.maximum(n - 1, 0).astype(np.int64), []
    for q in QUANTILES:
        at = q * last
        low = at.astype(np.int64)
        a, b = ordered[starts + low], ordered[starts + np.minimum(low + 1, last)]
        quantiles.append(np.where(n > 0, a + (b - a) * (at - low), np.nan))
    return [mean, spread, *quantiles, arc(sizes - n, sizes, never)]


def _correlations(schema: Schema, numbers: Floats, starts: Ints, owner: Ints) -> list[Floats]:
    """Correlations of pairs in a bag, by Fisher's transform, of numbers cut at three times their usual spread."""

    def moments(x: Floats) -> Floats:
        result: Floats = np.add.reduceat(x, starts)
        return result

    parts, result = [], []
    for j, scale in zip(schema.numbers[: _MOST_PAIRED * (len(schema.pairs) > 0)], schema.scales, strict=False):
        x = numbers[:, j]
        is_there = ~np.isnan(x)
        n = moments(is_there.astype(np.float64))
        mean = moments(np.where(is_there, x, 0.0)) / np.maximum(n, 1)
        cut = _LARGEST * (scale or 1.0)
        parts.append((np.where(is_there, np.clip(x - mean[owner], -cut, cut), 0.0), is_there))
    for a, b in schema.pairs:
        (x, has_x), (y, has_y) = parts[a], parts[b]
        power = np.sqrt(moments(x**2 * has_y) * moments(y**2 * has_x))
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.clip(moments(x * y) / power, -0.99, 0.99)
        result.append(
            np.where((moments((has_x & has_y).astype(np.float64)) >= _LEAST_ROWS) & (power > 0), np.arctanh(r), np.nan)
        )
    return result


def _shares(codes: Ints, never: tuple[bool, ...], owner: Ints, sizes: Floats) -> list[Floats]:
    counts = np.bincount(owner * len(never) + codes, minlength=len(sizes) * len(never)).reshape(len(sizes), -1)
    return [arc(own, sizes, is_new) for own, is_new in zip(counts.T, never, strict=True)]


def arc(counts: Floats | Ints, sizes: Floats, never: bool) -> Floats:
    """Shares as angles, whose variance hardly depends on them (Anscombe); 0 of what was never but 0."""
    shift = 0.0 if never else 0.375
    result: Floats = np.arcsin(np.sqrt((counts + shift) / (sizes + 2 * shift)))
    return result
