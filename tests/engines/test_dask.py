"""isobag on Dask: the same scores as in memory, bit for bit, whatever the partitions and whoever works."""

import warnings
from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import isobag
from isobag.engines import dask as engine
from isobag.engines.dask import partitions as dask_partitions
from isobag.engines.dask.partitions import DaskPartitions

N_ROWS = 1_200
OPTIONS = {"n_estimators": 12, "random_state": 3}


@pytest.fixture(autouse=True)
def _few_partitions_at_a_time(monkeypatch):
    monkeypatch.setattr(dask_partitions, "WINDOW", 4)
    monkeypatch.setattr(dask_partitions, "FORGOTTEN", 2)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "account": rng.integers(0, 40, N_ROWS),
            "amount": np.concatenate([rng.normal(size=N_ROWS - 3), [9.0, 9.5, -9.0]]),
            "hour": rng.integers(0, 24, N_ROWS),
            "kind": np.array(["card", "cash", "wire"])[rng.integers(0, 3, N_ROWS)],
            "name": [f"row {i}" for i in range(N_ROWS)],
        }
    )


def parts_of(frame, cuts):
    """A Dask dataframe cut before some rows, which need not differ."""
    edges = [0, *cuts, len(frame)]
    pieces = [frame.iloc[a:b] for a, b in pairwise(edges)]
    return dd.from_map(lambda piece: piece, pieces, meta=frame.iloc[:0])


def random_cuts(n_partitions, seed=0):
    return np.sort(np.random.default_rng(seed).integers(0, N_ROWS, n_partitions - 1)).tolist()


CUTS = {"one": [], "two": [700], "empty ones": [0, 5, 5, 600, N_ROWS], "nine": random_cuts(9)}


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("options", [{}, {"max_samples": 16}], ids=["auto", "16"])
def test_points_have_the_scores_of_the_rows_in_memory(frame, cuts, options):
    features = ["amount", "hour", "kind"]
    plain = isobag.detect_points(frame, features=features, id_column="name", **OPTIONS, **options).sort_values("row")
    found = engine.detect_points(
        parts_of(frame, cuts), features=features, id_column="name", **OPTIONS, **options
    ).compute()
    assert list(found.columns) == ["name", "row", "score", "flagged", "reasons"]
    for name in ("name", "row", "score", "flagged"):
        assert found[name].tolist() == plain[name].tolist()
    explained = found["reasons"] != ""
    assert 1_000 <= explained.sum() <= 1_010
    assert found["reasons"][explained].tolist() == [
        own or other
        for own, other in zip(plain["reasons"][explained.to_numpy()], found["reasons"][explained], strict=True)
    ]
    oddest = found.nsmallest(3, "score")["reasons"].tolist()
    assert oddest == plain.nsmallest(3, "score")["reasons"].tolist()


def test_rows_with_gaps_have_no_score_and_keep_their_place(frame):
    frame.loc[100:110, "amount"] = np.nan
    plain = isobag.detect_points(frame, features=["amount", "hour"], missing="drop", **OPTIONS).sort_values("row")
    found = engine.detect_points(parts_of(frame, CUTS["nine"]), features=["amount", "hour"], missing="drop", **OPTIONS)
    np.testing.assert_array_equal(found["score"].compute(), plain["score"])
    np.testing.assert_array_equal(found["flagged"].compute(), plain["flagged"])


