"""What is left out, or could be read in two ways, is said: columns, rows, cells."""

import bz2
import lzma
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import ask, assert_one_sentence, run

from isobag import detect


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
        detect(frame, n_estimators=5).to_frame()
    message = str(caught[0].message)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert all(f"{name!r} (" in message for name in ("note", "paid", "when"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detect(frame, features=["size"], n_estimators=5).to_frame()


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
            rearranged = frame if by is None else frame.sort_values(by, ascending=ascending)
            rearranged.to_csv(tmp_path / "t.csv", index=False)
            table = ask("detect", tmp_path / "t.csv", "--bad-cells", "missing", "-t", 2)["table"]
            roles.append([(one["name"], one["role"], one["kind"], one["reason"]) for one in table["columns"]])
    assert all(rearranged == roles[0] for rearranged in roles)


def test_the_outlier_of_a_rising_column_is_seen():
    frame = pd.DataFrame({"bytes": [*range(3, 200), 10**6], "hour": [i % 24 for i in range(198)]})
    assert detect(frame, random_state=0).to_frame()["row"].iloc[0] == 197


def test_rows_without_a_label_are_counted_wherever_rows_are(written, tmp_path):
    path = written("k,a,b\n" + "".join(f"{'' if i % 5 < 2 else i % 4},{i % 7},{i % 11}\n" for i in range(100)))
    assert_one_sentence(
        run("fit", path, "--by", "k", "--save-model", tmp_path / "m"), "one of 40 such rows of 100", "drop"
    )
    args = ("--by", "k", "--missing", "drop", "-t", 5)
    result = run("fit", path, *args, "--save-model", tmp_path / "m")
    assert "60 rows learned from" in result.stderr
    assert "40 of 100 rows have no group label" in result.stderr
    for facts in (ask("detect", path, *args), ask("score", tmp_path / "m", path)):
        assert facts["table"]["n_dropped"] == facts["table"]["n_unlabelled"] == 40
    pd.read_csv(path).to_parquet(tmp_path / "t.parquet")
    assert ask("detect", tmp_path / "t.parquet", *args)["table"]["n_unlabelled"] == 40


def column(cells):
    """A file with these cells in one column, and numbers in another."""
    return "a;x\n" + "".join(f"{cell};{i * 7 % 11}\n" for i, cell in enumerate(cells))


def values(path, *options, features="a"):
    """The numbers that are read of a column."""
    from isobag.cli.inputs import open_source, read_options, read_table
    from isobag.cli.options import Typed
    from isobag.cli.progress import Bar

    how = dict(zip((name.removeprefix("--") for name in options[::2]), options[1::2], strict=True))
    typed = Typed(files=[str(path)], features=features, **how)
    options = read_options(typed)
    table = read_table(open_source(typed, options), options, Bar())
    return table.rows.take(np.arange(len(table.rows)))[:, 0].tolist()


def test_thousands_are_offered_as_thousands_and_read_so(written):
    path = written(column(["1,324", "916", "900,000"] * 9))
    message = run("detect", path).stderr
    assert_one_sentence(run("detect", path), "18 of 27 cells", "Pass --thousands , to read '1,324' as 1324 or --feat")
    assert "--decimal" not in message and ",," not in message
    assert_one_sentence(run("detect", path, "--features", "a,x"), "--thousands ,")
    assert values(path, "--thousands", ",")[:3] == [1324, 916, 900_000]
    mostly_plain = written(column(["5", "6", "1,234,567.5"] * 9))
    assert_one_sentence(run("detect", mostly_plain), "Pass --thousands , to read '1,234,567.5' as 1234567.5 or")
    assert values(mostly_plain, "--thousands", ",")[:3] == [5, 6, 1234567.5]
    assert_one_sentence(run("detect", path, "--thousands", ".", "--decimal", "."), "is the decimal sign too")


def test_a_decimal_comma_is_offered_where_no_other_reading_fits(written):
    message = run("detect", written(column(["1,5", "2,25", "1,234"] * 9))).stderr
    assert "Pass --decimal , to read '1,5' as 1.5 or --features without it." in message and "thousands" not in message


def test_no_decimal_sign_is_offered_where_both_are_used(written):
    assert "--decimal" not in run("detect", written(column(["1.5", "2.5", "1,5"] * 9))).stderr


def test_points_are_refused_where_the_decimal_sign_is_a_comma(written):
    path = written(column(["1.5", "2.5", "3.25"] * 9))
    assert_one_sentence(run("detect", path, "--decimal", ","), "27 of 27 cells", "a decimal point", "--decimal .")
    path = written(column(["1.500", "2.500.000,5"] * 9))
    assert_one_sentence(run("detect", path, "--decimal", ","), "--thousands .")
    assert values(path, "--decimal", ",", "--thousands", ".")[:2] == [1500, 2500000.5]


DRESSED = {
    "currency": (["$1,234.50", "$99", "-$5"], [1234.5, 99, -5], "the unit '$'"),
    "currency behind": (["5 EUR", "7 EUR", "1 000 EUR"], [5, 7, 1000], "the unit 'EUR'"),
    "percent": (["81.3%", "5%", "-0.5 %"], [81.3, 5, -0.5], "the unit '%'"),
    "units": (["5 kg", "7.5kg", "1e3 kg"], [5, 7.5, 1000], "the unit 'kg'"),
    "parentheses": (["(1.5)", "(2)", "3"], [-1.5, -2, 3], "parentheses (negative)"),
    "spaces": (["1 234", "5 678 900", "12"], [1234, 5678900, 12], "the mark ' '"),
}


@pytest.mark.parametrize("name", DRESSED)
def test_numbers_in_a_dress_are_read_on_request_and_never_taken_for_categories(name, written):
    cells, numbers, taken = DRESSED[name]
    path = written(column(cells * 9))
    assert "Left out: a (text that holds numbers, such as" in run("detect", path, "-t", 5).stderr
    assert "--numbers relaxed" in run("detect", path, "-t", 5).stderr
    assert_one_sentence(run("detect", path, "--features", "a,x"), "cannot be used: text that holds numbers", "relaxed")
    assert values(path, "--numbers", "relaxed")[:3] == numbers
    message = run("detect", path, "--numbers", "relaxed", "-t", 5).stderr
    assert f"a: read as numbers without {taken}" in " ".join(message.split())


def test_different_units_are_refused(written):
    path = written(column(["5 kg", "300 g", "1 kg"] * 9))
    assert_one_sentence(run("detect", path, "--numbers", "relaxed"), "different units ('g', 'kg') cannot be compared")


def test_a_model_reads_new_tables_in_the_notation_it_learned(written, tmp_path):
    path = written(column(["$1,324", "$916", "$900,000"] * 9))
    assert run("fit", path, "--numbers", "relaxed", "--save-model", tmp_path / "m").exit_code == 0
    assert ask("score", tmp_path / "m", path)["features"] == ["a", "x"]


def test_text_of_numbers_in_a_frame_is_read_on_request(rng):
    frame = pd.DataFrame({"x": rng.normal(size=40), "paid": ["$1,234.00", "$99"] * 19 + ["$9,999,999", "$80"]})
    with pytest.warns(UserWarning, match=r"'paid' \(text that holds numbers, .* read them with numbers='relaxed'\)"):
        detect(frame, random_state=0).to_frame()
    with pytest.warns(UserWarning, match=r"paid: read as numbers without the unit '\$'"):
        assert detect(frame, numbers="relaxed", random_state=0).to_frame()["row"].iloc[0] == 38


@pytest.mark.parametrize("cell", ["A 12", "12 Main Street", "2024-01-05x", "10.0.0.1", "1-2", "v2"])
def test_other_texts_with_digits_are_no_numbers(cell):
    from isobag.tables.notation import Notation

    assert Notation().hint(cell) == ""


def test_a_query_reads_cells_by_the_same_rules(written):
    path = written(column(["1,5", "2,5", "3,25"] * 9))
    query = ("--sql", "SELECT a, x FROM data WHERE a > 2", "--decimal", ",", "-t", 5)
    assert ask("detect", path, *query)["n_rows"] == 18 and ask("detect", path, *query)["features"] == ["a", "x"]
    dash = written(column(["1.5", "--", *["2.5"] * 25]))
    for how in ((), ("--sql", "SELECT * FROM data"), ("--sql", "SELECT a AS b, x FROM data")):
        assert_one_sentence(run("detect", dash, *how), "26 of 27 cells are numbers", "'--'", "--bad-cells missing")
    answer = ask("detect", dash, "--sql", "FROM data", "--bad-cells", "missing", "--missing", "drop", "-t", 5)
    assert answer["features"] == ["a", "x"] and answer["table"]["n_dropped"] == 1
    thousands = written(column(["1,324", "916", "900,000"] * 9))
    assert_one_sentence(run("detect", thousands, "--sql", "FROM data"), "--thousands ,")
    table = ask(
        "detect", thousands, "--sql", "SELECT a::VARCHAR AS x FROM data", "--bad-cells", "text", "--features", "x"
    )
    assert [one["kind"] for one in table["table"]["columns"]] == ["text"]  # a number made text by the query stays text


def test_a_model_is_asked_with_a_query_in_its_own_notation(written, tmp_path):
    path = written(column(["1,5", "2,5", "3,25"] * 9))
    assert run("fit", path, "--decimal", ",", "--save-model", tmp_path / "m").exit_code == 0
    assert ask("score", tmp_path / "m", path, "--sql", "SELECT * FROM data WHERE a > 2")["n_rows"] == 18


def test_labels_in_json_are_of_one_kind(written):
    rows = [f'{{"k": {["1", "1.0", "2"][i % 3]}, "a": {i % 7}}}' for i in range(30)]
    answer = ask("detect", written("\n".join(rows), "t.jsonl"), "--by", "k", "-t", 5)
    assert sorted((row["k"], row["n_points"]) for row in answer["top"]) == [(1, 20), (2, 10)]
    for other, what in (('"1"', "a text"), ("true", "a true or false")):
        path = written("\n".join([*rows, f'{{"k": {other}, "a": 3}}']), "t.jsonl")
        assert_one_sentence(run("detect", path, "--by", "k"), "row 0 (line 1) has '1', a number, but", what, "one kind")
        assert ask("detect", path, "--features", "a", "-t", 5)["n_rows"] == 31


def test_columns_in_names_of_folders_are_read_by_none_and_said_by_all(tmp_path):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pd.DataFrame({"a": range(5, 25), "b": [i % 3 for i in range(20)]}).to_parquet(tmp_path / f"day={day}/t.parquet")
    files = tmp_path / "*" / "*.parquet"
    for how in ((), ("--sql", "FROM data")):
        result = run("detect", files, *how, "-t", 5)
        assert "Not read: 'day', which stands in the names of folders alone" in result.stderr
        assert ask("detect", files, *how, "-t", 5)["features"] == ["a", "b"]


def test_a_text_never_seen_is_no_less_odd_than_the_rarest(written, tmp_path):
    kinds = ["x"] * 60 + ["y"] * 30 + ["z"] * 10
    old = written("kind,a\n" + "".join(f"{kind},{i * 37 % 100 / 10}\n" for i, kind in enumerate(kinds)))
    assert run("fit", old, "--features", "kind,a", "--save-model", tmp_path / "m").exit_code == 0
    new = written("kind,a\n" + "".join(f"{kind},{i}\n" for i in range(10) for kind in ("x", "z", "q")), "new.csv")
    answer = ask("score", tmp_path / "m", new, "--top", 30)
    scores = {row["row"]: row["score"] for row in answer["top"]}
    assert all(scores[i + 2] <= scores[i + 1] + 1e-9 for i in range(0, 30, 3))
    message = " ".join(run("score", tmp_path / "m", new).stderr.split())
    assert "kind: 10 texts" in message and "row 2 (line 4" in message and "'q'" in message
    assert "kind=z" not in "".join(row["reasons"] for row in answer["top"] if row["row"] % 3 == 2)


def test_codes_that_a_frame_declares_to_be_text_are_categories_if_asked_for(rng):
    frame = pd.DataFrame({"x": rng.normal(size=40), "zip": ["01234", "94301"] * 20, "pct": ["5%", "81.3%"] * 20})
    assert len(detect(frame, features=["x", "zip"], n_estimators=5).to_frame()) == 40
    with pytest.raises(
        ValueError, match=r"features= has 'pct', .* holds numbers, such as '5%'; .* numbers='relaxed'\.$"
    ):
        detect(frame, features=["x", "pct"]).to_frame()


def test_columns_are_excluded_by_name_and_by_pattern(written):
    path = written("a,b,temp_1,temp_2\n" + "".join(f"{i % 5},{i % 3},{i % 7},{i % 4}\n" for i in range(40)))
    answer = ask("detect", path, "--exclude", "b,temp_*", "-t", 5)
    assert answer["features"] == ["a"]
    assert "Left out: b, temp_1, temp_2 (excluded)." in run("detect", path, "--exclude", "b,temp_*", "-t", 5).stderr
    assert_one_sentence(run("detect", path, "--exclude", "c*"), "--exclude has 'c*'; no column matches (columns: 'a'")
    assert_one_sentence(
        run("detect", path, "--exclude", "a", "--features", "a,b"), "has 'a', which is left out by --exc"
    )
    bad = written("a,b\n" + "1,x\n2,3\n4,5\n" * 9, "bad.csv")
    assert ask("detect", bad, "--exclude", "b", "-t", 5)["features"] == ["a"]
    frame = pd.read_csv(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who excludes a column knows it
        ranked = detect(frame, exclude=["b", "temp_*"], random_state=0).to_frame()
    assert ranked["score"].tolist() == detect(frame[["a"]], random_state=0).to_frame()["score"].tolist()


@pytest.mark.parametrize("ending", ["bz2", "xz"])
def test_packed_files_are_read(written, ending):
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (i % 5, i % 3) for i in range(40))
    path = written({"bz2": bz2, "xz": lzma}[ending].compress(content), f"t.csv.{ending}")
    assert ask("detect", path, "-t", 5)["n_rows"] == 40
    assert_one_sentence(run("detect", written(path.read_bytes()[:-9], f"u.csv.{ending}")), "cannot be unpacked")


def test_the_delimiter_can_be_given(written):
    path = written("a b:c d\n" + "".join(f"{i % 5}:{i % 3}\n" for i in range(40)))
    assert ask("detect", path, "--delimiter", ":", "-t", 5)["features"] == ["a b", "c d"]
    assert_one_sentence(run("detect", path, "--delimiter", "::"), "--delimiter ::: need one character", code=2)


def test_h_is_help():
    assert run("detect", "-h").stdout == run("detect", "--help").stdout != ""


def test_more_texts_can_stand_for_a_missing_value(written):
    cells = [["--", " ? ", "none"][i % 3] if i % 10 == 0 else i % 7 for i in range(60)]
    path = written("k,a,b\n" + "".join(f"{'--' if i == 5 else i % 3},{cell},{i % 4}\n" for i, cell in enumerate(cells)))
    args = (path, "--na=--,none", "--features", "a,b", "-t", 5)
    assert_one_sentence(
        run("detect", *args, "--missing", "error"), "Values are missing in 'a' (6) of 60 rows", "--missing drop"
    )
    for how in ((), ("--sql", "FROM data")):
        assert ask("detect", *args, "--missing", "drop", *how)["table"]["n_dropped"] == 6
    assert ask("detect", *args, "--by", "k", "--missing", "drop")["table"]["n_unlabelled"] == 1


def test_columns_called_like_labels_identifiers_or_phone_numbers_are_noted(tmp_path, rng):
    frame = pd.DataFrame(rng.integers(0, 999, (60, 5)), columns=["label", "userid", "phone", "amount", "y"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    message = run("detect", tmp_path / "t.csv").stderr
    assert "label: it looks like a label by its name, but is used; --exclude label leaves it out." in message
    assert "userid: it looks like an identifier" in message and "phone: it looks like a phone number" in message
    assert "amount:" not in message and "y:" not in message
    chosen = run("detect", tmp_path / "t.csv", "--features", "label,amount").stderr
    assert "looks like" not in chosen and "looks like" not in run("detect", tmp_path / "t.csv", "--exclude", "*").stderr
    with pytest.warns(UserWarning, match=r"label: it looks like a label by its name, but is used; exclude=\['label'\]"):
        detect(frame[["label", "amount"]], n_estimators=5).to_frame()
