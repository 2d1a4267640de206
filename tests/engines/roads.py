"""Every road from a table to a ranking, and all that a ranking says: the same whichever road is taken."""

import narwhals as nw
import numpy as np
import pandas as pd
from cutting import CutFrame
from in_pieces import FramePartitions

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.data.spool import Spool
from isobag.tables.detect import rank
from isobag.tables.framesource import FrameSource
from isobag.tables.learn import learn_table
from isobag.tables.reading import ReadOptions
from isobag.tables.sentences import sentences_of
from isobag.tables.sources import FilesSource

N_ROWS = 240
TOP = 30
CUTS = [0, 50, 51, 51, 200]
ASKED = {
    "rows": {"missing": "median"},
    "rows by name": {"id": "name", "features": ["amount", "kind", "ok"]},
    "rows left out": {"missing": "drop", "features": ["amount", "gaps"]},
    "gaps filled": {"missing": "median", "features": ["amount", "gaps", "kind"]},
    "groups": {"by": ["account"], "missing": "median"},
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


def in_dask(frame, folder):
    import dask.dataframe as dd

    from isobag.engines.dask.partitions import DaskPartitions

    return DaskPartitions(dd.from_pandas(frame, npartitions=5, sort=False))


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
    "frames as partitions": lambda frame, folder: FramePartitions([frame[:90], frame[90:90], frame[90:]]),
    "sent to other processes": lambda frame, folder: CutFrame(frame, CUTS),
    "dask": in_dask,
}


def told(partitions, asked, on_disk=False):
    """All that the ranking of a table says."""
    kind = IDKGroupDetector if "by" in asked else IDKPointDetector
    how = {"spool": lambda n: Spool(n, kept_bytes=0)} if on_disk else {}
    learned = learn_table(partitions, ReadOptions.of(**asked), **how)
    ranking = rank(learned, kind(n_estimators=12, random_state=0, calibrate=False), top=TOP)
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
