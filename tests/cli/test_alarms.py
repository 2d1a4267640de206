"""What commands say about alarms: which p-values are extrapolated, what cannot be flagged, what is not known."""

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run

from isobag import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of 600 rows, of 30 of them and of 60 groups of 30 rows, and new tables."""
    folder, rng = tmp_path_factory.mktemp("alarms"), np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(600, 3)), columns=list("abc"))
    new = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    groups = pd.DataFrame(rng.normal(size=(1800, 2)), columns=list("ab")).assign(who=np.repeat(np.arange(60), 30))
    tables = {
        "rows": rows,
        "few": rows[:30],
        "walk": pd.DataFrame(np.cumsum(rng.normal(size=(600, 2)), axis=0), columns=list("ab")),
        "clean": new,
        "gross": new.mask(np.arange(400)[:, None] == np.full(3, 7), 50.0),
        "groups": groups,
        "short": groups[(groups["who"] != 5) | (groups.index % 30 < 2)],
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    for name in ("rows", "few", "walk"):
        assert run("fit", folder / f"{name}.csv", "--save-model", folder / f"{name}.isobag", "-t", 40).exit_code == 0
    by = ("--by", "who", "--save-model", folder / "groups.isobag", "-t", 20)
    assert run("fit", folder / "groups.csv", *by).exit_code == 0
    return folder


def test_a_gross_row_is_flagged_by_an_extrapolated_p_value_unless_only_exact_ones_are_asked_for(folder):
    model, new = folder / "rows.isobag", folder / "gross.csv"
    first = ask("score", model, new, "--fdr", 0.1)["top"][0]
    assert first["row"] == 7 and first["flagged"] and first["extrapolated"] and first["p_value"] < 1 / 601
    exact = ask("score", model, new, "--fdr", 0.1, "--exact")["top"]
    assert exact[0]["p_value"] == 1 / 601 and not any(row["extrapolated"] or row["flagged"] for row in exact)
    p_values = load(model).detector.p_values(pd.read_csv(new), exact=True)
    assert all(row["p_value"] == p_values[row["row"]] for row in exact)


def test_what_cannot_be_flagged_is_said_with_the_way_out(folder):
    message = run("score", folder / "rows.isobag", folder / "clean.csv", "--fdr", 0.1, "--exact").stderr
    assert "0 of 400 rows" in message and "600 calibration rows" in message and "at least 7 anomalies" in message
    message = run("score", folder / "groups.isobag", folder / "groups.csv", "--fdr", 0.01).stderr
    assert "60 calibration groups" in message and "nothing can be flagged at FDR 0.01" in message


def test_rows_that_hang_together_in_time_are_noticed(folder):
    for name, table, is_noticed in (("walk", "walk", True), ("rows", "clean", False)):
        assert (
            "autocorrelated" in run("score", folder / f"{name}.isobag", folder / f"{table}.csv").stderr
        ) == is_noticed


def test_a_group_that_is_odd_by_its_size_alone_says_so(folder):
    answer = ask("score", folder / "groups.isobag", folder / "short.csv")["top"][0]
    assert answer["who"] == 5 and answer["reasons"].startswith("n_points 2 (low, usually 30), ")
    assert answer["p_value"] == answer["p_size"] / 2 == 1 / 61 < answer["p_shape"]
    why = ask("explain", folder / "groups.isobag", folder / "short.csv", "--id", 5)
    assert {name: why[name] for name in ("p_value", "p_shape", "p_size")} == {
        name: answer[name] for name in ("p_value", "p_shape", "p_size")
    }


def test_shape_and_size_are_those_of_the_detector(folder):
    frame, detector = pd.read_csv(folder / "short.csv"), load(folder / "groups.isobag").detector
    top = ask("score", folder / "groups.isobag", folder / "short.csv", "--top", 60)["top"]
    actual = {row["who"]: (row["p_value"], row["p_shape"], row["p_size"]) for row in top}
    X, labels = frame[["a", "b"]], frame["who"].to_numpy()
    expected = zip(
        *(verb(X, groups=labels) for verb in (detector.p_values, detector.p_shape, detector.p_size)), strict=True
    )
    assert actual == dict(zip(pd.unique(labels), expected, strict=True))


def test_of_a_table_of_its_own_what_its_bulk_does_not_explain_is_flagged_and_nothing_else(folder):
    gross, clean = ask("detect", folder / "gross.csv", "-t", 40), ask("detect", folder / "clean.csv", "-t", 40)
    assert [row["row"] for row in gross["top"] if row["flagged"]] == [7] and gross["n_flagged"] == 1
    assert clean["n_flagged"] == 0
    assert "1 of 400 rows flagged" in run("detect", folder / "gross.csv").stderr
    assert "0 of 400 rows flagged" in run("detect", folder / "clean.csv").stderr


def test_a_share_to_flag_is_flagged_and_too_few_rows_have_no_tail(folder):
    assert ask("detect", folder / "clean.csv", "--contamination", 0.05, "-t", 10)["n_flagged"] == 20
    (folder / "ten.csv").write_text("".join((folder / "few.csv").read_text().splitlines(True)[:11]))
    assert "0 of 10 rows flagged. Too few" in run("detect", folder / "ten.csv", "-t", 10).stderr


def test_a_budget_of_false_alarms_is_a_level_of_p_values(folder):
    model, new = folder / "rows.isobag", folder / "gross.csv"
    for options, level in ((("--per-day", 4), 0.01), (("--per-day", 4, "--days", 2), 0.02)):
        asked = ask("score", model, new, *options, "--top", 400)
        assert {row["row"] for row in asked["top"] if row["flagged"]} == {
            row["row"] for row in asked["top"] if row["p_value"] <= level
        }
        assert asked["n_flagged"] >= 1 and asked["n_expected"] == 400 * level
    assert_one_sentence(run("score", model, new, "--per-day", 4, "--fdr", 0.1), "--fdr and --per-day are alternatives")
