"""Rows of a query come in the order of the file, whatever DuckDB makes of the query, and always in the same."""

import numpy as np
import pandas as pd
import pytest

from isobag.tables.query import QuerySource

N = 300_000


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("query") / "t.parquet"
    x = np.random.default_rng(0).integers(0, 100, N)
    pd.DataFrame({"i": np.arange(N), "x": x}).to_parquet(path, row_group_size=5_000)
    return str(path)


def rows_of(sql, path):
    source = QuerySource(sql, [path])
    return [np.concatenate([batch.columns["i"].to_numpy() for batch in source.frames()]) for _ in range(2)]


@pytest.mark.parametrize(
    "where",
    [
        "",
        *(f"WHERE x {word} ({', '.join(map(str, range(n)))})" for n in (4, 20, 60) for word in ("IN", "NOT IN")),
        "WHERE x IN (SELECT * FROM range(20))",
        "WHERE x > 50 ORDER BY i",
    ],
)
def test_rows_that_are_chosen_come_in_the_order_of_the_file(parquet, where):
    once, again = rows_of(f"SELECT i FROM data {where}", parquet)
    assert len(once) > 1000 and (np.diff(once) > 0).all()
    assert np.array_equal(once, again)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.i FROM data a JOIN data b ON a.i = b.i WHERE b.x < 20",
        "SELECT max(i) AS i FROM data GROUP BY i % 9999",
        "SELECT DISTINCT x AS i FROM data",
        "SELECT i FROM data WHERE x < 5 UNION SELECT i FROM data WHERE x > 95",
    ],
)
def test_a_query_gives_its_rows_in_the_same_order_again(parquet, sql):
    assert np.array_equal(*rows_of(sql, parquet))
