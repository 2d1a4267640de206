"""Groups from time: periods and sessions of a label, in ``detect_groups`` and the command."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from isobag import detect


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    n = 3000
    minutes = np.sort(rng.choice(4 * 1440, size=n, replace=False))
    frame = pd.DataFrame({"device": rng.integers(0, 5, n), "value": rng.normal(size=n), "other": rng.normal(size=n)})
    frame["ts"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(minutes, unit="m")
    return frame.sample(frac=1.0, random_state=0).reset_index(drop=True)


def same(a, b):
    pd.testing.assert_frame_equal(a, b, check_dtype=False)


def test_periods_are_groups_as_a_column_of_their_starts_would_make_them(log):
    got = detect(log, by="device", time="ts", every="6h", random_state=0).to_frame()
    assert list(got.columns[:3]) == ["device", "period", "n_points"] and len(got) == 5 * 16
    by_hand = log.assign(period=log["ts"].dt.floor("6h")).drop(columns="ts")
    same(got, detect(by_hand, by=["device", "period"], random_state=0).to_frame())
    of_polars = detect(pl.from_pandas(log), by="device", time="ts", every="6h", random_state=0).to_frame()
    assert isinstance(of_polars, pl.DataFrame)
    same(of_polars.to_pandas(), got)


def test_a_row_at_the_border_belongs_to_the_period_that_begins(log):
    border = pd.DataFrame(
        {"device": "a", "ts": ["2026-03-01 23:59:59.999999", "2026-03-02 00:00", "2026-03-02 00:00:01"] * 4}
    ).assign(value=np.arange(12.0))
    got = detect(border, by="device", time="ts", every="1d", features="value", random_state=0).to_frame()
    sizes = got.set_index("period")["n_points"]
    assert sizes[pd.Timestamp("2026-03-01")] == 4 and sizes[pd.Timestamp("2026-03-02")] == 8


def test_days_of_a_zone_have_23_or_25_hours(log):
    hours = pd.DataFrame({"device": 1, "ts": pd.date_range("2026-03-28 23:00", periods=48, freq="h", tz="UTC")})
    hours["value"] = np.arange(48.0)
    got = detect(hours, by="device", time="ts", every="1d", time_zone="Europe/Berlin", features="value").to_frame()
    assert got.set_index("period")["n_points"][pd.Timestamp("2026-03-29")] == 23


def test_a_gap_ends_a_session_and_a_pause_of_its_length_does_not():
    minutes = [0, 10, 40, 71, 80, 200]
    frame = pd.DataFrame({"device": ["a"] * 6 + ["b"] * 6, "minutes": minutes * 2, "value": np.arange(12.0)})
    frame["ts"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(frame["minutes"], unit="m")
    frame = frame.drop(columns="minutes").sample(frac=1.0, random_state=1)
    got = detect(frame, by="device", time="ts", sessions="30m", features="value", random_state=0).to_frame()
    assert list(got.columns[:3]) == ["device", "session", "n_points"]
    starts = [pd.Timestamp("2026-03-01") + pd.Timedelta(minutes=one) for one in (0, 71, 200)]
    expected = {(device, start): n for device in "ab" for start, n in zip(starts, (3, 2, 1), strict=True)}
    assert dict(zip(zip(got["device"], got["session"], strict=True), got["n_points"], strict=True)) == expected


def test_rows_without_a_time_are_an_error_or_left_out(log):
    lacking = log.copy()
    lacking.loc[[3, 5], "ts"] = pd.NaT
    with pytest.raises(ValueError, match="device, period: row 3 has no label, one of 2 such rows"):
        detect(lacking, by="device", time="ts", every="1d").to_frame()
    for how in ({"every": "1d"}, {"sessions": "1h"}):
        with pytest.warns(UserWarning, match="2 of 3,000 rows"):
            got = detect(lacking, by="device", time="ts", missing="drop", random_state=0, **how).to_frame()
        same(got, detect(log.drop(index=[3, 5]), by="device", time="ts", random_state=0, **how).to_frame())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"every": "1d"}, "every='1d' needs a column of times; name it with time="),
        ({"time": "ts"}, "time='ts' needs either every='1h' .* or sessions='30m'"),
        ({"time": "ts", "every": "1d", "sessions": "1h"}, "time='ts' needs either"),
        ({"time": "ts", "every": "daily"}, "every='daily'; need a whole number and"),
        ({"time": "ts", "sessions": "long"}, "sessions='long'; need a whole number and"),
        ({"time": "when", "every": "1d"}, "The table has no column 'when'"),
        ({"time": "device", "every": "1d"}, "The column 'device' is named twice"),
    ],
)
def test_errors_are_sentences(log, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        detect(log, by="device", **options).to_frame()


def test_a_label_called_as_the_start_is_refused(log):
    with pytest.raises(ValueError, match="'period' is a column of the result"):
        detect(log.rename(columns={"device": "period"}), by="period", time="ts", every="1d").to_frame()
