"""Frames of Dask in threads: what is learned is learned from a sample, and scores are those of a frame in memory."""

import warnings
from functools import partial

import cloudpickle
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import isobag
from isobag.engines import partitions_of
from isobag.tables.clusters import learn_partitions
from isobag.tables.reading import ReadOptions

HOW = {"features": ["amount", "hour", "kind", "ok"], "n_estimators": 12, "random_state": 0}


def cut(frame, n_partitions):
    return dd.from_pandas(frame, npartitions=n_partitions, sort=False)


def no_rows(number):
    return pd.DataFrame({"amount": [], "hour": [], "kind": [], "ok": []})


def in_order(ranked):
    return ranked.sort_values("row").reset_index(drop=True)


@pytest.mark.parametrize("n_partitions", [1, 3, 17])
def test_rows_learned_from_and_new_rows_score_as_in_memory(cards, n_partitions):
    frame = cut(cards.set_index(np.arange(len(cards)) * 3), n_partitions)
    ranked, expected = (
        isobag.detect(frame, **HOW).to_frame().compute(),
        in_order(isobag.detect(cards, **HOW).to_frame()),
    )
    assert ranked.index.tolist() == [3 * i for i in range(len(cards))]
    assert ranked[cards.columns].astype(object).equals(cards.set_index(ranked.index).astype(object))
    for name in ("score", "flagged"):
        assert ranked[name].tolist() == expected[name].tolist()
    scores = np.sort(expected["score"])
    far_below = 1 + np.searchsorted(scores, expected["score"] * (1 - 2.0**-12))  # those within a step share a rank
    assert (far_below <= ranked["rank"].to_numpy()).all() and (ranked["rank"].to_numpy() <= expected["rank"]).all()
    assert ranked["rank"].iloc[7] == 1
    odd = expected["reasons"] != ""
    assert (ranked["reasons"].to_numpy() == expected["reasons"])[odd & (ranked["reasons"].to_numpy() != "")].all()
    assert ranked["reasons"].iloc[7].startswith("amount 900")

    model = isobag.fit(cards[:2000], **HOW)
    scored, expected = model.score(frame).to_frame().compute(), in_order(model.score(cards).to_frame())
    for name in ("score", "p_value", "extrapolated", "flagged"):
        assert scored[name].tolist() == expected[name].tolist()


def test_rows_are_flagged_at_a_false_discovery_rate_as_in_memory(cards):
    rng = np.random.default_rng(1)
    model = isobag.fit(cards, **HOW)
    new = cards[:2000].copy()
    new.loc[rng.choice(2000, 40, replace=False), "amount"] = rng.uniform(2000, 9000, 40)
    expected = in_order(model.score(new, fdr=0.2).to_frame())
    flagged = model.score(cut(new, 3), fdr=0.2).to_frame().compute()["flagged"].tolist()
    assert flagged == expected["flagged"].tolist() and sum(flagged) >= 40
    assert not model.score(cut(cards[100:200], 3), fdr=0.001).to_frame().compute()["flagged"].any()


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_the_same_partitions_give_the_same_sample(cards, scheduler):
    options = ReadOptions(features=("amount", "hour"))
    with dask.config.set(scheduler=scheduler):
        first, again, other = (
            learn_partitions(partitions_of(cut(cards, 5)), options, seed, 200).X for seed in (3, 3, 4)
        )
    assert len(first) == 200 and (first == again).all() and not np.array_equal(first, other)
    rows_of_table = set(map(tuple, cards[["amount", "hour"]].to_numpy(float).tolist()))
    assert set(map(tuple, first.tolist())) <= rows_of_table


