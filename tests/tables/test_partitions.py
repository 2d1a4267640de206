"""Tables in partitions: the encoding and the features are those of the whole table, however it is cut."""

import pickle
from functools import reduce

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cutting import CutFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import read_table

from isobag.models.thresholds import add_values
from isobag.tables import scan
from isobag.tables.batch import Batch
from isobag.tables.cells import NUMBER
from isobag.tables.framesource import FrameSource
from isobag.tables.passes import SHIFTS, Bracket
from isobag.tables.scan import ColumnScan

N_ROWS = 60
CUTS = {
    "one": [],
    "thirds": [20, 40],
    "empty first, middle and last": [0, 25, 25, 60],
    "one row each": list(range(1, 60)),
    "only the last row": [59],
}


def mixed_frame():
    rng = np.random.default_rng(0)
    texts = np.array(["red", "green", "blue"])[rng.integers(0, 3, N_ROWS)]
    return pd.DataFrame(
        {
            "amount": rng.normal(size=N_ROWS),
            "count": rng.integers(0, 9, N_ROWS),
            "colour": texts,
            "category": pd.Categorical(np.where(np.arange(N_ROWS) < 30, "early", "late")),
            "is_new": rng.integers(0, 2, N_ROWS).astype(bool),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**6, N_ROWS), unit="s"),
            "row_number": np.arange(N_ROWS),
            "name": [f"n{i:03d}" for i in range(N_ROWS)],
            "same": np.full(N_ROWS, 4.0),
            "copy_of_same": np.full(N_ROWS, 4.0),
        }
    )


def whole(frame, **options):
    return read_table(FrameSource(nw.from_native(frame)), **options)


def assert_same(frame, cuts, **options):
    expected = whole(frame, **options)
    learned = read_table(partitions := CutFrame(frame, cuts), **options)
    assert learned.reader.encoding.to_text() == expected.encoding.to_text()
    assert [(one.name, one.role, one.reason) for one in learned.summary.columns] == [
        (one.name, one.role, one.reason) for one in expected.summary.columns
    ]
    assert learned.sizes.tolist() == [len(part) for part in partitions.parts]
    blocks = [block for p, part in enumerate(partitions.parts) for block in learned.reader.blocks(p, iter([part]))]
    features = np.concatenate([block.X for block in blocks])
    np.testing.assert_array_equal(features, expected.rows.take(np.arange(len(expected.rows))))
    kept = np.concatenate([np.ones(block.n_rows, bool) if block.kept is None else block.kept for block in blocks])
    np.testing.assert_array_equal(kept, np.ones(len(frame), bool) if expected.kept is None else expected.kept)
    assert learned.kept_sizes.sum() == kept.sum() == len(features)
    return learned, partitions


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("features", [None, ["amount", "colour", "category", "is_new", "when", "count"]])
def test_the_encoding_does_not_depend_on_the_cut(cuts, features):
    _, partitions = assert_same(mixed_frame(), cuts, features=features)
    assert partitions.n_runs == 1


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("missing", ["drop", "median"])
def test_gaps_are_dropped_or_filled_alike(cuts, missing):
    frame = mixed_frame()
    frame["is_new"] = frame["is_new"].astype("boolean")
    for j, name in enumerate(["amount", "colour", "is_new", "when"]):
        frame.loc[5 + j :: 11, name] = None
    assert_same(frame, cuts, features=["amount", "colour", "is_new", "when"], missing=missing)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("bad_cells", ["missing", "text"])
def test_objects_are_understood_alike_whatever_a_partition_holds_of_them(cuts, bad_cells):
    # Partitions of texts alone, of numbers alone, of both, and of nothing.
    objects = ["7"] * 10 + [3, 4.5] * 10 + [None] * 10 + ["x", "NA"] + [True, 8] * 4 + ["9"] * 10
    frame = pd.DataFrame({"a": pd.Series(objects, dtype=object), "b": np.arange(N_ROWS) % 7})
    assert_same(frame, cuts, bad_cells=bad_cells, missing="median")


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_a_column_that_turns_out_to_be_text_is_one_in_every_partition(cuts):
    objects = [1, 2.5] * 12 + ["2024-05-01"] * 10 + ["red", "green"] * 13
    frame = pd.DataFrame({"a": pd.Series(objects, dtype=object), "b": np.arange(N_ROWS) % 7})
    assert_same(frame, cuts, features=["a", "b"])


