"""How files are written, and several outputs: the same options in every command."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run
from pyarrow import parquet


@pytest.fixture
def odd(tmp_path, rng):
    """A CSV of latin-1 with two lines before its header, and the plain one."""
    frame = pd.DataFrame(rng.normal(size=(60, 2)).round(3), columns=["größe", "b"])
    frame.loc[7, "größe"] = 50.0
    frame.to_csv(tmp_path / "plain.csv", index=False)
    text = "Bericht\nMai\n" + frame.to_csv(index=False)
    (tmp_path / "odd.csv").write_bytes(text.encode("latin-1"))
    return tmp_path / "odd.csv"


HOW = ("--skip", 2, "--encoding", "latin-1")


def test_every_command_skips_lines_and_decodes(odd, tmp_path):
    plain = tmp_path / "plain.csv"
    assert ask("detect", odd, *HOW)["top"] == ask("detect", plain)["top"]
    model = tmp_path / "m.isobag"
    assert run("fit", odd, *HOW, "--save-model", model).exit_code == 0
    assert ask("score", model, odd, *HOW)["top"] == ask("score", model, plain)["top"]
    assert ask("explain", model, odd, *HOW, "--id", 7)["features"][0]["feature"] == "größe"
    grouped = ("--by", "b", "--features", "größe")
    assert ask("detect", odd, *HOW, *grouped)["top"] == ask("detect", plain, *grouped)["top"]
    small = ("--n-permutations", 19)
    assert ask("compare", odd, odd, *HOW, *small)["p_value"] == ask("compare", plain, plain, *small)["p_value"]
    asked = ("--sql", 'SELECT "größe" FROM data')
    assert ask("detect", odd, *HOW, *asked)["top"] == ask("detect", plain, *asked)["top"]
    once = ("--window", 20, "-t", 10, "--json")
    assert (
        run("stream", odd, *HOW, *once).stdout.replace('"line": 10', '"line": 8') == run("stream", plain, *once).stdout
    )


def test_a_stream_that_goes_on_still_knows_its_header_after_skipped_lines(odd, tmp_path):
    how = (*HOW, "--window", 20, "-t", 10, "--model", tmp_path / "state")
    assert run("stream", odd, *how).exit_code == 0
    with odd.open("ab") as file:
        file.write(b"0.1,0.1\n0.2,99.0\n")
    again = run("stream", odd, *how)
    assert again.exit_code == 0 and "left out" not in again.stderr
    assert "line 65: p = " in again.stdout and "b = 99" in again.stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "odd.csv, line 3: byte 0xF6 is not UTF-8; say what the file is written in, such as --encoding latin-1."),
        (("--encoding", "ascii"), "line 3: byte 0xF6 is not text in --encoding ascii; choose another"),
        (("--encoding", "x"), "--encoding x; need an encoding of text"),
        (("--encoding", "latin-1", "--skip", 99), "--skip 99: nothing follows in the 63 lines of"),
        (("--sheet", "s"), "--sheet s: "),
    ],
)
def test_what_cannot_be_read_so_names_the_option(odd, more, message):
    assert_one_sentence(run("detect", odd, *more), message)


def test_several_outputs_hold_the_same(odd, tmp_path):
    outs = [tmp_path / "r.csv", tmp_path / "r.parquet", tmp_path / "r.jsonl"]
    result = run("detect", odd, *HOW, *(one for out in outs for one in ("--out", out)))
    assert result.exit_code == 0 and "r.csv, " in result.stderr and "r.jsonl" in result.stderr
    first = pd.read_csv(outs[0])
    assert first["row"].tolist() == parquet.read_table(outs[1])["row"].to_pylist()
    listed = [json.loads(line)["row"] for line in outs[2].read_text().splitlines()]
    assert listed == first["row"].tolist() and len(listed) == 60


def test_an_output_twice_or_of_no_known_kind_is_refused_before_anything_is_read(odd, tmp_path):
    path = tmp_path / "r.csv"
    assert_one_sentence(run("detect", odd, "--out", path, "--out", path), "it is written by the same command")
    assert_one_sentence(run("detect", odd, "--out", "-", "--out", "-"), "--out - is given twice")
    assert_one_sentence(run("detect", odd, "--out", path, "--out", tmp_path / "r.doc"), "no known ending")
    assert not path.exists()


def test_none_of_several_outputs_is_left_if_one_fails(odd, tmp_path):
    taken = tmp_path / "taken.parquet"
    taken.mkdir()
    result = run("detect", odd, *HOW, "--out", tmp_path / "r.csv", "--out", taken)
    assert result.exit_code == 2 and "Traceback" not in result.stderr
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith("r")) == []


def test_a_workbook_is_read_by_name_and_through_a_pipe(tmp_path, rng):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    with pd.ExcelWriter(tmp_path / "t.xlsx") as writer:
        pd.DataFrame({"c": [1]}).to_excel(writer, sheet_name="first", index=False)
        frame.to_excel(writer, sheet_name="two", index=False, startrow=1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = ("--sheet", "two", "--skip", 1)
    expected = ask("detect", tmp_path / "t.csv")["top"]
    assert ask("detect", tmp_path / "t.xlsx", *how)["top"] == expected
    assert ask("detect", "-", *how, stdin=(tmp_path / "t.xlsx").read_bytes())["top"] == expected


def test_without_openpyxl_the_way_to_install_it_is_said(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04")
    code = "import sys; sys.modules['openpyxl'] = None; from isobag.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "detect", tmp_path / "t.xlsx"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "Error: This needs openpyxl, which is not installed: pip install 'isobag[excel]'.\n"


@pytest.fixture
def two(tmp_path, rng):
    """Two files of one table, of 40 and of 20 rows, with an odd row in the second."""
    frame = pd.DataFrame(rng.normal(size=(60, 2)).round(3), columns=["a", "b"])
    frame.loc[45, "a"] = 50.0
    frame[:40].to_csv(tmp_path / "one.csv", index=False)
    frame[40:].to_csv(tmp_path / "two.csv", index=False)
    return tmp_path / "one.csv", tmp_path / "two.csv"


def test_results_of_several_files_say_which_file_a_row_is_from(two, tmp_path):
    out = tmp_path / "r.csv"
    top = ask("detect", *two)["top"]
    assert top[0]["row"] == 45 and top[0]["file"] == str(two[1])
    assert run("detect", *two, "--out", out, "--keep", "a").exit_code == 0
    ranked = pd.read_csv(out)
    assert (ranked["file"] == np.where(ranked["row"] < 40, *map(str, two))).all()
    assert run("fit", two[0], "--save-model", tmp_path / "m").exit_code == 0
    assert ask("score", tmp_path / "m", *two)["top"][0]["file"] == str(two[1])
    assert "file" not in ask("detect", two[0])["top"][0]
    assert "file" not in ask("detect", *two, "--sql", "SELECT * FROM data")["top"][0]


def test_of_groups_the_first_and_the_last_file_is_told(two, tmp_path, rng):
    for path, labels in zip(two, (np.arange(40) % 8, np.arange(20) % 4 + 6), strict=True):
        pd.read_csv(path).assign(g=labels).to_csv(path, index=False)
    top = {row["g"]: row["file"] for row in ask("detect", *two, "--by", "g", "-t", 5)["top"]}
    first, last = map(str, two)
    both = f"{first} to {last}"
    assert top == {**dict.fromkeys(range(6), first), 6: both, 7: both, 8: last, 9: last}
    assert "file" not in ask("detect", two[0], "--by", "g", "-t", 5)["top"][0]


def test_columns_of_text_and_of_declared_types_are_kept_together(two, tmp_path):
    frame = pd.read_csv(two[1]).assign(day=range(20))
    pd.read_csv(two[0]).assign(day=range(40)).to_csv(two[0], index=False)
    frame.to_parquet(tmp_path / "two.parquet")
    out = tmp_path / "r.parquet"
    how = (tmp_path / "two.parquet", "--features", "a,b", "--keep", "day", "--out", out)
    assert run("detect", two[0], *how).exit_code == 0
    written = pd.read_parquet(out)
    assert (written["day"] == np.where(written["row"] < 40, written["row"], written["row"] - 40)).all()
    frame.assign(day="001").to_csv(two[1], index=False)
    assert_one_sentence(run("detect", two[1], *how), "'day'", "text in", "int64 in", "two.parquet")


def test_rows_that_are_left_out_do_not_shift_the_files(two, tmp_path):
    two[0].write_text(two[0].read_text() + ",\n,\n")
    top = ask("detect", *two, "--missing", "drop")["top"]
    assert top[0]["row"] == 47 and top[0]["file"] == str(two[1])


def test_a_column_called_file_is_not_overwritten(two, tmp_path):
    paths = []
    for path in two:
        paths.append(path.with_suffix(".csv.gz"))
        pd.read_csv(path).assign(file="mine").to_csv(paths[-1], index=False)
    result = run("detect", *paths, "--out", tmp_path / "r.csv", "--keep", "file")
    assert "a column 'file'" in result.stderr
    assert set(pd.read_csv(tmp_path / "r.csv")["file"]) == {"mine"}
    assert ask("detect", *paths, "--id-column", "file")["top"][0]["file"] == "mine"
