"""From files to features: every cell counted, every failure placed, the same in memory and streamed."""

import csv
import io
import json
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import features, on_disk, read_table, reasons, refusal
from reading_oracle import RefusedError, number, read

pa = pytest.importorskip("pyarrow")

import narwhals as nw  # noqa: E402
from pyarrow import parquet  # noqa: E402

from isobag.backends.arrays import FARTHEST  # noqa: E402
from isobag.tables import csvfile  # noqa: E402
from isobag.tables.encode import Encoding  # noqa: E402
from isobag.tables.framesource import FrameSource  # noqa: E402
from isobag.tables.sources import FilesSource  # noqa: E402
from isobag.tables.terminal import escape_for_terminal  # noqa: E402

EXAMPLES = int(os.environ.get("ISOBAG_EXAMPLES", "100"))


def amounts(bad="", at=5, n_rows=1000):
    return "amount,b\n" + "".join(f"{bad if i == at and bad else i * 7 % 11 + 0.5},{i % 3}.5\n" for i in range(n_rows))


HOSTILE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**60), 2**60).map(str),
    st.sampled_from(
        [
            "1",
            "2.5",
            "0.4",
            "",
            "NA",
            "-",
            "n/a",
            "$1.50",
            "5%",
            "1,234",
            "+3",
            "inf",
            "#1",
            '"',
            "a\nb",
            "\ufeff",
            "true",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
NUMERIC = st.one_of(st.integers(-99, 99).map(str), st.floats(-1e6, 1e6).map(repr))


@st.composite
def hostile_files(draw):
    """Bytes of a CSV file, most columns of which are mostly numbers."""
    n_columns, n_rows = draw(st.integers(1, 4)), draw(st.integers(0, 15))
    names = draw(st.lists(st.one_of(st.sampled_from("abcd"), HOSTILE), min_size=n_columns, max_size=n_columns))
    rows = [[draw(NUMERIC) for _ in names] for _ in range(n_rows)]
    for _ in range(draw(st.integers(0, 4)) if rows else 0):
        row = rows[draw(st.integers(0, n_rows - 1))]
        if row:
            row[draw(st.integers(0, len(row) - 1))] = draw(HOSTILE)
    if rows and draw(st.integers(0, 9)) == 0:
        rows[draw(st.integers(0, n_rows - 1))].append("1")
    out = io.StringIO(newline="")
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    csv.writer(out, lineterminator=end, quoting=draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))).writerows(
        [names, *rows]
    )
    text = out.getvalue()
    if draw(st.integers(0, 4)) == 0:
        text = text.replace(end, end + end, 1)
    if draw(st.integers(0, 9)) == 0:
        text = text.replace('"', "", 1)
    return (draw(st.sampled_from(["", "\ufeff"])) + text).encode()


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile_files(), st.sampled_from([3, 50, 1 << 20]), st.sampled_from(["error", "missing", "text"]))
def test_no_cell_of_a_hostile_file_is_altered_in_silence(tmp_path_factory, content, block_bytes, bad_cells):
    path = tmp_path_factory.getbasetemp() / "hostile.csv"
    path.write_bytes(content)
    try:
        names, rows = read(content, ",", True)
    except RefusedError:
        names, rows = None, []
    old, csvfile.CsvFile.__init__.__defaults__ = csvfile.CsvFile.__init__.__defaults__, (None, None, block_bytes)
    try:
        table = read_table(FilesSource(str(path), header=True, delimiter=","), bad_cells=bad_cells)
    except ValueError as error:
        message = str(error)
        assert "\n" not in message and message.endswith(".")
        if names is not None and rows:
            cells = {name: [number(row[j]) for row in rows] for j, name in enumerate(names)}
            is_named = [name for name in names if message.startswith(f"{escape_for_terminal(name)}: ")]
            assert is_named or message.startswith("No column is left")
            for name in is_named[:1] if "cells are numbers;" in message else []:
                cells_with_text = [cell for cell in cells[name] if cell is not None]
                first = next(i for i, cell in enumerate(cells[name]) if cell == "bad")
                n_numbers = len(cells_with_text) - cells_with_text.count("bad")
                assert f"{n_numbers} of {len(cells_with_text)} cells are numbers; row {first} (line " in message
                assert repr(rows[first][names.index(name)]) in message
        return
    finally:
        csvfile.CsvFile.__init__.__defaults__ = old
    assert names is not None and table.n_rows == len(rows)
    assert [column.name for column in table.summary.columns] == names
    X = features(table)
    for column in table.summary.columns:
        cells = [number(row[names.index(column.name)]) for row in rows]
        assert column.n_numbers == sum(isinstance(cell, float) for cell in cells)
        assert column.n_missing == cells.count(None)
        assert column.n_texts + column.n_times == cells.count("bad")
        if column.role != "feature":
            assert column.reason
        elif column.kind == "number":
            values = X[:, table.encoding.names.index(column.name)]
            for value, cell in zip(values, cells, strict=True):
                assert value == cell if isinstance(cell, float) else np.isfinite(value)
            assert bad_cells == "missing" or "bad" not in cells
            whole = [row[names.index(column.name)].strip(" \t") for row in rows]
            assert all(
                int(float(one)) == int(one)
                for one in whole
                if one.lstrip("+-").isascii() and one.lstrip("+-").isdigit()
            )


