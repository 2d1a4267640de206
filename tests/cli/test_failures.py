"""What goes wrong is said in one sentence, with the place and what to do, and nothing is written."""

import os
import sys
from types import SimpleNamespace

import pytest
from commands import ask, assert_one_sentence, run


@pytest.fixture
def written(tmp_path):
    def write(content, name="t.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return write


def test_failures_are_one_sentence_with_a_reason(csv, written, tmp_path):
    assert_one_sentence(run("detect", tmp_path / "none.csv"), "No file matches")
    assert_one_sentence(run("detect", written("", "data.xls")), "no known ending")
    assert_one_sentence(run("detect", written("no parquet", "bad.parquet")), "bad.parquet cannot be read")
    assert_one_sentence(run("detect", written("a,b\n", "empty.csv")), "empty.csv has no rows")
    assert_one_sentence(run("detect", written("", "nothing.csv")), "nothing.csv is empty")
    assert_one_sentence(run("detect", tmp_path), "is a folder")
    assert_one_sentence(
        run("detect", written("a,b\n1,2\nNA,3\n4,5\n"), "--missing", "error"),
        "missing in 'a' (1) of 3 rows",
        "--missing drop",
    )
    assert_one_sentence(run("detect", csv, "--features", "amount,nothing"), "--features has 'nothing'")
    assert_one_sentence(run("detect", csv, "--id-column", "nothing"), "no column 'nothing'")
    assert_one_sentence(run("detect", csv, "--by", "nothing"), "no column 'nothing'")
    assert_one_sentence(run("detect", csv, "--by", "account", "--min-size", 10_000), "No group has 10000 or more rows")
    assert_one_sentence(run("detect", csv, "--out", tmp_path / "scores.xls"), "no known ending")
    assert_one_sentence(run("detect", csv, "--out", tmp_path / "no" / "scores.csv"), "there is no folder")
    assert_one_sentence(run("detect", csv, "--sql", "SELECT nothing FROM data"), "nothing")
    assert_one_sentence(run("score", csv, csv), "not a model file")
    assert_one_sentence(run("detect", "-", "--format", "parquet", stdin=b""), "standard input cannot be read")


@pytest.mark.parametrize("bad", ["--", "oops", "$1.50", "5%", "inf"])
@pytest.mark.parametrize("at", [3, 40_000])
def test_a_bad_cell_among_numbers_stops_wherever_it_stands(written, bad, at):
    rows = [f"{i % 50},{i % 7}.5" for i in range(40_010)]
    rows[at] = f"{bad},1"
    path = written("amount,b\n" + "\n".join(rows) + "\n")
    place = f"row {at} (line {at + 2} of "
    shown = bad.strip('"')
    assert_one_sentence(run("detect", path), "amount: 40,009 of 40,010 cells are numbers", place, repr(shown))
    answer = ask("detect", path, "--bad-cells", "missing", "--missing", "drop", "-t", 2, "--max-samples", 4, "--top", 1)
    assert answer["n_left_out"] == 1 and answer["table"]["n_dropped"] == 1


def test_late_decimals_comment_signs_and_headerless_files_lose_nothing(written):
    late = written("q\n" + "1\n2\n3\n" * 9_000 + "0.4\n", "late.csv")
    result = run("detect", late, "-t", 5, "--top", 0, "--out", "-", "--keep", "q")
    assert "0.4" in {line.split(",")[-1] for line in result.stdout.splitlines()}
    marks = written("name,a\n#one,5\ntwo,1\n#three,2\nfour,900\n" + "five,3\n" * 20, "marks.csv")
    top = ask("detect", marks, "--id-column", "name", "-t", 20, "--top", 1)["top"][0]
    assert (top["row"], top["name"]) == (3, "four")
    plain = written("1,2\n" * 10 + "50,60\n", "plain.csv")
    assert ask("detect", plain, "-t", 5)["n_rows"] == 11
    assert ask("detect", plain, "--header", "-t", 5)["n_rows"] == 10


def test_semicolons_and_decimal_commas_are_asked_about_and_read(written):
    path = written("a;b\n0,5;-1,25\n1,5;2,5\n2,5;3\n3;4\n")
    assert_one_sentence(run("detect", path), "numbers with a decimal comma", "--decimal ,")
    assert ask("detect", path, "--decimal", ",", "-t", 5)["features"] == ["a", "b"]


def test_identifiers_are_left_out_and_said_to_be(written):
    path = written("order_id,line,a\n" + "".join(f"{i * 7 % 50},{i},{i % 5}\n" for i in range(50)))
    result = run("detect", path, "-t", 5)
    assert "Left out: order_id (an identifier by its name)." in result.stderr
    assert "Left out: line (an identifier: it numbers the rows)." in result.stderr
    left = [one["name"] for one in ask("detect", path, "-t", 5)["table"]["columns"] if one["role"] == "left out"]
    assert left == ["order_id", "line"]
    assert ask("detect", path, "-t", 5, "--features", "order_id,a")["features"] == ["order_id", "a"]


def test_rows_without_a_label_are_an_error_or_left_out(written):
    path = written("k,a\n" + "".join(f"{'' if i == 7 else i % 4},{i % 5}\n" for i in range(60)))
    assert_one_sentence(run("detect", path, "--by", "k"), "row 7 of ", "--missing drop")
    answer = ask("detect", path, "--by", "k", "--missing", "drop", "-t", 5)
    assert sorted((row["k"], row["n_points"]) for row in answer["top"]) == [(0, 15), (1, 15), (2, 15), (3, 14)]


def test_lines_that_do_not_fit_are_an_error_and_none_is_dropped(written):
    assert_one_sentence(run("detect", written("a,b\n1,2\n3\n4,5,6\n")), "row 1 (line 3): 1 cell, but the table has 2")
    assert_one_sentence(run("detect", written("a,b\n" + "1,2\n" * 3 + "1,2,3\n" * 9)), "row 3 (line 5): 3 cells")


def test_files_of_one_table_must_have_the_same_columns(written, tmp_path):
    files = written("a,b\n1,2\n2,3\n", "1.csv"), written("a,b,c\n1,2,3\n", "2.csv")
    assert_one_sentence(run("detect", *files), "they differ in 'c'")
    assert_one_sentence(run("detect", tmp_path / "?.csv"), "they differ in 'c'")


def test_parameters_are_named_as_options(csv):
    assert_one_sentence(
        run("detect", csv, "--max-samples", 1), "--max-samples 1; need 'auto' or an integer of 2 or more"
    )
    assert_one_sentence(run("detect", csv, "--max-samples=99999"), "--max-samples 99999; need 4017 or fewer")
    assert_one_sentence(run("detect", csv, "-t", 0), "--n-estimators 0; need")
    assert_one_sentence(run("detect", csv, "--contamination", 0.9), "--contamination 0.9; need")
    assert_one_sentence(run("detect", csv, "--jobs", 0), "--jobs 0; need")
    assert_one_sentence(run("compare", csv, csv, "--n-permutations", 1), "--n-permutations 1; need")
    assert_one_sentence(run("detect", csv, "--features", "n_jobs=3"), "--features has 'n_jobs=3'; the table")


@pytest.mark.parametrize(
    "args",
    [
        ["detect", "t.csv", "--max-samples", "some"],
        ["points", "t.csv"],
        ["detect", "t.csv", "--top", "-1"],
        ["detect", "t.csv", "--missing", "zero"],
        ["detect", "t.csv", "--nothing"],
        ["pints"],
        ["score"],
    ],
    ids=" ".join,
)
def test_misuse_is_one_sentence_too(args):
    result = run(*args)
    assert_one_sentence(result, "--help'.", code=2)


ESCAPES = "\x1b]52;c;aGk=\x07\x1b[2J\x1b]0;title\x07\u202e"


def test_nothing_of_a_file_acts_on_the_terminal(written):
    path = written(f"a,na{ESCAPES}me,k\n" + "".join(f"{i % 5},{i % 3},x{ESCAPES}{i % 4}\n" for i in range(40)))
    for args in (
        ("detect", path, "--id-column", "k"),
        ("detect", path, "--by", "k"),
        ("detect", path, "--features", f"no{ESCAPES}"),
        ("detect", path, "--features", "k"),
        ("detect", str(path) + ESCAPES),
        ("detect", path, "--by", f"{ESCAPES}"),
        ("detect", path, f"--no{ESCAPES}"),
        (f"de{ESCAPES}",),
        ("compare", path, path, "--n-permutations", 19),
    ):
        result = run(*args)
        shown = result.output.replace("\n", "")
        assert shown and shown.isprintable(), (args, result.output)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_to_is_named(csv):
    assert_one_sentence(run("detect", csv, "-t", 5, "--out", "/proc/o.csv"), "/proc/o.csv: ")


def test_a_full_disk_is_named_and_leaves_nothing(csv, tmp_path, monkeypatch):
    def full(file, schema):
        def write(table):
            raise OSError(28, "No space left on device")

        return SimpleNamespace(write_table=write)

    monkeypatch.setitem(sys.modules["isobag.storage.files"]._WRITERS, ".csv", full)
    assert_one_sentence(run("detect", csv, "-t", 5, "--out", tmp_path / "o.csv"), "the disk is full")
    assert sorted(os.listdir(tmp_path)) == ["cards.csv"]


def test_an_old_result_stays_if_the_new_one_fails(csv, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("old")
    assert_one_sentence(run("detect", csv, "--features", "nothing", "--out", out))
    assert out.read_text() == "old"


def test_nothing_is_written_over_what_is_read_or_written_by_the_same_command(csv, tmp_path):
    before = csv.read_bytes()
    for arguments in (["--out", csv], ["--out", tmp_path / "one.csv", "--save-model", tmp_path / "one.csv"]):
        assert_one_sentence(run("detect", csv, *arguments), "by the same command")
    assert csv.read_bytes() == before and not (tmp_path / "one.csv").exists()


def test_an_unexpected_error_says_so(csv, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("what\nnow")

    monkeypatch.setattr("isobag.cli.run.rank", fail)
    assert_one_sentence(run("detect", csv), "RuntimeError: what now (unexpected; --debug shows where)")


def test_a_query_over_a_file_without_rows_says_so(tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert_one_sentence(run("detect", tmp_path / "empty.csv", "--sql", "SELECT a FROM data"), "has no rows")


def test_detect_without_a_table_shows_three_examples():
    result = run("detect")
    assert result.exit_code == 2 and result.stderr.count("isobag detect cards.csv") == 3
