"""What is learned of columns: a value, kept as text, applied to any table."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isobag.backends.arrays import FARTHEST
from isobag.data.gaps import GAPS
from isobag.tables.encode import RARE_TEXTS, UNSEEN, EncodedColumn, Encoding

FULL = Encoding(
    (
        EncodedColumn("a", "number", fill=2.5, surprise=4.0),
        EncodedColumn("ok", "bool", fill=1.0, surprise=9.0),
        EncodedColumn("kind", "text", ("x", "ü\n"), True),
        EncodedColumn("when", "time", parts=("seconds", "time of day"), fill=0.0, surprise=1.0),
        EncodedColumn("code", "text", ("A", "B"), shares=(0.75, 0.25), unseen=5.0),
        EncodedColumn("pay", "text", ("A", "B"), shares=(0.5, 0.5)),
    ),
    (("id", "an identifier by its name"),),
    "auto",
    "missing",
    ",",
)
CODES = ({}, {"true": 1, "False": 0}, {"ü\n": 0, "new": 1, "x": 2}, {}, {"A": 0, "B": 1, "C": 2}, {"B": 0, "A": 1})
SHARED = [(0.415037**2) + 1, 0, 4.0 + 1, 5.0 + 1]


def test_features_follow_the_columns_and_all_rare_texts_and_gaps_share_one_each():
    assert FULL.names == (
        "a",
        "ok",
        "kind=x",
        "kind=ü\n",
        "kind=(other)",
        "when",
        *(f"when: time of day ({f})" for f in ("sin", "cos")),
        RARE_TEXTS,
        GAPS,
    )
    assert FULL.owners.tolist() == [0, 1, 2, 2, 2, 3, 3, 3, 6, 7]
    nan = np.nan
    entries = [[1, 1, 2, 0, 0, 0], [nan, nan, 0, nan, 0, 0], [3, 0, 0, 21600, 1, 1], [4, 0, 1, 0, 2, 1]]
    actual = FULL.features(FULL.bind_cells(CODES)(np.array(entries)))
    assert actual[:, :5].tolist() == [[1, 1, 1, 0, 0], [2.5, 1, 0, 1, 0], [3, 0, 0, 1, 0], [4, 0, 0, 0, 1]]
    assert np.allclose(actual[:, 6:8], [[0, 1], [0, 1], [1, 0], [0, 1]])
    assert np.allclose(actual[:, 8], [SHARED[0], SHARED[0], SHARED[2], SHARED[3]])
    assert actual[:, 9].tolist() == [0, 14, 0, 0]


def test_a_gap_or_a_text_never_seen_is_as_far_out_as_can_be():
    encoding = Encoding(
        (EncodedColumn("a", "number"), EncodedColumn("code", "text", ("x",), shares=(1.0,))), missing="auto"
    )
    apply = encoding.bind_cells([{}, {"x": 0, "y": 1}])
    features = encoding.features(apply(np.array([[1.0, 0], [np.nan, 0], [1, 1], [1, np.nan]])))
    assert features.tolist() == [[1, 0], [FARTHEST, 0], [1, FARTHEST], [1, FARTHEST]]


def test_a_text_that_was_never_seen_is_as_odd_as_the_rarest_if_there_were_no_others():
    encoding = Encoding((EncodedColumn("kind", "text", ("x", "y")),))
    cells = encoding.bind_cells([{"x": 0, "y": 1}])(np.array([[0.0], [2.0]]))
    assert encoding.features(cells).tolist() == [[1, 0], [0, UNSEEN]]


def test_numbers_alone_are_not_copied():
    entries = np.ones((3, 2))
    plain = Encoding((EncodedColumn("a", "number"), EncodedColumn("b", "number")))
    assert plain.features(plain.bind_cells([{}, {}])(entries)) is entries


def test_what_is_shared_is_divided_among_the_cells_that_make_it():
    cells = np.array([[np.nan, np.nan, 0, 0, 1, 0], [1, 1, 0, 0, 1, 1]])
    parts = np.zeros((2, 10))
    parts[:, 8:] = [10.0, 13.0]
    by_column = FULL.by_column(parts, cells)
    assert np.allclose(by_column[0], [4, 9, 0, 0, 8, 2])
    assert np.allclose(by_column.sum(axis=1), 23)


def test_two_features_of_one_name_are_refused():
    with pytest.raises(ValueError, match="Two features would be called 'k=x'"):
        Encoding((EncodedColumn("k=x", "number"), EncodedColumn("k", "text", ("x",))))


def test_as_text_and_back():
    again = Encoding.from_text(FULL.to_text())
    assert repr(again) == repr(FULL) and again.names == FULL.names


@given(st.floats(-FARTHEST, FARTHEST))
def test_fills_come_back_bit_for_bit(fill):
    encoding = Encoding((EncodedColumn("a", "number", fill=fill),))
    assert repr(Encoding.from_text(encoding.to_text()).columns[0].fill) == repr(fill)


def changed(j=2, **changes):
    content = json.loads(FULL.to_text())
    content["columns"][j].update(changes)
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "null", "[" * 10_000, FULL.to_text()[:-5], FULL.to_text().replace("auto", "mode")),
        *(changed(kind="date"), changed(categories=["x", "x"]), changed(categories=[1]), changed(fill="1")),
        *(changed(fill=1e200), changed(surprise=-1), changed(surprise=1e9), changed(4, shares=[0.5])),
        *(changed(4, shares=[0.5, 0]), changed(4, shares=[0.5, 2]), changed(4, unseen=-1), changed(only="1")),
        *(changed(parts=["hour"]), changed(has_other=1), changed(categories=[], has_other=False), changed(name="a")),
        *(FULL.to_text().replace("2.5", other) for other in ("NaN", "1e999", "true")),
    ],
)
def test_a_forged_text_is_refused(text):
    with pytest.raises(ValueError, match="damaged or forged"):
        Encoding.from_text(text)
