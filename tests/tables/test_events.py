"""Groups of events, one text a row: what is rare among rows can be what every group has."""

import numpy as np
import pandas as pd
import pytest

from isobag import detect


@pytest.fixture(scope="module")
def table():
    """300 sessions of 30 to 200 events with one start and one end; the first has no end, the second a rare event."""
    rng = np.random.default_rng(0)
    rows = []
    for number, n in enumerate(rng.integers(30, 200, 300)):
        events = ["start", *rng.choice(["read", "write", "list"], n), "end"]
        if number == 0:
            events.remove("end")
        if number == 1:
            events[5:5] = ["panic", "panic"]
        rows += [(number, event) for event in events]
    frame = pd.DataFrame(rows, columns=["session", "event"])
    return detect(frame, by="session", features=["event"], random_state=0).to_frame().set_index("session")


def test_an_event_that_is_rare_among_rows_but_in_every_session_is_missed(table):
    assert table.loc[0, "rank"] <= 15
    assert table.loc[0, "reasons"].startswith("event=end (0 rows, usually 1)")
    assert sum("rows, usually" in reasons for reasons in table["reasons"]) == 1


def test_an_event_that_no_other_session_has_is_named_however_few_its_rows_are(table):
    assert table.loc[1, "rank"] <= 15
    assert table.loc[1, "reasons"].startswith("event=panic (")