@pytest.mark.parametrize("n_partitions", [1, 5])
def test_a_sample_of_the_rows_makes_the_model_that_a_frame_in_memory_makes(cards, n_partitions):
    how = {"features": ["amount", "hour", "ok"], "n_estimators": 12, "random_state": 0, "options": {"max_rows": 1000}}
    frame = cut(cards, n_partitions)
    ranked, expected = (
        isobag.detect(frame, **how).to_frame().compute(),
        in_order(isobag.detect(cards, **how).to_frame()),
    )
    assert ranked["score"].tolist() == expected["score"].tolist()
    here, there = (isobag.fit(own, **how) for own in (cards, frame))
    assert there.score(cards).to_frame()["p_value"].tolist() == here.score(cards).to_frame()["p_value"].tolist()
    assert not hasattr(there.detector, "scores_")


def test_facts_are_of_all_rows_though_a_sample_is_learned_from(cards):
    rare = cards.copy()
    rare.loc[2990, "kind"], rare.loc[2995, "hour"] = "cheque", np.nan
    rare["constant"] = 4.0
    rare.loc[2999, "constant"] = 5.0
    rare["number"] = np.arange(len(rare))
    options = ReadOptions(features=("amount", "hour", "kind", "constant"))
    table = learn_partitions(partitions_of(cut(rare, 5)), options, 1, 100)
    summaries = {one.name: one for one in table.summary.columns}
    _, hour, kind, _ = table.encoding.columns
    assert table.n_rows == 3000 and len(table.rows) == 100
    assert summaries["hour"].n_missing == 1 and hour.ever_missing and kind.shares
    assert np.unique(table.X[:, table.encoding.names.index("constant")]).tolist() == [4.0]
    ranges = dict(zip(table.encoding.names, np.transpose(table.rows.extremes()).tolist(), strict=True))
    assert ranges["amount"] == [rare["amount"].min(), 900.0] and ranges["constant"] == [4.0, 5.0]
    chosen = learn_partitions(partitions_of(cut(rare, 5)), ReadOptions(), 1, 100)
    left_out = dict(chosen.encoding.left_out)
    assert "numbers the rows" in left_out["number"]


def test_more_texts_than_are_told_apart_are_those_of_the_sample(cards):
    many = cards.assign(kind=[f"k{i}" if i % 2 else "card" for i in range(len(cards))])
    many = pd.concat([many.assign(kind=many["kind"] + suffix) for suffix in ("", "b", "c", "d")])
    many.loc[many["kind"].str.startswith("card"), "kind"] = "card"
    with pytest.raises(ValueError, match="of them in one row alone"):
        learn_partitions(partitions_of(cut(many, 3)), ReadOptions(features=("kind",)), 0, 1000)


def test_what_is_wrong_is_named_with_partition_and_row(cards):
    halves = [cards[:1500], cards[1500:]]

    def half(number):
        return halves[number]

    def frame(second):
        halves[1] = second
        return dd.from_map(half, [0, 1], meta=cards[:0])

    model = isobag.fit(cards, **HOW)
    texts = cards[1500:].assign(hour="noon")
    for verb in (partial(isobag.detect, **HOW), model.score):
        with pytest.raises(ValueError, match=r"partition 1, column 'hour' is of type .*string"):
            verb(frame(texts))
    with pytest.raises(ValueError, match="partition 1 has no column 'hour'"):
        isobag.detect(frame(cards[1500:].drop(columns="hour")), **HOW).to_frame()


@pytest.mark.parametrize("by", [None, "account"])
def test_what_a_model_has_not_seen_is_counted_and_named_with_partition_and_row(cards, by):
    model = isobag.fit(cards, by=by, **HOW)
    new = cards[:2000].copy()
    new.loc[[4, 1004, 1009], "kind"] = "cheque"
    new.loc[1007, "hour"] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scored = model.score(cut(new, 2)).to_frame()
    first, second = sorted(str(one.message) for one in caught)
    assert first == "hour: 1 value is missing, never before; the first is in row 7 of partition 1."
    assert second.startswith("kind: 3 texts are unknown to the model, ")
    assert second.endswith("row 4 of partition 0 has 'cheque'.")
    scored = scored.compute()
    assert scored["n_missing"].sum() == 1 and np.isfinite(scored["score"]).all()