@pytest.mark.parametrize("missing", ["drop", "median"])
def test_a_partition_most_of_which_is_no_number_has_gaps_there_like_any_other(missing):
    objects = [*range(50), *["x", "y", "z"] * 3, 7]
    frame = pd.DataFrame({"a": pd.Series(objects, dtype=object), "b": np.arange(N_ROWS) % 7})
    assert_same(frame, [50], bad_cells="missing", missing=missing, features=["a", "b"])


@pytest.mark.parametrize("n_cuts", [0, 1, 7, 59])
def test_a_column_is_an_identifier_if_it_numbers_the_rows_of_all_partitions(n_cuts):
    cuts = sorted(np.random.default_rng(n_cuts).choice(np.arange(1, N_ROWS), n_cuts, replace=False).tolist())
    rising = np.arange(N_ROWS)
    falling_once = np.where(rising < 30, rising, rising - 30)
    text = np.array([f"{i:02d}" for i in falling_once])
    shuffled = np.random.default_rng(0).permutation(rising) + 1
    frame = pd.DataFrame({"a": rising, "b": falling_once, "text": text, "c": -rising, "d": shuffled, "e": rising + 2})
    learned, _ = assert_same(frame, cuts)
    left_out = dict(learned.reader.encoding.left_out)
    assert left_out["a"] == left_out["d"] == "an identifier: it numbers the rows"
    assert [column.name for column in learned.reader.encoding.columns] == ["b", "c", "e"]


def test_more_texts_than_are_coded_are_too_many_in_every_cut(monkeypatch):
    monkeypatch.setattr(scan, "MOST_TEXTS", 8)
    frame = pd.DataFrame({"t": [f"t{i % 12}" for i in range(N_ROWS)], "b": np.arange(N_ROWS) % 7})
    for cuts in CUTS.values():
        learned = read_table(CutFrame(frame, cuts))
        assert "more than 8 different values" in str(whole(frame).summary.columns[0].reason)
        assert [column.name for column in learned.reader.encoding.columns] == ["b"]
        with pytest.raises(ValueError, match="more than 8 different values"):
            read_table(CutFrame(frame, cuts), features=["t", "b"])


def test_a_partition_may_come_in_several_frames_of_arrow():
    frame = mixed_frame()[["amount", "colour", "count"]]

    def frames_of(part):
        table = pa.Table.from_pandas(part, preserve_index=False)
        return iter([table.slice(0, 3), table.slice(3, 0), table.slice(3)])

    partitions = CutFrame(frame, [20, 20], frames_of)
    learned = read_table(partitions, features=["amount", "colour", "count"])
    expected = whole(frame, features=["amount", "colour", "count"])
    assert learned.reader.encoding == expected.encoding
    found = [X for p, part in enumerate(partitions.parts) for X, _ in learned.reader(p, frames_of(part))]
    np.testing.assert_array_equal(np.concatenate(found), expected.rows.take(np.arange(N_ROWS)))


def test_labels_come_with_the_features_as_they_are():
    frame = mixed_frame()
    learned = read_table(CutFrame(frame, [30]), features=["amount"], by="colour", id="name")
    (block,) = learned.reader.blocks(0, iter([frame[:30]]))
    assert block.labels["colour"].to_pylist() == frame["colour"][:30].tolist()
    assert block.labels["name"].to_pylist() == frame["name"][:30].tolist()


def look_again(partitions, learned, number, phase):
    if phase == "learning":
        read_table(partitions, features=[column.name for column in learned.reader.encoding.columns], missing="error")
    else:
        list(learned.reader(number, iter([partitions.parts[number]])))


@pytest.mark.parametrize("phase", ["learning", "reading"])
def test_a_missing_value_is_named_with_partition_row_and_column(phase):
    frame = mixed_frame()
    learned = read_table(CutFrame(frame, [20, 40]), features=["count", "amount"], missing="error")
    frame.loc[47, "amount"] = np.nan
    partitions = CutFrame(frame, [20, 40])
    with pytest.raises(ValueError, match="the first is in row 7 of partition 2, column 'amount'"):
        look_again(partitions, learned, 2, phase)


def test_a_cell_that_is_no_number_is_named_with_partition_row_and_column():
    frame = pd.DataFrame({"a": pd.Series([*range(30), "oops", *range(29)], dtype=object)})
    with pytest.raises(ValueError, match="a: 59 of 60 cells are numbers; row 10 of partition 1 has 'oops'"):
        read_table(CutFrame(frame, [20, 40]))


