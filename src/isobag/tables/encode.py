"""From the entries of a table to features, learned once and kept: what fills gaps, which texts count, what is left out.

An ``Encoding`` is a value: plain texts and numbers, no table. It is learned from a scanned table, written into a model
file as one text, and applied to any table with the same columns, at once or chunk by chunk.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from isobag.backends.arrays import Floats, Ints
from isobag.tables.cells import NUMBER, TEXT, TIME, check_dates
from isobag.tables.judge import DAY_OF_WEEK, SECONDS, TIME_OF_DAY, time_feature_names, time_features
from isobag.tables.notation import NUMBERS, THOUSANDS
from isobag.tables.scan import BOOL, ColumnScan, is_true

KINDS = (NUMBER, BOOL, TIME, TEXT)
PARTS = (SECONDS, TIME_OF_DAY, DAY_OF_WEEK)
CHOICES: dict[str, tuple[str, ...]] = {
    "missing": ("auto", "error", "drop", "median"),
    "bad_cells": ("error", "missing", "text"),
    "decimal": (".", ","),
    "thousands": THOUSANDS,
    "numbers": NUMBERS,
}
"""How cells are read, and what may be chosen for it."""
UNSEEN = 1.0 + 2.0**-20
"""Of texts that a model has never seen, which are as odd as the rarest: that one's indicator, slightly above 1."""
_LATER = ("thousands", "numbers", "baseline", "dates")
"""Fields that a text has only where they say something, as texts from before they could be."""


@dataclass(frozen=True)
class EncodedColumn:
    """How one column becomes features.

    kind : NUMBER and BOOL are one feature, TIME has those of its parts, TEXT an indicator for each category.
    categories : texts with an indicator of their own.
    has_other : whether all other texts have one indicator together.
    parts : of times: SECONDS, TIME_OF_DAY, DAY_OF_WEEK.
    fill : what stands for a missing value: a number, or of texts the number of a category; NaN for nothing.
    marks_gaps : whether one more feature says where a value was missing.
    is_ranked : whether categories stand in the order of how frequent they were, the rarest last.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    has_other: bool = False
    parts: tuple[str, ...] = ()
    fill: float = math.nan
    is_ranked: bool = True
    marks_gaps: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return [*self._own_names, *([f"{self.name}=(missing)"] if self.marks_gaps else [])]

    @property
    def _own_names(self) -> list[str]:
        if self.kind == TIME:
            return [name for part in self.parts for name in time_feature_names(self.name, part)]
        if self.kind == TEXT:
            names = [f"{self.name}={text}" for text in self.categories]
            return [*names, f"{self.name}=(other)"] if self.has_other else names
        return [self.name]

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

    def apply(self, entries: Floats, numbers: Floats | None) -> Floats:
        """Features from entries: (n,) -> (n, f); ``numbers`` as ``numbers_of_codes`` has them."""
        if numbers is not None:
            known = ~np.isnan(entries)
            values = np.full(len(entries), math.nan)
            values[known] = numbers[entries[known].astype(np.int64)]
        else:
            values = entries
        is_gap = np.isnan(values)
        if not math.isnan(self.fill):
            values = np.where(is_gap, self.fill, values)
        features = self._features(values)
        return np.column_stack([features, is_gap]) if self.marks_gaps else features

    def _features(self, values: Floats) -> Floats:
        """Features from values whose gaps are filled: (n,) -> (n, f)."""
        if self.kind == TIME:
            return np.concatenate([time_features(values, part) for part in self.parts], axis=1)
        if self.kind == TEXT:
            indicators: Floats = (values[:, None] == np.arange(len(self._own_names))).astype(np.float64)
            indicators[np.isnan(values)] = math.nan
            if not self.has_other and self.is_ranked:
                indicators[values == len(self.categories), -1] = UNSEEN
            return indicators
        return values[:, None]


@dataclass(frozen=True)
class Encoding:
    """How a table becomes features: its columns that are used, in order, and those that are not, with the reason.

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
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = tuple(name for column in self.columns for name in column.feature_names)
        for j, name in enumerate(names):
            if name in names[:j]:
                raise ValueError(f"Two features would be called {name!r}; rename a column: reasons go by names.")
        object.__setattr__(self, "names", names)

    @property
    def owners(self) -> Ints:
        """Number of the column that each feature comes from: (d,)."""
        return np.repeat(np.arange(len(self.columns)), [len(column.feature_names) for column in self.columns])

    def bind(self, codes: Sequence[Mapping[str, int]]) -> Callable[[Floats], Floats]:
        """From entries to features, (n, c) -> (n, d), of a scanned table whose columns give their texts these codes."""
        if all(column.kind == NUMBER and math.isnan(column.fill) for column in self.columns):
            return lambda entries: entries
        numbers = [column.numbers_of_codes(own) for column, own in zip(self.columns, codes, strict=True)]

        def apply(entries: Floats) -> Floats:
            parts = zip(self.columns, entries.T, numbers, strict=True)
            return np.ascontiguousarray(np.concatenate([column.apply(*own) for column, *own in parts], axis=1))

        return apply

    def extremes(self, scans: Mapping[str, ColumnScan], X: Floats) -> tuple[Floats, Floats]:
        """Least and greatest value of each feature over all rows scanned, of which X is a sample: (d,) each."""
        low, high = X.min(axis=0), X.max(axis=0)
        for j, (name, owner) in enumerate(zip(self.names, self.owners.tolist(), strict=True)):
            column = self.columns[owner]
            scan = scans[column.name]
            if name == column.name and column.kind in (NUMBER, TIME):
                low[j], high[j] = min(low[j], scan.low), max(high[j], scan.high)
            elif column.kind in (BOOL, TEXT) and len(scan.codes) > 1:
                low[j], high[j] = 0.0, 1.0
        return low, high

    def to_text(self) -> str:
        """All of it as one text, for a model file."""
        unsaid = {"names", *(name for name in _LATER if getattr(self, name) == getattr(Encoding, name))}
        content = {name: own for name, own in asdict(self).items() if name not in unsaid}
        for column in content["columns"]:
            del column["is_ranked"]
            if not column["marks_gaps"]:  # as in files from before it could be
                del column["marks_gaps"]
            column["fill"] = None if math.isnan(column["fill"]) else column["fill"]
        return json.dumps(content)

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
            content = json.loads(text, parse_constant=_refuse)
            _check(isinstance(content, dict))
            columns = tuple(map(_column_of, _list(content["columns"])))
            left_out = tuple((_str(name), _str(reason)) for name, reason in map(_list, _list(content["left_out"])))
            names = [*(column.name for column in columns), *(name for name, _ in left_out)]
            _check(len(set(names)) == len(names))
            content = {**{name: getattr(cls, name) for name in _LATER}, "baseline": [], **content}
            how = {name: _str(content[name]) for name in CHOICES}
            _check(all(how[name] in allowed for name, allowed in CHOICES.items()))
            baseline = tuple(map(_str, _list(content["baseline"])))
            check_dates(_str(content["dates"]))
            return cls(columns, left_out, **how, baseline=baseline, dates=content["dates"])
        except (KeyError, TypeError, ValueError, RecursionError, OverflowError):
            raise ValueError("The encoding of columns cannot be understood; the file is damaged or forged.") from None


