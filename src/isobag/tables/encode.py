"""From the entries of a table to features, learned once and kept: what fills gaps, which texts count, what is left out.

An ``Encoding`` is a value: plain texts and numbers, no table. It is learned from a scanned table, written into a model
file as one text, and applied to any table with the same columns, at once or chunk by chunk.

Entries become cells, one number for each column, NaN for a gap: (n, c). Cells become features. Of rows that are looked
at one by one, all columns of text share one feature, the sum of squared surprises of their texts, log2(1 / share)^2, so
that a rare text is far from common ones, and columns of text, however many, weigh no more than one column of numbers.
Of groups, whose mix of texts counts, each frequent text has an indicator. Gaps are those of ``isobag.data.gaps``.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Bools, Floats, Ints
from isobag.backends.learned import Learned, demand
from isobag.data.gaps import GAPS, MOST_SURPRISE, Gaps
from isobag.storage.codec import decode, encode
from isobag.tables.cells import NUMBER, TEXT, TIME, check_dates
from isobag.tables.judge import DAY_OF_WEEK, SECONDS, TIME_OF_DAY, time_feature_names, time_features
from isobag.tables.notation import NUMBERS, THOUSANDS
from isobag.tables.scan import BOOL, ColumnScan, is_true

KINDS = (NUMBER, BOOL, TIME, TEXT)
PARTS = (SECONDS, TIME_OF_DAY, DAY_OF_WEEK)
CHOICES: dict[str, tuple[str, ...]] = {
    "missing": ("auto", "error", "drop"),
    "bad_cells": ("error", "missing", "text"),
    "decimal": (".", ","),
    "thousands": THOUSANDS,
    "numbers": NUMBERS,
}
"""How cells are read, and what may be chosen for it."""
RARE_TEXTS = "rare texts"
"""Name of the feature that says how surprising the texts of a row are."""
UNSEEN = 1.0 + 2.0**-20
"""Of texts that a model has never seen, which are as odd as the rarest: that one's indicator, slightly above 1."""
NO_TEXT = -1.0
"""What stands for a gap among the numbers of categories."""


