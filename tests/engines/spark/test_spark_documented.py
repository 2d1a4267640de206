"""What the documentation shows of Spark runs and prints what it says."""

import pytest

pytest.importorskip("typer")

from blocks import ROOT, Runner, blocks_of, write_files


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
