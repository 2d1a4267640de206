"""Frames in, ranked frames out."""

import datetime
import re
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from isobag import IDKGroupDetector, IDKPointDetector, detect_groups, detect_points
from isobag.tables.crossfit import cross_p_values_of_rows
from isobag.tables.encoding import ColumnReader, choose_columns, columns_of_model
from isobag.tables.reasons import shown

pa = pytest.importorskip("pyarrow")
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture
def columns(rng):
    """80 rows: the last is far out in b, and no number."""
    return {
        "a": [*rng.normal(size=79).tolist(), 0.1],
        "größe": [*rng.normal(10, 2, 79).tolist(), 99.5],
        "kind": ["x", "y"] * 40,
        "when": [datetime.date(2024, 1, 1)] * 80,
        "who": [f"n{i % 8}" for i in range(80)],
    }


def as_lists(frame):
    return nw.from_native(frame, eager_only=True).to_dict(as_series=False)


@pytest.mark.parametrize("kind", FRAMES)
def test_every_library_gets_its_own_frame_with_the_same_rows(kind, columns):
    frame = FRAMES[kind](columns)
    found = detect_points(frame, random_state=0)
    assert type(found) is type(frame)
    expected = as_lists(detect_points(pd.DataFrame(columns), random_state=0))
    assert as_lists(found) == expected
    assert list(expected) == ["row", "score", "rank", "p_value", "flagged", "reasons"]
    assert expected["row"][0] == 79 and expected["flagged"][0]
    assert expected["reasons"][0] == "größe 99.5 (high)"
    assert expected["rank"] == list(range(1, 81))


@pytest.mark.parametrize("kind", FRAMES)
def test_groups_of_every_library_are_ranked_alike(kind, columns):
    frame = FRAMES[kind](columns)
    found = detect_groups(frame, by="who", random_state=0)
    assert type(found) is type(frame)
    lists = as_lists(found)
    assert list(lists) == ["who", "n_points", "score", "rank", "p_value", "flagged", "reasons"]
    assert lists == as_lists(detect_groups(pd.DataFrame(columns), by="who", random_state=0))
    assert sorted(lists["who"]) == [f"n{i}" for i in range(8)] and set(lists["n_points"]) == {10}


def test_scores_are_those_of_the_detectors(columns):
    frame = pd.DataFrame(columns)
    X = frame[["a", "größe"]]
    found = detect_points(frame, n_estimators=30, max_samples=8, random_state=3).sort_values("row")
    detector = IDKPointDetector(30, 8, random_state=3).fit(X)
    assert np.array_equal(found["score"], detector.score_samples(X))
    assert np.array_equal(found["flagged"], detector.predict(X) == -1)
    groups = detect_groups(frame, "who", n_estimators=30, random_state=3)
    plain = IDKGroupDetector(30, random_state=3).fit(X, groups=frame["who"])
    assert dict(zip(groups["who"], groups["score"], strict=True)) == dict(
        zip(plain.labels_, plain.scores_, strict=True)
    )


def test_pandas_keeps_its_index_and_labels_keep_their_type(columns):
    frame = pd.DataFrame(columns, index=[f"row {i}" for i in range(80)])
    frame["who"] = frame["who"].astype("category")
    found = detect_points(frame, id="who", random_state=0)
    assert found.index[0] == "row 79"
    assert found.columns[0] == "who" and found["who"].iloc[0] == "n7" and found["who"].dtype == "category"
    days = frame.assign(day=pd.to_datetime(np.repeat(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], 20)))
    assert pd.api.types.is_datetime64_any_dtype(detect_groups(days, "day", random_state=0)["day"])


def test_an_id_of_numbers_is_no_feature(columns):
    frame = pd.DataFrame(columns).assign(number=np.arange(80) ** 3)
    plain = detect_points(pd.DataFrame(columns), random_state=0)
    assert np.array_equal(detect_points(frame, id="number", random_state=0)["score"], plain["score"])


def test_p_values_of_exchangeable_rows_are_valid():
    """Shares of p-values at most alpha, over 60 tables of 100 rows; three standard errors of the mean allowed."""
    p_values = []
    for seed in range(60):
        X = np.random.default_rng(seed).normal(size=(100, 2))
        table = pd.DataFrame(X, columns=["a", "b"])
        p_values.append(detect_points(table, n_estimators=20, max_samples=8, random_state=seed)["p_value"])
    p_values = np.array(p_values)
    for alpha in (0.02, 0.1, 0.3):
        shares = (p_values <= alpha).mean(axis=1)
        assert shares.mean() <= alpha + 3 * shares.std() / np.sqrt(len(shares)) + 1e-12