@pytest.mark.parametrize("phase", ["learning", "reading"])
def test_a_partition_of_another_schema_is_named(phase):
    partitions = CutFrame(mixed_frame()[["amount", "count"]], [20, 40])
    learned = read_table(partitions)
    partitions.parts[1] = partitions.parts[1].astype({"amount": str})
    with pytest.raises(ValueError, match=r"partition 1, column 'amount' is of type .*string.*; need "):
        look_again(partitions, learned, 1, phase)
    partitions.parts[1] = partitions.parts[1][["amount"]]
    with pytest.raises(ValueError, match=r"partition 1 has no column 'count' \(columns: 'amount'\)"):
        look_again(partitions, learned, 1, phase)


def test_a_partition_without_any_value_has_any_type():
    frame = mixed_frame()[["amount", "colour"]]
    partitions = CutFrame(frame, [20, 40])
    partitions.parts[1] = pd.DataFrame({"amount": pd.Series([None] * 20, dtype=object), "colour": [np.nan] * 20})
    learned = read_table(partitions, features=["amount", "colour"], missing="drop")
    assert learned.kept_sizes.tolist() == [20, 0, 20]
    assert learned.reader.encoding.names[0] == "amount"


def test_a_table_without_rows_or_without_a_named_column_is_refused():
    with pytest.raises(ValueError, match="The table has no rows"):
        read_table(CutFrame(mixed_frame()[:0], [0, 0]))
    with pytest.raises(ValueError, match="no such column"):
        read_table(CutFrame(mixed_frame(), []), features=["nothing"])
    with pytest.raises(ValueError, match="choose one of 'auto', 'error', 'drop', 'median'"):
        read_table(CutFrame(mixed_frame(), []), missing="ignore")


values = st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0]), min_size=1)


@settings(max_examples=100, deadline=None)
@given(values, st.data())
def test_the_median_of_parts_is_the_median(numbers, data):
    column = np.array(numbers)
    cut = data.draw(st.integers(0, len(column)))
    bracket = Bracket()
    for _ in SHIFTS:
        first, later = (bracket.count_keys(part) for part in (column[:cut], np.append(column[cut:], np.nan)))
        bracket = bracket.narrow(add_values(first, pickle.loads(pickle.dumps(later))))
    with np.errstate(over="ignore"):
        assert bracket.median == np.median(column)


def test_the_median_of_an_odd_number_of_huge_values_is_one_of_them():
    bracket = Bracket()
    for _ in SHIFTS:
        bracket = bracket.narrow(bracket.count_keys(np.array([1e308, 1.5e308, 1.7e308])))
    assert bracket.median == 1.5e308


def scanned(numbers, *cuts):
    """A column of a table in parts, scanned part by part."""
    parts = []
    for part, values in enumerate(np.split(np.asarray(numbers, dtype=float), cuts)):
        scan = ColumnScan("x", NUMBER, part=part)
        scan.read(Batch("", 0, None, {"x": pa.array(values)}, len(values), is_typed=True))
        parts.append(pickle.loads(pickle.dumps(scan)))
    return reduce(ColumnScan.merge, parts)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1), st.data())
def test_digests_of_columns_cut_alike_tell_values_their_order_and_their_number(numbers, data):
    cut = data.draw(st.integers(0, len(numbers)))
    digest = scanned(numbers, cut).digest
    assert digest == scanned([float(one) for one in numbers], cut).digest
    for other in (numbers[::-1], numbers[cut:] + numbers[:cut]):
        assert (scanned(other, cut).digest == digest) == (other == numbers)
    assert scanned([*numbers, 0], cut).digest != digest


def test_a_digest_of_many_values_tells_binary_columns_apart():
    # The Thue-Morse sequence and its complement meet in many sums modulo a power of two.
    ones = np.array([bin(i).count("1") % 2 for i in range(1 << 17)])
    assert scanned(ones).digest != scanned(1 - ones).digest


@pytest.mark.parametrize("n", [12, 70_000])
def test_numbers_from_0_or_1_on_number_the_rows_in_any_order(n):
    shuffled = np.random.default_rng(0).permutation(n)
    for first in (0, 1):
        assert scanned(shuffled + first, n // 3).numbers_rows
    assert not scanned(shuffled + 2).numbers_rows
    shuffled[shuffled == 5] = 6
    assert not scanned(shuffled, n // 2).numbers_rows
