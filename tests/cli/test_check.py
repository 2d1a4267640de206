"""``isobag check``: 0 fine, 1 odd, 2 whatever else; never 0 for a table in which nothing was looked at."""

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from commands import assert_one_sentence, finish, run, start

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "check.md"
NAME = "acct\x1b[2J<&>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of rows, of rows with a baseline, of groups; new tables that are fine, odd, and none at all."""
    folder, rng = tmp_path_factory.mktemp("check"), np.random.default_rng(0)

    def table(n, **columns):
        return pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")).assign(**columns)

    normal, fine = table(600, who=np.arange(600) % 20), table(400, who=np.arange(400) % 20)
    odd = fine.astype({"who": object})
    odd.loc[:9, list("abc")] += 40
    odd["who"] = odd["who"].astype(str)
    tables = {
        "normal": normal,
        "fine": fine,
        "odd": odd.assign(who=NAME + odd["who"]),
        "gaps": fine.assign(b=np.nan),
        "lacking": fine.drop(columns="b"),
        "groups": table(1800, who=np.repeat(np.arange(60), 30)),
        "shifted": table(1800, who=np.repeat(np.arange(60), 30)),
        "none": fine[:0],
    }
    tables["shifted"].loc[tables["shifted"]["who"] < 20, ["a"]] *= 0.02
    for name, own in tables.items():
        own.to_csv(folder / f"{name}.csv", index=False)
    (folder / "empty.csv").write_text("")
    learned = ("--features", "a,b,c", "-t", 30)
    models = {
        "rows": ("normal",),
        "filling": ("normal", "--missing", "median"),
        "owned": ("normal", "--within", "who"),
        "groups": ("detect", "--by", "who"),
    }
    for name, (source, *options) in models.items():
        fit = run("fit", folder / f"{source}.csv", *learned, *options, "--model", folder / f"{name}.isobag")
        assert fit.exit_code == 0, fit.stderr
    return folder


def check(folder, table, model="rows", *options):
    return run("check", folder / f"{table}.csv", "--model", folder / f"{model}.isobag", *options)


def test_the_exit_status_says_whether_the_share_of_odd_rows_is_too_large(folder):
    fine, odd = check(folder, "fine"), check(folder, "odd")
    assert (fine.exit_code, odd.exit_code) == (0, 1)
    assert "Fine: 0 of 400 rows are odd, a share of 0, not more than 0.01." in fine.stdout
    facts = json.loads(check(folder, "odd", "rows", "--json").stdout)
    assert facts["status"] == "odd" and facts["n_odd"] >= 10 and facts["share_odd"] == facts["n_odd"] / 400
    for limit, code in ((facts["share_odd"], 0), (np.nextafter(facts["share_odd"], 0), 1)):
        assert check(folder, "odd", "rows", "--max-odd", repr(float(limit))).exit_code == code


def test_what_is_odd_is_what_score_flags(folder):
    facts = json.loads(check(folder, "odd", "rows", "--fdr", 0.2, "--json", "--top", 400).stdout)
    score = run("score", folder / "rows.isobag", folder / "odd.csv", "--fdr", 0.2, "--top", 400, "--json")
    scored = json.loads(score.stdout)
    assert facts["odd"] == [row for row in scored["top"] if row["flagged"]] and facts["n_odd"] == scored["n_flagged"]


@pytest.mark.parametrize(("model", "odd", "fine"), [("detect", "shifted", "groups"), ("owned", "odd", "fine")])
def test_groups_and_rows_with_a_baseline_are_checked_too(folder, model, odd, fine):
    options = ("--by", "who") if model == "groups" else ()
    assert check(folder, odd, model, *options).exit_code == 1
    assert check(folder, fine, model, *options).exit_code == 0


def test_json_has_the_documented_keys(folder):
    facts = json.loads(check(folder, "odd", "rows", "--json").stdout)
    cells = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert [*facts] == [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]
    assert facts["schema"] in PAGE.read_text()


