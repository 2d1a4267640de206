"""One rule for what a number is, said twice: cell by cell, and for whole columns."""

import os
import random
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_oracle import number

pa = pytest.importorskip("pyarrow")

from isobag.tables.cells import (  # noqa: E402
    NO_VALUE,
    first_inexact,
    is_inexact,
    is_missing,
    number_of,
    read_numbers,
    read_times,
    time_of,
)  # fmt: skip
from isobag.tables.notation import DECIMAL_HINT, Notation  # noqa: E402

EXAMPLES = int(os.environ.get("ISOBAG_EXAMPLES", "100"))
NUMBERS = ["0", "-0", "+3", "1.", ".5", "-.5e3", "1E5", "1e+5", "00012", " 1", "1\t", "1e-400", "5e-324", "1e0005"]
NO_NUMBERS = [
    *("inf", "-inf", "Infinity", "NAN", "nan(1)", "0x10", "1_000", "1,234", "$1.50", "5%", "1e", "e5", ".", "+", "--1"),
    *("1e400", "-1e400", "1 2", "1d", "１", "١", "1\0", "\n1", "1\n", "\xa01", "oops", "true", "1.2.3"),
]


def as_oracle(values, missing, bad, _):
    parts = zip(values, missing, bad, strict=True)
    return [None if gap else "bad" if odd else float(value) for value, gap, odd in parts]


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers(text):
    assert number_of(text) == float(text) == read_numbers(pa.array([text])).values[0]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_no_numbers(text):
    assert number_of(text) is None and not is_missing(text)
    assert as_oracle(*read_numbers(pa.array([text]))) == ["bad"]
    assert as_oracle(*read_numbers(pa.array(["1", text, "NA"]))) == [1.0, "bad", None]


@pytest.mark.parametrize("text", [*NO_VALUE, " ", " NA\t"])
def test_missing_values(text):
    assert is_missing(text) and number_of(text) is None
    assert as_oracle(*read_numbers(pa.array([text, "2"]))) == [None, 2.0]


PIECES = st.sampled_from([*"0123456789+-.eE _,x()\t９", "inf", "nan", "NA"])
CELLS = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from([*NUMBERS, *NO_NUMBERS, *NO_VALUE]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(CELLS, max_size=20))
def test_columns_are_read_as_their_cells(cells):
    expected = [number(cell) for cell in cells]
    values = read_numbers(pa.array(cells, pa.string()))
    assert as_oracle(*values) == expected
    signs = [
        np.signbit(value) for value, known in zip(values.values, expected, strict=True) if isinstance(known, float)
    ]
    assert signs == [np.signbit(known) for known in expected if isinstance(known, float)]
    assert [number_of(cell) for cell in cells] == [one if isinstance(one, float) else None for one in expected]


def test_every_decimal_becomes_the_nearest_float():
    """Among others, decimals half way between two floats, where reading with too few digits rounds wrongly."""
    draw = random.Random(0)
    cells = []
    while len(cells) < 20_000:
        value = struct.unpack("d", struct.pack("Q", draw.getrandbits(64)))[0]
        if not np.isfinite(value) or not np.isfinite(above := float(np.nextafter(value, np.inf))):
            continue
        half = (Decimal(value) + Decimal(above)) / 2
        cells += [repr(value), f"{value:.25e}", format(half, "e"), f"{draw.randrange(10**19)}.{draw.randrange(10**9)}"]
    values = read_numbers(pa.array(cells))
    assert not values.bad.any()
    assert np.array_equal(values.values.view(np.uint64), np.array([float(cell) for cell in cells]).view(np.uint64))


def test_whole_numbers_that_floats_round_are_found():
    assert is_inexact("9007199254740993") and is_inexact("-123456789012345678901")
    exact = ["9007199254740992", "100000000000000000000", "1e400", "0.1", "9007199254740993.0", "x"]
    assert not any(map(is_inexact, exact))
    cells = pa.array(["1", "9007199254740992", "9007199254740993"])
    assert first_inexact(cells, read_numbers(cells).values) == 2


def test_decimal_commas_are_told():
    assert [Notation().hint(text) == DECIMAL_HINT for text in ("1,5", "1,234.5", "1,2,3", "a,b", "1.5")] == [
        True,
        *[False] * 4,
    ]


TIMES = [
    "1970-01-02",
    "2024-02-29 10:00",
    "2024-02-29T10:00:59.123456",
    "1901-05-06 23:59:59.5",
    "2026-01-01 00:01:19.021243357",
]


@pytest.mark.parametrize("text", [*TIMES, "2024-02-29T10:00:00Z", "2024-02-29T10:00:00+02:00", " 2024-01-01 "])
def test_times(text):
    seconds, has_zone = time_of(text)
    values = read_times(pa.array([text, "NA"]))
    assert values.values[0] == seconds and values.zoned.tolist() == [has_zone, False]
    assert values.missing.tolist() == [False, True] and not values.bad.any()


@pytest.mark.parametrize(
    "text", ["2023-02-29", "2024-1-1", "5 May", "10:00", "2024-01-01 25:00", "20240101", "1", "٢٠٢٤-01-01"]
)
def test_no_times(text):
    assert time_of(text) is None
    assert read_times(pa.array([text, TIMES[0]])).bad.tolist() == [True, False]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.datetimes(allow_imaginary=False), min_size=1, max_size=5), st.sampled_from([" ", "T"]))
def test_columns_of_times_are_read_as_their_cells(moments, between):
    cells = [moment.isoformat(between) for moment in moments]
    assert read_times(pa.array(cells)).values.tolist() == [time_of(cell)[0] for cell in cells]
    mixed = [*cells, "2024-02-29T10:00:00+02:00"]
    assert read_times(pa.array(mixed)).values.tolist() == [time_of(cell)[0] for cell in mixed]
