"""``isobag watch``: a state that lasts from day to day."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, finish, run, start

pytest.importorskip("typer")

import isobag

HOW = ["--by", "account", "--time", "ts", "--features", "amount"]


def make_log(n_accounts=30, n_days=61, first="2025-12-04"):
    """Accounts with about 27 rows a day. On the last two days 3 is silent, on the last one 7 is different."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(25, size=(n_accounts, n_days)) + 2
    counts[3, -2:] = 0
    account, day = (np.repeat(one.ravel(), counts.ravel()) for one in np.indices(counts.shape))
    amount = rng.normal(10 + account % 3, 1.0) + 6.0 * ((account == 7) & (day == n_days - 1))
    seconds = day * 86400 + rng.integers(0, 86400, size=len(day))
    ts = np.datetime64(f"{first}T00:00:00") + seconds.astype("timedelta64[s]")
    frame = pd.DataFrame({"account": account, "ts": ts, "amount": amount.round(3), "region": account % 2})
    return frame.sample(frac=1.0, random_state=0)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The first 59 days, and two later ones, each in a file of its own; and the state after the first."""
    folder = tmp_path_factory.mktemp("log")
    log = make_log()
    days = log["ts"].dt.strftime("%Y-%m-%d")
    log[days <= "2026-01-31"].to_csv(folder / "past.csv", index=False)
    for day in ("2026-02-01", "2026-02-02"):
        log[days == day].to_csv(folder / f"{day}.csv", index=False)
    said = run("watch", folder / "past.csv", *HOW, "--model", folder / "state.isobag")
    assert said.exit_code == 0, said.stderr
    return folder


@pytest.fixture
def state(files, tmp_path):
    path = tmp_path / "state.isobag"
    path.write_bytes((files / "state.isobag").read_bytes())
    return path


def test_the_first_run_learns_and_says_what_is_known(files, tmp_path):
    said = run("watch", files / "past.csv", *HOW, "--model", tmp_path / "new.isobag")
    assert said.exit_code == 0 and said.stdout == ""
    assert "30 entities and 59 periods are known, 2025-12-04 to 2026-01-31." in said.stderr
    assert "judged, 0 flagged (fdr 0.1); the least p-value of 2026-01-31 is" in said.stderr
    assert (tmp_path / "new.isobag").read_bytes() == (files / "state.isobag").read_bytes()


def test_later_runs_score_new_periods_and_then_add_them(files, state):
    said = run("watch", files / "2026-02-01.csv", "--model", state)
    assert said.exit_code == 0, said.stderr
    header, line = said.stdout.splitlines()
    assert header.split() == ["account", "period", "n_points", "p_value", "kind", "reasons"]
    assert line.split()[:3] == ["3", "2026-02-01", "0"] and "silent, expected" in line
    assert "30 lines of 2026-02-01 judged, 1 flagged (fdr 0.1)." in said.stderr
    assert "30 entities and 60 periods are known" in said.stderr
    second = ask("watch", files / "2026-02-02.csv", "--model", state)
    flagged = {line["account"]: line for line in second["top"]}
    assert set(flagged) == {"3", "7"} and second["n_flagged"] == 2 and second["learned"]
    assert flagged["3"]["kind"] == "silent" and "odd since 2026-02-01" in flagged["3"]["reasons"]
    assert "unlike its past" in flagged["7"]["kind"] and "amount" in flagged["7"]["reasons"]
    assert flagged["7"]["period"] == "2026-02-02 00:00:00" and second["n_periods"] == 61


def test_day_by_day_is_as_all_at_once(files, state, tmp_path):
    for day in ("2026-02-01", "2026-02-02"):
        run("watch", files / f"{day}.csv", "--model", state, "--out", tmp_path / f"{day}.csv")
    whole = tmp_path / "whole.isobag"
    days = [files / "2026-02-02.csv", files / "past.csv", files / "2026-02-01.csv"]  # in any order
    said = run("watch", *days, *HOW, "--model", whole, "--since", "2026-02-01", "--out", tmp_path / "whole.csv")
    assert said.exit_code == 0, said.stderr
    apart = pd.concat([pd.read_csv(tmp_path / f"{day}.csv") for day in ("2026-02-01", "2026-02-02")])
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "whole.csv"), apart.reset_index(drop=True))


def test_the_same_file_twice_changes_nothing_and_says_so(files, state):
    run("watch", files / "2026-02-01.csv", "--model", state)
    before = state.read_bytes()
    again = run("watch", files / "2026-02-01.csv", "--model", state)
    assert again.exit_code == 0 and again.stdout == "" and state.read_bytes() == before
    assert "No period is judged: there is nothing new, and the state is as it was." in again.stderr
    assert "rows came before and were left out" in again.stderr and "Written" not in again.stderr
    old = run("watch", files / "past.csv", "--model", state)
    assert "there is nothing new" in old.stderr and state.read_bytes() == before
    with_itself = run("watch", files / "2026-02-02.csv", files / "2026-02-02.csv", "--model", state)
    assert_one_sentence(with_itself, "2026-02-02.csv' is given twice; its rows would count double")


def test_no_learn_scores_only(files, state):
    before = state.read_bytes()
    first = ask("watch", files / "2026-02-01.csv", "--model", state, "--no-learn")
    assert state.read_bytes() == before and not first["learned"] and first["n_flagged"] == 1
    said = run("watch", files / "2026-02-01.csv", "--model", state, "--no-learn")
    assert "Nothing was added." in said.stderr and "Written" not in said.stderr
    assert ask("watch", files / "2026-02-01.csv", "--model", state)["top"] == first["top"]


def test_a_dismissed_period_joins_the_past_and_a_confirmed_one_never_does(files, state):
    run("watch", files / "2026-02-02.csv", "--model", state)
    assert_one_sentence(run("watch", "--model", state, "--confirm", "8@2026-03-01"), "there is no line", "8")
    assert_one_sentence(run("watch", "--model", state, "--confirm", "7"), "--confirm 7; need ACCOUNT@PERIOD")
    assert_one_sentence(run("watch", "--model", state, "--dismiss", "7@soon"), "need a time")

    def joined(entity):
        monitor = isobag.load(state)
        place = int(np.flatnonzero(monitor.entities_ == entity)[0])
        period = monitor.state.periods[-1]
        return bool(period.joined[period.places(np.array([place]))[0]])

    assert not joined("7") and not joined("3")
    said = run("watch", "--model", state, "--dismiss", "7@2026-02-02", "--confirm", "3@2026-02-02")
    assert said.exit_code == 0 and "2 periods noted. Written:" in said.stderr
    assert joined("7") and not joined("3")
    run("watch", "--model", state, "--confirm", "7@2026-02-02 13:00")  # any time within the period names it
    assert not joined("7")


def test_labels_of_several_columns_and_of_other_files(files, tmp_path):
    log = make_log()
    parts = log.assign(branch="b" + (log["account"] // 2).astype(str))
    parts[parts["ts"] < "2026-02-02"].to_csv(tmp_path / "a.csv", index=False)
    last = parts[parts["ts"] >= "2026-02-02"].assign(region=lambda own: own["region"].astype(float))
    last.to_parquet(tmp_path / "b.parquet")  # 1.0 is the region 1 all the same
    how = ["--by", "region,branch", "--time", "ts", "--features", "amount", "--model", tmp_path / "s.isobag"]
    assert run("watch", tmp_path / "a.csv", *how).exit_code == 0
    got = ask("watch", tmp_path / "b.parquet", "--model", tmp_path / "s.isobag")
    assert got["n_entities"] == 30
    assert {(one["region"], one["branch"]) for one in got["top"]} == {("1", "b1"), ("1", "b3")}
    said = run("watch", "--model", tmp_path / "s.isobag", "--dismiss", "1,b3@2026-02-02")
    assert said.exit_code == 0, said.stderr


def test_cohorts_zone_and_window_are_kept_by_the_state(files, tmp_path):
    state = tmp_path / "s.isobag"
    how = [*HOW, "--peers", "region", "--time-zone", "Europe/Berlin", "--keep", "50d"]
    assert run("watch", files / "past.csv", *how, "--model", state).exit_code == 0
    got = ask("watch", files / "2026-02-01.csv", "--model", state)
    assert got["n_periods"] == 50 and got["n_flagged"] == 1
    roles = {one["name"]: one["role"] for one in got["table"]["columns"]}
    assert roles == {"account": "group", "ts": "time", "amount": "feature", "region": "peers"}
    monitor = isobag.load(state)
    assert monitor.time_zone == "Europe/Berlin" and monitor.keep == "50d"
    ask("watch", files / "2026-02-02.csv", "--model", state, "--keep", "10")
    assert isobag.load(state).keep == 10 and len(isobag.load(state).periods_) == 10


def test_cohorts_that_are_found_are_kept_by_the_state(files, tmp_path):
    state = tmp_path / "s.isobag"
    assert run("watch", files / "past.csv", *HOW, "--peers", "auto", "--model", state).exit_code == 0
    got = ask("watch", files / "2026-02-01.csv", "--model", state)
    assert [one["account"] for one in got["top"]] == ["3"]
    assert_one_sentence(run("watch", files / "past.csv", "--model", state, "--peers", "region"), "begun with 'auto'")


def test_numbers_as_times_and_features_by_the_first_run(files, tmp_path):
    log = make_log()
    log = log.assign(ts=log["ts"].astype("datetime64[s]").astype("int64"), way=np.where(log.index % 3, "card", "cash"))
    log.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    how = ["--by", "account", "--time", "ts", "--features", "amount,way"]
    assert_one_sentence(run("watch", tmp_path / "log.jsonl", *how), "such as --time-unit s", "would be 202")
    got = ask("watch", tmp_path / "log.jsonl", *how, "--time-unit", "s")
    assert got["features"] == ["amount", "way=card", "way=cash"] and {one["account"] for one in got["top"]} == {
        "3",
        "7",
    }


def test_what_everyone_does_is_said_once_also_when_quiet(files, state, tmp_path):
    moved = pd.read_csv(files / "2026-02-02.csv").assign(amount=lambda own: own["amount"] + 5)
    moved.to_csv(tmp_path / "moved.csv", index=False)
    said = run("watch", tmp_path / "moved.csv", "--model", state, "--quiet")
    assert said.stdout.startswith("30 of 30 entities changed on 2026-02-02.\n") and said.stderr == ""
    assert len(said.stdout.splitlines()) < 6


def test_the_page_is_written(files, state, tmp_path):
    said = run("watch", files / "2026-02-01.csv", "--model", state, "--report", tmp_path / "page.html")
    assert said.exit_code == 0 and f"Written: {state}, {tmp_path / 'page.html'}." in said.stderr
    page = (tmp_path / "page.html").read_text()
    assert "silent" in page and "2026-02-01" in page


def test_without_a_state_nothing_is_kept(files, tmp_path):
    said = run("watch", files / "past.csv", *HOW, "--out", "-")
    lines = pd.read_csv(pd.io.common.StringIO(said.stdout))
    assert list(lines.columns)[:3] == ["account", "period", "n_points"] and not lines["flagged"].any()
    assert os.listdir(tmp_path) == []


def test_misuse_is_said_in_a_sentence(files, state, tmp_path):
    past, none = files / "past.csv", tmp_path / "none.isobag"
    assert_one_sentence(run("watch", past, "--time", "ts"), "--by is missing", code=2)
    assert_one_sentence(run("watch", past, "--by", "account"), "--time is missing", code=2)
    assert_one_sentence(run("watch", past, *HOW, "--model", none, "--no-learn"), "--no-learn needs", code=2)
    assert_one_sentence(run("watch", "--model", none, "--confirm", "a@b"), "--confirm and --dismiss need", code=2)
    assert_one_sentence(run("watch", "--model", state), "Neither a file nor a query is given", code=2)
    assert_one_sentence(
        run("watch", past, "--model", state, "--every", "1h"),
        "--every 1h: the state",
        "was begun with '1d'; leave the option out, or begin a new state",
    )
    assert_one_sentence(run("watch", past, "--model", state, "--by", "region"), "--by region", "'account'")
    assert_one_sentence(run("watch", past, "--model", state, "--peers", "region"), "was begun without it")
    assert_one_sentence(run("watch", past, "--model", state, "--features", "region"), "begun with 'amount'")
    assert_one_sentence(run("watch", past, *HOW, "--every", "1x"), "--every 1x; need a whole number and")
    assert_one_sentence(run("watch", past, "--by", "who", "--time", "ts"), "no column 'who'")
    detector = tmp_path / "points.isobag"
    assert run("fit", past, "--features", "amount", "--model", detector).exit_code == 0
    assert_one_sentence(run("watch", past, "--model", detector), "holds a IDKPointDetector; need a state")
    assert_one_sentence(run("watch", past, *HOW, "--model", past), "not a model file")


KILLED = """
import os, signal, sys
import isobag.storage.atomic as atomic
name, is_after = sys.argv[1], sys.argv[2] == "after"
real = getattr(os, name)
def end(*args, **more):
    if is_after:
        real(*args, **more)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(atomic.os, name, end)
