"""A model file knows how tables become its features: what ``fit`` accepts, ``score`` and ``explain`` accept."""

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run

from isobag import load


def test_a_model_scores_new_rows_and_explains_them(csv, cards, tmp_path):
    model, new = tmp_path / "m.isobag", tmp_path / "new.csv"
    assert run("fit", csv, "--exclude", "account", "--save-model", model, "-t", 10).exit_code == 0
    detector = load(model).detector
    cards[:50][["account", "hour", "km_from_home", "amount", "minutes_since_last"]].to_csv(new, index=False)
    answer = ask("score", model, new, "--top", 50)
    X = cards[:50][list(cards.columns[:4])]
    p_values = {row["row"]: row["p_value"] for row in answer["top"]}
    assert p_values == dict(enumerate(detector.p_values(X).tolist()))
    scores_of_rows = {row["row"]: row["score"] for row in answer["top"]}
    judgement = detector.model_.calibration.judge(detector.model_, detector._rows(X), detector.compute)
    assert scores_of_rows == dict(enumerate(judgement.scores.tolist()))
    why = ask("explain", model, new, "--id", 3)
    assert why["reasons"] == next(row["reasons"] for row in answer["top"] if row["row"] == 3)
    assert why["score"] == scores_of_rows[3] and why["p_value"] == p_values[3]
    parts = {one["feature"]: one["contribution"] for one in why["features"]}
    explained = detector.model_.explain(detector._rows(X), detector.compute)[3]
    assert parts == dict(zip(X.columns, explained.tolist(), strict=True))
    assert [one["contribution"] for one in why["features"]] == sorted(parts.values(), reverse=True)
    assert_one_sentence(run("explain", model, new, "--id", 50), "the table ends before it")
    assert_one_sentence(run("explain", model, new, "--id-column", "hour", "--id", 1), "--id-column hour")
    assert_one_sentence(run("explain", model, new, "--id", "x"), "need a number from 0")


def test_a_model_of_groups_scores_and_explains_groups(csv, cards, tmp_path):
    model = tmp_path / "g.isobag"
    assert run("fit", csv, "--by", "account", "--save-model", model, "-t", 10).exit_code == 0
    answer = ask("score", model, csv, "--top", 30)
    detector, X = load(model).detector, cards[list(cards.columns[:4])]
    labels = cards["account"].to_numpy()
    expected = dict(zip(pd.unique(labels), detector.p_values(X, groups=labels), strict=True))
    assert {row["account"]: row["p_value"] for row in answer["top"]} == expected
    label = answer["top"][0]["account"]
    why = ask("explain", model, csv, "--id", label)
    shared = ("score", "p_value", "n_points", "reasons")
    assert [why[name] for name in shared] == [answer["top"][0][name] for name in shared]
    assert len(why["features"]) == 4
    assert_one_sentence(run("explain", model, csv, "--id", "nobody"), "'nobody'")


