"""Every road to a result passes the same checks and honours the same registries."""

import numpy as np
import pandas as pd
import pytest
from roads import ASKED, ROADS, table, told

from isobag import IDKGroupDetector, detect_groups, detect_points
from isobag.partitionings import MECHANISMS


@pytest.fixture(scope="module")
def expected():
    frame = table()
    return {name: told(ROADS["frame"](frame, None), asked) for name, asked in ASKED.items()}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("road", [road for road in ROADS if road != "frame"])
def test_every_road_gives_the_same_ranking_reasons_and_summary(road, asked, expected, tmp_path):
    if road == "dask":
        pytest.importorskip("dask.dataframe")
    assert told(ROADS[road](table(), tmp_path), ASKED[asked], on_disk=road == "spool") == expected[asked]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"account": np.repeat(np.arange(20), 10), "amount": rng.normal(size=200)})


def test_detect_groups_refuses_the_contamination_that_fit_refuses(frame):
    with pytest.raises(ValueError, match=r"contamination=0\.9"):
        detect_groups(frame, by="account", contamination=0.9)


def test_detect_points_refuses_the_contamination_that_fit_refuses(frame):
    with pytest.raises(ValueError, match=r"contamination=0\.9"):
        detect_points(frame, contamination=0.9)


def test_the_command_refuses_the_contamination_that_fit_refuses(frame, tmp_path):
    from typer.testing import CliRunner

    from isobag.cli.app import app

    frame.to_csv(tmp_path / "a.csv", index=False)
    result = CliRunner().invoke(app, ["groups", str(tmp_path / "a.csv"), "--by", "account", "--contamination", "0.9"])
    assert result.exit_code != 0
    assert "contamination" in result.output


def test_a_registered_mechanism_serves_level_2_too(frame, monkeypatch):
    calls = []

    def draw(drawn, levels, compute):
        calls.append(type(drawn.points).__name__)
        return MECHANISMS["hypersphere"](drawn, levels, compute)

    monkeypatch.setitem(MECHANISMS, "counted", draw)
    groups = [part[["amount"]].to_numpy() for _, part in frame.groupby("account")]
    by_name = IDKGroupDetector(
        max_samples=8, group_max_samples=4, group_mechanism="counted", calibrate=False, random_state=0
    )
    by_name.parameters = {name: one for name, one in by_name.parameters.items() if name != "group_mechanism"}
    direct = IDKGroupDetector(max_samples=8, group_max_samples=4, calibrate=False, random_state=0)
    assert calls == []
    assert np.array_equal(by_name.fit(groups).scores_, direct.fit(groups).scores_)
    assert len(calls) == 1
