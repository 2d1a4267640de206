"""Dates of an announced format are read as ISO dates are, in every way in; what does not fit is named."""

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run
from reading import features, read_table, refusal

from isobag import detect
from isobag.tables.cells import time_of
from isobag.tables.sources import FilesSource

FORMAT = "%d.%m.%Y"


@pytest.fixture
def tables(tmp_path, rng):
    """The same table with dates of ISO 8601 and of FORMAT."""
    days = pd.date_range("2026-01-01", periods=60)
    frame = pd.DataFrame({"x": rng.normal(size=60), "who": np.repeat(list("abcdef"), 10)})
    for name, how in (("iso", "%Y-%m-%d"), ("own", FORMAT)):
        frame.assign(day=days.strftime(how)).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path / "iso.csv", tmp_path / "own.csv"


def test_features_are_those_of_iso_dates(tables):
    iso, formatted = (str(path) for path in tables)
    expected = features(read_table(FilesSource(iso), features=["x", "day"]))
    assert np.array_equal(features(read_table(FilesSource(formatted), features=["x", "day"], dates=FORMAT)), expected)
    assert np.array_equal(features(read_table(FilesSource(iso), features=["x", "day"], dates=FORMAT)), expected)
    assert read_table(FilesSource(formatted), features=["x"]).encoding.dates == ""


def test_every_command_takes_them_and_a_model_keeps_them(tables, tmp_path):
    iso, formatted = tables
    chosen = ("--features", "x,day")
    assert ask("detect", formatted, *chosen, "--dates", FORMAT)["top"] == ask("detect", iso, *chosen)["top"]
    for path, more in ((iso, ()), (formatted, ("--dates", FORMAT))):
        assert run("fit", path, *chosen, *more, "--save-model", tmp_path / f"{path.stem}.isobag").exit_code == 0
    scored = ask("score", tmp_path / "own.isobag", formatted)["top"]
    assert scored == ask("score", tmp_path / "iso.isobag", iso)["top"]
    weekly = ("--by", "who", "--time", "day", "--every", "1w", "--features", "x")
    assert ask("detect", formatted, *weekly, "--dates", FORMAT)["top"] == ask("detect", iso, *weekly)["top"]
    formatted.write_text(formatted.read_text() + "0.5,a,soon\n")
    assert_one_sentence(run("score", tmp_path / "own.isobag", formatted), "the model learned times", "has 'soon'")


def test_frames_take_them_too(tables):
    iso, formatted = (pd.read_csv(path) for path in tables)
    how = {"random_state": 0, "n_estimators": 10}
    ranked = detect(formatted, features=["x", "day"], dates=FORMAT, **how).to_frame()
    parsed = detect(iso.assign(day=pd.to_datetime(iso["day"])), features=["x", "day"], **how).to_frame()
    assert ranked["score"].tolist() == parsed["score"].tolist()
    weekly = {"by": "who", "time": "day", "every": "1w", "features": ["x"]}
    expected = detect(iso, **weekly, **how).to_frame()
    assert detect(formatted, dates=FORMAT, **weekly, **how).to_frame()["score"].tolist() == expected["score"].tolist()


def test_a_cell_that_does_not_fit_is_named(tables, tmp_path):
    path = tables[1]
    path.write_text(path.read_text() + "0.5,a,31.02.2026\n")
    message = refusal(FilesSource(str(path)), dates=FORMAT)
    assert "day: 60 of 61 cells fit dates='%d.%m.%Y'; row 60 (line 62 of" in message and "has '31.02.2026'" in message
    weekly = ("--by", "who", "--time", "day", "--every", "1w", "--features", "x", "--dates", FORMAT)
    assert_one_sentence(
        run("detect", path, *weekly), "row 60 has '31.02.2026', which is not a time", "or as '%d.%m.%Y' says"
    )


def test_a_format_that_fits_nothing_or_is_none_is_refused(tables):
    message = refusal(FilesSource(str(tables[1])), dates="%m/%d/%Y")
    assert message == "dates='%m/%d/%Y': no cell of any column is such a date."
    for dates in ("%Y%m%d", "%H:%M", "day", "%d.%m.%Q"):
        assert_one_sentence(
            run("detect", tables[1], "--dates", dates), f"--dates {dates}; need a format of whole dates"
        )


def test_a_format_that_iso_could_be_mistaken_for_stands_alone():
    assert time_of("2026-13-02", "%Y-%d-%m") == time_of("2026-02-13")
    assert time_of("2026-02-13", "%Y-%d-%m") is None
    assert time_of("2026-02-13", FORMAT) == time_of("2026-02-13") == time_of("13.02.2026", FORMAT)
    assert time_of("13.02.2026 +0100", "%d.%m.%Y %z") == (time_of("2026-02-13")[0] - 3600, True)
