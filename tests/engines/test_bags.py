"""Groups by label and period, of rows in partitions."""

import numpy as np
import pandas as pd
import pytest
from in_pieces import FramePartitions

from isobag import detect_groups


def make_log():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"device": rng.integers(0, 4, 900), "value": rng.normal(size=900)})
    frame["ts"] = pd.Timestamp("2026-03-01", tz="UTC") + pd.to_timedelta(rng.integers(0, 3 * 86400, 900), unit="s")
    return frame


def test_periods_of_rows_in_partitions_are_those_in_memory():
    log = make_log()
    pieces = FramePartitions([log[:200], log[200:210], log[210:]])
    how = {"by": "device", "time": "ts", "every": "1d", "time_zone": "Europe/Berlin", "random_state": 0}
    got = detect_groups(pieces, **how).to_pandas()
    expected = detect_groups(log, **how)
    assert list(got.columns) == list(expected.columns) and got["period"].nunique() == 4
    pd.testing.assert_frame_equal(got, expected, check_dtype=False)


def test_sessions_of_rows_in_partitions_are_refused():
    with pytest.raises(ValueError, match=r"sessions='1h' needs all rows of a label in one place, .* choose every="):
        detect_groups(FramePartitions([make_log()]), by="device", time="ts", sessions="1h")
