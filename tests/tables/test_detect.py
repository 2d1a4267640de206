"""Frames and arrays in, ranked frames out."""

import datetime
import math
import re
import warnings

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from isobag import IDKGroupDetector, IDKPointDetector, detect, fit
from isobag.models.calibration import discoveries
from isobag.tables.reasons import number_in_words

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture
def columns(rng):
    """80 rows: the last is far out in größe."""
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
    ranked = detect(frame, random_state=0).to_frame()
    assert type(ranked) is type(frame)
    expected = as_lists(detect(pd.DataFrame(columns), random_state=0).to_frame())
    assert as_lists(ranked) == expected
    assert list(expected) == ["row", "score", "rank", "rank_share", "flagged", "reasons"]
    assert expected["row"][0] == 79 and expected["flagged"][0]
    assert expected["reasons"][0].startswith("größe 99.5 (high, usually ")
    assert expected["score"] == sorted(expected["score"])


@pytest.mark.parametrize("kind", FRAMES)
def test_groups_of_every_library_are_ranked_alike(kind, columns):
    frame = FRAMES[kind](columns)
    ranked = detect(frame, by="who", random_state=0).to_frame()
    assert type(ranked) is type(frame)
    lists = as_lists(ranked)
    assert list(lists) == ["who", "n_points", "score", "rank", "rank_share", "flagged", "reasons"]
    assert lists == as_lists(detect(pd.DataFrame(columns), by="who", random_state=0).to_frame())
    assert sorted(lists["who"]) == [f"n{i}" for i in range(8)] and set(lists["n_points"]) == {10}


def test_lazy_frames_relations_and_arrays_are_ranked_alike(columns):
    numbers = {name: columns[name] for name in ("a", "größe")}
    columns = {**numbers, "who": columns["who"]}
    expected = as_lists(detect(pd.DataFrame(columns), exclude=["who"], random_state=0).to_frame())
    assert as_lists(detect(pl.LazyFrame(columns), exclude=["who"], random_state=0).to_frame()) == expected
    table = pa.table(columns)
    connection = duckdb.connect()
    there = detect(connection.from_arrow(table), exclude=["who"], random_state=0)
    assert as_lists(there.to_frame()) == expected
    by_group = as_lists(detect(pd.DataFrame(columns), "who", random_state=0).to_frame())
    assert as_lists(detect(pl.LazyFrame(columns), "who", random_state=0).to_frame()) == by_group
    assert as_lists(detect(connection.from_arrow(table), "who", random_state=0).to_frame()) == by_group
    of_array = detect(np.column_stack([*numbers.values()]), random_state=0).to_frame()
    assert isinstance(of_array, pa.Table)
    assert {name: own for name, own in as_lists(of_array).items() if name != "reasons"} == {
        name: own for name, own in expected.items() if name != "reasons"
    }
    assert as_lists(of_array)["reasons"][0].startswith("x1 99.5 (high, usually ")


def test_scores_are_those_of_the_detectors(columns):
    frame = pd.DataFrame(columns)
    X = frame[["a", "größe"]]
    frame = frame.drop(columns=["kind", "when"])
    how = {"n_estimators": 30, "max_samples": 8, "random_state": 3, "contamination": 0.1}
    ranked = detect(frame, **how, exclude=["who"]).to_frame().sort_values("row")
    detector = IDKPointDetector(**how).fit(X)
    assert np.array_equal(ranked["score"], detector.score_samples(X))
    assert np.array_equal(ranked["flagged"], detector.predict(X) == -1)
    groups = detect(frame, "who", n_estimators=30, random_state=3).to_frame()
    plain = IDKGroupDetector(30, random_state=3).fit(X, groups=frame["who"])
    assert dict(zip(groups["who"], groups["score"], strict=True)) == dict(
        zip(plain.labels_, plain.scores_, strict=True)
    )


def test_pandas_keeps_its_index_and_labels_keep_their_type(columns):
    frame = pd.DataFrame(columns, index=[f"row {i}" for i in range(80)])
    frame["who"] = frame["who"].astype("category")
    ranked = detect(frame, id_column="who", random_state=0).to_frame()
    assert ranked.index[0] == "row 79"
    assert ranked.columns[0] == "who" and ranked["who"].iloc[0] == "n7" and ranked["who"].dtype == "category"
    days = frame.assign(day=pd.to_datetime(np.repeat(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], 20)))
    assert pd.api.types.is_datetime64_any_dtype(detect(days, "day", random_state=0).to_frame()["day"])


