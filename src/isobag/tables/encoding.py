"""From the columns of a table to features: what is taken, how it becomes numbers, and what is missing.

A table becomes a matrix with one number for each entry (n, c): the number itself, 0 or 1, the code of a text, NaN where
nothing stands. The encoding, learned from all of it, makes features of that (n, d): it fills gaps and gives each of the
frequent texts of a column an indicator of its own, named "column=text". So the features of a model say by their names
alone how a new table is to be read.
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.validation import check_magnitudes, check_option

MOST_CATEGORIES = 20
"""Texts of a column that get an indicator each, the most frequent ones; all others have 0 in every indicator."""
MISSING = ("error", "drop", "median")
_TEXT = (nw.String, nw.Categorical, nw.Enum, nw.Object)


class Encoding(NamedTuple):
    """How the columns of a table become features: for each, its name, its texts (None: numbers), what fills gaps."""

    columns: tuple[str, ...]
    texts: tuple[tuple[str, ...] | None, ...]
    fills: Floats  # (c,), NaN where gaps are not filled
    codes: tuple[dict[str, int] | None, ...]

    @property
    def names(self) -> list[str]:
        """Names of the features: (d,)."""
        pairs = zip(self.columns, self.texts, strict=True)
        return [
            one
            for name, texts in pairs
            for one in ([name] if texts is None else [indicator(name, text) for text in texts])
        ]

    @property
    def owners(self) -> Ints:
        """Number of the column that each feature comes from: (d,)."""
        return np.repeat(np.arange(len(self.columns)), [1 if texts is None else len(texts) for texts in self.texts])

    def apply(self, entries: Floats) -> Floats:
        """Features from the entries of a table: (n, c) -> (n, d)."""
        if np.isnan(self.fills).all() and all(texts is None for texts in self.texts):
            return entries
        filled = np.where(np.isnan(entries), self.fills, entries)
        parts = []
        for column, texts, codes in zip(filled.T, self.texts, self.codes, strict=True):
            if texts is None or codes is None:
                parts.append(column[:, None])
            else:
                parts.append((column[:, None] == [codes.get(text, -1) for text in texts]).astype(np.float64))
        return np.ascontiguousarray(np.concatenate(parts, axis=1))


class ColumnReader:
    """The columns of a table as numbers, part after part, and what was seen of texts and gaps."""

    def __init__(self, columns: Sequence[Any], kinds: Sequence[bool]) -> None:
        self.columns = list(columns)
        self.codes: list[dict[str, int] | None] = [{} if is_text else None for is_text in kinds]
        self.counts = [Counter[int]() for _ in self.columns]
        self.n_missing = np.zeros(len(self.columns), dtype=np.int64)
        self.n_rows = 0

    @property
    def names(self) -> list[str]:
        """Names of the columns, as text."""
        return [str(name) for name in self.columns]

    def read(self, part: nw.DataFrame[Any]) -> Floats:
        """The next rows as numbers: (m, c), NaN where nothing stands."""
        entries = np.empty((len(part), len(self.columns)))
        for j, name in enumerate(self.columns):
            column, codes = part.get_column(name), self.codes[j]
            if codes is None:
                entries[:, j] = _floats(column)
            else:
                entries[:, j] = [self._code(value, j, codes) for value in column.to_list()]
                numbers, counts = np.unique(entries[:, j], return_counts=True, equal_nan=True)
                known = ~np.isnan(numbers)
                self.counts[j].update(
                    dict(zip(numbers[known].astype(int).tolist(), counts[known].tolist(), strict=True))
                )
        is_missing = np.isnan(entries)
        check_magnitudes(np.where(is_missing, 0.0, entries), self.names, self.n_rows)
        self.n_missing += is_missing.sum(axis=0)
        self.n_rows += len(part)
        return entries

    def check_missing(self, missing: str) -> None:
        """Refuse gaps unless it is said what to do with them."""
        if missing != "error" or not self.n_missing.any():
            return
        pairs = zip(self.names, self.n_missing.tolist(), strict=True)
        places = ", ".join(f"{name!r} ({count:,})" for name, count in pairs if count)
        raise ValueError(
            f"Values are missing in {places} of {self.n_rows:,} rows; fill them first, or say missing='drop' (leave "
            "such rows out) or missing='median'."
        )

    def encoding(self, fills: Floats | None = None) -> Encoding:
        """What was seen, as an encoding; ``fills`` (c,) go where nothing stands."""
        texts: list[tuple[str, ...] | None] = []
        for codes, counts in zip(self.codes, self.counts, strict=True):
            if codes is None:
                texts.append(None)
                continue
            named = [(-counts[code], text) for text, code in codes.items()]
            texts.append(tuple(text for _, text in sorted(named)[:MOST_CATEGORIES]))
        fills = np.full(len(self.columns), np.nan) if fills is None else fills
        found = Encoding(tuple(self.names), tuple(texts), fills, tuple(self.codes))
        twice = [name for name, count in Counter(found.names).items() if count > 1]
        if twice:
            raise ValueError(f"Two features would be called {twice[0]!r}; rename a column: reasons go by names.")
        return found

    def fill_of(self, column: int, values: Floats) -> float:
        """What fills the gaps of a column: its median, or its most frequent text."""
        counts, codes = self.counts[column], self.codes[column]
        if codes is not None:
            return min((-counts[code], text, code) for text, code in codes.items())[2] if codes else np.nan
        known = values[~np.isnan(values)]
        if not len(known):
            raise ValueError(
                f"Column {self.names[column]!r} has no values at all, so no median; choose other features."
            )
        return float(np.median(known))

    def _code(self, value: Any, column: int, codes: dict[str, int]) -> float:
        if value is None or value != value or type(value).__name__ == "NAType":  # noqa: PLR0124, NaN differs from itself
            return np.nan
        if isinstance(value, datetime.date | datetime.timedelta):
            raise ValueError(_date_message(self.names[column]))
        if not isinstance(value, str | bool | int | np.bool_ | np.integer):
            raise ValueError(
                f"Column {self.names[column]!r} holds {value!r} of type {type(value).__name__}; need numbers, text or "
                "true and false."
            )
        return codes.setdefault(str(value), len(codes))


def indicator(column: str, text: str) -> str:
    """Name of the feature that is 1 where a text stands in a column."""
    return f"{column}={text}"


def open_frame(frame: Any) -> nw.DataFrame[Any]:
    """The frame, if it is one with columns to tell apart."""
    try:
        found: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
        found.schema  # noqa: B018, this is where names are looked at
    except nw.exceptions.DuplicateError:
        names = Counter(str(name) for name in getattr(frame, "columns", getattr(frame, "column_names", [])))
        twice = ", ".join(repr(name) for name, count in names.items() if count > 1)
        raise ValueError(f"Two columns are called {twice or 'alike'}; rename one: reasons go by names.") from None
    except TypeError:
        raise TypeError(
            f"The table is of type {type(frame).__name__}; need a frame in memory: pandas, polars or Arrow."
        ) from None
    return found


def choose_columns(
    schema: dict[Any, Any], features: Iterable[Any] | str | None, apart: Any = None
) -> tuple[ColumnReader, list[str]]:
    """The columns to read, those asked for or all numbers but ``apart``, and the names of those left out."""
    if features is None:
        chosen = [name for name, kind in schema.items() if kind.is_numeric() and name != apart]
        if not chosen:
            kinds = ", ".join(f"{name!r} {kind}" for name, kind in schema.items()) or "none"
            raise ValueError(f"The table has no column of numbers (columns: {kinds}); choose some with features=.")
    else:
        chosen = [features] if isinstance(features, str) else list(features)
        _check_chosen(schema, chosen, apart)
    left_out = [str(name) for name in schema if name not in chosen and name != apart]
    return ColumnReader(chosen, [isinstance(schema[name], _TEXT) for name in chosen]), left_out


def columns_of_model(schema: dict[Any, Any], names: Sequence[str]) -> tuple[ColumnReader, Encoding]:
    """The columns that the features of a model come from, by name, and how they become these features."""
    by_name = {str(name): name for name in schema}
    columns: dict[str, list[str] | None] = {}
    for name in names:
        if name in by_name and by_name[name] not in columns:
            columns[name] = None
            continue
        # A text may hold "=" itself, a column too: the longest column that fits is meant.
        owners = [own for own in by_name if name.startswith(indicator(own, ""))]
        if not owners:
            known = ", ".join(map(repr, by_name)) or "none"
            raise ValueError(f"The model needs the column {name!r}; the table has no such column (columns: {known}).")
        owner = max(owners, key=len)
        texts = columns.setdefault(owner, [])
        if texts is not None:
            texts.append(name[len(owner) + 1 :])
    _check_chosen(schema, [by_name[name] for name in columns], None)
    reader = ColumnReader([by_name[name] for name in columns], [texts is not None for texts in columns.values()])
    for codes, texts in zip(reader.codes, columns.values(), strict=True):
        if codes is not None and texts is not None:
            codes.update((text, code) for code, text in enumerate(texts))
    encoding = reader.encoding()._replace(texts=tuple(None if own is None else tuple(own) for own in columns.values()))
    return reader, encoding


def check_missing_option(missing: Any) -> None:
    """Refuse an unknown way to deal with gaps."""
    check_option("missing", missing, MISSING)


def kept_rows(entries: Floats, missing: str) -> Bools:
    """Which rows take part: all, or with ``missing="drop"`` those without a gap."""
    found: Bools = np.ones(len(entries), dtype=bool)
    if missing == "drop":
        found &= ~np.isnan(entries).any(axis=1)
    return found


def _check_chosen(schema: dict[Any, Any], chosen: Sequence[Any], apart: Any) -> None:
    if not chosen:
        raise ValueError("features names no column; need one or more.")
    for name in chosen:
        if name not in schema:
            known = ", ".join(map(repr, schema)) or "none"
            raise ValueError(f"features has {name!r}; the table has no such column (columns: {known}).")
        if name == apart:
            raise ValueError(f"features has {name!r}, the column of labels; leave it out: labels are not measured.")
        if chosen.count(name) > 1:
            raise ValueError(f"features has {name!r} twice; name every column once.")
        kind = schema[name]
        if kind.is_temporal():
            raise ValueError(_date_message(str(name)))
        if not (kind.is_numeric() or isinstance(kind, (*_TEXT, nw.Boolean))):
            raise ValueError(f"Column {name!r} is of type {kind}; need numbers, text or true and false.")


def _date_message(name: str) -> str:
    return (
        f"Column {name!r} holds dates or times; turn it into numbers first, such as the hour, the weekday or the days "
        "since some day."
    )


def _floats(column: nw.Series[Any]) -> Floats:
    """A column of numbers, NaN where nothing stands: (m,)."""
    try:
        values: Floats = column.cast(nw.Float64).to_numpy()
    except Exception:
        # Arrow refuses whole numbers above 2^53, which floats round; the other libraries round them.
        if not column.dtype.is_integer():
            raise
        values = np.array([np.nan if value is None else float(value) for value in column.to_list()])
    return values
