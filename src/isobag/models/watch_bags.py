"""Summaries of bags: what is kept of the rows of an entity in a period."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand

QUANTILES = (0.1, 0.5, 0.9)
ROWS, VALUE, SPREAD, MISSING, SHAPE, MIX = "volume", "value", "spread", "missing", "shape", "mix"
_MOST_VALUES, _MOST_SHARES, _LEAST_SHARE, _SPREAD_FLOOR = 50, 8, 0.02, 1e-2
_SAMPLE, _MOST_PAIRED, _LEAST_ROWS, _LARGEST = 1 << 16, 14, 5, 3.0


@dataclass(frozen=True)
class BagRows(Learned):
    """Rows of entities, in numbers.

    entity, period (n,); digest (n,) : stands for all cells of a row, to know it again. numbers (n, c), NaN for none;
    texts (n, k): numbers of their values, -1 for none.
    """

    entity: Ints
    period: Ints
    digest: Ints
    numbers: Floats
    texts: npt.NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.entity)

    def take(self, rows: Ints | Bools | slice) -> "BagRows":
        """Some of the rows."""
        if isinstance(rows, np.ndarray) and rows.dtype == bool and rows.all():
            return self
        return BagRows(*(getattr(self, one.name)[rows] for one in fields(self)))

    def and_also(self, more: "BagRows") -> "BagRows":
        """These rows and then more."""
        if not len(self):
            return more
        return BagRows(*(np.concatenate([getattr(rows, one.name) for rows in (self, more)]) for one in fields(self)))

    def in_order(self) -> "BagRows":
        """Sorted by period, entity and digest, in whatever order they came."""
        return self.take(np.lexsort((self.digest, self.entity, self.period)))

    def validate(self) -> None:
        """As many of everything."""
        demand(all(len(getattr(self, one.name)) == len(self) for one in fields(self)), "a column is not of all rows")
        demand(self.numbers.ndim == self.texts.ndim == 2, "columns are not by row")
        demand(not len(self) or int(self.entity.min()) >= 0, "a row has no entity")


@dataclass(frozen=True)
class BagSummary(Learned):
    """One summary: what it is of, its words before and after the value, number of its column, -1 for none.

    never : of a share, whether it was 0 in all that was learned from.
    """

    what: str
    before: str = ""
    after: str = ""
    column: int = -1
    never: bool = False


@dataclass(frozen=True)
class Schema(Learned):
    """Which columns are summarised and how, learned once, from the periods of the warm-up.

    numbers, texts : numbers of their columns. scales : usual spread of each number in a bag, 0 of a constant.
    values : of each text, the values with a share of their own; others share one, and none has its own.
    summaries : all of them, in order.
    """

    numbers: tuple[int, ...]
    texts: tuple[int, ...]
    scales: tuple[float, ...]
    values: tuple[tuple[int, ...], ...]
    summaries: tuple[BagSummary, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Which two numbers are looked at together: all pairs of the first."""
        return _pairs(len(self.numbers))

    @property
    def units(self) -> Ints:
        """For each summary the number of the spread it is measured by, -1 for none: (S,)."""
        spread = {one.column: j for j, one in enumerate(self.summaries) if one.what == SPREAD}
        return np.array([spread[one.column] if one.what == VALUE else -1 for one in self.summaries])


def _pairs(n_numbers: int) -> list[tuple[int, int]]:
    return list(combinations(range(min(n_numbers, _MOST_PAIRED)), 2))


