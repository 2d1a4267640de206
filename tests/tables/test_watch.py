"""``watch``: logs as they come, judged period by period."""

import warnings
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import isobag
from isobag.tables.times import moment_of, moments_of_clocks, read_moments

LAST = "2026-02-09"
RESULT = ["period", "n_points", "score", "p_value", "p_past", "p_peers", "p_volume", "kind", "flagged", "reasons"]


def make_log(n_shops=25, n_days=40, seed=0):
    """Shops with about 20 rows a day; on the last day shop 3 is silent and amounts of shop 7 are higher by 4."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(20, size=(n_shops, n_days))
    counts[3, -1] = 0
    shop, day = (np.repeat(one.ravel(), counts.ravel()) for one in np.indices(counts.shape))
    amount = rng.normal(shop % 4, 1.0) + 4.0 * ((shop == 7) & (day == n_days - 1))
    seconds = day * 86400 + rng.integers(0, 86400, size=len(day))
    ts = np.datetime64("2026-01-01T00:00:00") + seconds.astype("timedelta64[s]")
    return pd.DataFrame({"shop": shop, "ts": ts, "amount": amount, "hour": rng.normal(size=len(day))})


@pytest.fixture(scope="module")
def log():
    return make_log()


@pytest.fixture(scope="module")
def lines(log):
    return isobag.watch(log, by="shop", time="ts", since=LAST)


def test_a_line_for_each_entity_and_period_also_of_the_silent(lines):
    assert list(lines.columns) == ["shop", *RESULT]
    assert sorted(lines["shop"]) == list(range(25))
    assert (lines["period"] == pd.Timestamp(LAST)).all()
    flagged = lines[lines["flagged"]].set_index("shop")
    assert set(flagged.index) == {3, 7}
    assert flagged.loc[3, "kind"] == "silent" and flagged.loc[3, "n_points"] == 0
    assert "unlike its past" in flagged.loc[7, "kind"] and "amount" in flagged.loc[7, "reasons"]
    assert (lines.loc[~lines["flagged"], "reasons"] == "").all()


def test_lines_are_sorted_by_period_and_then_the_oddest_come_first(log):
    lines = isobag.watch(log, by="shop", time="ts", since="2026-02-05")
    assert lines["period"].is_monotonic_increasing and lines["period"].nunique() == 5
    for _, day in lines.groupby("period"):
        assert day["score"].is_monotonic_increasing
    assert set(lines[lines["period"] == pd.Timestamp(LAST)]["shop"].head(2)) == {3, 7}
    assert (lines["p_value"].to_numpy()[np.argsort(lines["score"])][0]) == lines["p_value"].min()


def same(one, other):
    pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True), check_dtype=False)


def test_frames_of_any_library_in_any_order_give_the_same_lines(log, lines):
    shuffled = log.sample(frac=1.0, random_state=1)
    same(isobag.watch(shuffled, by="shop", time="ts", since=LAST), lines)
    of_polars = isobag.watch(pl.from_pandas(log), by="shop", time="ts", since=LAST)
    assert isinstance(of_polars, pl.DataFrame) and of_polars.schema["period"] == pl.Datetime("us")
    same(of_polars.to_pandas(), lines)
    of_lazy = isobag.watch(pl.from_pandas(log).lazy(), by="shop", time="ts", since=LAST)
    assert isinstance(of_lazy, pl.DataFrame)
    of_arrow = isobag.watch(pa.Table.from_pandas(log, preserve_index=False), by="shop", time="ts", since=LAST)
    assert isinstance(of_arrow, pa.Table) and of_arrow.schema.field("shop").type == pa.int64()
    same(of_arrow.to_pandas(), lines)


@pytest.mark.parametrize(
    "write",
    [
        lambda ts: ts.dt.strftime("%Y-%m-%d %H:%M:%S"),
        lambda ts: ts.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        lambda ts: ts.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        lambda ts: ts.dt.tz_localize("UTC").astype(object),
        lambda ts: ts.astype("datetime64[ns]"),
    ],
    ids=["text", "text with zone", "zone", "objects", "nanoseconds"],
)
def test_times_may_be_written_in_many_ways(log, lines, write):
    same(isobag.watch(log.assign(ts=write(log["ts"])), by="shop", time="ts", since=LAST), lines)


def test_numbers_are_times_once_their_unit_is_named(log, lines):
    seconds = log.assign(ts=log["ts"].astype("datetime64[s]").astype("int64"))
    same(isobag.watch(seconds, by="shop", time="ts", since=LAST, time_unit="s"), lines)
    millis = seconds.assign(ts=seconds["ts"] * 1000)
    same(isobag.watch(millis, by="shop", time="ts", since=LAST, time_unit="ms"), lines)
    with pytest.raises(ValueError, match=r"ts: the times are numbers; .*time_unit='ms': \d+ would be 2026-"):
        isobag.watch(millis, by="shop", time="ts")
    with pytest.raises(ValueError, match=r"is not a time with time_unit='s'"):
        isobag.watch(millis.assign(ts=millis["ts"] * 10**6), by="shop", time="ts", time_unit="s")
    with pytest.raises(ValueError, match=r"time_unit='h'; choose one of None, 's'"):
        isobag.watch(millis, by="shop", time="ts", time_unit="h")


def test_dates_are_days(log, lines):
    got = isobag.watch(log.assign(ts=log["ts"].dt.date), by="shop", time="ts", since=date(2026, 2, 9))
    same_counts(got, lines)


def same_counts(one, other):
    """Other moments of the rows draw other partitionings, so that scores differ a little."""
    names = ["shop", "period", "n_points", "p_volume", "flagged"]
    same(one[names].sort_values("shop"), other[names].sort_values("shop"))


def test_labels_keep_their_type_and_several_columns_make_one(log, lines):
    named = log.assign(shop=pd.Categorical("s" + log["shop"].astype(str)))
    got = isobag.watch(named, by="shop", time="ts", since=LAST)
    assert got["shop"].dtype == named["shop"].dtype
    assert set(got[got["flagged"]]["shop"]) == {"s3", "s7"}
    parts = log.assign(country=log["shop"] % 5, branch="b" + (log["shop"] // 5).astype(str))
    got = isobag.watch(parts, by=["country", "branch"], time="ts", since=LAST, exclude="shop")
    assert list(got.columns) == ["country", "branch", *RESULT]
    assert {(3, "b0"), (2, "b1")} == set(got[got["flagged"]][["country", "branch"]].itertuples(index=False, name=None))


def test_missing_labels_and_times_are_an_error_that_says_how_many(log):
    without = log.copy()
    without["shop"] = without["shop"].astype(object)
    without.loc[[5, 9], "shop"] = None
    with pytest.raises(ValueError, match="shop: row 5 has no label, one of 2 such rows"):
        isobag.watch(without, by="shop", time="ts")
    late = log.copy()
    late.loc[[4, 6, 8], "ts"] = pd.NaT
    with pytest.raises(ValueError, match=r"ts: row 4 has no time, one of 3 such rows of [\d,]+; pass missing='drop'"):
        isobag.watch(late, by="shop", time="ts")
    with pytest.warns(UserWarning, match="3 of .* rows are left out: they have no time"):
        got = isobag.watch(late, by="shop", time="ts", since=LAST, missing="drop")
    same(got, isobag.watch(log.drop(index=[4, 6, 8]), by="shop", time="ts", since=LAST))
    with pytest.raises(ValueError, match="row 1 has 'yesterday', which is not a time"):
        isobag.watch(log.assign(ts=["2026-01-01", "yesterday"] + ["2026-01-01"] * (len(log) - 2)), by="shop", time="ts")


def test_texts_and_money_become_features_by_the_same_reader(log):
    rng = np.random.default_rng(3)
    is_odd = (log["shop"] == 11) & (log["ts"] >= LAST)
    way = np.where(is_odd, "cash", rng.choice(["card", "cash", "online"], p=[0.6, 0.1, 0.3], size=len(log)))
    bought = log.assign(way=way, amount="$ " + log["amount"].round(2).astype(str))
    got = isobag.watch(bought, by="shop", time="ts", since=LAST, features=["way", "amount"], numbers="relaxed")
    assert set(got[got["flagged"]]["shop"]) == {3, 7, 11}
    assert "way=" in got.set_index("shop").loc[11, "reasons"]
    with pytest.warns(UserWarning, match=r"Left out: 'way' \(text"):
        isobag.watch(log.assign(way=way), by="shop", time="ts", since=LAST)


def test_days_are_those_of_the_time_zone(log, lines):
    shifted = isobag.watch(log, by="shop", time="ts", time_zone="America/New_York", since="2026-02-09")
    assert (shifted["period"] == pd.Timestamp(LAST)).all()
    same_counts(shifted, lines)  # times without a zone are those of its clocks
    zoned = log.assign(ts=log["ts"].dt.tz_localize("UTC"))
    got = isobag.watch(zoned, by="shop", time="ts", time_zone="America/New_York", since="2026-02-08")
    in_new_york = zoned["ts"].dt.tz_convert("America/New_York").dt.tz_localize(None).dt.floor("D")
    n_points = zoned.groupby(["shop", in_new_york]).size()
    for line in got[got["n_points"] > 0].itertuples():
        assert line.n_points == n_points[line.shop, line.period]


def test_an_hour_that_clocks_leave_out_or_show_twice():
    shown = np.array(["2026-03-29T01:59", "2026-03-29T02:30", "2026-03-29T03:00", "2026-10-25T02:30"], "datetime64[us]")
    moments = moments_of_clocks(shown.view(np.int64), "Europe/Berlin").view("datetime64[us]")
    expected = ["2026-03-29T00:59", "2026-03-29T01:30", "2026-03-29T01:00", "2026-10-25T00:30"]
    assert (moments == np.array(expected, "datetime64[us]")).all()
    of_text = read_moments(pa.array(["2026-07-01 12:00", "2026-07-01T12:00:00+00:00"]), "ts", None, "Europe/Berlin")
    assert np.diff(of_text.values) == 2 * 3600 * 10**6
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert moment_of(noon, "since") == moment_of("2026-07-01 12:00", "since") == of_text.values[1]


def test_cohorts_are_a_column(log):
    cohorts = log.assign(region="r" + (log["shop"] % 4).astype(str))
    got = isobag.watch(cohorts, by="shop", time="ts", since=LAST, peers="region")
    assert {3, 7} <= set(got[got["flagged"]]["shop"])
    plain = isobag.watch(log, by="shop", time="ts", since=LAST)
    assert not np.allclose(np.sort(got["p_peers"]), np.sort(plain["p_peers"]), equal_nan=True)


def test_cohorts_that_are_found_need_no_column(log):
    alike = log.assign(amount=log["amount"] - log["shop"] % 4)
    two = pd.concat([alike, alike.assign(shop=log["shop"] + 100, amount=alike["amount"] + 30)], ignore_index=True)
    two.loc[(two["shop"] == 7) & (two["ts"] >= LAST), "amount"] += 26  # as those of the other kind
    got, plain = (isobag.watch(two, by="shop", time="ts", since=LAST, peers=peers) for peers in ("auto", None))
    assert got[got["shop"] == 7]["p_peers"].item() < 0.001 and plain[plain["shop"] == 7]["p_peers"].item() > 0.01


def test_one_entity_and_one_period_give_no_lines_or_no_peers(log):
    alone = make_log(8, 60)
    one = isobag.watch(alone[alone["shop"] == 7], by="shop", time="ts")
    assert set(one["shop"]) == {7} and one["p_peers"].isna().all() and one["p_past"].notna().any()
    day = isobag.watch(log[log["ts"] < "2026-01-02"], by="shop", time="ts")
    assert list(day.columns) == ["shop", *RESULT] and not day["flagged"].any()


def test_what_everyone_does_and_gaps_are_said_and_no_alarm(log):
    moved = log.copy()
    moved.loc[moved["ts"] >= LAST, "amount"] += 3.0
    moved = moved[(moved["ts"] < "2026-01-20") | (moved["ts"] >= "2026-01-22")]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = isobag.watch(moved, by="shop", time="ts")
    texts = [str(one.message) for one in said]
    assert any("entities changed on 2026-02-09" in text for text in texts)
    assert any("from 2026-01-20 to 2026-01-21" in text for text in texts)
    assert got[got["period"] == pd.Timestamp(LAST)]["flagged"].sum() <= 3
    assert not got["period"].isin(pd.to_datetime(["2026-01-20", "2026-01-21"])).any()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"by": "account"}, "The table has no column 'account'"),
        ({"time": "when"}, "The table has no column 'when'"),
        ({"by": "ts"}, "The column 'ts' is named twice"),
        ({"every": "monthly"}, "every='monthly'; need a whole number and"),
        ({"since": "soon"}, "since='soon'; need a time, such as '2026-03-04'"),
        ({"time_zone": "Atlantis"}, "time_zone='Atlantis'; need the name of a time zone"),
        ({"features": ["ts", "amount"]}, "features= has 'ts', the column of times"),
        ({"fdr": 2}, "fdr=2; need a share between 0 and 1"),
        ({"keep": "long"}, "keep='long'; need None, an integer of 2 or more, or a length"),
    ],
)
def test_errors_are_sentences(log, options, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        isobag.watch(log, **{"by": "shop", "time": "ts", **options})


def test_a_column_that_the_result_has_is_refused(log):
    with pytest.raises(ValueError, match="The result has a column 'kind' of its own"):
        isobag.watch(log.rename(columns={"shop": "kind"}), by="kind", time="ts")
