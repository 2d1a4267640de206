"""What a cell holds: a number, a time, nothing or a text. One rule for cells of text, in every kind of file.

A number is an optional sign, decimal digits with at most one point among or around them, and an optional exponent: 5,
-0.25, .5, 1e-3. It is the nearest float64, as Python's ``float`` rounds it. Infinity, NaN, hexadecimal digits,
underscores, divided thousands, currency, percent, digits of other scripts, and what exceeds the largest float64 are no
numbers. Spaces and tabs around a cell do not count. The texts of NO_VALUE stand for a missing value.

``number_of``, ``is_missing`` and ``time_of`` are the definition. ``read_numbers`` and ``read_times`` say the same of a
whole column; they let Arrow read it where Arrow takes every cell and the result is finite, for there the two agree.
``read_declared`` reads columns whose type is declared, by Parquet, Arrow or a frame.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Bools, Floats, Ints

NUMBER, TIME, TEXT, OTHER = "number", "time", "text", "other"
NO_VALUE = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "?", "-")
"""What stands for a missing value in files of text."""
BLANKS = " \t"
EXACT = 2.0**53
"""Every whole number up to here is a float64."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_TIME = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?"
_ZONE = r"(?:Z|[+-]\d\d:\d\d)$"
_TIME_PATTERN = re.compile(_TIME, re.ASCII)
_SOME_DAY = datetime(2026, 11, 12, 13, 14, 15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Numbers(NamedTuple):
    """A column as numbers or as seconds since 1970: ``values`` (m,), NaN elsewhere; which cells are what (m,).

    missing, bad : where no value stands, or neither a number nor a time; zoned : times that name their zone.
    """

    values: Floats
    missing: Bools
    bad: Bools
    zoned: Any = False


class Declared(NamedTuple):
    """A column by its declared type: NUMBER or TIME with ``numbers``, TEXT or OTHER with ``texts``, an Arrow array.

    inexact : where the first whole number stands that no float64 equals; None if there is none.
    """

    kind: str
    numbers: Numbers | None = None
    texts: Any = None
    inexact: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no cell has a value."""
        return bool(self.texts.null_count == len(self.texts) if self.numbers is None else self.numbers.missing.all())


def is_missing(text: str) -> bool:
    """Whether a cell stands for a missing value."""
    return text.strip(BLANKS) in NO_VALUE


def number_of(text: str) -> float | None:
    """The number in a cell, None if it holds no number.

    >>> number_of("-1.5e3"), number_of("1,234"), number_of("inf")
    (-1500.0, None, None)
    """
    text = text.strip(BLANKS)
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if abs(value) != float("inf") else None


def is_inexact(text: str) -> bool:
    """Whether a cell holds a whole number that no float64 equals, so that others would become the same.

    >>> is_inexact("9007199254740993"), is_inexact("9007199254740992"), is_inexact("0.1")
    (True, False, False)
    """
    text = text.strip(BLANKS)
    value = number_of(text)
    return value is not None and _WHOLE.fullmatch(text) is not None and int(value) != int(text)


def check_dates(dates: str) -> None:
    """Refuse a format that does not tell a day, or whose cells would be numbers."""
    if not dates:
        return
    try:
        shown = _SOME_DAY.strftime(dates)
        is_good = datetime.strptime(shown, dates).date() == _SOME_DAY.date() and number_of(shown) is None
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError(
            f"dates={dates!r}; need a format of whole dates that are not numbers, such as '%d.%m.%Y' or "
            "'%m/%d/%Y %H:%M'."
        )


@cache
def _reads_iso(dates: str) -> bool:
    """Whether ISO 8601 is understood beside a format: not if a cell could be either."""
    return time_of(_SOME_DAY.strftime(dates)) is None


def time_of(text: str, dates: str = "") -> tuple[float, bool] | None:
    """Seconds since 1970 in a cell with a date or a time as ISO 8601 writes it, and whether it names its zone.

    dates : a format, as of Python's ``strptime``, in which times may be written too.

    >>> time_of("1970-01-02 00:00:30"), time_of("5 May"), time_of("2.1.1970", "%d.%m.%Y")
    ((86430.0, False), None, (86400.0, False))
    """
    text = text.strip(BLANKS)
    moment = _moment_of(text, dates)
    if moment is None:
        return None
    has_zone = moment.tzinfo is not None
    return ((moment if has_zone else moment.replace(tzinfo=UTC)) - _EPOCH).total_seconds(), has_zone


def _moment_of(text: str, dates: str) -> datetime | None:
    if dates:
        try:
            return datetime.strptime(text, dates)
        except (ValueError, OverflowError):
            if not _reads_iso(dates):
                return None
    if _TIME_PATTERN.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def read_numbers(cells: pa.Array) -> Numbers:
    """The numbers of a column of text; null counts as missing: (m,)."""
    missing = np.zeros(len(cells), dtype=bool)
    values = None if cells.null_count else _as_floats(cells)
    if values is None:
        is_gap = pc.or_(pc.is_null(cells), pc.is_in(cells, value_set=pa.array(NO_VALUE)))
        missing = is_gap.to_numpy(zero_copy_only=False)
        values = _as_floats(cells.filter(pc.invert(is_gap)))
        if values is not None:
            spread = np.full(len(cells), np.nan)
            spread[~missing] = values
            values = spread
    if values is not None:
        return Numbers(values, missing, np.zeros(len(cells), dtype=bool))
    texts, codes = distinct(cells)
    numbers = [number_of(text) for text in texts]
    gaps = np.array([is_missing(text) for text in texts] + [True])
    values = np.array([np.nan if value is None else value for value in numbers] + [np.nan])[codes]
    missing = gaps[codes]
    return Numbers(values, missing, np.isnan(values) & ~missing)


def read_times(cells: pa.Array, dates: str = "") -> Numbers:
    """Seconds since 1970 in a column of text; null counts as missing: (m,); ``dates`` as of ``time_of``."""
    texts, codes = distinct(cells)
    values = np.full(len(texts) + 1, np.nan)
    zoned = np.zeros(len(texts) + 1, dtype=bool)
    gaps = np.array([*map(is_missing, texts), True], dtype=bool)
    present = ~gaps[:-1]
    seconds = None if dates else _as_seconds(pa.array(texts, pa.string()).filter(pa.array(present)))
    if seconds is not None:
        values[:-1][present], zoned[:-1][present] = seconds
    else:
        for i in np.flatnonzero(present):
            values[i], zoned[i] = time_of(texts[i], dates) or (np.nan, False)
    return Numbers(values[codes], gaps[codes], (np.isnan(values) & ~gaps)[codes], zoned[codes])


def distinct(cells: pa.Array) -> tuple[list[str], Ints]:
    """The different texts of a column as they first appear, and the number of each cell's text, -1 for null: (m,)."""
    encoded = cells.dictionary_encode()
    codes: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), codes


