"""Every road to a result leads to the same."""

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.data.spool import Spool
from isobag.tables.framesource import FrameSource
from isobag.tables.learn import learn_table
from isobag.tables.ranking import rank
from isobag.tables.reading import ReadOptions
from isobag.tables.sentences import sentences_of
from isobag.tables.sources import FilesSource

N_ROWS = 240
TOP = 30
ASKED = {
    "rows": {},
    "rows by name": {"id": "name", "features": ["amount", "kind", "ok"]},
    "rows left out": {"missing": "drop", "features": ["amount", "gaps"]},
    "gaps filled": {"features": ["amount", "gaps", "kind"]},
    "groups": {"by": ["account"]},
    "groups of two columns": {"by": ["account", "kind"], "features": ["amount", "hour"], "missing": "drop"},
}


def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "number": np.arange(N_ROWS),
            "name": [f"row {i * 7 % N_ROWS}" for i in range(N_ROWS)],
            "account": [f"a{i}" for i in rng.integers(0, 12, N_ROWS)],
            "amount": rng.lognormal(size=N_ROWS).round(2),
            "hour": rng.integers(0, 24, N_ROWS),
            "kind": rng.choice(["card", "cash", "wire"], p=[0.6, 0.3, 0.1], size=N_ROWS),
            "ok": rng.random(N_ROWS) < 0.9,
            "gaps": np.where(rng.random(N_ROWS) < 0.05, np.nan, rng.normal(size=N_ROWS).round(3)),
        }
    )
    frame.loc[N_ROWS - 1, "amount"] = 900.0
    return frame


def written_as(ending):
    def write(frame, folder):
        path = folder / f"t.{ending}"
        frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
        return FilesSource(str(path))

    return write


ROADS = {
    "frame": lambda frame, folder: FrameSource(nw.from_native(frame, eager_only=True)),
    "csv": written_as("csv"),
    "parquet": written_as("parquet"),
    "spool": written_as("csv"),
}


def content_of(source, asked, on_disk=False):
    """All that the ranking of a table says."""
    kind = IDKGroupDetector if "by" in asked else IDKPointDetector
    how = {"spool": lambda n: Spool(n, kept_bytes=0)} if on_disk else {}
    learned = learn_table(source, ReadOptions.of(**asked), **how)
    ranking = rank(learned, kind(n_estimators=12, random_state=0))
    columns = {name: _listed(values) for name, values in ranking.columns(0, TOP).items()}
    numbers = (
        len(ranking),
        ranking.n_ranked,
        ranking.n_flagged,
        ranking.n_tied,
        ranking.judged.threshold,
        ranking.rule,
    )
    roles = [(one.name, one.role, one.reason) for one in ranking.summary.columns]
    rows = (ranking.summary.n_rows, ranking.summary.n_dropped)
    return {"columns": columns, "numbers": numbers, "roles": roles, "rows": rows, "words": sentences_of(ranking)}


def _listed(values):
    plain = values.to_pylist() if hasattr(values, "to_pylist") else np.asarray(values).tolist()
    return [None if isinstance(one, float) and np.isnan(one) else one for one in plain]


@pytest.fixture(scope="module")
def expected():
    frame = table()
    return {name: content_of(ROADS["frame"](frame, None), asked) for name, asked in ASKED.items()}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("road", [road for road in ROADS if road != "frame"])
def test_every_road_gives_the_same_ranking_reasons_and_summary(road, asked, expected, tmp_path):
    assert content_of(ROADS[road](table(), tmp_path), ASKED[asked], on_disk=road == "spool") == expected[asked]