@dataclass(frozen=True)
class EncodedColumn(Learned):
    """How one column becomes features.

    kind : NUMBER and BOOL are one feature, TIME has those of its parts, TEXT shares one or has indicators.
    categories : texts by number, the most frequent first; with ``has_other`` all others have one number together.
    shares : of the rows in which each category stands; none where categories have indicators.
    unseen : squared surprise of a text that is no category, FARTHEST where every text that there was came back.
    parts : of times: SECONDS, TIME_OF_DAY, DAY_OF_WEEK.
    fill, surprise : what stands for a gap, and how surprising it is, as of ``Gaps``; FARTHEST where there was none.
    only : the value of a column that has no other, else NaN.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    has_other: bool = False
    shares: tuple[float, ...] = ()
    unseen: float = FARTHEST
    parts: tuple[str, ...] = ()
    fill: float = FARTHEST
    surprise: float = 0.0
    only: float = math.nan

    def validate(self) -> None:
        """Raise a ValueError where fields are out of range or do not fit together."""
        kind, parts, categories, shares = self.kind, self.parts, self.categories, self.shares
        demand(kind in KINDS and bool(parts) == (kind == TIME), "kind")
        demand(set(parts) <= set(PARTS) and len(set(parts)) == len(parts), "parts")
        demand((kind == TEXT) == bool(categories or self.has_other), "categories")
        demand(len(set(categories)) == len(categories), "categories")
        demand(len(shares) in (0, len(categories)) and all(0 < share <= 1 for share in shares), "shares")
        demand(abs(self.fill) <= FARTHEST and 0 <= self.unseen <= FARTHEST, "fill")
        demand(0 <= self.surprise <= MOST_SURPRISE and not math.isinf(self.only), "surprise")

    @property
    def feature_names(self) -> list[str]:
        """Names of the features of its own."""
        if self.kind == TIME:
            return [name for part in self.parts for name in time_feature_names(self.name, part)]
        if self.kind == TEXT and self.shares:
            return []
        if self.kind == TEXT:
            names = [f"{self.name}={text}" for text in self.categories]
            return [*names, f"{self.name}=(other)"] if self.has_other else names
        return [self.name]

    @property
    def ever_missing(self) -> bool:
        """Whether the column had gaps when it was learned."""
        return self.fill < FARTHEST

    def numbers_of_codes(self, codes: Mapping[str, int]) -> Floats | None:
        """What the codes of a scanned column stand for here: of BOOL 0 or 1, of TEXT the number of a category."""
        if self.kind not in (BOOL, TEXT):
            return None
        rank = {text: float(i) for i, text in enumerate(self.categories)}
        other = float(len(self.categories))
        # One more: the code that texts beyond MOST_TEXTS share.
        numbers = np.full(max(codes.values(), default=-1) + 2, other if self.kind == TEXT else math.nan)
        for text, code in codes.items():
            numbers[code] = float(is_true(text)) if self.kind == BOOL else rank.get(text, other)
        return numbers

    def surprises(self, cells: Floats) -> Floats:
        """Squared surprise of the texts of cells, gaps filled: (n,) -> (n,)."""
        squares = np.array([*(math.log2(share) ** 2 for share in self.shares), self.unseen])
        number = np.clip(cells, 0, len(self.shares)).astype(np.int64)
        surprises: Floats = np.where(cells == FARTHEST, FARTHEST, np.where(cells < 0, 0.0, squares[number]))
        return surprises

    def features(self, cells: Floats) -> Floats:
        """Features of its own from cells whose gaps are filled: (n,) -> (n, f)."""
        if self.kind == TIME:
            return np.concatenate([time_features(cells, part) for part in self.parts], axis=1)
        if self.kind == TEXT:
            names = self.feature_names
            indicators: Floats = (cells[:, None] == np.arange(len(names))).astype(np.float64)
            if names and not self.has_other:
                indicators[cells == len(self.categories), -1] = UNSEEN
            if names:
                indicators[cells == FARTHEST, 0] = FARTHEST
            return indicators
        return cells[:, None]


@dataclass(frozen=True)
class Encoding(Learned):
    """How a table becomes features: its columns that are used, in order, and those that are not, with the reason.

    Features are those of the columns one after the other, then RARE_TEXTS if texts share it, and last GAPS if a column
    ever had a gap.

    baseline : columns that make the label of the group that a row is compared with.
    dates : the format of dates in text beside ISO 8601, "" for none.
    """

    columns: tuple[EncodedColumn, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    missing: str = "error"
    bad_cells: str = "error"
    decimal: str = "."
    thousands: str = ""
    numbers: str = "strict"
    baseline: tuple[str, ...] = ()
    dates: str = ""

    def __post_init__(self) -> None:
        for j, name in enumerate(self.names):
            if name in self.names[:j]:
                raise ValueError(f"Two features would be called {name!r}; rename a column: reasons go by names.")

    def validate(self) -> None:
        """Raise a ValueError where fields are out of range or do not fit together."""
        names = [*(column.name for column in self.columns), *(name for name, _ in self.left_out)]
        demand(len(set(names)) == len(names), "names")
        demand(all(getattr(self, name) in allowed for name, allowed in CHOICES.items()), "choices")
        check_dates(self.dates)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        names = [name for column in self.columns for name in column.feature_names]
        names += [RARE_TEXTS] * bool(self.rare_texts.any()) + [GAPS] * bool(self.gaps.ever.any())
        return tuple(names)

    @property
    def gaps(self) -> Gaps:
        """What stands for the gaps of each column."""
        return Gaps(np.array([one.fill for one in self.columns]), np.array([one.surprise for one in self.columns]))

    @property
    def rare_texts(self) -> Bools:
        """Which columns share the feature RARE_TEXTS: (c,)."""
        return np.array([bool(column.shares) for column in self.columns], dtype=bool)

    @property
    def owners(self) -> Ints:
        """Number of the column that each feature comes from, behind all columns that of a shared one: (d,)."""
        sizes = [len(column.feature_names) for column in self.columns]
        n_shared = len(self.names) - sum(sizes)
        return np.append(np.repeat(np.arange(len(sizes)), sizes), len(sizes) + np.arange(n_shared))

    def column_of(self, j: int) -> EncodedColumn:
        """The column that a feature comes from; of a shared one, a column of numbers."""
        owner = int(self.owners[j])
        return self.columns[owner] if owner < len(self.columns) else EncodedColumn(self.names[j], NUMBER)

    def bind_cells(self, codes: Sequence[Mapping[str, int]]) -> Callable[[Floats], Floats]:
        """From entries to cells, (n, c) -> (n, c), of a scanned table whose columns give their texts these codes."""
        numbers = [column.numbers_of_codes(own) for column, own in zip(self.columns, codes, strict=True)]
        if all(own is None for own in numbers):
            return lambda entries: entries

        def cells_of(entries: Floats) -> Floats:
            cells = entries.copy()
            for j, numbers_of_codes in enumerate(numbers):
                if numbers_of_codes is not None:
                    present = ~np.isnan(entries[:, j])
                    cells[present, j] = numbers_of_codes[entries[present, j].astype(np.int64)]
            return cells

        return cells_of

    def features(self, cells: Floats) -> Floats:
        """Features of cells: (n, c) -> (n, d)."""
        filled = self.gaps.fill(cells)
        if all(column.kind in (NUMBER, BOOL) for column in self.columns):
            return filled
        parts = [column.features(own) for column, own in zip(self.columns, filled.T, strict=False)]
        if self.rare_texts.any():
            surprise = np.zeros(len(cells))
            for j in np.flatnonzero(self.rare_texts):
                surprise += self.columns[j].surprises(filled[:, j])
            parts.append(np.minimum(surprise, FARTHEST)[:, None])
        parts.append(filled[:, len(self.columns) :])
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def by_column(self, parts: Floats, cells: Floats) -> Floats:
        """What columns contribute, from what features do, those shared divided among the cells: (k, d) -> (k, c)."""
        owners, c = self.owners, len(self.columns)
        sums = np.zeros((len(parts), c))
        np.add.at(sums.T, owners[owners < c], parts[:, owners < c].T)
        filled = self.gaps.fill(cells)[:, :c]
        for j in np.flatnonzero(owners >= c):
            if self.names[j] == RARE_TEXTS:
                texts = self.rare_texts
                weights = np.zeros((len(parts), c))
                for k in np.flatnonzero(texts):
                    weights[:, k] = np.minimum(self.columns[k].surprises(filled[:, k]), FARTHEST / c)
                weights[weights.sum(axis=1) == 0] = texts
            else:
                weights = self.gaps.surprises * np.isnan(cells)
                weights[weights.sum(axis=1) == 0] = self.gaps.ever
            sums += parts[:, [j]] * weights / weights.sum(axis=1, keepdims=True)
        return sums

    def extremes(self, scans: Mapping[str, ColumnScan], X: Floats) -> tuple[Floats, Floats]:
        """Least and greatest value of each feature over all rows scanned, of which X is a sample: (d,) each."""
        low, high = X.min(axis=0), X.max(axis=0)
        for j, name in enumerate(self.names):
            column = self.column_of(j)
            scan = scans.get(column.name)
            if scan is None:
                continue
            if name == column.name and column.kind in (NUMBER, TIME):
                low[j], high[j] = min(low[j], scan.low), max(high[j], scan.high)
            elif column.kind in (BOOL, TEXT) and len(scan.codes) > 1:
                low[j], high[j] = 0.0, 1.0
        return low, high

    def to_text(self) -> str:
        """All of it as one text, for a model file."""
        return json.dumps(encode(self, "", {}))

    @classmethod
    def of_model(cls, model: Any) -> "Encoding":
        """The encoding that a detector keeps, which must make the features of its model."""
        encoding = cls.from_text(model.table_)
        if list(encoding.names) != list(model.feature_names):
            raise ValueError(
                f"The encoding of columns makes {len(encoding.names):,} features, not the {model.n_features_in_:,} of "
                "the model; the file is damaged or forged."
            )
        return encoding

    @classmethod
    def from_text(cls, text: str) -> "Encoding":
        """The encoding that a text holds, checked through and through."""
        try:
            encoding = decode(json.loads(text), "", {})
            demand(isinstance(encoding, cls), "class")
        except (LookupError, TypeError, ValueError, RecursionError, OverflowError, AttributeError):
            raise ValueError("The encoding of columns cannot be understood; the file is damaged or forged.") from None
        checked: Encoding = encoding
        return checked
