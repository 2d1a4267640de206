"""What is learned of columns: a value, kept as text, applied to any table."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isobag.tables.encode import UNSEEN, EncodedColumn, Encoding

FULL = Encoding(
    (
        EncodedColumn("a", "number", fill=2.5),
        EncodedColumn("ok", "bool", fill=1.0),
        EncodedColumn("kind", "text", ("x", "ü\n"), True, fill=0.0),
        EncodedColumn("when", "time", parts=("seconds", "time of day"), fill=0.0),
    ),
    (("id", "an identifier by its name"),),
    "median",
    "missing",
    ",",
)
CODES = ({}, {"true": 1, "False": 0}, {"ü\n": 0, "new": 1, "x": 2}, {})


def test_features_follow_the_columns():
    assert FULL.names == (
        "a",
        "ok",
        "kind=x",
        "kind=ü\n",
        "kind=(other)",
        "when",
        *(f"when: time of day ({f})" for f in ("sin", "cos")),
    )
    assert FULL.owners.tolist() == [0, 1, 2, 2, 2, 3, 3, 3]
    nan = np.nan
    found = FULL.bind(CODES)(np.array([[1, 1, 2, 0], [nan] * 4, [3, 0, 0, 21600], [4, 0, 1, 0], [5, 0, 3, 0]]))
    assert found[:, :5].tolist() == [
        [1, 1, 1, 0, 0],
        [2.5, 1, 1, 0, 0],
        [3, 0, 0, 1, 0],
        [4, 0, 0, 0, 1],
        [5, 0, 0, 0, 1],
    ]
    assert np.allclose(found[:, 6:], [[0, 1], [0, 1], [1, 0], [0, 1], [0, 1]])


def test_a_text_that_was_never_seen_is_as_odd_as_the_rarest_if_there_were_no_others():
    encoding = Encoding((EncodedColumn("kind", "text", ("x", "y")),))
    assert encoding.bind([{"x": 0, "y": 1}])(np.array([[0.0], [2.0]])).tolist() == [[1, 0], [0, UNSEEN]]


def test_numbers_alone_are_not_copied():
    entries = np.ones((3, 2))
    plain = Encoding((EncodedColumn("a", "number"), EncodedColumn("b", "number")))
    assert plain.bind([{}, {}])(entries) is entries


def test_gaps_stay_gaps_where_nothing_fills_them():
    encoding = Encoding((EncodedColumn("kind", "text", ("x",)), EncodedColumn("a", "number")))
    assert np.isnan(encoding.bind([{"x": 0}, {}])(np.array([[np.nan, np.nan]]))).all()


def test_two_features_of_one_name_are_refused():
    with pytest.raises(ValueError, match="Two features would be called 'k=x'"):
        Encoding((EncodedColumn("k=x", "number"), EncodedColumn("k", "text", ("x",))))


def test_as_text_and_back():
    assert Encoding.from_text(FULL.to_text()) == FULL
    plain = Encoding((EncodedColumn("a", "number"),))
    again = Encoding.from_text(plain.to_text())
    assert again.names == ("a",) and math.isnan(again.columns[0].fill)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_fills_come_back_bit_for_bit(fill):
    encoding = Encoding((EncodedColumn("a", "number", fill=fill),))
    assert repr(Encoding.from_text(encoding.to_text()).columns[0].fill) == repr(fill)


def changed(**changes):
    content = json.loads(FULL.to_text())
    content["columns"][2].update(changes)
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "null", "[" * 10_000, FULL.to_text()[:-5], FULL.to_text().replace("median", "mode")),
        *(
            changed(kind="date"),
            changed(categories=["x", "x"]),
            changed(categories=[1]),
            changed(fill="1"),
            changed(fill=9),
        ),
        *(changed(parts=["hour"]), changed(has_other=1), changed(categories=[], has_other=False), changed(name="a")),
        *(
            FULL.to_text().replace("2.5", "NaN"),
            FULL.to_text().replace("2.5", "1e999"),
            FULL.to_text().replace("2.5", "true"),
        ),
    ],
)
def test_a_forged_text_is_refused(text):
    with pytest.raises(ValueError, match="damaged or forged"):
        Encoding.from_text(text)
