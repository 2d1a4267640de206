"""What a column can be used for, judged by its cells: identifiers, constants, copies, many texts, times.

All functions are pure; none drops a column. The reader of a table decides and reports it.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats, Ints

NEW_SHARE = 0.05
"""Most rows whose text no other row has, for a column of few values: so often the next row would bring a new one."""
MOST_VALUES = 1 << 12
"""Different texts of a column of few values."""
MOST_CATEGORIES = 20
"""Texts of a column that get an indicator each, the most frequent ones."""
LEAST_SHARE = 0.01
"""Share of the cells that a text must stand in to get an indicator of its own."""
LEAST_NUMBERED_ROWS = 10
"""Fewer rows may hold the numbers 1, 2, 3, ... by chance."""
DAY, WEEK = 86400.0, 7 * 86400.0
FIRST_MONDAY = 4 * DAY
"""The first Monday of 1970, in seconds: weeks are counted from there."""
SECONDS, TIME_OF_DAY, DAY_OF_WEEK = "seconds", "time of day", "day of week"
_ID_WORDS = re.compile(r"(?i)^(id|uuid|guid|index|rowid|row_?(number|nr|no|id)|unnamed: 0)$")
_ID_ENDING = re.compile(r"(?:(?i:[ _.-](?:id|uuid|guid|key))|(?<=[a-z])(?:Id|ID|Uuid|UUID))$")


_SUSPECTS = {
    "a label": re.compile(
        r"(?i)^(label|labels|target|class|is_?(anomaly|outlier|fraud)|anomaly|outlier|fraud|ground_?truth)$"
    ),
    "an identifier": re.compile(
        r"(?i)^(user|customer|client|account|order|device|session|transaction|patient|employee)_?(id|no|nr|number)$"
    ),
    "a phone number or a code": re.compile(
        r"(?i)^((tele)?phone|mobile|fax|zip|postal|post|iban|ssn|isbn|ean)(_?(code|no|nr|number))?$"
    ),
}
"""What columns of such names most likely hold."""


class Categories(NamedTuple):
    """Texts of a column that get an indicator each, whether there are others, and why there are none if so."""

    texts: tuple[str, ...]
    has_other: bool
    reason: str


def is_named_identifier(name: str) -> bool:
    """Whether a column is called id or the like, or ends so: customer_id, customerId, order-key.

    >>> [is_named_identifier(name) for name in ("id", "user_id", "userId", "paid", "valid", "humid")]
    [True, True, True, False, False, False]
    """
    return _ID_WORDS.search(name.strip()) is not None or _ID_ENDING.search(name.strip()) is not None


def suspicion_of(name: str) -> str:
    """What a column most likely is by its name, if it is no measurement; "" if the name says nothing.

    >>> suspicion_of("label"), suspicion_of("userid"), suspicion_of("phone_number"), suspicion_of("amount")
    ('a label', 'an identifier', 'a phone number or a code', '')
    """
    return next((what for what, pattern in _SUSPECTS.items() if pattern.search(name.strip())), "")


def identifier_reason(name: str, is_whole_or_text: bool, numbers_rows: bool, n_rows: int) -> str:
    """Why a column is almost surely an identifier; "" if it is not.

    Whole numbers or texts with a name of identifiers; or the numbers from 0 or from 1 on, each of them once. The order
    of the rows says nothing: a table may be sorted by a column that is measured.
    """
    if not is_whole_or_text:
        return ""
    if is_named_identifier(name):
        return "an identifier by its name"
    if numbers_rows and n_rows >= LEAST_NUMBERED_ROWS:
        return "an identifier: it numbers the rows"
    return ""


def why_no_categories(counts: Mapping[str, int], has_more: bool = False) -> str:
    """Why a column of text is not one of few values, "" if it is, by how often each text stands in it.

    >>> why_no_categories({"a": 900, "b": 98, "c": 1}), why_no_categories({"a": 1, "b": 1, "c": 1})
    ('', 'text, all 3 values different')
    """
    n, n_single = sum(counts.values()), sum(count == 1 for count in counts.values())
    if has_more or len(counts) > MOST_VALUES:
        return f"text with more than {min(len(counts), MOST_VALUES):,} different values"
    if n_single == n > 1:
        return f"text, all {n:,} values different"
    if n_single > max(1, NEW_SHARE * n):
        return f"text with {len(counts):,} different values, {n_single:,} of them in one row alone"
    return ""


def surprising_texts(counts: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[float, ...], float]:
    """Texts, the most frequent first, their shares, and how surprising any other is, squared.

    Where some text stands in one row alone others may follow, each as odd as the rarest; else a new one is a value
    never seen.

    >>> surprising_texts({"a": 1, "b": 3})
    (('b', 'a'), (0.75, 0.25), 4.000001)
    """
    n = sum(counts.values())
    ranked = sorted((-count, text) for text, count in counts.items() if count)
    texts, shares = tuple(text for _, text in ranked), tuple(-count / n for count, _ in ranked)
    is_single = bool(ranked) and ranked[-1][0] == -1 and n > 1
    return texts, shares, math.log2(shares[-1]) ** 2 + 1e-6 if is_single else FARTHEST


def choose_categories(counts: Mapping[str, int], has_more: bool = False) -> Categories:
    """Texts of a column that get an indicator each, by how often each stands in it; all others are one bucket.

    One text must stand in a share of LEAST_SHARE of the cells; rarer ones follow, in two cells or more, at most
    MOST_CATEGORIES: the end of a session stands once in hundreds of lines.

    >>> choose_categories({"a": 900, "b": 98, "c": 2, "d": 1})
    Categories(texts=('a', 'b', 'c'), has_other=True, reason='')
    """
    n_present = sum(counts.values())
    if has_more:
        return Categories((), True, f"text with more than {len(counts):,} different values")
    if len(counts) == n_present and n_present > 1:
        return Categories((), True, f"text, all {n_present:,} values different")
    least = max(2.0, LEAST_SHARE * n_present) if n_present > 1 else 1.0
    if max(counts.values(), default=0) < least:
        return Categories((), True, f"text with {len(counts):,} different values, none of them in 1 % of the cells")
    least = min(least, 2.0)
    ranked = sorted((-count, text) for text, count in counts.items() if count >= least)[:MOST_CATEGORIES]
    texts = tuple(text for _, text in ranked)
    return Categories(texts, len(texts) < len(counts), "")


def choose_time_parts(low: float, high: float, has_time_of_day: bool) -> tuple[str, ...]:
    """What is taken of times: seconds always, circles where the times go round them."""
    span = high - low
    parts = [SECONDS]
    if has_time_of_day and span > 0:
        parts.append(TIME_OF_DAY)
    if span >= DAY:
        parts.append(DAY_OF_WEEK)
    return tuple(parts)


def time_features(seconds: Floats, part: str) -> Floats:
    """A part of times as features: (n,) -> (n, 1) seconds since 1970, or (n, 2) a point on a circle.

    The day of the week is a whole number of days: all times of a Monday are one point.
    """
    if part == SECONDS:
        return seconds[:, None]
    if part == TIME_OF_DAY:
        return _circle(np.mod(seconds, DAY) / DAY)
    return _circle(np.floor(np.mod(seconds - FIRST_MONDAY, WEEK) / DAY) / 7)


def time_feature_names(column: str, part: str) -> list[str]:
    """Names of the features of a part of times."""
    return [column] if part == SECONDS else [f"{column}: {part} (sin)", f"{column}: {part} (cos)"]


def text_counts(codes: Mapping[str, int], counts: Ints) -> dict[str, int]:
    """How often each text stands in a column, from the codes of texts and how often each code does."""
    return {text: int(counts[code]) if code < len(counts) else 0 for text, code in codes.items()}


def _circle(turns: Floats) -> Floats:
    angle = 2 * np.pi * turns
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)