def test_late_decimals_are_decimals(written):
    cells = [str(i % 3 + 1) for i in range(25_000)] + ["0.4"]
    for source in (
        written("q,z\n" + "".join(f"{cell},1.5\n" for cell in cells)),
        written("".join(f'{{"q": {cell}}}\n' for cell in cells), "t.jsonl"),
    ):
        table = read_table(source)
        assert features(table)[:, 0].tolist() == [float(cell) for cell in cells]


@pytest.mark.parametrize("bad", ["--", "oops", "$1.50", "5%", "inf"])
@pytest.mark.parametrize("at", [5, 999])
def test_a_bad_cell_stops_with_its_place(written, bad, at):
    message = refusal(written(amounts(bad, at)))
    text = bad.strip('"')
    assert message.startswith(f"amount: 999 of 1,000 cells are numbers; row {at} (line {at + 2} of ")
    assert message.endswith(
        f"t.csv) has {text!r}. Pass bad_cells='missing' to treat such cells as missing, or features= without it."
    )
    assert "Pass bad_cells='missing' to" in refusal(written(amounts(bad, at)), features=["amount"])
    assert read_table(written(amounts(bad, at)), features="b").encoding.names == ("b",)


def test_bad_cells_can_count_as_missing(written):
    source = written(amounts("--"))
    assert "Values are missing in 'amount' (1) of 1,000 rows" in refusal(source, bad_cells="missing", missing="error")
    table = read_table(source, bad_cells="missing", missing="drop")
    assert len(table.rows) == 999 and np.flatnonzero(~table.takes_part).tolist() == [5] and table.summary.n_dropped == 1
    assert reasons(table)["amount"] == "1 cells are not numbers and count as missing"
    table = read_table(source, bad_cells="missing")
    assert np.isclose(features(table)[5, 0], np.median(np.delete(features(table)[:, 0], 5))) and table.gaps.sum() == 1
    assert np.flatnonzero(np.isnan(table.cells.take(np.arange(1000))[:, 0])).tolist() == [5]


def test_bad_cells_can_make_a_column_of_categories(written):
    table = read_table(written(amounts("--")), bad_cells="text", features=["amount"])
    (column,) = table.encoding.columns
    assert table.encoding.names == ("rare texts",) and "0.5" in column.categories
    assert features(table)[5, 0] == np.log2(1000) ** 2