def test_an_id_of_numbers_is_no_feature(columns):
    frame = pd.DataFrame(columns).assign(number=np.arange(80) ** 3)
    plain = detect(pd.DataFrame(columns), random_state=0).to_frame()
    assert np.array_equal(detect(frame, id_column="number", random_state=0).to_frame()["score"], plain["score"])


def test_identifiers_are_left_out_aloud(columns):
    frame = pd.DataFrame(columns).assign(order_id=np.arange(80)[::-1], line=np.arange(80))
    plain = detect(pd.DataFrame(columns), random_state=0).to_frame()
    with pytest.warns(UserWarning, match=r"'order_id' \(an identifier by its name\), 'line' \(an i") as caught:
        ranked = detect(frame, random_state=0).to_frame()
    assert caught[0].filename == __file__
    assert np.array_equal(ranked["score"], plain["score"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detect(frame, features=["a", "order_id"], random_state=0).to_frame()


def test_several_columns_make_one_label_and_small_groups_stand_last(columns):
    frame = pd.DataFrame(columns).assign(half=[i // 70 for i in range(80)])
    ranked = detect(frame, ["who", "half"], min_size=3, random_state=0).to_frame()
    sizes = frame.groupby(["who", "half"]).size()
    assert set(map(tuple, ranked[["who", "half"]].to_numpy())) == set(sizes.index)
    small = ranked[ranked["score"].isna()]
    assert len(small) == (sizes < 3).sum() > 0 and ranked["score"].iloc[: -len(small)].notna().all()
    assert not small["flagged"].any()


def test_shares_of_rank_are_shares_of_scores_not_above(columns):
    for actual in (
        detect(pd.DataFrame(columns), random_state=0).to_frame(),
        detect(pd.DataFrame(columns), "who", random_state=0).to_frame(),
    ):
        scores = actual["score"].to_numpy()
        assert actual["rank_share"].tolist() == [(scores <= score).mean() for score in scores]
        assert actual["rank"].tolist() == [1 + (scores < score).sum() for score in scores]


def test_shares_of_rank_of_exchangeable_rows_are_valid():
    """Shares of p-values at most alpha, over 40 tables of 100 rows: never above alpha."""
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(100, 2))
        p_values = detect(X, n_estimators=10, max_samples=8, random_state=seed).to_frame()["rank_share"].to_numpy()
        for alpha in (0.02, 0.1, 0.3):
            assert (p_values <= alpha).mean() <= alpha


def test_equal_rows_have_one_rank_and_one_share():
    actual = detect(
        pd.DataFrame({"a": [1.0] * 30 + [50.0] * 3, "b": [2.0] * 30 + [60.0] * 3}), random_state=0
    ).to_frame()
    assert actual["rank"].tolist() == [1] * 3 + [4] * 30
    assert actual["rank_share"].tolist() == [3 / 33] * 3 + [1.0] * 30
    assert actual["row"].tolist() == [30, 31, 32, *range(30)]


def test_ranks_and_shares_do_not_depend_on_how_many_are_asked_for():
    frame = pd.DataFrame({"a": [1.0, np.nan, 1.0, 7.0, 1.0, 7.0, 2.0, np.nan] * 4})
    ranking = detect(frame, missing="drop", random_state=0)
    whole = ranking.columns(0, len(ranking))
    for n_rows in (1, 3, 7, 31):
        parts = list(ranking.parts(n_rows))
        for name in ("rank", "rank_share"):
            assert_array_equal(np.concatenate([part[name] for part in parts]), whole[name])
    assert np.isnan(whole["rank_share"][-8:]).all() and whole["rank_share"][23] == 1


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_values_are_counted_by_column(kind, columns):
    columns["a"][3] = None
    columns["größe"][4] = columns["größe"][5] = None
    with pytest.raises(ValueError, match=r"missing in 'a' \(1\), 'größe' \(2\) of 80 rows; .*'drop'"):
        detect(FRAMES[kind](columns), missing="error", random_state=0).to_frame()


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_values_take_part_and_are_counted(kind, columns):
    columns["a"][3] = columns["kind"][4] = None
    columns["größe"][:8] = [None] * 8
    ranking = detect(FRAMES[kind](columns), random_state=0)
    ranked = as_lists(ranking.to_frame())
    assert any("a (1), größe (8), kind (1)" in sentence for sentence in ranking.summary.sentences())
    assert len(ranked["score"]) == 80 and sum(ranked["n_missing"]) == 10
    assert not any(score is None or np.isnan(score) for score in ranked["score"])
    assert "a missing (in 1.2 % of the rows)" in ranked["reasons"][ranked["row"].index(3)]
    assert "kind missing (in 1.2 % of the rows)" in ranked["reasons"][ranked["row"].index(4)]


@pytest.mark.parametrize("by", [None, "who"])
def test_values_deleted_in_odd_rows_alone_are_found(rng, by):
    frame = pd.DataFrame(rng.normal(size=(1000, 5)), columns=list("abcde")).assign(who=np.arange(1000) // 20)
    frame.loc[:19, "c"] = np.nan
    ranked = detect(frame, by, random_state=0).to_frame()
    if by:
        assert ranked["who"][0] == 0
    else:
        assert sorted(ranked["row"][:20]) == list(range(20)) and ranked["reasons"].str.contains("c missing")[:20].all()


def test_a_value_never_missing_or_never_seen_before_stands_first_and_says_so(rng):
    def day(n):
        numbers = {f"x{j}": rng.normal(size=n) for j in range(30)}
        return pd.DataFrame(numbers | {"status": 0, "new": False, "country": rng.choice(["DE", "FR", "IT"], n)})

    model = fit(day(1000), random_state=0)
    for n in (100, 3000):
        new = day(n)
        new.loc[3, "x5"], new.loc[4, "status"], new.loc[5, "new"], new.loc[6, "country"] = np.nan, 1, True, "XX"
        with pytest.warns(UserWarning, match="never") as caught:
            ranked = model.score(new, fdr=0.1).to_frame()
        assert any("x5: 1 value is missing, never before" in str(one.message) for one in caught)
        assert set(ranked["row"][:4]) == {3, 4, 5, 6} and ranked["flagged"][:4].all()
        reasons = ranked.set_index("row")["reasons"]
        assert reasons[3] == "x5 missing, never before" and reasons[4] == "status 1, always 0 before"
        assert reasons[5] == "new true, always false before" and reasons[6] == "country never seen before"


@pytest.mark.parametrize("odd", [1, np.nan, "bad"])
def test_the_one_row_of_a_table_that_differs_where_all_others_are_equal_stands_first(rng, odd):
    """Also where it is not among the rows that scales are learned from."""
    frame = pd.DataFrame({f"x{j}": rng.normal(size=10_000) for j in range(9)})
    frame["status"] = ["ok" if odd == "bad" else 0] * 17 + [odd] + ["ok" if odd == "bad" else 0] * 9982
    first = detect(frame, random_state=0).to_frame().iloc[0]
    assert first["row"] == 17 and first["reasons"].startswith("status")


def test_the_note_names_the_texts_that_take_part(rng):
    frame = pd.DataFrame(
        {"a": rng.normal(size=200), "country": rng.choice(["DE", "FR"], 200), "who": np.arange(200) // 20}
    )
    for by in (None, "who"):
        assert any(": country." in note for note in detect(frame, by, n_estimators=5).summary.notes)


def test_a_file_with_another_share_of_gaps_gets_a_note_and_no_other(rng):
    def day(share):
        frame = pd.DataFrame({"a": rng.normal(size=1000), "b": rng.normal(size=1000)})
        return frame.assign(a=frame["a"].where(rng.random(1000) >= share))

    model = fit(day(0.1), random_state=0)
    assert not [one for one in model.score(day(0.1)).summary.columns if one.reason]
    with pytest.warns(UserWarning, match=r"a: 3\d % of the values are missing, \d+.* % before"):
        model.score(day(0.35))


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_dropped_stand_last_without_a_score(kind, columns):
    columns["a"][3] = None
    columns["größe"][5] = None
    ranked = as_lists(detect(FRAMES[kind](columns), missing="drop", random_state=0).to_frame())
    assert ranked["row"][-2:] == [3, 5] and ranked["rank"][-2:] == [79, 79]
    assert all(score is None or np.isnan(score) for score in ranked["score"][-2:])
    assert ranked["n_missing"][-2:] == [1, 1] and sum(ranked["n_missing"]) == 2
    assert not any(ranked["flagged"][-2:]) and ranked["row"][0] == 79
    del columns["kind"], columns["who"]
    remaining = {name: [value for i, value in enumerate(values) if i not in (3, 5)] for name, values in columns.items()}
    ranked = as_lists(detect(FRAMES[kind](columns), missing="drop", random_state=0).to_frame())
    assert ranked["score"][:78] == as_lists(detect(pd.DataFrame(remaining), random_state=0).to_frame())["score"]


def test_a_group_without_rows_left_stands_last(columns):
    frame = pd.DataFrame(columns)
    frame.loc[frame["who"] == "n2", "a"] = np.nan
    frame.loc[0, "a"] = np.nan
    ranked = detect(frame, "who", missing="drop", random_state=0).to_frame()
    assert ranked["who"].iloc[-1] == "n2" and ranked["n_points"].iloc[-1] == 0 and np.isnan(ranked["score"].iloc[-1])
    assert ranked.set_index("who")["n_missing"].to_dict() == {f"n{i}": {0: 1, 2: 10}.get(i, 0) for i in range(8)}


@pytest.mark.parametrize("kind", FRAMES)
def test_texts_take_part_by_their_squared_surprise(kind, columns):
    columns["kind"][7] = columns["kind"][8] = "odd"
    ranked = as_lists(detect(FRAMES[kind](columns), features=["a", "kind"], random_state=0).to_frame())
    counts = {text: columns["kind"].count(text) for text in columns["kind"]}
    surprise = [math.log2(counts[text] / 80) ** 2 for text in columns["kind"]]
    numbers = detect(pd.DataFrame({"a": columns["a"], "s": surprise}), random_state=0).to_frame()
    assert ranked["score"] == numbers["score"].tolist()
    assert ranked["reasons"][ranked["row"].index(7)].startswith("kind=odd (rare)")


def test_texts_of_groups_become_indicators(columns):
    ranked = detect(pd.DataFrame(columns), "who", features=["a", "kind"], random_state=0).to_frame()
    numbers = pd.DataFrame({name: columns[name] for name in ("a", "who")})
    for text in "xy":
        numbers[text] = [float(one == text) for one in columns["kind"]]
    assert ranked["score"].tolist() == detect(numbers, "who", random_state=0).to_frame()["score"].tolist()


@pytest.mark.parametrize("n_columns", [1, 30])
def test_a_rare_text_is_found_and_many_columns_of_texts_do_not_drown_numbers(rng, n_columns):
    frame = pd.DataFrame(rng.normal(size=(1000, 8)), columns=list("abcdefgh"))
    frame.loc[:9, ["a", "b"]] = 5.0
    for j in range(n_columns):
        frame[f"t{j}"] = rng.choice([f"v{k}" for k in range(20)], 1000, p=np.arange(20, 0, -1) / 210)
    frame.loc[50, "t0"] = "new"
    ranking = detect(frame, random_state=0)
    ranked = ranking.to_frame()
    assert set(range(10)) <= set(ranked["row"][:25]) and 50 in set(ranked["row"][: 25 if n_columns == 1 else 150])
    assert n_columns > 1 or "t0=new (rare)" in ranked.set_index("row")["reasons"][50]
    assert any("t0" in sentence for sentence in ranking.summary.sentences())


def test_many_different_texts_are_no_categories(columns, rng):
    frame = pd.DataFrame(columns).assign(name=[f"name {i}" for i in range(80)])
    with pytest.raises(ValueError, match="'name', which cannot be used: text, all 80 values different"):
        detect(frame, features=["a", "name"]).to_frame()
    alone = detect(pd.DataFrame(columns), random_state=0).to_frame()
    assert np.array_equal(detect(frame, random_state=0).to_frame()["score"], alone["score"])


def test_true_and_false_are_one_and_zero(rng):
    frame = pd.DataFrame({"a": rng.normal(size=30), "is": rng.random(30) < 0.2})
    numbers = frame.assign(**{"is": frame["is"].astype(float)})
    expected = detect(numbers, random_state=0).to_frame()["score"]
    assert np.array_equal(detect(frame, features=["a", "is"], random_state=0).to_frame()["score"], expected)
    assert np.array_equal(detect(frame, random_state=0).to_frame()["score"], expected)


def test_times_are_used_if_asked_for(columns):
    frame = pd.DataFrame(columns).assign(at=pd.date_range("2024-01-01", periods=80, freq="7h"))
    ranked = detect(frame, features=["a", "at"], random_state=0).to_frame()
    assert len(ranked) == 80 and any("at 2024-" in reason for reason in ranked["reasons"])


def test_whole_numbers_beyond_floats_stop(columns):
    frame = pd.DataFrame(columns)[["a"]].assign(number=10**18 + np.arange(80) % 7)
    for table in (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame)):
        with pytest.raises(ValueError, match=r"number: row \d+ has 10\d+, a whole number beyond 2\^53"):
            detect(table, random_state=0).to_frame()


GOOD = pd.DataFrame({"a": [1.0, 2.0, 4.0, 8.0], "t": list("wxyz"), "when": pd.Timestamp("2024-01-01")})
DOUBLE = pd.DataFrame([[1.0, 2.0]] * 4, columns=["a", "a"])
BROKEN = {
    "no numbers": (GOOD[["t"]], {}, "No column is left to use"),
    "things": (GOOD.assign(d=[(1,), (2,), (3,), (4,)]), {"features": ["d"]}, "'d', which cannot be used"),
    "two columns of one name": (DOUBLE, {}, "a"),
    "an unknown column": (GOOD, {"features": ["b"]}, "features= has 'b'; the table has no such column"),
    "a column twice": (GOOD, {"features": ["a", "a"]}, "features= has 'a' twice"),
    "no features": (GOOD, {"features": []}, "features= names no column"),
    "no rows": (GOOD[:0], {}, "has no rows"),
    "one row": (GOOD[:1], {}, "X has 1 row; need at least 2"),
    "infinity": (GOOD.assign(a=[1, np.inf, 2, 3]), {}, "a: 3 of 4 cells are numbers; row 1 has"),
    "a huge number": (GOOD.assign(a=[1, 2, -1e200, 3]), {}, "a: a number beyond .*, too large to square"),
    "an unknown way": (GOOD, {"missing": "zero"}, "missing='zero'; choose one of 'auto', 'error', 'drop'"),
    "an unknown way with cells": (GOOD, {"bad_cells": "zero"}, "bad_cells='zero'; choose one of"),
    "an unknown id": (GOOD, {"id_column": "nobody"}, "id_column='nobody'; the table has no such column"),
    "no values": (GOOD.assign(a=np.nan), {"missing": "error"}, "a: all 4 cells are missing"),
    "an id called as a result": (
        GOOD.rename(columns={"t": "score"}),
        {"id_column": "score"},
        "'score' is a column of the result",
    ),
    "a bad cell": (GOOD.assign(a=[1, "!", 2, 3]), {}, "a: 3 of 4 cells are numbers; row 1 has '!'. Pass bad_cells="),
    "a vector": (np.ones(3), {}, r"The array has shape \(3,\)"),
    "a list": ([1, 2], {}, "type list; need a frame"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_named_in_one_sentence(name):
    frame, options, message = BROKEN[name]
    with pytest.raises((ValueError, TypeError)) as error:
        detect(frame, **options).to_frame()
    assert re.search(message, str(error.value)), error.value
    assert "\n" not in str(error.value)


def test_groups_need_a_column_of_labels(columns):
    frame = pd.DataFrame(columns)
    with pytest.raises(ValueError, match="by='nobody'; the table has no such column"):
        detect(frame, "nobody").to_frame()
    with pytest.raises(ValueError, match="has 'who', the column of labels"):
        detect(frame, "who", features=["a", "who"]).to_frame()
    unlabelled = frame.assign(who=[None] + ["x", "y"] * 39 + ["z"])
    with pytest.raises(ValueError, match="who: row 0 has no label, one of 1 such rows of 80; pass missing='drop'"):
        detect(unlabelled, "who").to_frame()
    with pytest.warns(UserWarning, match="1 of 80 rows have no group label"):
        assert detect(unlabelled, "who", missing="drop", random_state=0).to_frame()["n_points"].sum() == 79
    with pytest.raises(ValueError, match="No group has 50 or more rows; the largest has 10"):
        detect(frame, "who", min_size=50).to_frame()


def test_constant_columns_and_equal_rows_are_no_trouble():
    frame = pd.DataFrame({"a": [1.0] * 20, "b": [5.0] * 20})
    ranked = detect(frame, random_state=0).to_frame()
    assert ranked["row"].tolist() == list(range(20)) and not ranked["flagged"].any()
    assert (ranked["rank_share"] == 1).all() and (ranked["rank"] == 1).all()


def test_one_row_far_out_in_one_column_has_that_reason(rng):
    X = rng.normal(size=(300, 4))
    X[7, 2] = -30
    ranked = detect(pd.DataFrame(X, columns=list("abcd")), random_state=0).to_frame()
    assert ranked["row"].iloc[0] == 7 and ranked["reasons"].iloc[0].startswith("c -30 (low, usually ")


def test_a_text_in_a_third_of_the_rows_is_not_called_rare(columns):
    frame = pd.DataFrame(columns)[["a"]].assign(kind=(["x", "y", "z"] * 27)[:80])
    reasons = detect(frame, features=["a", "kind"], random_state=0).to_frame()["reasons"]
    assert not reasons.str.contains("rare").any()


def test_numbers_are_written_as_people_do():
    shown = [number_in_words(value) for value in (1240.0, 3.0, 0.00312345, -12345.6, 1e20)]
    assert shown == ["1,240", "3", "0.00312", "-12,345.6", "1e+20"]


def test_sparse_rows_are_the_dense_ones_bit_for_bit(rng):
    X = rng.normal(size=(200, 30)) * (rng.random((200, 30)) < 0.1)
    dense, sparse = (IDKPointDetector(random_state=0).fit(one) for one in (X, csr_array(X)))
    assert np.array_equal(sparse.score_samples(csr_array(X)), dense.score_samples(X))
    assert sparse.offset_ == dense.offset_


def test_a_default_one_hot_encoder_goes_before_the_detector(columns):
    frame = pd.DataFrame(columns)
    frame["many"] = [f"m{i}" for i in range(80)]
    encode = make_column_transformer((OneHotEncoder(), ["kind", "many"]), sparse_threshold=1.0)
    actual = make_pipeline(encode, IDKPointDetector(random_state=0)).fit(frame).score_samples(frame)
    assert actual.shape == (80,)


@pytest.mark.parametrize("fdr", [0.01, 0.1, 0.5])
def test_discoveries_are_those_of_benjamini_and_hochberg(rng, fdr):
    from scipy.stats import false_discovery_control

    for p_values in (rng.random(50), rng.random(50) ** 6, np.round(rng.random(40) ** 4, 2), np.ones(5), np.empty(0)):
        expected = false_discovery_control(p_values) <= fdr if len(p_values) else np.empty(0, dtype=bool)
        assert np.array_equal(discoveries(p_values, fdr) == -1, expected)


def test_a_number_is_not_rounded_to_one_that_is_whole():
    shown = {9999.99: "9,999.99", 0.99996: "0.99996", 83.004: "83.004", 1240.43: "1,240.4", 1240.0: "1,240"}
    assert {value: number_in_words(value) for value in shown} == shown


def test_reasons_of_a_group_are_its_own_median_and_the_usual_one(rng):
    frame = pd.DataFrame({"hour": rng.normal(14, 3, 4_000), "who": np.repeat(np.arange(80), 50)})
    frame.loc[frame["who"] == 7, "hour"] -= 8
    frame.loc[frame["who"] == 9, "hour"] = 14 + (frame["hour"] - 14) / 20
    ranked = detect(frame, "who", features=["hour"], n_estimators=30, random_state=0).to_frame().set_index("who")
    median = frame["hour"][frame["who"] == 7].median()
    assert ranked["reasons"][7].startswith(f"hour low (median {number_in_words(median)}, usually 1")
    assert ranked["reasons"][9].startswith("hour narrower (middle half 1")


def test_reasons_of_a_row_name_values_between_which_nine_in_ten_lie(rng):
    frame = pd.DataFrame({"weight": rng.integers(68, 85, 300).astype(float), "height": rng.normal(size=300)})
    frame.loc[5, "weight"] = 150
    assert detect(frame, random_state=0).to_frame()["reasons"].iloc[0].startswith("weight 150 (high, usually 68 to 8")


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_ranks_do_not_depend_on_how_many_rows_are_asked_for_at_once(missing):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 3, (60, 2)).astype(float), columns=["a", "b"])  # many equal scores
    if missing == "drop":
        frame.loc[[5, 40], "a"] = np.nan
    ranking = detect(frame, missing=missing, n_estimators=8, random_state=0)
    scores = ranking.columns(0, 60)["score"]
    expected = [1 + np.count_nonzero(scores < score) for score in scores[: ranking.n_ranked]]
    expected += [ranking.n_ranked + 1] * (60 - ranking.n_ranked)
    assert len(set(expected)) < 20
    for n_rows in (1, 7, 59, 60):
        assert np.concatenate([part["rank"] for part in ranking.parts(n_rows)]).tolist() == expected
