"""Labels as arrays beside a frame: the same ranking as with a column of them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from isobag import detect

N, G = 240, 12
OPTIONS = {"random_state": 0, "n_estimators": 20}


@pytest.fixture
def table(rng):
    labels = rng.permutation(np.repeat([f"g{i}" for i in range(G)], N // G))
    frame = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    frame.loc[labels == "g3", "a"] *= 0.1
    return frame, labels


def as_list(column):
    return column.to_list() if hasattr(column, "to_list") else column.to_pylist()


WAYS = {
    "pandas": lambda frame, labels: (frame, pd.Series(labels)),
    "pandas, another index": lambda frame, labels: (frame.set_index(np.arange(N)[::-1]), labels),
    "polars": lambda frame, labels: (pl.from_pandas(frame), pl.Series(labels.tolist())),
    "polars, lazy": lambda frame, labels: (pl.from_pandas(frame).lazy(), labels),
    "arrow": lambda frame, labels: (pa.Table.from_pandas(frame), pa.array(labels.tolist())),
    "array": lambda frame, labels: (frame.to_numpy(), labels),
    "objects": lambda frame, labels: (pl.from_pandas(frame), labels.astype(object)),
}


@pytest.mark.parametrize("way", WAYS)
def test_groups_by_an_array_are_those_of_a_column(way, table):
    frame, labels = table
    expected = detect(frame.assign(group=labels), by="group", **OPTIONS).to_frame()
    passed, by = WAYS[way](frame, labels)
    ranked = detect(passed, by=by, **OPTIONS).to_frame()
    assert as_list(ranked["group"]) == expected["group"].tolist()
    assert as_list(ranked["score"]) == expected["score"].tolist()


def test_a_series_gives_its_name_and_may_be_a_column_of_the_frame(table):
    frame, labels = table
    whole = frame.assign(who=labels)
    expected = detect(whole, by="who", **OPTIONS).to_frame()
    pd.testing.assert_frame_equal(detect(whole, by=whole["who"], **OPTIONS).to_frame(), expected)
    pd.testing.assert_frame_equal(detect(frame, by=whole["who"], **OPTIONS).to_frame(), expected)
    with pytest.raises(ValueError, match="by= is a Series called 'who', and the table has another column of that name"):
        detect(whole, by=whole["who"].iloc[::-1].reset_index(drop=True), **OPTIONS).to_frame()


def test_rows_are_compared_with_the_groups_of_an_array(table):
    frame, labels = table
    expected = detect(frame.assign(who=labels), within="who", **OPTIONS).to_frame()
    ranked = detect(frame, within=pd.Series(labels, name="who"), **OPTIONS).to_frame()
    pd.testing.assert_frame_equal(ranked, expected)
    array = detect(frame.to_numpy(), within=labels, **OPTIONS).to_frame()
    assert as_list(array["row"]) == expected["row"].tolist()


@pytest.mark.parametrize("labels", [np.zeros(N - 1), np.zeros((N, 1)), pd.Series(np.zeros(N + 1))])
def test_labels_that_do_not_fit_the_rows_are_refused(labels, table):
    with pytest.raises(ValueError, match=f"need one label for each of the {N} rows"):
        detect(table[0], by=labels).to_frame()


def test_rows_without_a_label_are_an_error_as_in_a_column(table):
    frame, labels = table
    labels = labels.astype(object)
    labels[5] = None
    with pytest.raises(ValueError, match="row 5 has no label"):
        detect(frame, by=labels, **OPTIONS).to_frame()
    with pytest.warns(UserWarning, match="1 of 240 rows"):
        assert len(detect(frame, by=labels, missing="drop", **OPTIONS).to_frame()) == G


def test_a_column_called_group_is_left_alone(table):
    frame, labels = table
    ranked = detect(frame.assign(group=1.0), by=labels, **OPTIONS).to_frame()
    assert "group_" in ranked.columns and "group" not in ranked.columns


def test_a_series_with_another_index_is_refused(table):
    frame, labels = table
    with pytest.raises(ValueError, match="by= is a Series with another index"):
        detect(frame, by=pd.Series(labels).sample(frac=1, random_state=0), **OPTIONS)