def test_a_source_that_does_not_repeat_its_rows_is_said_to():
    rng = np.random.default_rng(0)

    def made(number):
        return pd.DataFrame({"x": rng.normal(size=100), "y": rng.normal(size=100)})

    with pytest.warns(UserWarning, match="partition 0 and 2 more had other rows when they were read again"):
        isobag.detect(dd.from_map(made, range(3), meta=made(0)[:0]), n_estimators=4, random_state=0).to_frame()


def test_what_a_cluster_cannot_do_is_refused(cards):
    frame = cut(cards, 2)
    with pytest.raises(ValueError, match="rename your column 'score'"):
        isobag.detect(frame.assign(score=1.0), **HOW).to_frame()
    with pytest.raises(ValueError, match="decimal=','"):
        isobag.detect(frame, decimal=",", **HOW).to_frame()
    with pytest.raises(ValueError, match="within='account'"):
        isobag.detect(frame, within="account", **HOW).to_frame()
    with pytest.raises(ValueError, match="keep='hour' needs all rows of a group in one place"):
        isobag.detect(frame, by="account", keep="hour", features=["amount"])
    for how in ({"within": "account"}, {"by": "kind", "time": "when", "sessions": "30m", "time_unit": "s"}):
        model = isobag.fit(cards.assign(when=1.0), features=["amount", "hour"], n_estimators=4, **how)
        with pytest.raises(ValueError, match="needs all rows of a label in one place"):
            model.score(frame.assign(when=1.0))
    with pytest.raises(AttributeError, match="to_frame"):
        isobag.detect(frame, **HOW).plot()
    with pytest.raises(ValueError, match="no rows"):
        isobag.detect(cut(cards[:0], 1), **HOW).to_frame()


def test_empty_partitions_and_rows_with_gaps_take_no_part(cards):
    gaps = cards.copy()
    gaps.loc[::10, "hour"] = np.nan
    parts = [cards[:0], gaps[:1000], gaps[1000:], cards[:0]]
    frame = dd.from_map(lambda number: parts[number], range(4), meta=cards[:0])
    ranked = isobag.detect(frame, missing="drop", **HOW).to_frame().compute()
    expected = in_order(isobag.detect(gaps, missing="drop", **HOW).to_frame())
    assert ranked["score"].isna().sum() == 300 and ranked["n_missing"].sum() == 300
    pd.testing.assert_series_equal(ranked["score"], expected["score"], check_index=False)


def test_the_model_is_in_the_graph_once_whatever_the_number_of_partitions(cards):
    model = isobag.fit(cards, **HOW)
    once = len(cloudpickle.dumps(model.detector))
    frame = dd.from_map(no_rows, range(40), meta=cards[:0])
    graph = dict(model.score(frame).to_frame().optimize().dask)
    assert once < sum(len(cloudpickle.dumps(task)) for task in graph.values()) < 2 * once


def by_label(ranked, by):
    """Groups of any ranking in order of their labels."""
    return ranked.assign(**{name: ranked[name].astype(str) for name in by}).sort_values(by).reset_index(drop=True)


GROUPED = {
    "account": {"by": "account", "features": ["amount", "hour", "kind"]},
    "two columns": {"by": ["account", "kind"], "features": ["amount", "hour"]},
    "periods": {"by": "kind", "time": "when", "every": "6h", "features": ["amount"]},
    "min_size": {"by": ["account", "hour"], "features": ["amount"], "min_size": 3},
}


@pytest.fixture(scope="module")
def dated(cards):
    """With times, and an account whose rows lie close together and are more than one parcel of rows."""
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(cards)) * 20, unit="min")
    large = cards.sample(2400, random_state=1).assign(account="large", amount=lambda frame: frame["amount"] / 50)
    return pd.concat([cards.assign(when=when)[:1500], large.assign(when=when[:2400]), cards.assign(when=when)[1500:]])


