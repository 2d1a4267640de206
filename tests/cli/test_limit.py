"""``isobag score --max-odd``: 0 fine, 1 too many, 2 whatever else; never 0 for a table in which nothing was judged."""

import json
import os
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, finish, run, start

NAME = "acct\x1b[2J<&>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of rows, of rows within groups, of groups; new tables that are fine, odd, and none at all."""
    folder, rng = tmp_path_factory.mktemp("limit"), np.random.default_rng(0)

    def table(n, **columns):
        return pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")).assign(**columns)

    normal, fine = table(600, who=np.arange(600) % 20), table(400, who=np.arange(400) % 20)
    odd = fine.astype({"who": str})
    odd.loc[:9, list("abc")] += 40
    groups, shifted = (table(1800, who=np.repeat(np.arange(60), 30)) for _ in range(2))
    shifted.loc[shifted["who"] < 20, "a"] *= 0.02
    tables = {
        "normal": normal,
        "fine": fine,
        "odd": odd.assign(who=NAME + odd["who"]),
        "gaps": fine.assign(b=np.nan),
        "lacking": fine.drop(columns="b"),
        "groups": groups,
        "shifted": shifted,
        "none": fine[:0],
    }
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    models = {
        "rows": ("normal",),
        "within": ("normal", "--within", "who"),
        "grouped": ("groups", "--by", "who"),
    }
    for name, (source, *options) in models.items():
        learned = ("--features", "a,b,c", "-t", 30, "--save-model", folder / f"{name}.isobag")
        fitted = run("fit", folder / f"{source}.csv", *options, *learned)
        assert fitted.exit_code == 0, fitted.stderr
    return folder


def check(folder, table, model="rows", *options):
    limit = () if "--max-odd" in options else ("--max-odd", 0.01)
    return run("score", folder / f"{model}.isobag", folder / f"{table}.csv", *limit, *options)


def test_the_exit_status_says_whether_the_share_flagged_is_too_large(folder):
    assert (check(folder, "fine").exit_code, check(folder, "odd").exit_code) == (0, 1)
    facts = json.loads(check(folder, "odd", "rows", "--json").stdout)
    assert facts["status"] == "odd" and facts["n_flagged"] >= 10 and facts["share_flagged"] == facts["n_flagged"] / 400
    for limit, code in ((facts["share_flagged"], 0), (np.nextafter(facts["share_flagged"], 0), 1)):
        assert check(folder, "odd", "rows", "--max-odd", repr(float(limit))).exit_code == code
    scored = ask("score", folder / "rows.isobag", folder / "odd.csv", "--fdr", 0.1)
    assert facts["top"] == scored["top"] and "status" not in scored


@pytest.mark.parametrize(("model", "odd", "fine"), [("grouped", "shifted", "groups"), ("within", "odd", "fine")])
def test_groups_and_rows_within_groups_are_judged_too(folder, model, odd, fine):
    assert check(folder, odd, model).exit_code == 1 and check(folder, fine, model).exit_code == 0


@pytest.mark.parametrize(
    ("table", "model", "options", "fact"),
    [
        ("none", "rows", (), "none.csv"),
        ("missing", "rows", (), "missing.csv"),
        ("lacking", "rows", (), "'b'"),
        ("gaps", "rows", (), "b: no value in any of 400 rows"),
        ("gaps", "rows", ("--missing", "drop"), "0 rows"),
        ("groups", "grouped", ("--min-size", 99), "99 or more rows"),
        ("groups", "grouped", ("--by", "nobody"), "'nobody'"),
        ("groups", "grouped", ("--fdr", 0.01), "60 calibration groups"),
        ("fine", "rows", ("--by", "who"), "--by who; the model scores rows"),
        ("fine", "nowhere", (), "nowhere.isobag"),
        ("fine", "rows", ("--max-odd", "nan"), "--max-odd nan; need a share"),
        ("fine", "rows", ("--max-odd", 1), "--max-odd 1.0; need a share"),
        ("fine", "rows", ("--fdr", "nan"), "--fdr nan; need a share"),
        ("fine", "rows", ("--junit", "out.txt"), "choose .xml"),
        ("fine", "rows", ("--out", "no/folder.csv"), "there is no folder"),
    ],
    ids=str,
)
def test_an_error_is_2_and_one_sentence(folder, table, model, options, fact):
    assert_one_sentence(check(folder, table, model, *options), fact)


def test_junit_has_one_case_that_passes_fails_or_has_an_error(folder, tmp_path):
    path = tmp_path / "out.xml"
    for table, counts, outcome in (("fine", "00", None), ("odd", "10", "failure"), ("none", "01", "error")):
        check(folder, table, "rows", "--junit", path, "--id-column", "who")
        suite = ElementTree.parse(path).getroot().find("testsuite")
        assert suite.get("tests") == "1" and suite.get("failures") + suite.get("errors") == counts
        case = suite.find("testcase")
        assert case.get("name").endswith(f"{table}.csv") and [one.tag for one in case] == ([outcome] if outcome else [])
        if outcome == "failure":
            assert "0.01" in case[0].get("message") and "who acct\\x1b[2J<&>" in case[0].text
            assert "\x1b" not in path.read_text()


def test_junit_is_never_written_over_what_is_read(folder, tmp_path):
    link = tmp_path / "out.xml"
    link.symlink_to(folder / "fine.csv")
    before = (folder / "fine.csv").read_bytes()
    assert_one_sentence(check(folder, "fine", "rows", "--junit", link), "is read by the same command")
    assert (folder / "fine.csv").read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_result_that_cannot_be_printed_and_a_traceback_are_errors_and_no_verdict(folder):
    score = ("score", folder / "rows.isobag")
    with open("/dev/full", "w") as full:
        code, _, message = finish(start(*score, folder / "odd.csv", "--max-odd", 0.01, stdout=full))
    assert code == 2 and "No space left" in message
    code, _, message = finish(start(*score, folder / "no.csv", "--max-odd", 0.01, "--debug"))
    assert code == 2 and "Traceback" in message
