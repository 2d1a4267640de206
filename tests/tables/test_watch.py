"""Watches on frames: one object for the first day and every day; what comes again, late, or from 2036 does no harm."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from watch_logs import by_day, days_of, make_log

import isobag


@pytest.fixture(scope="module")
def log():
    return make_log(factor=1.8, silent=38)


def watched(frame, **options):
    monitor = isobag.Watch("account", "time", **options)
    return monitor, monitor.update(frame)


def test_a_lasting_shift_and_a_silence_are_incidents_with_reasons(log):
    _, incidents = watched(log)
    shift, silence = (days_of(incidents, name).iloc[0] for name in ("A00", "A01"))
    assert (shift["since"] - pd.Timestamp("2026-01-31")).days in (0, 1)
    assert (shift["state"], shift["what"]) == ("going on", "value")
    assert "amount" in shift["reason"]
    assert (silence["what"], silence["since"]) == ("silence", pd.Timestamp("2026-02-08"))
    assert silence["n_points"] == 0


def test_columns_of_the_results_are_as_documented(log):
    _, incidents = watched(log)
    names = ["account", "since", "last", "state", "p_value", "what", "reason", "n_points"]
    assert list(incidents.to_frame().columns) == names
    assert list(incidents.bags().columns) == ["account", "period", "n_points", "p_value", "flagged", "what"]


def test_results_come_in_the_library_of_the_frame(log):
    incidents = isobag.watch(pl.from_pandas(log.reset_index(drop=True)), by="account", time="time")
    assert isinstance(incidents.to_frame(), pl.DataFrame)
    assert isinstance(incidents.bags(), pl.DataFrame)


def test_one_file_and_one_for_each_day_give_the_same(log):
    _, whole = watched(log)
    monitor, parts, last = isobag.Watch("account", "time"), [], {}
    for day in by_day(log):
        incidents = monitor.update(day)
        parts.append(incidents.bags())
        last |= {(one.entity, one.since): one[:4] for one in incidents.listed}
    judged = pd.concat([part for part in parts if len(part)], ignore_index=True)
    pd.testing.assert_frame_equal(judged, whole.bags())
    ends = {(one.entity, one.since): one[:3] for one in whole.listed}
    assert {key: own[:3] for key, own in last.items()} == ends


def test_saved_and_loaded_between_days_it_is_the_same(log, tmp_path):
    days = by_day(log)
    monitor, _ = watched(pd.concat(days[:35]))
    monitor.save(tmp_path / "state.isobag")
    again = isobag.load(tmp_path / "state.isobag")
    for day in days[35:]:
        incidents, incidents_of_loaded = monitor.update(day), again.update(day)
        assert incidents.listed == incidents_of_loaded.listed
        np.testing.assert_array_equal(incidents.bags()["p_value"], incidents_of_loaded.bags()["p_value"])


def test_the_same_rows_twice_change_nothing(log):
    monitor, first = watched(log)
    again = monitor.update(log)
    counts = [int(note.split()[0].replace(",", "")) for note in again.notes if "added before" in note]
    assert sum(counts) == len(log)
    assert again.listed == tuple(one for one in first.listed if one.state != "over")


def test_half_a_day_and_then_the_whole_is_the_whole(log):
    days = by_day(log)
    before, last = pd.concat(days[:-1]), days[-1]
    whole, _ = watched(before)
    halves, _ = watched(before)
    halves.update(last.iloc[: len(last) // 2])
    np.testing.assert_array_equal(halves.update(last).bags()["p_value"], whole.update(last).bags()["p_value"])


def test_equal_rows_of_one_table_count_each():
    log = make_log(days=20)
    doubled = pd.concat([log, log])
    assert isobag.watch(doubled, "account", "time").bags()["n_points"].sum() == 2 * (
        isobag.watch(log, "account", "time").bags()["n_points"].sum()
    )


def test_late_rows_are_added_to_open_periods_and_named_for_closed_ones(log):
    days = by_day(log)
    monitor, _ = watched(pd.concat([*days[:-2], days[-2].iloc[100:], days[-1]]))
    monitor.update(days[-2])
    whole, _ = watched(log)
    np.testing.assert_array_equal(np.sort(monitor.history_.rows.digest), np.sort(whole.history_.rows.digest))
    extra = days[20].assign(amount=1.0)
    with pytest.raises(ValueError, match="come too late"):
        monitor.update(extra)


def test_a_row_of_2036_is_set_aside_and_named_and_later_days_go_on(log):
    days = by_day(log)
    stray = days[-2].head(1).assign(time=pd.Timestamp("2036-01-01"))
    monitor, incidents = watched(pd.concat([*days[:-2], stray]))
    assert any("2036-01-01" in note for note in incidents.notes)
    again = monitor.update(pd.concat([days[-2], stray]))
    assert any("2036-01-01" in note for note in again.notes)
    assert set(again.bags()["period"]) == {pd.Timestamp("2026-02-08")}
    with pytest.raises(ValueError, match="Nothing can be judged"):
        monitor.update(stray)


def test_replace_puts_a_corrected_table_in_place(log):
    days = by_day(log)
    wrong = days[-1].assign(amount=days[-1]["amount"] * 10)
    monitor, _ = watched(pd.concat([*days[:-1], wrong]))
    added = isobag.Watch("account", "time")
    added.update(pd.concat([*days[:-1], wrong]))
    assert any("replace=True" in note for note in added.update(days[-1]).notes)
    right, _ = watched(log)
    corrected = monitor.update(days[-1], replace=True)
    np.testing.assert_array_equal(corrected.bags()["p_value"], right.judge().bags()["p_value"])


def test_a_forgotten_period_never_was(log):
    days = by_day(log)
    monitor, _ = watched(pd.concat(days))
    monitor.forget("2026-02-09")
    shorter, _ = watched(pd.concat(days[:-1]))
    np.testing.assert_array_equal(monitor.judge().bags()["p_value"], shorter.judge().bags()["p_value"])
    with pytest.raises(ValueError, match="2026-01-05"):
        monitor.forget("2026-01-05")


def test_accepted_is_the_new_usual(log):
    days = by_day(make_log(factor=1.8, days=50))
    monitor, _ = watched(pd.concat(days[:40]))
    assert list(days_of(monitor.judge(), "A00")["state"]) == ["going on"]
    monitor.accept("A00")
    assert list(days_of(monitor.judge(), "A00")["state"]) == ["over"]
    later = [monitor.update(day) for day in days[40:]]
    assert sum(len(days_of(one, "A00")) for one in later) <= 1


def test_a_dismissed_silence_stays_dismissed_until_rows_come_again():
    log = make_log(days=50, silent=38)
    days = by_day(log)
    monitor, incidents = watched(pd.concat(days[:40]))
    assert list(days_of(incidents, "A01")["what"]) == ["silence"]
    monitor.dismiss("A01")
    monitor.judge()
    for day in days[40:45]:
        assert not len(days_of(monitor.update(day), "A01"))
    back = days[45][days[45]["account"] == "A04"].assign(account="A01")
    monitor.update(pd.concat([days[45], back]))
    assert list(days_of(monitor.update(days[46]), "A01")["state"]) == ["new"]


def test_a_retired_entity_is_watched_no_more(log):
    days = by_day(make_log(days=45, silent=38))
    monitor, _ = watched(pd.concat(days[:40]))
    monitor.retire("A01")
    for day in days[40:]:
        incidents = monitor.update(day)
        assert not len(days_of(incidents, "A01"))
        assert "A01" not in set(incidents.bags()["account"])


def test_entity_and_time_alone_are_watched_for_volume(log):
    _, incidents = watched(log[["account", "time"]])
    assert list(days_of(incidents, "A01")["what"]) == ["silence"]


def test_missing_values_and_mix_are_reasons():
    log = make_log(days=45, start=35, card=0.1, missing=0.7)
    _, incidents = watched(log)
    assert (days_of(incidents, "A02")["what"].iloc[0], days_of(incidents, "A03")["what"].iloc[0]) == ("mix", "missing")
    assert "pay=c" in days_of(incidents, "A02")["reason"].iloc[0]
    assert "amount missing in" in days_of(incidents, "A03")["reason"].iloc[0]


def test_a_column_all_missing_is_missing_and_not_a_spread_of_nothing():
    _, incidents = watched(make_log(days=45, start=35, missing=1.0))
    reason = days_of(incidents, "A03")["reason"].iloc[0]
    assert reason.startswith("amount missing in 9") or reason.startswith("amount missing in 100 %")
    assert "spread" not in reason


def test_what_was_constant_in_all_and_changes_is_as_odd_as_can_be():
    log = make_log(days=40).assign(status=0)
    log.loc[(log["account"] == "A05") & (log["time"] >= "2026-02-09"), "status"] = 1
    _, incidents = watched(log)
    first = incidents.to_frame().iloc[0]
    assert (first["account"], first["state"]) == ("A05", "new")
    assert "status 1" in first["reason"]
    assert "always 0 before" in first["reason"]


def test_a_value_never_seen_is_a_reason():
    log = make_log(days=40)
    log.loc[(log["account"] == "A06") & (log["time"] >= "2026-02-09"), "pay"] = "coupon"
    _, incidents = watched(log)
    assert incidents.to_frame().iloc[0]["account"] == "A06"
    assert "pay" in incidents.to_frame().iloc[0]["reason"]


def test_a_correlation_that_turns_with_the_same_margins_is_found_the_same_day():
    rng = np.random.default_rng(0)
    account, day, _ = (own.ravel() for own in np.indices((20, 40, 25)))
    x = rng.normal(size=len(account))
    sign = np.where((account == 0) & (day >= 35), -0.9, 0.9)
    y = sign * x + np.sqrt(1 - 0.81) * rng.normal(size=len(account))
    time = pd.Timestamp("2026-01-01") + pd.to_timedelta(day, unit="D")
    incidents = isobag.watch(pd.DataFrame({"account": account, "time": time, "x": x, "y": y}), "account", "time")
    turned = days_of(incidents, 0).iloc[-1]
    assert (turned["since"], turned["what"]) == (pd.Timestamp("2026-02-05"), "shape")
    assert "correlation of x and y -0.9" in turned["reason"]


@pytest.mark.parametrize(("entities", "days"), [(1, 60), (3, 40), (10, 40)])
def test_small_fleets_have_few_false_incidents_too(entities, days):
    logs = [make_log(seed, days=days, entities=entities) for seed in range(6)]
    n_incidents = sum(len(isobag.watch(log, "account", "time")) for log in logs)
    assert n_incidents <= len(logs) * (days - 14) / 7


def test_a_holiday_is_told_once():
    log = make_log(days=40, entities=30)
    is_holiday = (log["time"].dt.normalize() == "2026-02-05") & (log["account"] < "A27")
    log = log[~is_holiday | (log.index % 10 == 0)]
    _, incidents = watched(log)
    expected = ("2026-02-05: 26 of 30", "2026-02-05: 27 of 30")
    assert any(note.startswith(expected) for note in incidents.common_changes())
    opened = incidents.to_frame()
    assert not (opened["since"] == "2026-02-05").any()


def test_a_day_without_any_rows_is_no_alarm():
    log = make_log(days=40)
    _, incidents = watched(log[log["time"].dt.normalize() != "2026-02-05"])
    assert not (incidents.to_frame()["since"] == "2026-02-05").any()
    assert pd.Timestamp("2026-02-05") not in set(incidents.bags()["period"])


def test_days_are_those_of_the_time_zone():
    log = make_log(days=20)
    log["time"] = log["time"].dt.tz_localize("UTC")
    monitor, _ = watched(log, time_zone="Asia/Tokyo")
    local = log["time"].dt.tz_convert("Asia/Tokyo").dt.normalize()
    assert monitor.history_.newest - monitor.history_.begun.min() == (local.max() - local.min()).days


def test_hours_that_are_usually_closed_are_silent_without_an_alarm():
    rng = np.random.default_rng(0)
    hours = pd.date_range("2026-01-01", periods=21 * 24, freq="h")
    is_open = (hours.hour >= 7) & (hours.hour < 20)
    parts = []
    for k in range(12):
        counts = rng.poisson(np.where(is_open, 8 + k, 0))
        if k == 0:
            counts[-15:-9] = 0
        parts.append(pd.DataFrame({"machine": k, "time": hours.repeat(counts)}))
    incidents = isobag.watch(pd.concat(parts), "machine", "time", "1h").to_frame()
    last = incidents[incidents["since"] >= hours[-24]]
    assert set(last["machine"]) == {0}
    assert set(last["what"]) == {"silence"}
    assert len(incidents) <= 5


def test_before_the_warm_up_is_over_nothing_is_judged_and_the_note_says_how_far():
    _, incidents = watched(make_log(days=10))
    assert not len(incidents.bags())
    assert "10 of 15" in incidents.notes[-1]


def test_clean_data_have_few_incidents():
    n_opened, n_judged, share = 0, 0, []
    for seed in range(3):
        incidents = isobag.watch(make_log(seed, days=60, entities=40), "account", "time")
        bags = incidents.bags()
        n_opened, n_judged = n_opened + len(incidents), n_judged + bags["period"].nunique()
        share.append((bags["p_value"] <= 0.01).mean())
    assert n_opened <= n_judged / 5
    assert 0.004 <= np.mean(share) <= 0.016


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fdr": 2}, "fdr=2"),
        ({"every": "1y"}, "every='1y'"),
        ({"late": -1}, "late=-1"),
        ({"features": ["price"]}, "price"),
    ],
)
def test_misuse_is_named(log, change, message):
    with pytest.raises(ValueError, match=message):
        isobag.Watch("account", "time", **change).update(log)


def test_a_column_that_changes_its_kind_is_named(log):
    monitor, _ = watched(log)
    with pytest.raises(ValueError, match="'amount'"):
        monitor.update(by_day(log)[-1].assign(amount="n/a?"))


def test_an_unknown_entity_is_named(log):
    monitor, _ = watched(log)
    with pytest.raises(ValueError, match="A99"):
        monitor.accept("A99")


def test_two_faults_of_one_day_are_both_found_with_28_days():
    for seed in range(3):
        incidents = isobag.watch(
            make_log(seed, days=28, entities=40, factor=2.0, start=27, silent=27), "account", "time"
        )
        for name in ("A00", "A01"):
            assert "new" in set(days_of(incidents, name)["state"])


def test_an_incident_that_is_over_hides_no_other_of_the_same_day():
    log = make_log(days=45)
    is_hers, day = log["account"] == "A04", log["time"].dt.normalize()
    log.loc[is_hers & (day == "2026-02-10"), "amount"] *= 5
    last = log[is_hers & (day == "2026-02-11")]
    incidents = isobag.watch(pd.concat([log[day <= "2026-02-11"], last, last, last]), "account", "time")
    now = days_of(incidents, "A04")
    assert list(zip(now["state"], now["what"], strict=True))[:2] == [("new", "volume"), ("over", "value")]


def test_three_times_the_rows_of_hours_are_found_the_same_day():
    hours = pd.date_range("2026-01-01", periods=21 * 24, freq="h")
    counts = np.random.default_rng(0).poisson(
        np.where((hours.hour >= 7) & (hours.hour < 20), np.arange(3, 23)[:, None], 0)
    )
    counts[5, -24:] *= 3
    log = pd.concat([pd.DataFrame({"machine": k, "time": hours.repeat(own)}) for k, own in enumerate(counts)])
    last_day = isobag.watch(log, "machine", "time", "1h").to_frame().query("last >= '2026-01-21'")
    assert set(last_day["machine"]) == {5}
    assert set(last_day["what"]) == {"volume"}


def test_an_earlier_file_during_the_warm_up_is_taken_in():
    days = by_day(make_log(days=20))
    monitor = isobag.Watch("account", "time")
    monitor.update(pd.concat(days[5:10]))
    monitor.update(pd.concat(days[:5]))
    whole, _ = watched(pd.concat(days[:10]))
    np.testing.assert_array_equal(monitor.history_.rows.digest, whole.history_.rows.digest)