def encoding_by_names(
    features: Sequence[str] | None, n_features: int, columns: Sequence[str] | None, apart: Sequence[str]
) -> Encoding:
    """The encoding of a model that kept none, by the names of its features: "amount", or "kind=text" for indicators.

    A model of nameless rows takes the columns in their order, but for those set apart.
    """
    known = list(columns or ())
    if features is None:
        names = [name for name in known if name not in apart]
        if len(names) != n_features:
            raise ValueError(
                f"The model was fitted to {n_features} features without names, and the table has {len(names)} columns; "
                "choose them with --sql."
            )
        return Encoding(tuple(EncodedColumn(name, NUMBER) for name in names))
    texts: dict[str, list[str] | None] = {}
    for name in features:
        if name in known or columns is None:
            texts[name] = None
            continue
        # A text may hold "=" itself, a column too: the longest column that fits is meant.
        owners = [own for own in known if name.startswith(f"{own}=")]
        if not owners:
            listed = ", ".join(map(repr, known)) or "none"
            raise ValueError(f"The model needs the column {name!r}; the table has no such column (columns: {listed}).")
        owner = max(owners, key=len)
        own_texts = texts.setdefault(owner, [])
        if own_texts is not None:
            own_texts.append(name[len(owner) + 1 :])
    return Encoding(
        tuple(
            EncodedColumn(name, NUMBER) if own is None else EncodedColumn(name, TEXT, tuple(own), is_ranked=False)
            for name, own in texts.items()
        )
    )


def _column_of(content: Any) -> EncodedColumn:
    _check(isinstance(content, dict))
    categories = tuple(map(_str, _list(content["categories"])))
    parts = tuple(map(_str, _list(content["parts"])))
    fill = math.nan if content["fill"] is None else float(content["fill"])
    _check(content["kind"] in KINDS and isinstance(content["has_other"], bool))
    marks_gaps = content.get("marks_gaps", False)
    _check(isinstance(marks_gaps, bool) and not (marks_gaps and math.isnan(fill)))
    _check(set(parts) <= set(PARTS) and len(set(parts)) == len(parts) and len(set(categories)) == len(categories))
    _check(
        bool(parts) == (content["kind"] == TIME)
        and (content["kind"] == TEXT or not (categories or content["has_other"]))
    )
    _check(content["kind"] != TEXT or bool(categories) or content["has_other"])
    _check(not isinstance(content["fill"], bool | str) and not math.isinf(fill))
    _check(content["kind"] != TEXT or math.isnan(fill) or fill in range(len(categories) + 1))
    kinds = content["kind"], categories, content["has_other"], parts, fill
    return EncodedColumn(_str(content["name"]), *kinds, marks_gaps=marks_gaps)


def _list(value: Any) -> list[Any]:
    _check(isinstance(value, list))
    return list(value)


def _str(value: Any) -> str:
    _check(isinstance(value, str))
    return str(value)


def _check(is_good: bool) -> None:
    if not is_good:
        raise ValueError


def _refuse(constant: str) -> float:
    raise ValueError(constant)
