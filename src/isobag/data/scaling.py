"""The paper's scaling to [0, 1] and its friends: (x - shift) / scale, feature by feature, learned on training data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats, held
from isobag.data.rows import ArrayRows, Rows, sample_rows


@dataclass(frozen=True)
class Scaling:
    """shift (d,) and scale (d,)."""

    shift: Floats = held(1, -FARTHEST, FARTHEST)
    scale: Floats = held(1, np.finfo(float).tiny * 2**-52, np.finfo(float).max)

    def apply(self, X: Floats) -> Floats:
        """Scaled copy of X: (n, d), cut off at 1e150: a row that far out is OUTSIDE, and its square would overflow."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.shift) / self.scale, -FARTHEST, FARTHEST)


class Summary(NamedTuple):
    """What all scalings are learned from: the range of each feature (d,), and a sample of the rows (m, d)."""

    low: Floats
    high: Floats
    sample: Floats


def _minmax(seen: Summary) -> tuple[Floats, Floats]:
    return seen.low, seen.high - seen.low


def _standard(seen: Summary) -> tuple[Floats, Floats]:
    middle = seen.sample.mean(axis=0)
    return middle, np.sqrt(((seen.sample - middle) ** 2).mean(axis=0))


def _absolute(seen: Summary) -> tuple[Floats, Floats]:
    middle = seen.sample.mean(axis=0)
    return middle, np.abs(seen.sample - middle).mean(axis=0)


def _robust(seen: Summary) -> tuple[Floats, Floats]:
    first, middle, third = np.quantile(seen.sample, (0.25, 0.5, 0.75), axis=0)
    return middle, np.where(third > first, third - first, seen.high - seen.low)


def _none(seen: Summary) -> tuple[Floats, Floats]:
    return np.zeros_like(seen.low), np.ones_like(seen.low)


SCALINGS = {"minmax": _minmax, "standard": _standard, "absolute": _absolute, "robust": _robust, None: _none}
"""minmax: to [0, 1]; standard: mean 0 and standard deviation 1; absolute: mean 0 and mean absolute deviation 1;
robust: median 0 and quartiles 1 apart, or range 1 where these are equal; None: as is. Ranges are those of all rows,
means and quantiles those of a sample of 65,536 rows (fewer of very many features), or of all if there are no more."""


def fit_scaling(X: Floats, name: str | None) -> Scaling:
    """Learn shift and scale from an array (n, d)."""
    return fit_scalings(ArrayRows(X), [name])[name]


def fit_scalings(rows: Rows, names: Iterable[str | None]) -> dict[str | None, Scaling]:
    """Learn scalings in one pass. A feature without spread is only shifted, so a constant one is 0."""
    low, high = rows.map_reduce(_extremes, _wider)
    seen = Summary(low, high, sample_rows(rows))
    return {name: _scaling(seen, name) for name in names}


def _scaling(seen: Summary, name: str | None) -> Scaling:
    shift, spread = SCALINGS[name](seen)
    if name is None:
        return Scaling(shift, spread)
    # A constant feature has a mean and a deviation off by rounding; its spread is nothing all the same.
    is_constant = seen.low == seen.high
    return Scaling(np.where(is_constant, seen.low, shift), np.where(is_constant | (spread == 0), 1.0, spread))


def _extremes(block: Floats) -> tuple[Floats, Floats]:
    return block.min(axis=0), block.max(axis=0)


def _wider(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])
