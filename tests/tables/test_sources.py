"""Every format, several files, packed ones and standard input: one table, or one sentence."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from reading import features, read_table, reasons, refusal, roles

pa = pytest.importorskip("pyarrow")

import narwhals as nw  # noqa: E402
from pyarrow import feather, parquet  # noqa: E402

from isobag.tables.framesource import FrameSource  # noqa: E402
from isobag.tables.sources import FilesSource  # noqa: E402

FORMATS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "csv.zst": lambda frame, path: path.write_bytes(
        pa.compress(frame.to_csv(index=False).encode(), "zstd", asbytes=True)
    ),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records"))),
    "jsonl.gz": lambda frame, path: path.write_bytes(
        gzip.compress("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")).encode())
    ),
    "json": lambda frame, path: path.write_text(json.dumps(frame.to_dict("records"))),
    "parquet": lambda frame, path: parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=99),
    "arrow": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path, compression="lz4"),
    "feather": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path),
}


@pytest.fixture
def frame(rng):
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.integers(0, 9, 300), "ok": rng.random(300) < 0.5})
    return frame.assign(kind=rng.choice(["x", "y", "z,z"], 300), who=[f"n{i % 40}" for i in range(300)])


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_read_alike(ending, frame, tmp_path):
    FORMATS[ending](frame, tmp_path / f"t.{ending}")
    table = read_table(FilesSource(str(tmp_path / f"t.{ending}")), features=["a", "b", "ok", "kind"], by="who")
    expected = frame[["a", "b", "ok"]].to_numpy(float)
    assert np.array_equal(features(table)[:, :3], expected)
    assert np.array_equal(
        features(table)[:, 3:].argmax(axis=1), [sorted_kinds(frame).index(one) for one in frame["kind"]]
    )
    assert table.labels["who"].to_pylist() == frame["who"].tolist() and roles(table)["who"] == "group"
    plain = read_table(FrameSource(nw.from_native(frame)), features=["a", "b", "ok", "kind"], by="who")
    assert np.array_equal(features(plain), features(table)) and plain.encoding == table.encoding


def sorted_kinds(frame):
    counts = frame["kind"].value_counts()
    return sorted(counts.index, key=lambda text: (-counts[text], text))


def test_several_files_and_globs_are_one_table(frame, tmp_path):
    frame[:100].to_csv(tmp_path / "p1.csv", index=False)
    frame[100:][["b", "a", "kind", "ok", "who"]].to_csv(tmp_path / "p2.csv", index=False)
    for paths in (str(tmp_path / "p*.csv"), [str(tmp_path / "p1.csv"), str(tmp_path / "p2.csv")]):
        table = read_table(FilesSource(paths), features=["a"])
        assert np.array_equal(features(table)[:, 0], frame["a"])
    frame[["a"]].to_csv(tmp_path / "p3.csv", index=False)
    with pytest.raises(ValueError, match=r"p3.csv and .*p1.csv do not have the same columns; they differ in 'b'"):
        FilesSource(str(tmp_path / "p*.csv"))
    (tmp_path / "p2.csv").write_text("a,b,ok,kind,who\n1,2,true,x,n\nx,2,true,x,n\n")
    message = refusal(FilesSource([str(tmp_path / "p1.csv"), str(tmp_path / "p2.csv")]))
    assert "row 1 (line 3 of" in message and "p2.csv) has 'x'" in message


def test_names_are_matched_before_patterns(tmp_path):
    (tmp_path / "a[1].csv").write_text("x\n1.5\n")
    assert read_table(FilesSource(str(tmp_path / "a[1].csv"))).n_rows == 1
    with pytest.raises(FileNotFoundError, match="No file matches"):
        FilesSource(str(tmp_path / "none*.csv"))
    with pytest.raises(ValueError, match="is a folder"):
        FilesSource(str(tmp_path))
    with pytest.raises(ValueError, match="no known ending"):
        FilesSource([str(tmp_path / "a[1].csv"), __file__])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}\n{"a": 2', "row 1 (line 2)"),
        ('{"a": 1}\n[2]\n', "row 1 (line 2)"),
        ('{"a": 1, "a": 2}\n', "row 0 (line 1), column 'a'"),
        ('{"a": "\\ud800"}\n', "row 0 (line 1), column 'a'"),
        ("\n\n" + '{"a": 1}\n{"a": Infinity}\n{"a": 3}', "row 1 (line 4 of"),
        ('{"a": 1}\n{"a": "x"}\n{"a": 3}', "row 1 (line 2 of"),
    ],
)
def test_json_that_is_no_table_is_refused_with_its_place(written, content, message):
    assert message in refusal(written(content, "t.jsonl"))


def test_json_keeps_types_digits_and_late_names(written):
    rows = ['{"a": 1, "b": true, "n": [1, 2]}', '{"a": 0.1, "b": false, "n": {"x": 1}}', '{"a": 1e2, "c": 7}']
    table = read_table(written("\n".join(rows), "t.jsonl"))
    assert table.encoding.names == ("a", "b", "c", "missing values")
    assert np.allclose(features(table)[:, :3], [[1, 1, 7], [0.1, 0, 7], [100, 0, 7]])
    assert np.isnan(table.cells.take(np.arange(3))).tolist() == [[False, False, True]] * 2 + [[False, True, False]]
    assert reasons(table)["n"] == "lists, objects or bytes"