def first_inexact(cells: pa.Array, values: Floats) -> int | None:
    """Where the first whole number stands, among texts or integers, that no float64 equals."""
    for i in np.flatnonzero(np.abs(values) >= EXACT).tolist():
        if is_inexact(str(cells[i].as_py())):
            return int(i)
    return None


def _as_floats(cells: pa.Array) -> Floats | None:
    """A column that Arrow takes whole for finite numbers: exactly those of the rule, without blanks around them."""
    values: Floats | None = _cast(cells, pa.float64(), lambda values: bool(np.isfinite(values).all()))
    return values


def _as_seconds(cells: pa.Array) -> tuple[Floats, Bools] | None:
    """A column of nothing but times, all of them with a zone or all without."""
    if not pc.all(pc.match_substring_regex(cells, f"^{_TIME}$"), min_count=0).as_py():
        return None
    zoned = pc.match_substring_regex(cells, f"[ T].*{_ZONE}").to_numpy(zero_copy_only=False)
    if zoned.any() and not zoned.all():
        return None
    kind = pa.timestamp("us", tz="UTC" if zoned.any() else None)
    # Beyond, in the year 2255, microseconds would be rounded before they are divided.
    micros = _cast(cells, kind, lambda values: bool((np.abs(values.astype(np.int64)) <= EXACT).all()))
    return None if micros is None else (micros.astype(np.int64) / 1e6, zoned)


def _cast(cells: pa.Array, kind: Any, is_good: Callable[[Any], bool]) -> Any:
    try:
        values = pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None
    numbers = values.to_numpy(zero_copy_only=False)
    return numbers if is_good(numbers) else None


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
        return Declared(TIME, _with_gaps(_floats(moments.cast(pa.int64())) / 1e6)._replace(zoned=zone is not None))
    if types.is_duration(kind) or types.is_time(kind):
        per_second = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        whole = column.cast(pa.int32() if types.is_time32(kind) else pa.int64())
        return Declared(NUMBER, _with_gaps(_floats(whole) / per_second))
    return Declared(OTHER, texts=pa.array([None if gap else "?" for gap in column.is_null().to_pylist()], pa.string()))


def is_text(kind: Any) -> bool:
    """Whether a type is one of texts, in a dictionary or not."""
    types = pa.types
    of_values = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(of_values) or types.is_large_string(of_values) or types.is_string_view(of_values))


def _floats(column: pa.Array) -> Floats:
    """Numbers as float64, NaN where nothing stands: (m,)."""
    values: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _with_gaps(values: Floats) -> Numbers:
    """NaN is a missing value, infinity is no number."""
    bad = np.isinf(values)
    return Numbers(np.where(bad, np.nan, values), np.isnan(values), bad)