def test_whole_numbers_beyond_two_to_53_stop_with_their_place(written, tmp_path):
    content = "a,b\n1,1\n9007199254740993,2\n3,3\n"
    assert "a: row 1 (line 3 of " in refusal(written(content)) and "9007199254740993" in refusal(written(content))
    assert features(read_table(written(content), features=["b"])).tolist() == [[1], [2], [3]]
    assert read_table(written(content), id="a").labels["a"].to_pylist() == [1, 9007199254740993, 3]
    assert "a: row 1 (line 2 of" in refusal(written('{"a": 1}\n{"a": 9007199254740993}\n', "t.jsonl"))
    parquet.write_table(pa.table({"a": [5, 2**53 + 1, 7]}), tmp_path / "t.parquet")
    assert "a: row 1 of " in refusal(FilesSource(str(tmp_path / "t.parquet")))
    assert "a: row 1 has 9007199254740993" in refusal(
        FrameSource(nw.from_native(pd.DataFrame({"a": [5, 2**53 + 1, 7]})))
    )


def test_numbers_of_json_are_what_they_are_whatever_the_notation_of_texts(written):
    content = '{"a": 1.604}\n{"a": "2,5"}\n{"a": 1e-3}\n{"a": "1.234"}\n'
    source = written(content, "t.jsonl", decimal=",")
    assert features(read_table(source, decimal=",", thousands=".")).tolist() == [[1.604], [2.5], [0.001], [1234]]


def test_a_decimal_comma_is_asked_about_and_then_read(written):
    content = "a;b\n1,5;x,y\n2,25;z\n"
    assert "a: 2 of 2 cells are numbers with a decimal comma; row 0 (line 2 of" in refusal(written(content))
    assert features(read_table(written(content), decimal=",")).tolist() == [[1.5], [2.25]]
    assert number_columns(read_table(written("a;b\n1,5;1.5\n2,5;x.y\n"), decimal=",")) == ["a"]


def number_columns(table):
    return [column.name for column in table.summary.columns if column.kind == "number"]


def test_columns_of_no_values_are_refused_or_left_out(written):
    content = "a,b\n1.5,\n2,\n"
    assert "b: all 2 cells are missing. Pass missing='drop'" in refusal(written(content), missing="error")
    table = read_table(written(content), missing="drop")
    assert len(table.rows) == 2 and reasons(table)["b"] == "no values at all"
    assert refusal(written("a,b\n")).endswith("t.csv has no rows.")


def test_every_column_is_accounted_for(written):
    rows = [f"{i},{i * 5 % 7},{i * 5 % 7},4,name {i},{'xy'[i % 2]},2024-01-0{i % 7 + 1},true,{i}.5" for i in range(30)]
    content = "order_id,a,b,c,who,kind,day,ok,x\n" + "\n".join(rows)
    table = read_table(written(content))
    assert table.encoding.names == ("a", "b", "c", "ok", "x", "rare texts")
    assert reasons(table) == {
        "order_id": "an identifier by its name",
        "a": "",
        "b": "a copy of 'a'",
        "c": "the same in every row",
        "who": "text, all 30 values different",
        "kind": "",
        "day": "time; name it as a feature to use it",
        "ok": "",
        "x": "",
    }
    assert "Left out: order_id (an identifier by its name)." in table.summary.sentences()
    assert json.loads(json.dumps(table.summary.as_dict()))["columns"][0]["role"] == "left out"
    asked = read_table(written(content), features=["order_id", "kind", "day"])
    assert asked.encoding.names[:2] == ("order_id", "day") and asked.encoding.names[-1] == "rare texts"
    assert features(asked).shape == (30, 5)
    assert "'who', which cannot be used: text, all 30 values different" in refusal(written(content), features=["who"])


def mixed_rows(n_rows):
    """Columns that turn out to be something else than they seem at first, gaps, texts, times."""
    return [
        {
            "a": repr(i * 0.37 % 5) if i % 50 else "",
            "code": str(i % 4) if i < n_rows // 4 else "k" + str(i % 4),
            "kind": "xyz"[i % 3],
            "when": f"2024-01-{i % 28 + 1:02d} {i % 24:02d}:30:00",
            "late": "NA" if i < n_rows // 2 else str(i % 5),
        }
        for i in range(n_rows)
    ]


