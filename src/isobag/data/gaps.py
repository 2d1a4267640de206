"""Missing values: something stands for them, and one more feature says how surprising a row's gaps are.

fill      next to the median of the values that are there; in a feature that had no gap in ``fit`` a gap is a value
          never seen, so it is as far out as can be
surprise  sum over a row's gaps of log2(1 / p)^2, where p is the share of the rows of ``fit`` with a gap in the feature

Where no row of ``fit`` has a gap there is no more feature, and nothing is changed. One feature for all gaps, and not an
indicator for each, or gaps that are scattered over all features would outweigh the values.
"""

from dataclasses import dataclass

import numpy as np

from isobag.backends.arrays import FARTHEST, Bools, Floats, Ints
from isobag.backends.learned import Learned, check
from isobag.data.rows import MappedRows, Rows, sample_rows

GAPS = "missing values"
"""Name of the feature that says how surprising a row's gaps are."""
MOST_SURPRISE = 2.0**12
_UNIT = 2.0**-10
"""Surprises are multiples of it, so their sums are exact and do not depend on order."""


@dataclass(frozen=True)
class Gaps(Learned):
    """What stands for a gap in each feature, and how surprising it is: fills (d,), surprises (d,)."""

    fills: Floats
    surprises: Floats

    @classmethod
    def of(cls, n_missing: Ints, n_rows: int, medians: Floats) -> "Gaps":
        """From the number of gaps in each feature (d,), and the medians of the values that are there (d,)."""
        share = np.maximum(n_missing, 1) / max(n_rows, 1)
        surprises = np.where(n_missing > 0, np.rint(np.log2(share) ** 2 / _UNIT) * _UNIT, 0.0)
        # Next to the median, so that filled rows show where the gaps were.
        return cls(np.where(n_missing > 0, np.nextafter(medians, np.inf), FARTHEST), surprises)

    @classmethod
    def none(cls, n_features: int) -> "Gaps":
        """Of rows without any."""
        return cls(np.full(n_features, FARTHEST), np.zeros(n_features))

    def validate(self) -> None:
        """A fill and a surprise for each feature."""
        check("fills", self.fills, (None,), -FARTHEST, FARTHEST)
        check("surprises", self.surprises, self.fills.shape, 0, MOST_SURPRISE)

    @property
    def ever(self) -> Bools:
        """Which features had gaps in ``fit``: (d,)."""
        return self.fills < FARTHEST

    @property
    def n_features(self) -> int:
        """Number of features of filled rows."""
        return len(self.fills) + bool(self.ever.any())

    def shares(self) -> Floats:
        """Share of the rows of ``fit`` with a gap in each feature: (d,)."""
        return np.where(self.ever, 2.0 ** -np.sqrt(self.surprises), 0.0)

    def fill(self, X: Floats) -> Floats:
        """Rows without gaps: (n, d) -> (n, d), or (n, d + 1) with the surprise, if ``fit`` had gaps; or as they are."""
        if X.shape[1] > len(self.fills):
            return X
        gaps = np.isnan(X)
        has_gaps = bool(gaps.any())
        filled = np.where(gaps, self.fills, X) if has_gaps else X
        if not self.ever.any():
            return filled
        return np.column_stack([filled, gaps @ self.surprises if has_gaps else np.zeros(len(X))])

    def where(self, filled: Floats) -> Bools:
        """Where the gaps of filled rows were: (n, d)."""
        where: Bools = filled[:, : len(self.fills)] == self.fills
        return where

    def hand_back(self, parts: Floats, filled: Floats) -> Floats:
        """What features contribute, with the part of the surprise added to the gaps that make it: (n, d)."""
        d = len(self.fills)
        if parts.shape[1] == d:
            return parts
        weights = self.surprises * self.where(filled)
        weights[weights.sum(axis=1) == 0] = self.ever
        whole: Floats = parts[:, :d] + parts[:, d:] * weights / weights.sum(axis=1, keepdims=True)
        return whole


def learn_gaps(rows: Rows) -> Gaps:
    """What stands for gaps, from all rows; medians from a sample of them."""
    if rows.device is not None:
        return Gaps.none(rows.n_features)
    n_missing = rows.map_reduce(lambda block: np.isnan(block).sum(axis=0), np.add)
    medians = np.zeros(rows.n_features)
    if n_missing.any():
        sample = sample_rows(rows)
        for j in np.flatnonzero(n_missing):
            present = sample[~np.isnan(sample[:, j]), j]
            medians[j] = np.median(present) if len(present) else 0.0
    return Gaps.of(n_missing, len(rows), medians)


def fill_rows(rows: Rows, gaps: Gaps) -> Rows:
    """Rows without gaps; as they are if they have none, and ``fit`` had none. Those on a device have none."""
    is_whole = rows.device is not None or not rows.map_reduce(lambda X: bool(np.isnan(X).any()), bool.__or__)
    if is_whole and not gaps.ever.any():
        return rows
    filled = MappedRows(rows.on_host, gaps.fill)
    filled.n_features = gaps.n_features
    filled.names = None if rows.names is None else [*rows.names, GAPS][: gaps.n_features]
    return filled
