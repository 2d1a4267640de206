"""``isobag watch``: the same day after day, with a state in a file."""

import json

import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run
from watch_logs import by_day, make_log


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    days = by_day(make_log(factor=1.8, start=35, silent=39))
    pd.concat(days[:38]).to_csv(folder / "history.csv", index=False)
    for number, day in enumerate(days[38:]):
        day.to_csv(folder / f"day{number}.csv", index=False)
    return folder


@pytest.fixture
def state(files, tmp_path):
    path = tmp_path / "state.isobag"
    assert run("watch", files / "history.csv", "--by", "account", "--time", "time", "--model", path).exit_code == 0
    return path


def test_a_state_goes_on_from_file_to_file(files, state):
    first = ask("watch", files / "day0.csv", "--model", state)["incidents"]
    second = ask("watch", files / "day1.csv", "--model", state)["incidents"]
    assert ("A00", "going on") in [(one["account"], one["state"]) for one in first]
    assert ("A01", "new", "silence") in [(one["account"], one["state"], one["what"]) for one in second]


def test_the_same_file_again_says_so_and_finds_the_same(files, state):
    first = ask("watch", files / "day0.csv", "--model", state)
    again = ask("watch", files / "day0.csv", "--model", state)
    assert first["incidents"] == again["incidents"]
    assert any("added before" in note for note in again["notes"])


def test_words_of_a_person_without_a_file(files, state):
    ask("watch", files / "day0.csv", "--model", state)
    ask("watch", files / "day1.csv", "--model", state)
    left = ask("watch", "--model", state, "--accept", "A00", "--dismiss", "A01@2026-02-09")["incidents"]
    states = {one["account"]: one["state"] for one in left}
    assert (states.get("A00"), states.get("A01")) == ("over", None)


def test_quiet_prints_incidents_and_nothing_else(files, state):
    result = run("watch", files / "day0.csv", "--model", state, "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "A00" in result.stdout
    assert all(len(line) <= 100 for line in result.stdout.splitlines())


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_file_of_which_nothing_can_be_judged_is_an_error(files, state, tmp_path, quiet):
    stray = pd.read_csv(files / "day0.csv").head(2).assign(time="2036-01-01")
    stray.to_csv(tmp_path / "stray.csv", index=False)
    result = run("watch", tmp_path / "stray.csv", "--model", state, *quiet)
    assert_one_sentence(result, "2036-01-01")


def test_a_corrected_file_replaces_and_a_forgotten_day_is_gone(files, state, tmp_path):
    right = ask("watch", files / "day0.csv", "--model", state)["incidents"]
    wrong = pd.read_csv(files / "day0.csv")
    wrong.assign(amount=wrong["amount"] * 10).to_csv(tmp_path / "wrong.csv", index=False)
    ask("watch", tmp_path / "wrong.csv", "--model", state, "--replace")
    assert ask("watch", files / "day0.csv", "--model", state, "--replace")["incidents"] == right
    result = run("watch", "--model", state, "--forget", "2026-02-08", "--json")
    assert result.exit_code == 0
    assert "2026-02-07" in json.loads(result.stdout)["notes"][0]


def test_all_bags_and_the_page_are_written(files, state, tmp_path):
    out, page = tmp_path / "bags.csv", tmp_path / "page.html"
    assert run("watch", files / "day0.csv", "--model", state, "--out", out, "--report", page).exit_code == 0
    assert len(pd.read_csv(out)) == 20
    text = page.read_text()
    assert "A00" in text
    assert "amount" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_misuse_is_told_in_a_sentence(files, state, tmp_path):
    assert_one_sentence(run("watch", files / "day0.csv", "--model", tmp_path / "new.isobag"), "--by")
    assert_one_sentence(run("watch", files / "day0.csv", "--model", state, "--every", "1h"), "--every")
    assert_one_sentence(run("watch", files / "day0.csv", "--model", state, "--accept", "A99"), "A99")


def test_an_entity_of_several_columns_or_with_an_at_sign_is_named_as_it_is_written(tmp_path):
    log, state = make_log(factor=1.8, start=35), tmp_path / "state.isobag"
    log["account"] = log["account"].astype(str) + "@x.org"
    log.assign(region=1).to_csv(tmp_path / "log.csv", index=False)
    for by, label in (("account", "A00@x.org"), ("account,region", "A00@x.org,1")):
        how = ("--by", by, "--time", "time", "--model", state, "--features", "amount")
        assert "going on" in [one["state"] for one in ask("watch", tmp_path / "log.csv", *how)["incidents"]]
        assert_one_sentence(run("watch", "--model", state, "--dismiss", f"{label}@2020-01-01"), "--dismiss 2020-01-01")
        left = ask("watch", "--model", state, "--dismiss", label)["incidents"]
        assert ("A00@x.org", "going on") not in [(one["account"], one["state"]) for one in left]
        state.unlink()


def test_feedback_without_a_state_names_the_option(files):
    new = ("watch", files / "day0.csv", "--by", "account", "--time", "time")
    assert_one_sentence(run(*new, "--accept", "A00"), "--accept A00: there is no state in --model yet.")
    assert_one_sentence(run(*new, "--model", files / "no" / "w.isobag"), "there is no folder")