def test_each_half_has_every_rank_once(rng):
    X = rng.normal(size=(40, 2))
    found = detect_points(pd.DataFrame(X, columns=["a", "b"]), random_state=0)["p_value"]
    ranks = np.repeat(np.arange(1, 21) / 20, 2)
    assert (np.sort(found) >= ranks - 1e-12).all()  # equal scores share the highest of their ranks
    assert found.min() <= 0.1 and found.max() == 1


@pytest.mark.parametrize("n_rows", [2, 3])
def test_too_few_rows_for_two_halves_have_p_values_of_one(n_rows):
    found = detect_points(pd.DataFrame({"a": np.arange(n_rows) ** 2.0}), random_state=0)
    assert found["p_value"].tolist() == [1.0] * n_rows


def test_p_values_can_be_left_out(columns):
    assert "p_value" not in detect_points(pd.DataFrame(columns), p_values=False, random_state=0).columns
    assert "p_value" not in detect_groups(pd.DataFrame(columns), "who", p_values=False, random_state=0).columns


def test_a_psi_larger_than_half_of_the_rows_still_has_p_values(rng):
    X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    assert detect_points(X, max_samples=18, random_state=0)["p_value"].between(0.05, 1).all()
    groups = X.assign(who=np.arange(20) % 5)
    assert detect_groups(groups, "who", max_samples=15, group_max_samples=4, random_state=0)["p_value"].max() == 1


def test_many_rows_learn_from_a_part_of_each_half(rng, monkeypatch):
    monkeypatch.setattr("isobag.tables.crossfit.LEARNED_ROWS", 50)
    found = detect_points(pd.DataFrame(rng.normal(size=(1000, 2)), columns=["a", "b"]), random_state=0)
    assert found["p_value"].min() <= 0.01 and found["p_value"].max() == 1


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_values_are_counted_by_column(kind, columns):
    columns["a"][3] = None
    columns["größe"][4] = columns["größe"][5] = None
    with pytest.raises(ValueError, match=r"missing in 'a' \(1\), 'größe' \(2\) of 80 rows; .*'drop'.*'median'"):
        detect_points(FRAMES[kind](columns), random_state=0)


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_dropped_stand_last_without_a_score(kind, columns):
    columns["a"][3] = None
    columns["größe"][5] = float("nan")
    found = as_lists(detect_points(FRAMES[kind](columns), missing="drop", random_state=0))
    assert found["row"][-2:] == [3, 5] and found["rank"][-2:] == [79, 80]
    assert all(score is None or np.isnan(score) for score in found["score"][-2:])
    assert found["n_missing"][-2:] == [1, 1] and sum(found["n_missing"]) == 2
    assert not any(found["flagged"][-2:]) and found["row"][0] == 79
    kept = {name: [value for i, value in enumerate(values) if i not in (3, 5)] for name, values in columns.items()}
    assert found["score"][:78] == as_lists(detect_points(pd.DataFrame(kept), random_state=0))["score"]


def test_medians_fill_gaps_and_are_counted(columns):
    whole = pd.DataFrame(columns)
    gaps = whole.assign(a=whole["a"].where(whole.index != 3))
    filled = whole.assign(a=gaps["a"].fillna(gaps["a"].median()))
    found, expected = detect_points(gaps, missing="median", random_state=0), detect_points(filled, random_state=0)
    assert np.array_equal(found["score"], expected["score"])
    assert found.set_index("row")["n_missing"].to_dict() == {i: int(i == 3) for i in range(80)}


def test_a_group_without_rows_left_stands_last(columns):
    frame = pd.DataFrame(columns)
    frame.loc[frame["who"] == "n2", "a"] = np.nan
    frame.loc[0, "a"] = np.nan
    found = detect_groups(frame, "who", missing="drop", random_state=0)
    assert found["who"].iloc[-1] == "n2" and found["n_points"].iloc[-1] == 0 and np.isnan(found["score"].iloc[-1])
    assert found.set_index("who")["n_missing"].to_dict() == {f"n{i}": {0: 1, 2: 10}.get(i, 0) for i in range(8)}


def test_a_column_without_values_has_no_median(columns):
    with pytest.raises(ValueError, match="'a' has no values at all"):
        detect_points(pd.DataFrame(columns).assign(a=np.nan), missing="median")