from isobag.cli.app import app
app(sys.argv[3:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("call", "when", "is_new"), [("fsync", "before", False), ("replace", "after", True)])
def test_killed_while_it_writes_the_state_is_the_old_or_the_new_one(files, state, tmp_path, call, when, is_new):
    old = state.read_bytes()
    assert run("watch", files / "2026-02-01.csv", "--model", state).exit_code == 0
    new = state.read_bytes()
    state.write_bytes(old)
    words = [call, when, "watch", files / "2026-02-01.csv", "--model", state]
    ended = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    assert state.read_bytes() == (new if is_new else old)
    again = ask("watch", files / "2026-02-01.csv", "--model", state)
    assert again["learned"] != is_new and state.read_bytes() == new
    assert os.listdir(tmp_path) == ["state.isobag"]


@pytest.mark.slow
def test_killed_at_any_moment_the_state_is_the_old_or_the_new_one(files, state):
    old = state.read_bytes()
    run("watch", files / "2026-02-01.csv", "--model", state)
    new = state.read_bytes()
    for delay in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        state.write_bytes(old)
        process = start("watch", files / "2026-02-01.csv", "--model", state)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
        finish(process)
        assert state.read_bytes() in (old, new)
        assert run("watch", files / "2026-02-01.csv", "--model", state).exit_code == 0
        assert state.read_bytes() == new


def test_help_says_what_confirm_and_dismiss_do():
    said = " ".join(run("watch", "--help").stdout.split())
    assert "An alarm was right: this period never becomes part of the entity's past." in said
    assert "An alarm was false: this period becomes part of the entity's past." in said


def test_rows_without_a_time_are_left_out_where_that_is_asked_for_after_the_first_run_too(files, state, tmp_path):
    day = (files / "2026-02-01.csv").read_text()
    (tmp_path / "day.csv").write_text(f"{day}1,,10.0,1\n")
    assert_one_sentence(run("watch", tmp_path / "day.csv", "--model", state), "has no time", "--missing drop")
    said = run("watch", tmp_path / "day.csv", "--model", state, "--missing", "drop")
    assert said.exit_code == 0 and "rows are left out: they have no time." in said.stderr
