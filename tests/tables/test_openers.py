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
    ("content", "encoding", "said"),
    [
        (b"a,b\n1,2\n\x81,3\n", "cp1252", "t.csv, line 3: byte 0x81 is not text in encoding='cp1252'; choose another"),
        (b"a,b\n1,2\n", "utf-16", "t.csv is not text in encoding='utf-16' (UTF-16 stream does not start with BOM)"),
        (b"a,b\n1,2\n3", "utf-16-le", "byte 0x33 is not text in encoding='utf-16-le'"),
        (b"a\n1\n", "latin-99", "encoding='latin-99'; need an encoding of text, such as utf-8, latin-1"),
        (b"a\n1\n", "base64", "encoding='base64'; need an encoding of text"),
    ],
)
def test_bytes_that_are_no_text_in_the_encoding_are_named_with_it(content, encoding, said, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_table(FilesSource(str(tmp_path / "t.csv"), encoding=encoding))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_options_that_a_file_has_no_use_for_are_refused(tmp_path):
    pd.DataFrame({"a": [1.5]}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a\n1.5\n")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n')
    for file, how, said in (
        ("t.parquet", {"skip": 1}, "skip=1: "),
        ("t.jsonl", {"skip": 1}, "skip=1: "),
        ("t.parquet", {"encoding": "latin-1"}, "is not a file of text"),
        ("t.csv", {"sheet": "x"}, "has no sheets"),
    ):
        with pytest.raises(ValueError, match=said):
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


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "arrow"])
def test_what_is_piped_in_is_known_by_its_first_bytes(kind, packed, frame, monkeypatch):
    class Pipe:
        buffer = io.BytesIO(PACK[packed](written(frame, kind)))

    monkeypatch.setattr(sys, "stdin", Pipe)
    source = FilesSource("-")
    for _ in range(2):  # it can be read again
        assert np.allclose(features(read_table(source)), frame.to_numpy(), rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0", "-"])
def test_standard_input_has_several_names(name, monkeypatch):
    class Pipe:
        buffer = io.BytesIO(b"a\n1.5\n2.5\n")

    monkeypatch.setattr(sys, "stdin", Pipe)
    assert features(read_table(FilesSource(name))).tolist() == [[1.5], [2.5]]


def test_a_pipe_with_a_name_is_read_once_and_kept(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(gzip.compress(b"a\n1.5\n2.5\n"),))
    writer.start()
    source = FilesSource(str(tmp_path / "pipe"))
    writer.join()
    assert features(read_table(source)).tolist() == features(read_table(source)).tolist() == [[1.5], [2.5]]


def test_what_is_cut_off_or_of_another_format_is_one_sentence(frame, monkeypatch):
    class Pipe:
        buffer = io.BytesIO(gzip.compress(written(frame, "csv"))[:-20])

    monkeypatch.setattr(sys, "stdin", Pipe)
    with pytest.raises(ValueError, match="standard input cannot be unpacked"):
        FilesSource("-")
    Pipe.buffer = io.BytesIO(written(frame, "csv"))
    with pytest.raises(ValueError, match="standard input cannot be read"):
        FilesSource("-", format=".parquet")
    with pytest.raises(ValueError, match="format='doc'; choose one of"):
        FilesSource("-", format=".doc")