@pytest.mark.parametrize("missing", ["drop", "auto"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_streamed_and_cut_anyhow_the_table_is_the_same(tmp_path, monkeypatch, missing, ending):
    rows = mixed_rows(2000)
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"features": ["a", "code", "kind", "when", "late"], "missing": missing}
    plain = read_table(FilesSource(str(path)), **options)
    monkeypatch.setattr(csvfile.CsvFile.__init__, "__defaults__", (None, None, 999))
    monkeypatch.setattr("isobag.tables.jsonfile.JsonFile.__init__.__defaults__", (".", 77))
    streamed = read_table(FilesSource(str(path)), spool=on_disk, **options)
    assert repr(streamed.encoding) == repr(plain.encoding) and streamed.summary == plain.summary
    assert np.array_equal(np.concatenate(list(streamed.rows.blocks())), features(plain))
    numbers = np.array([3, 500, 900])
    assert np.array_equal(streamed.rows.take(numbers), features(plain)[numbers])
    assert plain.summary.columns[1].kind == "text"
    assert plain.encoding.columns[1].categories[:4] == ("k0", "k1", "k2", "k3")
    assert (len(plain.rows) == 2000) == (missing == "auto") and np.array_equal(streamed.gaps, plain.gaps)


def test_a_new_table_is_read_as_the_model_learned(tmp_path):
    pd.DataFrame(mixed_rows(400)).to_csv(tmp_path / "old.csv", index=False)
    chosen = ["a", "kind", "when", "late"]
    old = read_table(FilesSource(str(tmp_path / "old.csv")), features=chosen)
    learned = Encoding.from_text(old.encoding.to_text())
    assert repr(learned) == repr(old.encoding)
    again = read_table(FilesSource(str(tmp_path / "old.csv")), encoding=learned)
    assert np.array_equal(features(again), features(old))
    new = pd.DataFrame(mixed_rows(30)).assign(extra=1.0)
    new.loc[4, "kind"], new.loc[5, "a"] = "never seen", ""
    new.to_csv(tmp_path / "new.csv", index=False)
    table = read_table(FilesSource(str(tmp_path / "new.csv")), encoding=learned)
    assert table.encoding.names == old.encoding.names and features(table).shape == (30, len(old.encoding.names))
    names = table.encoding.names
    assert features(table)[4, names.index("rare texts")] == FARTHEST
    assert features(table)[5, 0] == learned.columns[0].fill
    assert reasons(table)["extra"] == "not known to the model" and reasons(table)["code"] == "not among the features"
    new.drop(columns="a").to_csv(tmp_path / "less.csv", index=False)
    assert "'a' was learned from; the table has no such column" in refusal(
        FilesSource(str(tmp_path / "less.csv")), encoding=learned
    )


def test_one_row_is_read_whatever_stands_in_others(tmp_path):
    (tmp_path / "old.csv").write_text("a,b\n" + "".join(f"{i}.5,{i * 3 % 7}\n" for i in range(20)))
    learned = read_table(FilesSource(str(tmp_path / "old.csv"))).encoding
    (tmp_path / "new.csv").write_text("a,b\n1,2\noops,\n3,4\n")
    source = FilesSource(str(tmp_path / "new.csv"))
    assert "row 1 (line 3" in refusal(source, encoding=learned)
    assert features(read_table(source, encoding=learned, only_rows=np.array([0, 2]))).tolist() == [[1, 2], [3, 4]]
    assert "row 1 (line 3" in refusal(source, encoding=learned, only_rows=np.array([1]))


def test_labels_keep_their_texts(written):
    labels = read_table(written("a,k,z\n1.5,007,5\n2,,6\n"), by=["k", "z"], missing="drop").labels
    assert labels["k"].to_pylist() == ["007", None] and labels["z"].to_pylist() == [5, 6]


def test_python_objects_are_understood_cell_by_cell():
    frame = nw.from_native(pd.DataFrame({"a": pd.Series([1, 2.5, "x", None], dtype=object), "b": [1.0, 2, 3, 5]}))
    assert "a: 2 of 3 cells are numbers; row 2 has 'x'" in refusal(FrameSource(frame))
    assert refusal(FrameSource(nw.from_native(pd.DataFrame({"a": [1.0, np.inf]})))).startswith("a: 1 of 2 cells")
