"""Tables into files: each format comes back as it was."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from isobag.storage.files import check_output, write_table

PARTS = [
    {"name": ["a", 'say "b"'], "score": np.array([0.1, np.nan]), "flagged": np.array([True, False])},
    {"name": ["größe", "x,y"], "score": np.array([1e-300, 3.0]), "flagged": np.array([False, False])},
]
READERS = {
    ".csv": pd.read_csv,
    ".csv.gz": pd.read_csv,
    ".jsonl": lambda path: pd.DataFrame([json.loads(line) for line in path.read_text("utf-8").splitlines()]),
    ".jsonl.gz": lambda path: pd.DataFrame(
        [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    ),
    ".parquet": lambda path: parquet.read_table(path).to_pandas(),
    ".arrow": lambda path: feather.read_table(path).to_pandas(),
    ".feather": lambda path: feather.read_table(path).to_pandas(),
}


@pytest.mark.parametrize("ending", READERS)
def test_what_is_written_comes_back(ending, tmp_path):
    path = tmp_path / f"t{ending}"
    write_table(path, iter(PARTS))
    actual = READERS[ending](path)
    assert actual["name"].tolist() == ["a", 'say "b"', "größe", "x,y"]
    assert np.array_equal(actual["score"].astype(float), [0.1, np.nan, 1e-300, 3.0], equal_nan=True)
    assert actual["flagged"].tolist() == [True, False, False, False]


def test_the_same_table_is_the_same_packed_file(tmp_path):
    for name in ("1.csv.gz", "2.csv.gz"):
        write_table(tmp_path / name, iter(PARTS))
    assert (tmp_path / "1.csv.gz").read_bytes() == (tmp_path / "2.csv.gz").read_bytes()


def test_standard_output_gets_csv(capfdbinary):
    write_table("-", iter([{"a": pa.array([1, 2])}]))
    assert capfdbinary.readouterr().out == b'"a"\n1\n2\n'


@pytest.mark.parametrize("name", ["t", "t.xls", "t.gz", "t.parquet.gz", "t.csv.zip"])
def test_other_endings_are_refused(name):
    with pytest.raises(ValueError, match="no known ending"):
        check_output(name)
