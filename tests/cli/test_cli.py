"""The command line: what it prints, what it writes, how it fails."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isobag import detect_groups, detect_points, load
from isobag.datasets import make_card_accounts

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from pyarrow import feather, parquet  # noqa: E402, only if there

from isobag.cli.app import app  # noqa: E402
from isobag.storage.files import FileTable  # noqa: E402

COMMANDS = ["points", "groups", "fit", "score", "explain", "compare", "demo", "reproduce"]
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def cards():
    X, names, labels, _ = make_card_accounts(30, 2, random_state=0)
    return pd.DataFrame(X, columns=names).assign(account=labels)


@pytest.fixture
def csv(cards, tmp_path):
    path = tmp_path / "cards.csv"
    cards.to_csv(path, index=False)
    return path


def run(*args):
    """Run a command in this process."""
    return typer_testing.CliRunner().invoke(app, [str(arg) for arg in args])


def ask(*args):
    """What a command prints as JSON."""
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def start(*args, **options):
    """Start a command in a process of its own."""
    command = [sys.executable, "-m", "isobag", *map(str, args)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}, **options
    )


def assert_one_sentence(result, *facts, code=1):
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for fact in facts:
        assert fact in result.stderr, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    result = run(command, "--help")
    assert result.exit_code == 0 and command in result.stdout


def test_the_shell_can_learn_to_complete():
    assert "--install-completion" in run("--help").stdout


def test_points_say_what_detect_points_says(csv, cards):
    found = ask("points", csv, "--top", 4, "--id-column", "account", "-t", 20, "--seed", 3)
    expected = detect_points(cards, id="account", n_estimators=20, random_state=3).head(4)
    for name in ("account", "row", "score", "rank", "p_value", "flagged", "reasons"):
        assert [row[name] for row in found["top"]] == expected[name].tolist()
    assert found["n_rows"] == len(cards) and found["left_out"] == []
    assert found["features"] == list(cards.columns[:4])


def test_groups_say_what_detect_groups_says(csv, cards):
    found = ask("groups", csv, "--by", "account", "--top", 3, "-t", 20)
    expected = detect_groups(cards, "account", n_estimators=20, random_state=0).head(3)
    for name in ("account", "n_points", "score", "p_value", "flagged", "reasons"):
        assert [row[name] for row in found["top"]] == expected[name].tolist()


FORMATS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "csv.zst": lambda frame, path: frame.to_csv(pa.CompressedOutputStream(str(path), "zstd"), index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    "jsonl.gz": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    "parquet": lambda frame, path: parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=99),
    "arrow": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path, compression="lz4"),
    "feather": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path),
}


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_read_alike(ending, cards, tmp_path):
    frame = cards[:300].round(2)
    path = tmp_path / f"t.{ending}"
    FORMATS[ending](frame, path)
    read = FileTable(str(path)).read().to_pandas()
    assert np.array_equal(read[list(frame.columns[:4])].to_numpy(float), frame.iloc[:, :4].to_numpy())
    assert read["account"].tolist() == frame["account"].tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_glob_is_its_files_in_order_of_their_names(ending, cards, tmp_path):
    for i, part in enumerate((cards[:100], cards[100:101], cards[101:150])):
        FORMATS[ending](part, tmp_path / f"part-{i}.{ending}")
    read = FileTable(str(tmp_path / f"part-*.{ending}")).read()
    assert read.column("amount").to_pylist() == cards["amount"][:150].tolist()


def test_sql_runs_over_the_file_or_names_files_itself(csv):
    over = ask("points", csv, "--sql", "SELECT amount, hour FROM data WHERE hour < 12 ORDER BY amount;", "-t", 10)
    itself = ask("points", "--sql", f"SELECT amount, hour FROM '{csv}' WHERE hour < 12 ORDER BY amount", "-t", 10)
    assert over == itself and over["features"] == ["amount", "hour"]


@pytest.mark.parametrize("sql", ["DROP VIEW data", "SELECT 1 AS a; SELECT 2 AS a", "COPY data TO 'here.csv'"])
def test_sql_that_is_no_query_is_not_run(csv, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_one_sentence(run("points", csv, "--sql", sql))
    assert not Path("here.csv").exists()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_all_ranked_rows_are_written(ending, csv, cards, tmp_path):
    out = tmp_path / f"scores.{ending}"
    result = run("points", csv, "--out", out, "-t", 10, "--quiet", "--top", 0)
    assert result.exit_code == 0 and result.output == ""
    expected = detect_points(cards, n_estimators=10, random_state=0)
    read = FileTable(str(out)).read().to_pandas()
    assert read["row"].tolist() == expected["row"].tolist()
    assert np.array_equal(read["score"], expected["score"]) and np.array_equal(read["p_value"], expected["p_value"])
    assert read["flagged"].tolist() == expected["flagged"].tolist()
    assert os.listdir(tmp_path).count(out.name) == 1 and not list(tmp_path.glob(".*.part"))


def test_a_streamed_file_says_the_same_as_one_in_memory(csv, monkeypatch):
    expected = ask("points", csv, "-t", 10, "--top", 50)
    monkeypatch.setattr("isobag.cli.inputs.KEPT_BYTES", 0)
    assert ask("points", csv, "-t", 10, "--top", 50) == expected


def test_a_model_scores_new_rows_and_explains_them(csv, cards, tmp_path):
    model = tmp_path / "m.isobag"
    assert run("fit", csv, "--model", model, "-t", 10).exit_code == 0
    detector = load(model)
    new = tmp_path / "new.csv"
    cards[:50][["account", "hour", "km_from_home", "amount", "minutes_since_last"]].to_csv(new, index=False)
    found = ask("score", model, new, "--top", 50)
    scores = {row["row"]: (row["score"], row["p_value"]) for row in found["top"]}
    X = cards[:50][list(cards.columns[:4])]
    both = zip(detector.score_samples(X), detector.p_values(X), strict=True)
    assert scores == dict(enumerate((float(score), float(p)) for score, p in both))
    why = ask("explain", model, new, "--id", 3)
    assert why["score"] == scores[3][0]
    parts = {one["feature"]: one["adds"] for one in why["features"]}
    assert parts == pytest.approx(detector.explain(X).iloc[3].to_dict())
    assert_one_sentence(run("explain", model, new, "--id", 50), "need a number from 0 to 49")
    assert_one_sentence(run("score", model, new, "--by", "account"), "leave --by out")


def test_a_model_of_groups_scores_and_explains_groups(csv, cards, tmp_path):
    model = tmp_path / "g.isobag"
    assert run("fit", csv, "--by", "account", "--model", model, "-t", 10).exit_code == 0
    found = ask("score", model, csv, "--by", "account", "--top", 30)
    X = cards[list(cards.columns[:4])]
    expected = dict(load(model).rank(X, groups=cards["account"].to_numpy()))
    assert {row["account"]: row["score"] for row in found["top"]} == expected
    label = found["top"][0]["account"]
    why = ask("explain", model, csv, "--by", "account", "--id", label)
    assert why["score"] == expected[label] and len(why["features"]) == 4
    assert_one_sentence(run("score", model, csv), "give --by COLUMN")
    assert_one_sentence(run("explain", model, csv, "--by", "account", "--id", "nobody"), "'nobody' is not among")


def test_texts_and_gaps_go_through_fit_and_score(cards, tmp_path):
    frame = cards[:200].assign(kind=["a", "b"] * 100)
    frame.loc[4, "amount"] = None
    frame.to_parquet(tmp_path / "t.parquet")
    model = tmp_path / "m.isobag"
    options = ("--features", "amount,kind", "--missing", "drop", "-t", 10)
    assert run("fit", tmp_path / "t.parquet", "--model", model, *options).exit_code == 0
    assert list(load(model).feature_names_in_) == ["amount", "kind=a", "kind=b"]
    found = ask("score", model, tmp_path / "t.parquet", "--missing", "drop", "--top", 200)
    assert found["n_left_out"] == 1 and found["top"][-1] == {
        "row": 4,
        "score": None,
        "rank": 200,
        "p_value": None,
        "flagged": False,
        "n_missing": 1,
        "reasons": "",
    }
    assert_one_sentence(run("score", model, tmp_path / "t.parquet"), "missing in 'amount' (1)")
    assert_one_sentence(run("score", model, tmp_path / "t.parquet", "--missing", "median"), "does not keep the medians")


def test_compare_finds_the_feature_that_differs(cards, tmp_path):
    cards[:400].to_csv(tmp_path / "a.csv", index=False)
    cards[400:800].assign(hour=lambda frame: frame["hour"] / 3).to_csv(tmp_path / "b.csv", index=False)
    found = ask("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--n-permutations", 99)
    assert found["p_value"] == 0.01 and found["features"][0]["feature"] == "hour"
    assert found["features"][0]["sets_apart"] > 0


def test_a_report_is_written_for_rows_and_for_groups(csv, tmp_path):
    pytest.importorskip("jinja2")
    for args in (("points", csv), ("groups", csv, "--by", "account")):
        page = tmp_path / f"{args[0]}.html"
        assert run(*args, "--report", page, "-t", 10).exit_code == 0
        assert page.read_text("utf-8").lstrip().lower().startswith("<!doctype html>")


def test_failures_are_one_sentence_with_a_reason(csv, tmp_path):
    (tmp_path / "bad.parquet").write_text("no parquet")
    (tmp_path / "empty.csv").write_text("a,b\n")
    (tmp_path / "gaps.csv").write_text("a,b\n1,2\nNA,3\n4,5\n")
    (tmp_path / "late.csv").write_text("a,b\n" + "1,2\n" * 40_000 + "x,2\n")
    assert_one_sentence(run("points", tmp_path / "none.csv"), "No file matches")
    assert_one_sentence(run("points", tmp_path / "data.xlsx"), "no known ending")
    assert_one_sentence(run("points", tmp_path / "bad.parquet"), "bad.parquet")
    assert_one_sentence(run("points", tmp_path / "empty.csv"), "no column of numbers")
    assert_one_sentence(run("points", tmp_path / "gaps.csv"), "missing in 'a' (1) of 3 rows")
    assert_one_sentence(run("points", tmp_path / "late.csv"), "40002")
    assert_one_sentence(run("points", csv, "--features", "amount,nothing"), "features has 'nothing'")
    assert_one_sentence(run("points", csv, "--id-column", "nothing"), "no column 'nothing'")
    assert_one_sentence(run("points", csv, "--psi", "1"), "max_samples=1; need 2 or more")
    assert_one_sentence(run("points", csv, "--out", tmp_path / "scores.xls"), "no known ending")
    assert_one_sentence(run("points", csv, "--out", tmp_path / "no" / "scores.csv"), "there is no folder")
    assert_one_sentence(run("points", csv, "--sql", "SELECT nothing FROM data"), "nothing")
    assert_one_sentence(run("score", csv, csv), "no model file")


def test_misuse_has_exit_code_two(csv):
    for args in (
        ["points"],
        ["points", csv, "--psi", "some"],
        ["groups", csv],
        ["points", csv, "--top", "-1"],
        ["nope"],
    ):
        assert run(*args).exit_code == 2


def test_debug_shows_where_an_error_comes_from(tmp_path):
    process = start("points", tmp_path / "none.csv", "--debug")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and out == "" and "Traceback" in err and "No file matches" in err


def test_piped_json_is_json_and_nothing_else(csv):
    process = start("points", csv, "--json", "-t", "10", "--out", csv.parent / "o.csv")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == ""
    assert len(json.loads(out)["top"]) == 10


def test_piped_tables_have_no_escape_codes_and_no_progress(csv):
    process = start("groups", csv, "--by", "account", "-t", "10", "--top", "2")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ESCAPE not in out + err and "\r" not in out + err
    assert len(out.splitlines()) == 3 and out.startswith("account")
    assert re.match(r"30 groups, \d+ flagged; looked at amount, ", err)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_to_is_named(csv):
    assert_one_sentence(run("points", csv, "-t", 5, "--out", "/proc/o.csv"), "/proc/o.csv: ")


def test_a_full_disk_is_named_and_leaves_nothing(csv, tmp_path, monkeypatch):
    def full(file, schema):
        def write(table):
            raise OSError(28, "No space left on device")

        return write

    monkeypatch.setitem(sys.modules["isobag.storage.files"]._WRITERS, ".csv", full)
    assert_one_sentence(run("points", csv, "-t", 5, "--out", tmp_path / "o.csv"), "the disk is full")
    assert sorted(os.listdir(tmp_path)) == ["cards.csv"]


SLOW_WRITER = """
import sys, time
import isobag.storage.files as files
def slow(file, schema):
    def write(table):
        file.write(b"half")
        file.flush()
        print("writing", flush=True)
        time.sleep(60)
    return write