@pytest.mark.parametrize("kind", FRAMES)
def test_texts_become_indicators(kind, columns):
    columns["kind"][7] = "odd"
    found = as_lists(detect_points(FRAMES[kind](columns), features=["a", "kind"], random_state=0))
    numbers = pd.DataFrame({"a": columns["a"]})
    for text in ("x", "y", "odd"):  # by how frequent they are
        numbers[text] = [float(one == text) for one in columns["kind"]]
    assert found["score"] == detect_points(numbers, random_state=0)["score"].tolist()
    assert found["reasons"][found["row"].index(7)].startswith("kind=odd (rare)")


def test_true_and_false_are_one_and_zero(rng):
    frame = pd.DataFrame({"a": rng.normal(size=30), "is": rng.random(30) < 0.2})
    numbers = frame.assign(**{"is": frame["is"].astype(float)})
    found = detect_points(frame, features=["a", "is"], random_state=0)
    assert np.array_equal(found["score"], detect_points(numbers, random_state=0)["score"])
    assert detect_points(frame, random_state=0)["score"].tolist() != found["score"].tolist()  # not chosen by itself


def test_columns_that_may_hold_numbers_are_left_out_aloud(rng):
    objects = pd.Series([1, 2.5, "?"] * 10, dtype=object)
    sparse = pd.arrays.SparseArray(np.arange(30))
    frame = pd.DataFrame({"x": rng.normal(size=30), "objects": objects, "sparse": sparse, "word": ["a", "b"] * 15})
    with pytest.warns(UserWarning, match="not one of numbers: 'objects', 'sparse'; if they hold") as caught:
        detect_points(frame, random_state=0)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detect_points(frame, features="x", random_state=0)
        detect_points(frame.drop(columns="sparse"), id="objects", random_state=0)


def test_only_the_most_frequent_texts_get_an_indicator():
    frame = pd.DataFrame({"t": [f"v{i}" for i in range(30) for _ in range(i + 1)]})
    numbers, _ = choose_columns(dict(nw.from_native(frame).schema), ["t"])
    numbers.read(nw.from_native(frame))
    assert numbers.encoding().names == [f"t=v{i}" for i in range(29, 9, -1)]


def test_the_names_of_features_say_how_to_read_a_new_table():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "t": ["x=1", "y", "x=1"], "flag": [True, False, True]})
    numbers, _ = choose_columns(dict(nw.from_native(frame).schema), ["a", "t", "flag"])
    read = numbers.read(nw.from_native(frame))
    encoding = numbers.encoding()
    assert encoding.names == ["a", "t=x=1", "t=y", "flag"]
    again, same = columns_of_model(dict(nw.from_native(frame).schema), encoding.names)
    new = frame.assign(t=["new", "y", "x=1"])
    assert same.apply(again.read(nw.from_native(new)))[:, 1:3].tolist() == [[0, 0], [0, 1], [1, 0]]
    assert np.array_equal(same.apply(again.read(nw.from_native(frame))), encoding.apply(read))
    with pytest.raises(ValueError, match="model needs the column 't=x=1'"):
        columns_of_model(dict(nw.from_native(frame[["a", "flag"]]).schema), encoding.names)


def test_features_of_one_name_are_refused():
    frame = pd.DataFrame({"t=x": [1.0, 2.0], "t": ["x", "y"]})
    with pytest.raises(ValueError, match=r"Two features would be called 't=x'"):
        detect_points(frame, features=["t=x", "t"])