def test_groups_by_several_columns_are_explained(cards, tmp_path):
    frame = cards[:400].assign(day=np.arange(400) % 7, half=np.arange(400) % 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "g.isobag"
    assert run("fit", tmp_path / "t.csv", "--by", "day,half", "--save-model", model, "-t", 10).exit_code == 0
    top = ask("score", model, tmp_path / "t.csv")["top"][0]
    why = ask("explain", model, tmp_path / "t.csv", "--id", f"{top['day']},{top['half']}")
    assert why["n_points"] == top["n_points"]


def gappy(cards, path):
    frame = cards[:200].assign(kind=["a", "b", "b", "b"] * 50, when="2024-03-01 12:00:00")
    frame["amount"] = frame["amount"].astype(object)
    frame.loc[4, "amount"], frame.loc[9, "kind"] = None, None
    frame.to_csv(path, index=False)
    return frame


def test_rows_with_gaps_can_be_left_out(cards, tmp_path):
    gappy(cards, tmp_path / "t.csv")
    model = tmp_path / "m.isobag"
    options = ("--features", "amount,kind", "--missing", "drop", "-t", 10)
    assert run("fit", tmp_path / "t.csv", "--save-model", model, *options).exit_code == 0
    answer = ask("score", model, tmp_path / "t.csv", "--top", 200)
    assert answer["n_left_out"] == 2 and [row["row"] for row in answer["top"][-2:]] == [4, 9]
    last = answer["top"][-1]
    assert (last["score"], last["p_value"], last["flagged"], last["n_missing"]) == (None, None, False, 1)


def test_one_row_is_explained_whatever_stands_in_others(csv, cards, tmp_path):
    model, new = tmp_path / "m.isobag", tmp_path / "new.csv"
    assert run("fit", csv, "--exclude", "account", "--save-model", model, "-t", 10).exit_code == 0
    frame = cards[:8].astype({"amount": object})
    frame.loc[2, "amount"], frame.loc[7, "amount"] = "oops", None
    frame.to_csv(new, index=False)
    assert ask("explain", model, new, "--id", 5)["row"] == 5
    named = ("explain", model, new, "--id-column", "account", "--id", cards["account"][0])  # all eight
    assert_one_sentence(run(*named), "row 2 (line 4", "'oops'")
    assert ask(*named, "--bad-cells", "missing", "--missing", "drop")["rows"] == [0, 1, 3, 4, 5, 6]
    assert_one_sentence(run("explain", model, new, "--id", 2), "row 2 (line 4", "'oops'")
    assert_one_sentence(run("score", model, new), "'oops'", "--bad-cells missing")


def test_alarms_at_a_false_discovery_rate(csv, cards, tmp_path):
    model, new = tmp_path / "m.isobag", tmp_path / "new.csv"
    assert run("fit", csv, "--exclude", "account", "--save-model", model).exit_code == 0
    cards[:100].assign(amount=lambda frame: frame["amount"].where(frame.index > 4, 1e6)).to_csv(new, index=False)
    answer = ask("score", model, new, "--fdr", 0.1, "--top", 100)
    assert answer["rule"] == "false discovery rate of at most 0.1"
    flagged = {row["row"] for row in answer["top"] if row["flagged"]}
    assert flagged == set(
        np.flatnonzero(load(model).detector.predict(pd.read_csv(new)[cards.columns[:4]], fdr=0.1) == -1)
    )
    assert set(range(5)) <= flagged and answer["n_expected"] == pytest.approx(0.1 * len(flagged))
    plain = ask("score", model, new, "--top", 100)
    assert {
        row["row"] for row in plain["top"] if row["flagged"]
    } == flagged  # one rule, at .1 unless another is asked for
    assert_one_sentence(run("score", model, new, "--fdr", 2), "--fdr 2.0; need a share between 0 and 1")


def test_a_model_of_unnamed_columns_reads_a_file_without_names(tmp_path):
    rows = "".join(f"{i % 5},{i * i % 7}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(rows)
    model = tmp_path / "m.isobag"
    result = run("fit", tmp_path / "t.csv", "--save-model", model, "-t", 5)
    assert result.exit_code == 0 and "holds numbers only: it is read as data" in result.stderr
    assert "40 rows" in result.stderr
    assert ask("score", model, tmp_path / "t.csv")["n_rows"] == 40
    assert ask("score", model, tmp_path / "t.csv", "--no-header")["n_rows"] == 40


def test_of_several_rows_of_one_name_the_oddest_is_explained_and_all_are_listed(tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(who=["x", "y", "z"] * 100)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.loc[7, "a"] = 30.0
    frame.loc[1, "b"] = np.nan
    frame.to_csv(tmp_path / "new.csv", index=False)
    model = tmp_path / "m.isobag"
    assert run("fit", tmp_path / "t.csv", "--exclude", "who", "--save-model", model, "-t", 20).exit_code == 0
    named = ("explain", model, tmp_path / "new.csv", "--id-column", "who", "--missing", "drop", "--id", "y")
    asked = ask(*named)
    assert asked["row"] == 7 and len(asked["rows"]) == 99 and 1 not in asked["rows"]
    message = run(*named)
    assert "99 rows are called y: 4, 7, 10, " in message.stderr and "This is the oddest of them." in message.stderr
