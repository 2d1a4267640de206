"""Entities over time: the same lines and the same state, bit for bit, whichever way the log comes."""

import pandas as pd
import pytest
from logs import COLUMNS, make_log, updates, watched
from roads import ROADS

import isobag
from isobag.tables.watch import LogColumns

HOW = {"by": "shop", "time": "ts", "features": ["amount", "kind"], "n_estimators": 8}
CHOSEN = {
    "cohorts named": (COLUMNS, {}),
    "cohorts found": (LogColumns(("shop", "region"), "ts", "auto"), {"keep": 9, "time_zone": "Asia/Tokyo"}),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frame")
    return {name: watched(ROADS["frame"], folder, own, **how) for name, (own, how) in CHOSEN.items()}


def test_the_updates_have_findings_and_late_and_repeated_rows(expected):
    first, second, third = expected["cohorts named"]
    assert "7" in {line["shop"] for line in second[0] if line["flagged"]}
    assert {line["shop"] for line in second[0] if line["n_points"] == 0} == {"3"}
    assert not first[1] and "came before" in second[1][0] and "too late" in second[1][1]
    assert any(line["period"].day == 15 and line["shop"] == "4" for line in second[0])  # of late rows, judged again
    assert not third[0] and "came before" in third[1][0] and third[3] == second[3]


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("road", [road for road in ROADS if road not in ("frame", "spool")])
def test_every_road_gives_the_same_lines_and_the_same_state(road, chosen, expected, tmp_path):
    if road == "dask":
        pytest.importorskip("dask.dataframe")
    columns, how = CHOSEN[chosen]
    assert watched(ROADS[road], tmp_path, columns, **how) == expected[chosen]


def test_rows_in_partitions_are_sampled_as_those_in_memory(monkeypatch, expected, tmp_path):
    monkeypatch.setattr("isobag.estimators.monitor._SAMPLED_ROWS", 300)
    found = [watched(ROADS[road], tmp_path) for road in ("frame", "sent to other processes")]
    assert found[0] == found[1] != expected["cohorts named"]


def test_watch_answers_partitions_by_the_lines_of_the_frame(tmp_path):
    log = make_log().sort_values("shop")
    log["shop"] *= 1.5  # numbers of some partitions are whole, and not of others
    lines = isobag.watch(log, **HOW)
    for road in ("frames as partitions", "dask"):
        got = isobag.watch(ROADS[road](log, tmp_path), **HOW)
        got = got.compute() if hasattr(got, "compute") else got.to_pandas()
        pd.testing.assert_frame_equal(got.reset_index(drop=True), lines, check_dtype=False)


def test_rows_without_an_entity_or_a_time_are_an_error_or_left_out(tmp_path):
    log = updates()[0].astype({"shop": float})
    whole = isobag.watch(log.drop(index=[5, 100]), **HOW)
    log.loc[5, "shop"], log.loc[100, "ts"] = None, pd.NaT
    pieces = ROADS["frames as partitions"]
    with pytest.raises(ValueError, match=r"shop: row 5 of partition 0 has no label, .* pass missing='drop'"):
        isobag.watch(pieces(log, tmp_path), **HOW)
    with pytest.raises(ValueError, match=r"ts: row 10 of partition 2 has no time, .* pass missing='drop'"):
        isobag.watch(pieces(log.assign(shop=1.0), tmp_path), **HOW)
    untimed = pytest.warns(UserWarning, match=r"1 of [\d,]+ rows are left out: they have no time")
    with untimed, pytest.warns(UserWarning, match="they have no label"):
        got = isobag.watch(pieces(log, tmp_path), **HOW, missing="drop")
    pd.testing.assert_frame_equal(got.to_pandas(), whole, check_dtype=False)