@pytest.mark.parametrize("n_chunks", [1, 9])
def test_an_array_is_a_frame_of_its_columns(n_chunks):
    X = np.random.default_rng(0).normal(size=(900, 3))
    plain = isobag.detect_points(X, **OPTIONS).to_pandas().sort_values("row")
    found = engine.detect_points(da.from_array(X, chunks=(-(-900 // n_chunks), 2)), **OPTIONS).compute()
    assert found["score"].tolist() == plain["score"].tolist()


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("options", [{}, {"max_samples": 8, "group_max_samples": 8}], ids=["auto", "8"])
def test_groups_have_the_ranks_of_the_groups_in_memory(frame, cuts, options):
    asked = {"features": ["amount", "hour"], **OPTIONS, **options}
    plain = isobag.detect_groups(frame, "account", **asked)
    found = engine.detect_groups(parts_of(frame, cuts), "account", **asked).compute()
    pd.testing.assert_frame_equal(found, plain, check_dtype=False, check_exact=True)


def test_small_groups_and_groups_without_rows_left_stand_last(frame):
    frame.loc[frame["account"] == 7, "amount"] = np.nan
    frame.loc[3, "amount"] = np.nan
    frame["account"] = frame["account"].astype(float)
    frame.loc[50:52, "account"] = np.nan
    asked = {"features": ["amount", "hour"], "missing": "drop", "min_size": 28, **OPTIONS}
    with pytest.warns(UserWarning, match=r"3 of 1,200 rows are left out: they have no label of a group"):
        plain = isobag.detect_groups(frame, ["account"], **asked)
    with pytest.warns(UserWarning, match=r"3 of 1,200 rows are left out: they have no label of a group"):
        found = engine.detect_groups(parts_of(frame, CUTS["nine"]), ["account"], **asked).compute()
    assert plain["score"].isna().sum() > 1
    pd.testing.assert_frame_equal(found, plain, check_dtype=False, check_exact=True)
    with pytest.raises(ValueError, match=r"account: row \d+ of partition \d+ has no label"):
        engine.detect_groups(parts_of(frame, CUTS["nine"]), "account", features=["hour"])


def test_several_columns_make_a_label(frame):
    plain = isobag.detect_groups(frame, ["kind", "account"], features=["amount", "hour"], **OPTIONS)
    found = engine.detect_groups(
        parts_of(frame, CUTS["nine"]), ["kind", "account"], features=["amount", "hour"], **OPTIONS
    ).compute()
    pd.testing.assert_frame_equal(found, plain, check_dtype=False, check_exact=True)


def test_a_model_is_saved_loaded_and_scores_new_rows(frame, tmp_path):
    features = ["amount", "hour", "kind"]
    model = engine.fit(parts_of(frame, CUTS["nine"]), features=features, **OPTIONS)
    isobag.save(model, tmp_path / "model.isobag")
    loaded = isobag.load(tmp_path / "model.isobag")
    found = engine.score(loaded, parts_of(frame[:500], [100, 100, 300]), id_column="name").compute()
    assert list(found.columns) == ["name", "row", "score", "p_value", "extrapolated", "flagged"]
    again = engine.score(loaded, parts_of(frame[:500], [])).compute()
    assert again["score"].tolist() == found["score"].tolist()
    assert found["p_value"].between(0, 1).all()
    plain = isobag.IDKPointDetector(**OPTIONS).fit(_encoded(frame))
    assert found["p_value"].tolist() == plain.p_values(_encoded(frame)[:500]).tolist()


def _encoded(frame):
    from reading import read_table

    from isobag.tables.detect import open_frame
    from isobag.tables.framesource import FrameSource

    rows = read_table(FrameSource(open_frame(frame)), features=["amount", "hour", "kind"]).rows
    return pd.DataFrame(rows.whole, columns=rows.names)


def test_a_model_of_groups_scores_new_groups(frame):
    model = engine.fit(parts_of(frame, CUTS["nine"]), by="account", features=["amount", "hour"], **OPTIONS)
    new = frame[frame["account"] < 10]
    found = engine.score(model, parts_of(new, [3, 90]), by="account").compute().sort_values("account")
    plain = isobag.IDKGroupDetector(**OPTIONS).fit(frame[["amount", "hour"]], groups=frame["account"])
    p_values = dict(
        zip(dict.fromkeys(new["account"]), plain.p_values(new[["amount", "hour"]], groups=new["account"]), strict=True)
    )
    assert found["p_value"].tolist() == [p_values[account] for account in found["account"]]
    with pytest.raises(ValueError, match="by="):
        engine.score(model, parts_of(new, []))


def test_objects_are_read_alike_in_every_partition(frame):
    mixed = frame["amount"].astype(object)
    mixed[200:400] = [str(value) for value in mixed[200:400]]
    frame["amount"] = mixed
    plain = isobag.detect_points(frame, features=["amount", "hour"], **OPTIONS).sort_values("row")
    with dask_config({"dataframe.convert-string": False}):
        found = engine.detect_points(parts_of(frame, [200, 400]), features=["amount", "hour"], **OPTIONS).compute()
        model = engine.fit(parts_of(frame, [200, 400]), features=["amount", "hour"], **OPTIONS)
        scored = engine.score(model, parts_of(frame, [200, 400]), p_values=False).compute()
    assert found["score"].tolist() == scored["score"].tolist() == plain["score"].tolist()


def dask_config(settings):
    import dask

    return dask.config.set(settings)


def test_partitions_that_come_of_each_other_are_dealt_with_at_once(frame):
    shuffled = parts_of(frame, random_cuts(12)).shuffle("account")
    partitions = DaskPartitions(shuffled)
    assert [len(window) for window in partitions._cut(np.arange(partitions.n_partitions))] == [12]
    plain = DaskPartitions(parts_of(frame, random_cuts(12)))
    assert [len(window) for window in plain._cut(np.arange(12))] == [4, 4, 4]


def test_results_merge_in_order():
    table = parts_of(pd.DataFrame({"a": np.arange(N_ROWS)}), random_cuts(37))
    partitions = DaskPartitions(table)
    numbers = partitions.run(lambda p, frames: [p], lambda a, b: a + b)
    assert numbers == list(range(37))
    assert partitions.run(lambda p, frames: [p], lambda a, b: a + b, np.array([3, 11, 12, 30])) == [3, 11, 12, 30]
    found = partitions.exchange(
        lambda p, frames: {p % 5: [p], 7: [-p]}, lambda a, b: a + b, lambda b, got: [(b, got)], lambda a, b: a + b
    )
    assert found == [(b, list(range(b, 37, 5))) for b in range(5)] + [(7, [-p for p in range(37)])]


def test_what_is_no_dask_collection_is_refused(frame):
    with pytest.raises(TypeError, match="of type DataFrame; need a Dask dataframe"):
        engine.detect_points(frame)
    with pytest.raises(ValueError, match=r"has shape \("):
        engine.detect_points(da.zeros((4, 4, 4)))
    with pytest.raises(ValueError, match="no such column"):
        engine.detect_points(parts_of(frame, []), features=["nothing"])
    with pytest.raises(ValueError, match="The result has a column 'score'"):
        engine.detect_points(parts_of(frame.rename(columns={"name": "score"}), []), id_column="score")


def test_an_error_names_partition_row_and_column(frame):
    frame.loc[700, "amount"] = np.nan
    with pytest.raises(ValueError, match="row 100 of partition 1, column 'amount'"):
        engine.detect_points(parts_of(frame, [600]), features=["amount", "hour"], missing="error")


def test_labels_of_two_types_are_refused_where_one_group_would_become_two():
    def make(number):
        labels = pd.Series([1, 2, 1, 2])
        return pd.DataFrame({"x": np.arange(4.0) + number, "who": labels.astype(str) if number == 2 else labels})

    table = dd.from_map(make, range(4), meta=make(0)[:0])
    with pytest.raises(ValueError, match=r"partition 2, column 'who' is of type .*string, but partition \d, .* int64"):
        engine.detect_groups(table, "who", features=["x"])
    whole = dd.from_map(
        lambda number: make(number % 2).astype({"who": float} if number else {}), range(4), meta=make(0)[:0]
    )
    assert len(engine.detect_groups(whole, "who", features=["x"], random_state=0)) == 2


def test_columns_that_were_left_out_are_warned_of(frame):
    frame["account_id"] = np.arange(N_ROWS)
    with pytest.warns(UserWarning, match=r"Left out: .*'account_id' \(an identifier by its name\)"):
        engine.fit(parts_of(frame, [600]), **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.fit(parts_of(frame, [600]), features=["amount"], **OPTIONS)