def learn_schema(
    rows: BagRows, number_names: Sequence[str], text_names: Sequence[tuple[str, Sequence[str]]], are_chosen: bool
) -> tuple[Schema, list[str]]:
    """Which columns to summarise, and the names of those that are not, with the reason.

    text_names : of each text, its name and values. are_chosen : whether the user named the columns.
    """
    part, left_out = np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(np.int64), []
    numbers, texts, scales, values, summaries = [], [], [], [], [BagSummary(ROWS, after=" rows")]
    for j, name in enumerate(number_names):
        x = rows.numbers[:, j]
        there, n_distinct = x[~np.isnan(x)], len(np.unique(x[part]))
        is_id = n_distinct > max(100, 0.95 * len(part)) and bool((there == np.floor(there)).all())
        if not are_chosen and (is_id or not len(there)):
            left_out.append(f"{name} ({'an identifier' if is_id else 'no values'})")
            continue
        low, high = np.nanquantile(x[part] if len(there) else np.zeros(1), (0.25, 0.75))
        spread, c = float(high - low) / 1.35 or float(np.nanstd(x)), len(numbers)
        scales.append(spread if np.isfinite(spread) else 0.0)
        numbers.append(j)
        summaries += [BagSummary(VALUE, f"{name} ", " a row", c), BagSummary(SPREAD, f"spread of {name} ", "", c)]
        summaries += [BagSummary(VALUE, f"{name} ", f" ({q:.0%} quantile)", c) for q in QUANTILES]
        summaries.append(BagSummary(MISSING, f"{name} missing in ", " of rows", c, len(there) == len(x)))
    for a, b in _pairs(len(numbers)):
        both = f"{number_names[numbers[a]]} and {number_names[numbers[b]]}"
        summaries.append(BagSummary(SHAPE, f"correlation of {both} ", "", a))
    for k, (name, of_text) in enumerate(text_names):
        counts = np.bincount(rows.texts[:, k].astype(np.int64) + 1, minlength=1)
        n_distinct, c = np.count_nonzero(counts[1:]), len(numbers) + len(texts)
        if not are_chosen and not 0 < n_distinct <= _MOST_VALUES:
            left_out.append(f"{name} ({f'{n_distinct:,} values' if n_distinct else 'no values'})")
            continue
        codes = [c - 1 for c in np.argsort(-counts, kind="stable") if c and counts[c] >= _LEAST_SHARE * len(rows)]
        values.append(tuple(int(code) for code in codes[:_MOST_SHARES]))
        texts.append(k)
        is_all = int(sum(counts[code + 1] for code in values[-1])) == int(counts[1:].sum())
        summaries += [BagSummary(MIX, f"{name}={of_text[code]} in ", " of rows", c) for code in values[-1]]
        summaries.append(BagSummary(MIX, f"{name} of other values in ", " of rows", c, is_all))
        summaries.append(BagSummary(MISSING, f"{name} missing in ", " of rows", c, not counts[0]))
    return Schema(tuple(numbers), tuple(texts), tuple(scales), tuple(values), tuple(summaries)), left_out


def summarise(schema: Schema, rows: BagRows, starts: Ints) -> Floats:
    """Summaries of bags from rows sorted by bag; starts (g,) is the first row of each: (g, S), NaN for none."""
    sizes = np.diff(np.append(starts, len(rows)))
    owner, sizes_ = np.repeat(np.arange(len(starts)), sizes), sizes.astype(np.float64)
    columns = [np.log(sizes_ + 0.5)]
    for j, scale in zip(schema.numbers, schema.scales, strict=True):
        columns += _of_numbers(rows.numbers[:, j], starts, owner, sizes_, scale)
    columns += _correlations(schema, rows.numbers, starts, owner)
    for k, values in zip(schema.texts, schema.values, strict=True):
        codes, n = rows.texts[:, k], len(values) + 2
        place = np.full(max([*values, int(codes.max(initial=0))]) + 2, n - 2)
        place[list(values)] = np.arange(n - 2)
        place[-1] = n - 1  # of -1, no value
        columns += list(np.bincount(owner * n + place[codes], minlength=len(starts) * n).reshape(-1, n).T)
    for j, summary in enumerate(schema.summaries):
        if summary.what in (MIX, MISSING):
            columns[j] = arc(columns[j], sizes_, summary.never)
    return np.stack(columns, axis=1)


def _of_numbers(x: Floats, starts: Ints, owner: Ints, sizes: Floats, scale: float) -> list[Floats]:
    """Of each bag mean, log of the spread, quantiles, and how many values are missing."""
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
    return [mean, spread, *quantiles, sizes - n]


def _correlations(schema: Schema, numbers: Floats, starts: Ints, owner: Ints) -> list[Floats]:
    """Correlations of pairs in a bag, by Fisher's transform, of numbers cut at three times their usual spread."""

    def moments(x: Floats) -> Floats:
        result: Floats = np.add.reduceat(x, starts, dtype=np.float64)
        return result

    parts, result = [], []
    for j, scale in zip(schema.numbers[: _MOST_PAIRED * (len(schema.pairs) > 0)], schema.scales, strict=False):
        x = numbers[:, j]
        is_there = ~np.isnan(x)
        mean, cut = moments(np.where(is_there, x, 0.0)) / np.maximum(moments(is_there), 1), _LARGEST * (scale or 1.0)
        parts.append((np.where(is_there, np.clip(x - mean[owner], -cut, cut), 0.0), is_there))
    for a, b in schema.pairs:
        (x, has_x), (y, has_y) = parts[a], parts[b]
        power = np.sqrt(moments(x**2 * has_y) * moments(y**2 * has_x))
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.clip(moments(x * y) / power, -0.99, 0.99)
        result.append(np.where((moments(has_x & has_y) >= _LEAST_ROWS) & (power > 0), np.arctanh(r), np.nan))
    return result


def arc(counts: Floats | Ints, sizes: Floats, never: bool) -> Floats:
    """Shares as angles, whose variance hardly depends on them (Anscombe); 0 of what was never but 0."""
    shift = 0.0 if never else 0.375
    result: Floats = np.arcsin(np.sqrt((counts + shift) / (sizes + 2 * shift)))
    return result
