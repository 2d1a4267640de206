"""Labels of rows, numbered without a Python object for each row."""

from datetime import datetime
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from isobag.data.groups import number_labels
from isobag.tables import labels
from isobag.tables.labels import first_rows_of, label_rows, number_rows

COLUMNS = {
    "whole": pa.array([3, None, 1, 3, 2]),
    "real": pa.array([0.0, -0.0, float("nan"), 1.5, None]),
    "text": pa.array(["a", "", None, "b", "a"]),
    "coded": pa.array(["x", "y", "x", None, "y"]).dictionary_encode(),
    "flag": pa.array([True, False, None, True, True]),
    "time": pa.array([datetime(2020, 1, 1), None, datetime(2020, 1, 2), None, datetime(2020, 1, 1)]),
    "nothing": pa.nulls(5),
    "view": pa.array(["a", "b", "a", "", None], pa.string_view()),
}


def one_by_one(columns):
    """The definition: a label for each row, looked up."""
    rows = label_rows(columns)
    is_labelled = np.array([label is not None for label in rows])
    ids = np.full(len(rows), -1)
    ids[is_labelled], labels = number_labels(rows[is_labelled])
    return ids, labels


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_rows_are_numbered_as_if_each_were_looked_up(n_columns):
    for names in product(COLUMNS, repeat=n_columns):
        columns = [COLUMNS[name] for name in names]
        (ids, labels), (expected, same) = number_rows(columns), one_by_one(columns)
        assert ids.tolist() == expected.tolist(), names
        assert [*map(repr, labels)] == [*map(repr, same)], names


def test_python_objects_are_made_of_labels_that_differ_and_not_of_rows(monkeypatch):
    made = []
    monkeypatch.setattr(labels, "label_rows", lambda columns: made.append(len(columns[0])) or label_rows(columns))
    ids, distinct = number_rows([pa.array(np.arange(100_000) % 7)])
    assert made == [7] and len(distinct) == 7 and ids[-1] == 99_999 % 7


def test_labels_that_cannot_be_compared_are_refused():
    with pytest.raises(TypeError, match="not hashable"):
        number_rows([pa.array([[1], [2]])])


def test_labels_are_counted_and_numbered_alike_however_they_are_kept():
    texts = pa.array(["bb", None, "a", "bb", "", "c" * 40, "a", "c" * 40])
    coded = [
        texts,
        texts.dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([2, None, 0, 2, 4, 1, 0, 1], pa.int8()), ["a", "c" * 40, "bb", "no", ""]
        ),
    ]
    for column in coded:
        ids, labels = number_rows([column])
        assert ids.tolist() == [0, -1, 1, 0, -1, 2, 1, 2]
        assert labels.tolist() == ["bb", "a", "c" * 40]


def test_the_first_row_of_each_group_is_found():
    assert first_rows_of(np.array([-1, 0, 0, 1, -1, 0, 2, 1, 2, -1]), 3).tolist() == [1, 3, 6]


def test_codes_that_are_not_in_order_of_first_appearance_are_not_taken_for_numbers():
    for indices, dictionary in (([1, 0, 1], [7, 8]), ([0, 2, 0], [7, 8, 9]), ([0, 1, 1], [7, 7])):
        column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), dictionary)
        (ids, labels), (expected, same) = number_rows([column]), one_by_one([column])
        assert ids.tolist() == expected.tolist() and labels.tolist() == same.tolist()