GOOD = pd.DataFrame({"a": [1.0, 2.0, 4.0, 8.0], "t": list("wxyz"), "when": pd.Timestamp("2024-01-01")})
DOUBLE = pd.DataFrame([[1.0, 2.0]] * 4, columns=["a", "a"])
BROKEN = {
    "no numbers": (GOOD[["t"]], {}, "no column of numbers"),
    "a date": (GOOD, {"features": ["a", "when"]}, "'when' holds dates or times; turn it into numbers"),
    "dates in objects": (
        GOOD.assign(d=pd.Series([datetime.date(2024, 1, 1)] * 4, dtype=object)),
        {"features": ["d"]},
        "'d' holds dates",
    ),
    "things": (GOOD.assign(d=[(1,), (2,), (3,), (4,)]), {"features": ["d"]}, r"'d' holds \(1,\) of type tuple"),
    "two columns of one name": (DOUBLE, {}, "Two columns are called 'a'"),
    "an unknown column": (GOOD, {"features": ["b"]}, "features has 'b'; the table has no such column"),
    "a column twice": (GOOD, {"features": ["a", "a"]}, "features has 'a' twice"),
    "no features": (GOOD, {"features": []}, "features names no column"),
    "no rows": (GOOD[:0], {}, "0 is the number of rows; need 2 or more"),
    "one row": (GOOD[:1], {}, "1 is the number of rows; need 2 or more"),
    "infinity": (GOOD.assign(a=[1, np.inf, 2, 3]), {}, "infinity: inf in row 1, column 'a'"),
    "a huge number": (GOOD.assign(a=[1, 2, -1e200, 3]), {}, "too large to square: -1e.200 in row 2, column 'a'"),
    "an unknown way": (GOOD, {"missing": "zero"}, "missing='zero'; choose one of 'error', 'drop', 'median'"),
    "an unknown id": (GOOD, {"id": "nobody"}, "id='nobody'; the table has no such column"),
    "p_values": (GOOD, {"p_values": "yes"}, "p_values='yes'; choose one of True, False"),
    "all dropped": (GOOD.assign(a=np.nan), {"missing": "drop"}, "0 is the number of rows"),
    "an id called as a result": (
        GOOD.rename(columns={"t": "score"}),
        {"id": "score"},
        "a column 'score' of its own",
    ),
    "a lazy frame": (pl.LazyFrame({"a": [1.0]}), {}, "type LazyFrame; need a frame in memory"),
    "an array": (np.ones((3, 2)), {}, "type ndarray; need a frame"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_named_in_one_sentence(name):
    frame, options, message = BROKEN[name]
    with pytest.raises((ValueError, TypeError)) as error:
        detect_points(frame, **options)
    assert re.search(message, str(error.value)), error.value
    assert "\n" not in str(error.value)


def test_groups_need_a_column_of_labels(columns):
    frame = pd.DataFrame(columns)
    with pytest.raises(ValueError, match="by='nobody'; the table has no such column"):
        detect_groups(frame, "nobody")
    with pytest.raises(ValueError, match="features has 'who', the column of labels"):
        detect_groups(frame, "who", features=["a", "who"])
    with pytest.raises(ValueError, match="no label in row 0"):
        detect_groups(frame.assign(who=[None] + ["x", "y"] * 39 + ["z"]), "who")


def test_constant_columns_and_equal_rows_are_no_trouble():
    frame = pd.DataFrame({"a": [1.0] * 20, "b": [5] * 20})
    found = detect_points(frame, random_state=0)
    assert found["row"].tolist() == list(range(20)) and not found["flagged"].any()
    assert (found["p_value"] == 1).all()


def test_one_row_far_out_in_one_column_has_that_reason(rng):
    X = rng.normal(size=(300, 4))
    X[7, 2] = -30
    found = detect_points(pd.DataFrame(X, columns=list("abcd")), random_state=0)
    assert found["row"].iloc[0] == 7 and found["reasons"].iloc[0] == "c -30 (low)"


def test_numbers_are_written_as_people_do():
    assert [shown(value) for value in (1240.0, 3.0, 0.00312345, -12345.6, 1e20)] == [
        "1,240",
        "3",
        "0.003123",
        "-12,346",
        "1e+20",
    ]


def test_a_model_that_was_never_told_of_texts_reads_numbers():
    numbers = ColumnReader(["a"], [False])
    assert numbers.read(nw.from_native(pl.DataFrame({"a": [1, None, 3]}))).tolist()[0] == [1.0]
    assert numbers.n_missing.tolist() == [1]


def test_cross_fitting_never_scores_a_row_by_a_detector_that_saw_it(rng, monkeypatch):
    from isobag.data.rows import ArrayRows

    X = rng.normal(size=(60, 2))
    seen, asked = [], []
    fit_rows, scores = IDKPointDetector._fit_rows, IDKPointDetector._scores

    def learn(self, rows):
        found = fit_rows(self, rows)
        seen.append({row.tobytes() for row in rows.X})
        self.number = len(seen) - 1
        return found

    def ask(self, points):
        if hasattr(self, "number"):
            asked.append((self.number, {row.tobytes() for row in points}))
        return scores(self, points)

    monkeypatch.setattr(IDKPointDetector, "_fit_rows", learn)
    monkeypatch.setattr(IDKPointDetector, "_scores", ask)
    cross_p_values_of_rows(IDKPointDetector(10, 8, random_state=0), ArrayRows(X))
    assert len(seen) == 2 and len(asked) == 2
    assert all(not seen[number] & rows for number, rows in asked)
    assert seen[0] | seen[1] == {row.tobytes() for row in X}