@pytest.mark.parametrize(
    ("table", "model", "options", "said"),
    [
        ("empty", "rows", (), "empty.csv is empty"),
        ("none", "rows", (), "none.csv has no rows"),
        ("missing", "rows", (), "No file matches"),
        ("lacking", "rows", (), "no such column"),
        ("gaps", "filling", (), "b: no value in any of 400 rows"),
        ("gaps", "rows", ("--missing", "drop"), "0 rows"),
        ("detect", "detect", ("--by", "who", "--min-size", 99), "No group has 99 or more rows"),
        ("detect", "detect", (), "give --by COLUMN"),
        ("detect", "detect", ("--by", "nobody"), "no column 'nobody'"),
        ("detect", "detect", ("--by", "who", "--fdr", 0.01), "60 calibration groups nothing can be flagged"),
        ("fine", "nowhere", (), "No such file"),
        ("fine", "rows", ("--max-odd", "nan"), "--max-odd nan; need a share"),
        ("fine", "rows", ("--max-odd", 1), "--max-odd 1.0; need a share"),
        ("fine", "rows", ("--fdr", "nan"), "--fdr nan; need a share"),
        ("fine", "rows", ("--junit", "out.txt"), "choose .xml"),
        ("fine", "rows", ("--out", "no/folder.csv"), "there is no folder"),
        ("fine", "rows", ("--nothing",), "No such option"),
    ],
    ids=str,
)
def test_an_error_is_2_and_one_sentence(folder, table, model, options, said):
    assert_one_sentence(check(folder, table, model, *options), said, code=2)


def test_a_model_without_p_values_is_an_error(folder, tmp_path):
    from isobag import IDKPointDetector, save

    save(
        IDKPointDetector(10, calibrate=False).fit(pd.read_csv(folder / "fine.csv")[list("abc")]), tmp_path / "m.isobag"
    )
    result = run("check", folder / "fine.csv", "--model", tmp_path / "m.isobag")
    assert_one_sentence(result, "was fitted without p-values", code=2)


def test_a_file_and_a_model_are_needed(folder):
    assert_one_sentence(run("check", folder / "fine.csv"), "--model", code=2)
    assert_one_sentence(run("check", "--model", folder / "rows.isobag"), "Neither a file nor a query", code=2)


def test_junit_has_one_case_that_passes_fails_or_has_an_error(folder, tmp_path):
    path = tmp_path / "out.xml"
    for table, counts, told in (("fine", "00", None), ("odd", "10", "failure"), ("empty", "01", "error")):
        check(folder, table, "rows", "--junit", path, "--id-column", "who", "--top", 3)
        suite = ElementTree.parse(path).getroot().find("testsuite")
        assert suite.get("tests") == "1" and suite.get("failures") + suite.get("errors") == counts
        case = suite.find("testcase")
        assert case.get("name").endswith(f"{table}.csv") and [one.tag for one in case] == ([told] if told else [])
        if told == "failure":
            assert "more than 0.01" in case[0].get("message") and case[0].text.count("\n") == 2
            assert "who acct\\x1b[2J<&>" in case[0].text and "\x1b" not in path.read_text()


def test_junit_is_never_written_over_what_is_read(folder, tmp_path):
    link = tmp_path / "out.xml"
    link.symlink_to(folder / "fine.csv")
    before = (folder / "fine.csv").read_bytes()
    assert_one_sentence(check(folder, "fine", "rows", "--junit", link), "is read by the same command", code=2)
    assert (folder / "fine.csv").read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("table", ["fine", "odd"])
def test_a_result_that_cannot_be_printed_is_an_error(folder, table):
    with open("/dev/full", "w") as full:
        process = start("check", folder / f"{table}.csv", "--model", folder / "rows.isobag", stdout=full)
        code, _, said = finish(process)
    assert code == 2 and "standard output: No space left" in said


@pytest.mark.slow
def test_debug_and_closed_pipes_do_not_make_errors_odd(folder):
    code, _, said = finish(start("check", folder / "no.csv", "--model", folder / "rows.isobag", "--debug"))
    assert code == 2 and "Traceback" in said
    reading, writing = os.pipe()
    os.close(reading)
    code, _, _ = finish(start("check", folder / "fine.csv", "--model", folder / "rows.isobag", stdout=writing))
    os.close(writing)
    assert code == 2
