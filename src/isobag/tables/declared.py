"""Columns whose type is declared, by Parquet or Arrow: numbers, times, texts, or nothing that can be measured."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Floats
from isobag.tables.cells import Numbers, first_inexact, read_numbers

NUMBER, TIME, TEXT, OTHER = "number", "time", "text", "other"


class Declared(NamedTuple):
    """A column by its declared type.

    kind : NUMBER, TIME, TEXT or OTHER.
    numbers : its numbers, or seconds since 1970; None for texts and others.
    texts : its texts as an Arrow array; None for numbers and times.
    inexact : where the first whole number stands that no float64 equals; None if there is none.
    has_zone : whether times are those of a zone.
    """

    kind: str
    numbers: Numbers | None = None
    texts: Any = None
    inexact: int | None = None
    has_zone: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no cell has a value."""
        return bool(self.texts.null_count == len(self.texts) if self.numbers is None else self.numbers.missing.all())


def read_declared(column: pa.Array) -> Declared:
    """A column by its declared type."""
    kind = column.type
    types = pa.types
    if types.is_dictionary(kind):
        return read_declared(column.dictionary_decode())
    if is_text(kind) or types.is_null(kind):
        return Declared(TEXT, texts=column.cast(pa.string()))
    if types.is_boolean(kind):
        return Declared(TEXT, texts=pc.if_else(column, "true", "false").cast(pa.string()))
    if types.is_integer(kind):
        values = _floats(column)
        return Declared(NUMBER, _with_gaps(values), inexact=first_inexact(column, values))
    if types.is_floating(kind):
        return Declared(NUMBER, _with_gaps(_floats(column)))
    if types.is_decimal(kind):
        texts = column.cast(pa.string())
        numbers = read_numbers(texts)
        return Declared(NUMBER, numbers, inexact=first_inexact(texts, numbers.values))
    if types.is_timestamp(kind) or types.is_date(kind):
        zone = getattr(kind, "tz", None)
        moments = column.cast(pa.timestamp("us", tz=zone), safe=False)
        return Declared(TIME, _with_gaps(_floats(moments.cast(pa.int64())) / 1e6), has_zone=zone is not None)
    if types.is_duration(kind) or types.is_time(kind):
        per_second = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        whole = column.cast(pa.int32() if types.is_time32(kind) else pa.int64())
        return Declared(NUMBER, _with_gaps(_floats(whole) / per_second))
    return Declared(OTHER, texts=pa.array([None if gap else "?" for gap in column.is_null().to_pylist()], pa.string()))


def is_text(kind: Any) -> bool:
    """Whether a type is one of texts, in a dictionary or not."""
    types = pa.types
    own = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(own) or types.is_large_string(own) or types.is_string_view(own))


def _floats(column: pa.Array) -> Floats:
    """Numbers as float64, NaN where nothing stands: (m,)."""
    values: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _with_gaps(values: Floats) -> Numbers:
    """NaN is a missing value, infinity is no number."""
    bad = np.isinf(values)
    return Numbers(np.where(bad, np.nan, values), np.isnan(values), bad)
