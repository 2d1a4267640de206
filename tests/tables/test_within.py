"""Rows of a table against their own group: the same as the estimator's, in frames, files and model files."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import ask, assert_one_sentence, run
from numpy.testing import assert_array_equal

from isobag import IDKPointDetector, detect, fit, load

NAMES = ["amount", "hour"]


@pytest.fixture
def cards():
    """30 accounts, each with amounts of its own; the last row is of one account and at the level of another."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(30), 40)
    amounts = np.geomspace(1, 1000, 30)[owners] * np.exp(rng.normal(0, 0.1, 1200))
    frame = pd.DataFrame({"account": [f"a{k}" for k in owners], "amount": amounts, "hour": rng.normal(12, 2, 1200)})
    return pd.concat([frame, pd.DataFrame({"account": ["a25"], "amount": [3.0], "hour": [12.0]})], ignore_index=True)


def test_a_frame_is_ranked_by_the_scores_of_the_estimator(cards):
    ranked = detect(cards, within="account", random_state=0, n_estimators=30).to_frame()
    detector = IDKPointDetector(30, random_state=0)
    scores = detector.fit(cards[NAMES], within=cards["account"]).scores_
    assert_array_equal(ranked.sort_values("row")["score"], scores)
    assert list(ranked.columns[:2]) == ["account", "row"]
    assert_array_equal(ranked["account"], cards["account"][ranked["row"]])
    odd = ranked.loc[1200]
    assert odd["rank"] <= 24
    assert odd["reasons"].startswith("amount 3 (low, usually 3")  # of its own account: about 385 on average
    assert "account" not in odd["reasons"]
    alone = detect(cards[["amount", "hour"]], random_state=0, n_estimators=30).to_frame()
    assert alone.loc[1200, "rank"] > 100


def test_two_columns_make_a_group_and_arrow_is_answered_by_arrow(cards):
    cards["kind"] = np.arange(len(cards)) % 2
    ranked = detect(pa.Table.from_pandas(cards), within=["account", "kind"], random_state=0, n_estimators=9).to_frame()
    labels = list(zip(cards["account"], cards["kind"].tolist(), strict=True))
    scores = IDKPointDetector(9, random_state=0).fit(cards[NAMES], within=labels).scores_
    assert_array_equal(ranked["score"].to_numpy()[np.argsort(ranked["row"].to_numpy())], scores)


def test_rows_without_a_label_are_an_error_or_left_out(cards):
    cards.loc[7, "account"] = None
    with pytest.raises(ValueError, match="account: row 7 has no label"):
        detect(cards, within="account").to_frame()
    with pytest.warns(UserWarning, match="1 of 1,201 rows have no group label"):
        ranked = detect(cards, within="account", missing="drop", random_state=0, n_estimators=9).to_frame()
    assert np.isnan(ranked.loc[7, "score"])
    remaining = cards.drop(index=7)
    scores = IDKPointDetector(9, random_state=0).fit(remaining[NAMES], within=remaining["account"]).scores_
    assert_array_equal(ranked.sort_values("row")["score"].dropna(), scores)


def test_what_cannot_be_is_refused_in_a_sentence(cards):
    with pytest.raises(ValueError, match="within='nobody'; the table has no such column"):
        detect(cards, within="nobody").to_frame()
    with pytest.raises(ValueError, match="within= compares rows, not groups"):
        fit(cards, by="account", within="account")


def test_the_command_ranks_learns_scores_and_explains(cards, tmp_path):
    table, new, model = tmp_path / "cards.csv", tmp_path / "new.csv", tmp_path / "m.isobag"
    cards[:1200].to_csv(table, index=False)
    unseen = pd.DataFrame({"account": ["nobody"], "amount": [30.0], "hour": [12.0]})
    pd.concat([cards[1190:], unseen]).to_csv(new, index=False)
    ranked = ask("detect", table, "--within", "account", "-t", 30, "--top", 1200)
    detector = IDKPointDetector(30, random_state=0)
    read = pd.read_csv(table)
    scores = detector.fit(read[NAMES], within=read["account"]).scores_
    assert {row["row"]: row["score"] for row in ranked["top"]} == dict(enumerate(scores.tolist()))
    assert run("fit", table, "--within", "account", "--save-model", model, "-t", 30).exit_code == 0
    scored = ask("score", model, new, "--top", 20)  # the model knows the column
    rows, detector = pd.read_csv(new), load(model).detector
    p_values = detector.p_values(rows[NAMES], within=rows["account"])
    assert {row["row"]: row["p_value"] for row in scored["top"]} == dict(enumerate(p_values.tolist()))
    assert min(scored["top"], key=lambda row: row["score"])["row"] == 10
    reasons = {row["row"]: row["reasons"] for row in scored["top"]}
    assert "usually 3" in reasons[10]  # the account's own range: about 385 on average
    assert reasons[11].endswith("account not in the model") and "not in the model" not in reasons[10]
    why = ask("explain", model, new, "--id", 10)
    assert why["p_value"] == p_values[10] and why["features"][0]["feature"] == "amount"
    renamed = tmp_path / "renamed.csv"
    rows.rename(columns={"account": "card"}).to_csv(renamed, index=False)
    assert_one_sentence(run("score", model, renamed), "account")
