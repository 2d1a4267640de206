"""What is left out, or could be read in two ways, is said: columns, rows, cells."""

import warnings

import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run

from isobag import detect_points


@pytest.fixture
def written(tmp_path):
    """Write a file and name it."""

    def write(content, name="t.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return write


def test_every_column_left_out_is_named_with_its_reason_in_python(rng):
    n = 60
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "note": [f"note {i}" for i in range(n)],
            "kind": ["x", "y", "z"] * 20,
            "paid": ["$1,234.00"] * 40 + ["$99.50"] * 20,
            "digits": [str(i % 7) for i in range(n)],
            "when": pd.date_range("2024-01-01", periods=n),
        }
    )
    with pytest.warns(UserWarning, match="Left out") as caught:
        detect_points(frame, n_estimators=5)
    said = str(caught[0].message)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert all(f"{name!r} (" in said for name in ("note", "kind", "paid", "digits", "when"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detect_points(frame, features=["size"], n_estimators=5)


SORTED = {
    "rising measurement": {"bytes": [i * i for i in range(30)], "hour": [i * 7 % 24 for i in range(30)]},
    "ten rows": {"a": list(range(1, 11)), "b": list(range(2, 12))},
    "numbers of rows": {"line": [i * 7 % 30 for i in range(30)], "x": [i % 5 for i in range(30)]},
    "kinds": {
        "kind": [["a", "b", "c"][i * i % 3] for i in range(30)],
        "ok": ["true", "false"] * 15,
        "late": [str(i) if i % 9 else "x" for i in range(30)],
        "n": [f"{i * 11 % 30 / 4}" for i in range(30)],
        "day": [f"2024-01-{i * 13 % 30 + 1:02d}" for i in range(30)],
        "user_id": [i * 17 % 30 + 100 for i in range(30)],
    },
}


@pytest.mark.parametrize("name", SORTED)
def test_sorting_a_table_by_any_column_changes_no_role(name, tmp_path):
    frame, roles = pd.DataFrame(SORTED[name]), []
    for by in [None, *frame.columns]:
        for ascending in (True, False):
            own = frame if by is None else frame.sort_values(by, ascending=ascending)
            own.to_csv(tmp_path / "t.csv", index=False)
            table = ask("points", tmp_path / "t.csv", "--bad-cells", "missing", "--missing", "median", "-t", 2)["table"]
            roles.append([(one["name"], one["role"], one["kind"], one["reason"]) for one in table["columns"]])
    assert all(own == roles[0] for own in roles)


def test_the_outlier_of_a_rising_column_is_seen():
    frame = pd.DataFrame({"bytes": [*range(3, 200), 10**6], "hour": [i % 24 for i in range(198)]})
    assert detect_points(frame, random_state=0)["row"].iloc[0] == 197


def test_rows_without_a_label_are_counted_wherever_rows_are(written, tmp_path):
    path = written("k,a,b\n" + "".join(f"{'' if i % 5 < 2 else i % 4},{i % 7},{i % 11}\n" for i in range(100)))
    assert_one_sentence(run("fit", path, "--by", "k", "--model", tmp_path / "m"), "one of 40 such rows of 100", "drop")
    args = ("--by", "k", "--missing", "drop", "-t", 5)
    result = run("fit", path, *args, "--model", tmp_path / "m")
    assert "60 rows learned from" in result.stderr
    assert "40 of 100 rows are left out: they have no label of a group." in result.stderr
    for facts in (ask("groups", path, *args), ask("score", tmp_path / "m", path, "--by", "k")):
        assert facts["table"]["n_dropped"] == facts["table"]["n_unlabelled"] == 40
    pd.read_csv(path).to_parquet(tmp_path / "t.parquet")
    assert ask("groups", tmp_path / "t.parquet", *args)["table"]["n_unlabelled"] == 40
