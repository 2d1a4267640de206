"""Sheets of workbooks: the cells that openpyxl wrote come back, and what is odd about a sheet is said."""

import warnings
from datetime import date, datetime, time

import pytest
from reading import features, reasons, refusal, roles

openpyxl = pytest.importorskip("openpyxl")

from reading import read_table  # noqa: E402

from isobag.tables.query import QuerySource  # noqa: E402
from isobag.tables.sources import FilesSource  # noqa: E402

FIRST = datetime(2026, 3, 4, 12, 30)


@pytest.fixture
def book(tmp_path):
    """Write sheets, by name a list of rows, and give the path."""

    def write(name="t.xlsx", **sheets):
        whole = openpyxl.Workbook()
        whole.remove(whole.active)
        for title, rows in sheets.items():
            sheet = whole.create_sheet(title)
            for row in rows:
                sheet.append(row)
        whole.save(tmp_path / name)
        return str(tmp_path / name)

    return write


def test_cells_are_the_numbers_dates_and_texts_of_the_sheet(book):
    rows = [["x", "n", "ok", "when", "kind"]]
    rows += [[0.1 + i, i % 3, i % 2 == 0, FIRST.replace(day=4 + i), "ab"[i % 2]] for i in range(8)]
    chosen = ["x", "n", "ok", "when", "kind"]
    table = read_table(FilesSource(book(s=rows)), features=chosen)
    actual = features(table)
    assert actual[:, 0].tolist() == [0.1 + i for i in range(8)] and actual[:, 1].tolist() == [i % 3 for i in range(8)]
    assert actual[:, 2].tolist() == [1, 0] * 4
    names = list(table.encoding.names)
    assert actual[0, names.index("when")] == (FIRST - datetime(1970, 1, 1)).total_seconds()
    assert "when: day of week (sin)" in names
    assert table.encoding.columns[-1].categories == ("a", "b")
    assert [row[-1] for block in table.cells.blocks() for row in block] == [0, 1] * 4
    plain = read_table(FilesSource(book(s=rows)))
    assert plain.encoding.names == ("x", "n", "ok", "rare texts")
    assert reasons(plain)["when"] == "time; name it as a feature to use it"


def test_gaps_empty_names_and_empty_rows_are_said_and_rows_keep_their_lines(book):
    empty = [None, None, None]
    rows = [["a", None, "c"], [1.5, 2, 3], empty, [4.5, None, 6], [7.5, 8, "x"], [1.0, 2, 3], empty, ["", None, None]]
    source = FilesSource(book(s=rows))
    assert source.columns == ("a", "column2", "c")
    table = read_table(source, bad_cells="missing")
    assert table.n_rows == 4 and features(table)[:, 0].tolist() == [1.5, 4.5, 7.5, 1.0]
    assert any("Column 2 of" in note and "it is called 'column2'" in note for note in source.notes)
    assert "1 empty lines are skipped." in source.notes
    assert "row 2 (line 5 of" in refusal(FilesSource(book(s=rows)))


def test_rows_before_the_header_are_skipped(book):
    rows = [["Report"], [], [None, "of May"], ["a", "b"], [1, 2.5], [3, 4.5]]
    assert features(read_table(FilesSource(book(s=rows), skip=3))).tolist() == [[1, 2.5], [3, 4.5]]
    with pytest.raises(ValueError, match="skip=9: nothing follows in sheet 's'"):
        FilesSource(book(s=rows), skip=9)


def test_a_sheet_is_chosen_or_the_first_is_read_with_a_note(book):
    path = book(one=[["a"], [1]], two=[["b"], [2]], none=[])
    first = FilesSource(path)
    assert first.columns == ("a",) and first.notes[0].endswith("is read, of 'one', 'two', 'none'.")
    second = FilesSource(path, sheet="two")
    assert second.columns == ("b",) and second.notes == ()
    with pytest.raises(ValueError, match=r"sheet='three'; .* has no such sheet \(sheets: 'one', 'two', 'none'\)"):
        FilesSource(path, sheet="three")
    with pytest.raises(ValueError, match=r"Sheet 'none' of .* is empty"):
        FilesSource(path, sheet="none")


def test_formulas_that_were_never_computed_are_said_to_be_missing(book):
    source = FilesSource(book(s=[["a", "double"], *([i, f"=A{i + 2}*2"] for i in range(3)), [3, 6]]))
    assert any("3 formulas in column 'double'" in note and "count as missing" in note for note in source.notes)
    assert FilesSource(book(s=[["a", "b"], [1, None], [2, 3]])).notes == ()


def test_computed_values_of_formulas_are_read(book, tmp_path):
    from zipfile import ZipFile

    path = book(s=[["a", "double"], [1, "=A2*2"], [2, "=A3*2"]])
    with ZipFile(path) as old, ZipFile(tmp_path / "computed.xlsx", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("sheet1.xml"):
                for place, value in ((2, 2), (3, 4)):
                    formula = f"<f>A{place}*2</f><v></v>".encode()
                    assert formula in content or f"<f>A{place}*2</f><v />".encode() in content
                    for cell in (formula, f"<f>A{place}*2</f><v />".encode()):
                        content = content.replace(cell, f"<f>A{place}*2</f><v>{value}</v>".encode())
            new.writestr(name, content)
    source = FilesSource(str(tmp_path / "computed.xlsx"))
    assert features(read_table(source)).tolist() == [[1, 2], [2, 4]] and source.notes == ()


def test_numbers_among_texts_are_read_in_the_notation_that_is_asked_for(book):
    rows = [["a"], [1.234], ["2,5"], [3.5], ["4,5"], [5]]
    source = FilesSource(book(s=rows), decimal=",")
    assert features(read_table(source, decimal=",", thousands=".")).tolist() == [[1.234], [2.5], [3.5], [4.5], [5]]


def test_dates_without_a_time_and_times_without_a_date(book):
    rows = [["day", "clock"], *([date(2026, 3, 1 + i), time(12, i)] for i in range(9))]
    table = read_table(FilesSource(book(s=rows)), features=["day"])
    assert features(table)[1, 0] - features(table)[0, 0] == 86400 and roles(table)["clock"] == "left out"


def test_a_query_sees_the_same_cells(book):
    path = book(s=[["a", "when"], *([i + 0.5, FIRST.replace(day=1 + i)] for i in range(9))])
    table = read_table(QuerySource('SELECT a, day("when") AS day FROM data WHERE a > 2', [path]))
    assert features(table).tolist() == [[i + 0.5, 1 + i] for i in range(2, 9)]


def test_what_is_no_workbook_is_one_sentence(tmp_path):
    (tmp_path / "t.xlsx").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"t.xlsx cannot be read as a workbook: File is not a zip file."):
        FilesSource(str(tmp_path / "t.xlsx"))


def test_no_warning_of_the_library_comes_through(book):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FilesSource(book(s=[["a"], [1], [2]]))