@pytest.mark.parametrize("asked", GROUPED)
@pytest.mark.parametrize("n_partitions", [1, 3, 17])
def test_groups_learned_from_and_new_groups_score_as_in_memory(dated, n_partitions, asked):
    how = GROUPED[asked] | {"n_estimators": 8, "random_state": 0}
    by = [how["by"]] if isinstance(how["by"], str) else how["by"]
    by = [*by, "period"] if "time" in how else by
    frame = cut(dated, n_partitions)
    ranked = by_label(isobag.detect(frame, **how).to_frame().compute(), by)
    expected = by_label(isobag.detect(dated, **how).to_frame(), by)
    for name in (*by, "n_points", "score", "flagged", "reasons"):
        assert ranked[name].fillna(-1).tolist() == expected[name].fillna(-1).tolist(), name
    if "time" in how or "min_size" in how:
        return
    here, there = (isobag.fit(own, **how) for own in (dated, frame))
    new = dated[200:3600]
    expected = by_label(here.score(new, fdr=0.2).to_frame(), by)
    for model in (here, there):
        scored = by_label(model.score(cut(new, n_partitions), fdr=0.2).to_frame().compute(), by)
        for name in ("n_points", "score", "p_value", "extrapolated", "p_shape", "p_size", "flagged"):
            assert scored[name].tolist() == expected[name].tolist(), name


def test_of_more_groups_than_are_learned_from_all_are_scored(rng):
    labels = np.repeat(np.arange(9000), 2)
    frame = pd.DataFrame({"who": rng.permutation(labels), "x": rng.normal(size=18000), "y": rng.normal(size=18000)})
    frame.loc[frame["who"] == 17, ["x", "y"]] = 9.0
    ranked = isobag.detect(cut(frame, 4), by="who", n_estimators=8, random_state=0).to_frame().compute()
    assert sorted(ranked["who"]) == list(range(9000)) and (ranked["n_points"] == 2).all()
    assert ranked.set_index("who")["rank"][17] == 1 and (ranked["reasons"] != "").sum() == 200
    model = isobag.fit(cut(frame, 4), by="who", n_estimators=8, random_state=0)
    assert len(model.detector.labels_) == 4096
    new = frame.assign(x=rng.normal(size=18000), y=rng.normal(size=18000))
    p_values = model.score(cut(new, 4)).to_frame().compute()["p_value"]
    assert 0.44 < (p_values <= 0.5).mean() < 0.53  # .474 from groups in memory


def test_labels_are_missing_or_of_two_types(cards):
    lost = cards.copy()
    lost.loc[[4, 1700], "account"] = None
    how = {"by": "account", "features": ["amount", "hour"], "n_estimators": 8, "random_state": 0}
    with pytest.raises(ValueError, match=r"account: row \d+ of partition \d has no label"):
        isobag.detect(cut(lost, 2), **how).to_frame()
    with pytest.warns(UserWarning, match="2 of 3,000 rows"):
        dropped = isobag.detect(cut(lost, 2), missing="drop", **how).to_frame().compute()
    with pytest.warns(UserWarning, match="2 of 3,000 rows"):
        expected = isobag.detect(lost, missing="drop", **how).to_frame()
    assert by_label(dropped, ["account"])["score"].tolist() == by_label(expected, ["account"])["score"].tolist()
    halves = [cards[:1500].assign(account=1.5), cards[1500:]]
    mixed = dd.from_map(lambda number: halves[number], [0, 1], meta=cards[:0])
    with pytest.raises(ValueError, match=r"column 'account' is of type .* need one type"):
        isobag.detect(mixed, **how).to_frame()
    with pytest.raises(ValueError, match="No group has 500 or more rows"):
        isobag.detect(cut(cards, 2), min_size=500, **how).to_frame()
    with pytest.raises(ValueError, match="sessions='30m'"):
        isobag.detect(cut(cards.assign(when=1.0), 2), time="when", sessions="30m", time_unit="s", **how).to_frame()
