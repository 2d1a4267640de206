"""Bytes of any encoding, packed or not, by name or through a pipe: the same table, or one sentence."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from reading import features, read_table

from isobag.tables import openers
from isobag.tables.sources import FilesSource

TEXT = "größe;preis\n1;2,5\n3;4,5\n5;6,5\n"


@pytest.mark.parametrize("buffer", [3, 1 << 20])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "cp500"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_text_of_any_encoding_is_the_same_table(encoding, ending, buffer, tmp_path, monkeypatch):
    monkeypatch.setattr(openers, "_BUFFER", buffer)
    content = TEXT.encode(encoding)
    (tmp_path / f"t.{ending}").write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    table = read_table(FilesSource(str(tmp_path / f"t.{ending}"), encoding=encoding), decimal=",")
    assert table.encoding.names == ("größe", "preis")
    assert features(table).tolist() == [[1, 2.5], [3, 4.5], [5, 6.5]]


def test_json_of_another_encoding_is_read(tmp_path):
    (tmp_path / "t.jsonl").write_bytes('{"größe": 1}\n{"größe": 2}\n'.encode("utf-16"))
    assert read_table(FilesSource(str(tmp_path / "t.jsonl"), encoding="utf-16")).encoding.names == ("größe",)


@pytest.mark.parametrize(
    ("content", "encoding", "facts"),
    [
        (b"a,b\n1,2\n\x81,3\n", "cp1252", r"t\.csv, line 3.*0x81.*"),
        (b"a,b\n1,2\n", "utf-16", r"t\.csv.*"),
        (b"a,b\n1,2\n3", "utf-16-le", "0x33.*"),
        (b"a\n1\n", "latin-99", ""),
        (b"a\n1\n", "base64", ""),
    ],
)
def test_bytes_that_are_no_text_in_the_encoding_are_named_with_it(content, encoding, facts, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=f"{facts}encoding='{encoding}'") as caught:
        read_table(FilesSource(str(tmp_path / "t.csv"), encoding=encoding))
    assert "\n" not in str(caught.value)


def test_options_that_a_file_has_no_use_for_are_refused(tmp_path):
    pd.DataFrame({"a": [1.5]}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a\n1.5\n")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n')
    for file, how, message in (
        ("t.parquet", {"skip": 1}, "skip=1: "),
        ("t.jsonl", {"skip": 1}, "skip=1: "),
        ("t.parquet", {"encoding": "latin-1"}, "is not a file of text"),
        ("t.csv", {"sheet": "x"}, "has no sheets"),
    ):
        with pytest.raises(ValueError, match=message):
            FilesSource(str(tmp_path / file), **how)


@pytest.fixture
def frame(rng):
    return pd.DataFrame({"a": rng.normal(size=50), "b": rng.integers(0, 9, 50)})


def written(frame, kind):
    """The bytes of a file."""
    sink = io.BytesIO()
    if kind == "parquet":
        frame.to_parquet(sink)
    elif kind == "arrow":
        frame.to_feather(sink)
    elif kind == "jsonl":
        return frame.to_json(orient="records", lines=True, double_precision=15).encode()
    elif kind == "json":
        return frame.to_json(orient="records", indent=1, double_precision=15).encode()
    else:
        return frame.to_csv(index=False).encode()
    return sink.getvalue()


PACK = {
    "": lambda content: content,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


@pytest.fixture
def pipe(monkeypatch):
    """Standard input, from the bytes that are put into its buffer."""

    class Pipe:
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdin", Pipe)
    return Pipe


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "arrow"])
def test_what_is_piped_in_is_known_by_its_first_bytes(kind, packed, frame, pipe):
    pipe.buffer = io.BytesIO(PACK[packed](written(frame, kind)))
    source = FilesSource("-")
    for _ in range(2):  # it can be read again
        assert np.allclose(features(read_table(source)), frame.to_numpy(), rtol=1e-13, atol=0)


def test_standard_input_has_several_names_and_is_read_again_for_other_features(pipe):
    for name in ("/dev/stdin", "/dev/fd/0", "-"):
        pipe.buffer = io.BytesIO(b"a,b\n" + b"1,2.5\n" * 5 + b"x,1\n" * 6)
        source = FilesSource(name)
        table = read_table(source)
        assert table.encoding.names == ("b", "rare texts") and table.n_rows == 11
        assert read_table(source, features=["a"]).encoding.names == ("rare texts",)


def test_a_pipe_with_a_name_is_read_once_and_kept(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(gzip.compress(b"a\n1.5\n2.5\n"),))
    writer.start()
    source = FilesSource(str(tmp_path / "pipe"))
    writer.join()
    assert features(read_table(source)).tolist() == features(read_table(source)).tolist() == [[1.5], [2.5]]


def test_what_is_cut_off_or_of_another_format_is_refused(frame, pipe, tmp_path):
    cut = gzip.compress(written(frame, "csv"))[:-20]
    pipe.buffer = io.BytesIO(cut)
    with pytest.raises(ValueError, match=r"standard input.*unpacked"):
        FilesSource("-")
    (tmp_path / "t.csv.gz").write_bytes(cut)
    with pytest.raises(ValueError, match=r"t\.csv\.gz.*unpacked"):
        read_table(FilesSource(str(tmp_path / "t.csv.gz")))
    pipe.buffer = io.BytesIO(written(frame, "csv"))
    with pytest.raises(ValueError, match="standard input"):
        FilesSource("-", format=".parquet")
    with pytest.raises(ValueError, match="format='doc'"):
        FilesSource("-", format=".doc")
