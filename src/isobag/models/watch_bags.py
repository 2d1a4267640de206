"""Summaries of bags: what is known of the rows of an entity in a period once they are gone."""

from dataclasses import dataclass

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned, demand

QUANTILES = (0.1, 0.5, 0.9)
PARTS_OF_DAY = 4
ROWS, MEAN, SPREAD, QUANTILE, MISSING, SHARE, HOURS, SHAPE = (
    "rows", "mean", "spread", "quantile", "missing", "share", "hours", "shape",
)  # fmt: skip
_SPREAD_FLOOR = 1e-2


@dataclass(frozen=True)
class Summary(Learned):
    """One summary: its kind, the number of its column (-1 for none), and which value, quantile or part it is of."""

    kind: str
    column: int = -1
    part: int = -1


@dataclass(frozen=True)
class Schema(Learned):
    """Which columns are summarised, learned once from the periods of the warm-up.

    numbers, texts : their columns. scales (c,) : usual spread of each number within bags. n_values : of each text,
    how many values have a share of their own; codes from there on share the last.
    """

    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    scales: Floats
    values: tuple[tuple[int, ...], ...]
    never: tuple[tuple[bool, ...], ...]
    has_hours: bool = False
    n_map: int = 0

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """All of them, in order."""
        parts = [Summary(ROWS)]
        for c in range(len(self.numbers)):
            parts += [Summary(MEAN, c), Summary(SPREAD, c)]
            parts += [Summary(QUANTILE, c, k) for k in range(len(QUANTILES))] + [Summary(MISSING, c)]
        for c, codes in enumerate(self.values):
            parts += [Summary(SHARE, c, k) for k in range(len(codes) + 2)]
        if self.has_hours:
            parts += [Summary(HOURS, -1, k) for k in range(PARTS_OF_DAY)]
        return tuple(parts) + ((Summary(SHAPE),) if self.n_map else ())

    @property
    def units(self) -> Ints:
        """For each summary the number of the spread it is measured by, -1 for none: (S,)."""
        spread = {one.column: j for j, one in enumerate(self.summaries) if one.kind == SPREAD}
        return np.array([spread[one.column] if one.kind in (MEAN, QUANTILE) else -1 for one in self.summaries])


def summarise(schema: Schema, starts: Ints, numbers: Floats, texts: Ints, hours: Ints) -> Floats:
    """Summaries of bags from rows sorted by bag: (g, S), NaN where there is none.

    starts (g,) : first row of each bag. numbers (n, c), texts (n, k): codes, -1 for none. hours (n,).
    """
    sizes = np.diff(np.append(starts, len(numbers))).astype(np.float64)
    owner = np.repeat(np.arange(len(starts)), sizes.astype(np.int64))
    columns = [np.log(sizes + 0.5)]
    for c, scale in enumerate(schema.scales):
        columns += _of_numbers(numbers[:, c], starts, owner, sizes, float(scale), schema.never[c][0])
    for c, codes in enumerate(schema.values):
        place = np.full(max([*codes, int(texts[:, c].max(initial=0))]) + 2, len(codes))
        place[list(codes)] = np.arange(len(codes))
        place[-1] = len(codes) + 1
        columns += _shares(place[texts[:, c]], (*[False] * len(codes), *schema.never[len(schema.numbers) + c]), owner, sizes)
    if schema.has_hours:
        columns += _shares(hours * PARTS_OF_DAY // 24, (False,) * PARTS_OF_DAY, owner, sizes)
    if schema.n_map:
        columns.append(np.full(len(starts), np.nan))
    return np.stack(columns, axis=1)


def _of_numbers(x: Floats, starts: Ints, owner: Ints, sizes: Floats, scale: float, never: bool) -> list[Floats]:
    is_gap = np.isnan(x)
    n = sizes - (np.add.reduceat(is_gap, starts, dtype=np.float64) if is_gap.any() else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.add.reduceat(np.where(is_gap, 0.0, x), starts) / n
        centred = np.where(is_gap, 0.0, x - mean[owner])
        variance = np.add.reduceat(centred**2, starts) / np.maximum(n - 1, 1)
        spread = np.where(n >= 2, np.log(variance + (_SPREAD_FLOOR * scale) ** 2 ) / 2 if scale else np.log(variance + 1) / 2, np.nan)
    ordered = x[np.lexsort((x, owner))]  # NaN behind all numbers of its bag
    quantiles = []
    for q in QUANTILES:
        at = q * np.maximum(n - 1, 0)
        low = np.floor(at).astype(np.int64)
        a, b = ordered[starts + low], ordered[np.minimum(starts + np.minimum(low + 1, np.maximum(n - 1, 0).astype(np.int64)), len(x) - 1)]
        quantiles.append(np.where(n > 0, a + (b - a) * (at - low), np.nan))
    return [mean, spread, *quantiles, arc(sizes - n, sizes, never)]


def _shares(codes: Ints, never: tuple[bool, ...], owner: Ints, sizes: Floats) -> list[Floats]:
    n_values = len(never)
    counts = np.bincount(owner * n_values + codes, minlength=len(sizes) * n_values).reshape(len(sizes), n_values)
    return [arc(own, sizes, is_new) for own, is_new in zip(counts.T, never, strict=True)]


def arc(counts: Floats, sizes: Floats, never: bool) -> Floats:
    """Shares whose variance hardly depends on them (Anscombe), 0 of what never was but 0."""
    shift = 0.0 if never else 0.375
    result: Floats = np.arcsin(np.sqrt((counts + shift) / (sizes + 2 * shift)))
    return result
