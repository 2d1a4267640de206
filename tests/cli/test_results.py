"""What commands print and write: the ranking, the same as in the library, from every kind of input."""

import gzip
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from commands import ask, assert_one_sentence, run
from pyarrow import feather, parquet

import isobag
from isobag import detect
from isobag.cli.output import cell_width
from isobag.data import spool

COMMANDS = ["detect", "fit", "score", "explain", "compare", "stream", "mcp", "demo"]
SHOWN = ("score", "rank", "rank_share", "flagged", "reasons")


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_eighty_columns_and_names_every_option(command):
    result = run(*([] if command is None else [command]), "--help")
    assert result.exit_code == 0 and (command or "COMMAND") in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "…" not in result.stdout and "--help" in result.stdout


def test_the_shell_can_learn_to_complete():
    assert "--install-completion" in run("--help").stdout


def test_the_version_is_printed():
    assert run("--version").stdout == f"isobag {isobag.__version__}\n"


def test_rows_are_those_of_detect(csv, cards):
    answer = ask("detect", csv, "--top", 4, "--id-column", "account", "-t", 20, "--seed", 3)
    expected = detect(cards, id_column="account", n_estimators=20, random_state=3).to_frame().head(4)
    for name in ("account", "row", *SHOWN):
        assert [row[name] for row in answer["top"]] == expected[name].tolist()
    assert answer["n_rows"] == len(cards) and answer["n_left_out"] == 0
    assert answer["features"] == list(cards.columns[:4])
    roles = {column["name"]: column["role"] for column in answer["table"]["columns"]}
    assert roles == {**dict.fromkeys(cards.columns[:4], "feature"), "account": "id"}


def test_groups_are_those_of_detect(csv, cards):
    answer = ask("detect", csv, "--by", "account", "--top", 3, "-t", 20)
    expected = detect(cards, "account", n_estimators=20, random_state=0).to_frame().head(3)
    for name in ("account", "n_points", *SHOWN):
        assert [row[name] for row in answer["top"]] == expected[name].tolist()


def test_several_columns_make_a_label_and_small_groups_stand_last(cards, tmp_path):
    frame = cards[:300].assign(day=np.arange(300) % 7 // 3, **{"the hour, about": np.arange(300) % 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    by = ["day", "the hour, about"]
    answer = ask(
        "detect",
        tmp_path / "t.csv",
        "--by",
        'day,"the hour, about"',
        "--exclude",
        "account",
        "--min-size",
        40,
        "-t",
        10,
        "--top",
        99,
    )
    expected = detect(frame.drop(columns="account"), by, min_size=40, n_estimators=10, random_state=0).to_frame()
    assert [[row[name] for name in (*by, "n_points", "rank")] for row in answer["top"]] == expected[
        [*by, "n_points", "rank"]
    ].to_numpy().tolist()
    small = [row for row in answer["top"] if row["score"] is None]
    assert len(small) == answer["n_left_out"] == 2 and answer["top"][-2:] == small


FORMATS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "csv.zst": lambda frame, path: frame.to_csv(pa.CompressedOutputStream(str(path), "zstd"), index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: path.write_text(
        "".join(json.dumps(row) + "\n" for row in frame.to_dict("records")), "utf-8"
    ),
    "parquet": lambda frame, path: parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=99),
    "arrow": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), str(path), compression="lz4"),
}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["in memory", "streamed"])
@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_table_has_the_same_ranking_bit_for_bit(ending, is_streamed, cards, tmp_path, monkeypatch):
    """From every format, in memory or on disk, and from a frame."""
    frame = cards[:300]
    path = tmp_path / f"t.{ending}"
    FORMATS[ending](frame, path)
    if is_streamed:
        monkeypatch.setattr("isobag.data.spool.KEPT_BYTES", 100)
        monkeypatch.setattr("isobag.data.spool.BLOCK_BYTES", 3_000)
    answer = ask("detect", path, "-t", 10, "--top", 300)["top"]
    expected = detect(frame, n_estimators=10, random_state=0).to_frame()
    assert answer == expected.to_dict("records")
    groups = ask("detect", path, "--by", "account", "-t", 10)["top"]
    assert groups == detect(frame, "account", n_estimators=10, random_state=0).to_frame().head(10).to_dict("records")


def test_several_files_a_glob_and_what_is_piped_in_are_one_table(csv, cards, tmp_path):
    expected = ask("detect", csv, "-t", 10)["top"]
    for i, part in enumerate((cards[:100], cards[100:101], cards[101:])):
        part.to_csv(tmp_path / f"part-{i}.csv", index=False)
    parts = sorted(tmp_path.glob("part-*.csv"))
    firsts = np.array([0, 100, 101])
    several = [{"file": str(parts[(firsts <= row["row"]).sum() - 1]), **row} for row in expected]
    assert ask("detect", *parts, "-t", 10)["top"] == several
    assert ask("detect", tmp_path / "part-*.csv", "-t", 10)["top"] == several
    assert ask("detect", "-", "-t", 10, stdin=csv.read_bytes())["top"] == expected
    lines = "".join(json.dumps(row) + "\n" for row in cards.to_dict("records"))
    assert ask("detect", "-", "--format", "jsonl", "-t", 10, stdin=lines)["top"] == expected


