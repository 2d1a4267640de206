"""What the documentation shows of Spark runs and prints what it says."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from blocks import ROOT, Runner, blocks_of, write_files

from isobag import IDKStreamDetector
from isobag.storage.streamfile import load_stream


@pytest.mark.filterwarnings("ignore")  # notes about columns, and PySpark's own
def test_the_page_on_scale(spark, tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    runner = Runner(ROOT / "docs" / "scale.md")
    runner.names["spark"] = spark
    blocks = [block for block in blocks_of(runner.page) if "isobag.engines import spark" in block.text]
    for block in blocks:  # Spark has a current folder of its own
        runner.run(
            block._replace(text=block.text.replace("transactions.parquet", str(tmp_path / "transactions.parquet")))
        )
    assert runner.n_run == len(blocks) > 0


def test_the_page_on_streams(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    X = np.random.default_rng(0).normal(size=(50, 2))
    frame = pd.DataFrame({"amount": X[:, 0], "seconds": X[:, 1], "number": np.arange(50)})
    frame.to_parquet(tmp_path / "incoming" / "0.parquet")
    runner = Runner(ROOT / "docs" / "streams.md")
    runner.names.update(spark=spark, IDKStreamDetector=IDKStreamDetector)
    (block,) = [block for block in blocks_of(runner.page) if "isobag.engines import spark" in block.text]
    text = block.text
    for name in ("incoming", "checkpoint"):  # Spark has a current folder of its own
        text = text.replace(f'"{name}"', repr(str(tmp_path / name)))
    runner.run(block._replace(text=text))
    assert load_stream(tmp_path / "state.isobag")[0].n_seen_ == 50