files._WRITERS[".csv"] = slow
from isobag.cli import main
sys.argv = ["isobag", *sys.argv[1:]]
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_stopped_command_leaves_no_file_of_the_final_name(csv, tmp_path, sent, code):
    out = tmp_path / "scores.csv"
    command = [sys.executable, "-c", SLOW_WRITER, "points", csv, "-t", "5", "--no-p-values", "--out", out]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    time.sleep(0.1)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert not out.exists()
    if sent == signal.SIGINT:
        assert err.strip() == "Stopped; no file is left half-written."
        assert sorted(os.listdir(tmp_path)) == ["cards.csv"]


def test_an_old_result_stays_if_the_new_one_fails(csv, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("old")
    assert_one_sentence(run("points", csv, "--features", "nothing", "--out", out))
    assert out.read_text() == "old"


def test_the_command_line_loads_nothing_heavy_to_show_help():
    code = "import sys, isobag.cli.app; print([name for name in ('numpy', 'sklearn', 'duckdb') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lines_that_do_not_fit_the_first_are_an_error_and_none_is_dropped(tmp_path):
    file = tmp_path / "ragged.csv"
    for lines in ("a,b\n1,2\n3\n4,5,6\n5,6,7\n6,7,8\n", "a,b\n" + "1,2\n" * 3 + "1,2,3\n" * 200):
        file.write_text(lines)
        result = run("points", file)
        assert result.exit_code == 1 and "more or fewer fields than the first" in result.stderr


def test_semicolons_and_decimal_commas_are_read_as_such(tmp_path):
    file = tmp_path / "european.csv"
    file.write_text("a;b\n0,5;-1,25\n1,5;2,5\n2,5;3\n3;4\n")
    found = FileTable(str(file)).read()
    assert found.to_pydict() == {"a": [0.5, 1.5, 2.5, 3.0], "b": [-1.25, 2.5, 3.0, 4.0]}


def test_nothing_is_written_over_what_is_read_or_written_by_the_same_command(csv, tmp_path):
    before = csv.read_bytes()
    for arguments in (["--out", csv], ["--out", tmp_path / "one.csv", "--model", tmp_path / "one.csv"]):
        result = run("points", csv, *arguments)
        assert result.exit_code == 1 and "by the same command" in result.stderr
    assert csv.read_bytes() == before and not (tmp_path / "one.csv").exists()


def test_files_of_a_glob_must_have_the_same_columns(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n2,3\n")
    (tmp_path / "2.csv").write_text("a,b,c\n1,2,3\n")
    result = run("points", tmp_path / "*.csv")
    assert result.exit_code == 1 and "they differ in 'c'" in result.stderr


@pytest.mark.parametrize("kind", ["folder", "empty"])
def test_a_folder_and_an_empty_file_are_named_as_such(tmp_path, kind):
    file = tmp_path / "empty.csv"
    file.touch()
    result = run("points", tmp_path if kind == "folder" else file)
    assert result.exit_code == 1 and kind in result.stderr


def test_whole_numbers_beyond_floats_are_rounded_alike_in_every_library(cards):
    frame = cards.head(60)[["amount"]].assign(number=np.arange(10**18, 10**18 + 60))
    one, other = detect_points(frame, random_state=0), detect_points(pa.Table.from_pandas(frame), random_state=0)
    assert one["row"].tolist() == other["row"].to_pylist()


def test_a_text_in_a_third_of_the_rows_is_not_called_rare(cards):
    frame = cards.head(60)[["amount"]].assign(kind=["x", "y", "z"] * 20)
    reasons = detect_points(frame, features=["amount", "kind"], random_state=0)["reasons"]
    assert not reasons.str.contains("rare").any()