def test_sql_sees_text_as_our_reader_does(csv, tmp_path):
    query = "SELECT amount, hour FROM data WHERE hour < 12 ORDER BY amount;"
    over = ask("detect", csv, "--sql", query, "-t", 10)
    parquet.write_table(pa.csv.read_csv(csv), tmp_path / "t.parquet")
    assert ask("detect", tmp_path / "t.parquet", "--sql", query, "-t", 10)["top"] == over["top"]
    itself = ask("detect", "--sql", query.replace("data", f"'{tmp_path}/t.parquet'"), "-t", 10)
    assert itself["top"] == over["top"] and over["features"] == ["amount", "hour"]
    late = tmp_path / "late.csv"
    late.write_text("q,#\n" + "1,a\n2,b\n" * 15_000 + "0.4,#N/A\n")
    answer = ask("detect", late, "--sql", "SELECT q FROM data WHERE q < 1 OR q > 1", "-t", 5, "--top", 99_999)
    assert answer["n_rows"] == 15_001 and min(row["row"] for row in answer["top"]) == 0
    written = run("detect", late, "--sql", "SELECT q FROM data", "-t", 5, "--top", 0, "--out", "-", "--keep", "q")
    assert any(line.endswith(",0.4") for line in written.stdout.splitlines())


@pytest.mark.parametrize("sql", ["DROP VIEW data", "SELECT 1 AS a; SELECT 2 AS a", "COPY data TO 'here.csv'"])
def test_sql_that_is_no_query_is_not_run(csv, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_one_sentence(run("detect", csv, "--sql", sql))
    assert not (tmp_path / "here.csv").exists()


def read_csv(path):
    """Exactly: before version 3, pandas rounds some numbers on the way."""
    return pa.csv.read_csv(path).to_pandas()


READERS = {
    "parquet": pd.read_parquet,
    "csv": read_csv,
    "csv.gz": read_csv,
    "jsonl": lambda path: pd.read_json(path, lines=True, precise_float=True),
    "arrow": pd.read_feather,
}


@pytest.mark.parametrize("ending", READERS)
def test_all_ranked_rows_are_written(ending, csv, cards, tmp_path):
    out = tmp_path / f"scores.{ending}"
    result = run("detect", csv, "--out", out, "-t", 10, "--quiet", "--top", 0)
    assert result.exit_code == 0 and result.output == ""
    expected = detect(cards, n_estimators=10, random_state=0).to_frame()
    read = READERS[ending](out)
    assert list(read.columns) == list(expected.columns)
    for name in ("row", "score", "rank", "rank_share", "flagged"):
        assert read[name].tolist() == expected[name].tolist()
    assert sorted(os.listdir(tmp_path)) == sorted(["cards.csv", out.name])


def test_standard_output_has_the_whole_table_and_nothing_else(csv, cards, tmp_path):
    result = run("detect", csv, "--out", "-", "-t", 10)
    out = tmp_path / "o.csv.gz"
    assert run("detect", csv, "--out", out, "-t", 10).exit_code == 0
    assert result.stdout_bytes == gzip.decompress(out.read_bytes())
    assert len(result.stdout.splitlines()) == len(cards) + 1


def test_columns_are_carried_along(csv, cards, tmp_path):
    out = tmp_path / "o.csv"
    assert run("detect", csv, "--out", out, "--keep", "account,hour", "-t", 10).exit_code == 0
    read = read_csv(out)
    assert list(read.columns[-2:]) == ["account", "hour"]
    assert read["account"].tolist() == cards["account"][read["row"]].tolist()
    assert run("detect", csv, "--out", out, "--keep", "all", "-t", 10).exit_code == 0
    read = read_csv(out)
    assert list(read.columns[-5:]) == list(cards.columns)
    assert np.array_equal(read[cards.columns[:4]], cards.iloc[read["row"], :4])
    assert_one_sentence(run("detect", csv, "--out", out, "--keep", "nothing"), "no column 'nothing'")
    (tmp_path / "t.csv").write_text(
        "a,zip,price,long\n" + "".join(f"{i % 3},007,1.5{i % 7},0.{i:020}\n" for i in range(9))
    )
    assert run("detect", tmp_path / "t.csv", "--out", tmp_path / "o.parquet", "--keep", "all", "-t", 5).exit_code == 0
    carried = pd.read_parquet(tmp_path / "o.parquet")
    assert carried["price"].tolist() == [float(f"1.5{row % 7}") for row in carried["row"]]
    assert set(carried["zip"]) == {"007"} and carried["long"].tolist() == [f"0.{row:020}" for row in carried["row"]]


def test_names_with_commas_are_named_in_quotes(tmp_path):
    (tmp_path / "t.csv").write_text(
        '"a, b",c,"d ""e"""\n' + "".join(f"{i % 5},{i * i % 7},{i % 3}\n" for i in range(40))
    )
    answer = ask("detect", tmp_path / "t.csv", "--features", '"a, b", c', "-t", 5)
    assert answer["features"] == ["a, b", "c"]
    assert ask("detect", tmp_path / "t.csv", "--features", '"d ""e"""', "-t", 5)["features"] == ['d "e"']


def test_a_table_fits_its_page_and_long_labels_can_be_told_apart(tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=[f"{letter}_{'long' * 12}" for letter in "abc"])
    frame["who"] = [f"{'東京都千代田区' * 3}, 番地 {i % 4}" for i in range(200)]
    frame["where"] = [f"{'A very long name of a place, ' * 2}{i % 4}" for i in range(200)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    lines = run("detect", tmp_path / "t.csv", "--by", "who,where", "-t", 5).stdout.splitlines()
    assert max(cell_width(line) for line in lines) <= 100 and len({line[:20] for line in lines[1:]}) == 4


def test_compare_finds_the_feature_that_differs(cards, tmp_path):
    cards[:400].to_csv(tmp_path / "a.csv", index=False)
    cards[400:800].assign(hour=lambda frame: frame["hour"] / 3).to_csv(tmp_path / "b.csv", index=False)
    answer = ask("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--n-permutations", 99)
    assert answer["p_value"] == 0.01 and answer["features"][0]["feature"] == "hour"
    assert answer["features"][0]["separation"] > 0 and (answer["n_a"], answer["n_b"]) == (400, 400)


def test_compare_takes_queries(csv, tmp_path):
    early, late = (f"SELECT amount, hour FROM data WHERE hour {sign} 12" for sign in ("<", ">="))
    answer = ask("compare", csv, csv, "--sql-a", early, "--sql-b", late, "--n-permutations", 49)
    assert answer["p_value"] == 0.02 and answer["features"][0]["feature"] == "hour"
    for name, query in (("a", early), ("b", late)):
        rows = pd.read_csv(csv).query(f"hour {query.split('hour ')[-1]}")
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    both = "SELECT amount, hour FROM data"
    assert ask("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--sql", both, "--n-permutations", 49) | {
        "table_a": 0,
        "table_b": 0,
    } == answer | {"table_a": 0, "table_b": 0}
    assert_one_sentence(run("compare", csv), "Neither a file nor a query", code=2)


def test_ties_share_a_rank_and_are_said_to_be_ties(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 30 + "50,60\n" * 3)
    result = run("detect", tmp_path / "t.csv", "-t", 10, "--top", 4)
    assert "The 3 oddest have equal scores" in result.stderr
    ranks = [row["rank"] for row in ask("detect", tmp_path / "t.csv", "-t", 10, "--top", 5)["top"]]
    assert ranks == [1, 1, 1, 4, 4]


def test_one_order_and_flags_by_the_rule_that_is_printed(csv):
    answer = ask("detect", csv, "-t", 20, "--top", 10_000, "--contamination", 0.1)
    top = answer["top"]
    for name in ("score", "rank_share", "rank"):
        values = [row[name] for row in top]
        assert values == sorted(values)
    assert [row["flagged"] for row in top] == [row["score"] < answer["threshold"] for row in top]
    assert re.fullmatch(r"score below [\d.e-]+", answer["rule"])
    assert [row["rank_share"] for row in top] == [
        sum(other["score"] <= row["score"] for other in top) / len(top) for row in top
    ]


def test_groups_scattered_through_a_table_on_disk_are_those_of_memory(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3_000, 3)), columns=list("abc")).assign(k=rng.integers(0, 40, 3_000))
    parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet", row_group_size=700)
    opened, new_file = [], spool.tempfile.TemporaryFile

    def count_files(**options):
        opened.append(options)
        return new_file(**options)

    expected = detect(frame, "k", n_estimators=5, random_state=0).to_frame().to_dict("records")
    monkeypatch.setattr(spool.tempfile, "TemporaryFile", count_files)
    monkeypatch.setattr(spool, "KEPT_BYTES", 1_000)
    monkeypatch.setattr(spool, "BLOCK_BYTES", 9_000)
    answer = ask("detect", tmp_path / "t.parquet", "--by", "k", "-t", 5, "--top", 40)["top"]
    assert opened
    assert answer == expected


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="memory as Unix measures it")
def test_a_parquet_file_takes_no_more_memory_if_it_has_more_rows(tmp_path):
    schema = pa.schema([(name, pa.float64()) for name in "abcdefgh"])
    most = []
    for n_parts in (4, 28):
        rng = np.random.default_rng(0)
        with parquet.ParquetWriter(tmp_path / "t.parquet", schema) as file:
            for _ in range(n_parts):
                file.write_table(pa.table({name: rng.normal(size=100_000) for name in schema.names}))
        script = (
            "import resource, sys; from isobag.tables.sources import FilesSource\n"
            "n_rows = sum(batch.n_rows for batch in FilesSource(sys.argv[1:]).frames())\n"
            "print(n_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", script, tmp_path / "t.parquet"], check=True, capture_output=True, text=True
        )
        n_rows, kilobytes = map(int, ran.stdout.split())
        assert n_rows == 100_000 * n_parts
        most.append(kilobytes)
    assert most[1] < most[0] + 40_000  # the rows that are more take 154 MB
