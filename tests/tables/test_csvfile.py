"""CSV, cell for cell: what Python's csv says, or one sentence that says where not."""

import csv
import io
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading_oracle import RefusedError, read

pytest.importorskip("pyarrow")

from isobag.tables.csvfile import BLOCK_BYTES, CsvFile
from isobag.tables.tablefile import FileFormat

EXAMPLES = int(os.environ.get("ISOBAG_EXAMPLES", "100"))
MANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def opened(content, block_bytes=BLOCK_BYTES, **how):
    return CsvFile(lambda: io.BytesIO(content), "t.csv", FileFormat(**how), block_bytes)


def cells(file):
    """Rows of cells, and the line that each begins on."""
    rows, lines = [], []
    for batch in file.batches():
        assert batch.first_row == len(rows)
        rows += [list(row) for row in zip(*(column.to_pylist() for column in batch.columns.values()), strict=True)]
        lines += batch.lines.tolist()
    return rows, lines


PIECES = ['"', ",", "\n", "\r\n", "\r", "#", "a", "1", ".5", " ", "\t", "\0", "é", "\ufeff", "NA", '""', "\x1b"]
JUNK = st.lists(st.sampled_from(PIECES), max_size=40).map(lambda parts: "".join(parts).encode())


@MANY
@given(JUNK, st.booleans(), st.sampled_from([1, 3, 7, 1 << 20]))
def test_junk_is_read_as_csv_reads_it_or_refused(content, header, block_bytes):
    try:
        file = opened(content, header=header, delimiter=",", block_bytes=block_bytes)
        names, (rows, lines) = list(file.names), cells(file)
    except ValueError as error:
        message = str(error)
        assert "t.csv" in message and "\n" not in message and message.endswith(".")
        with pytest.raises(RefusedError):
            read(content, ",", header)
        return
    assert (names, rows) == read(content, ",", header)
    assert lines == sorted(set(lines))


ODD = ["", "1", "-2.5", "#N/A", "x,y", 'say "no"', "two\nlines", "cr\rlf\r\n", "\ufeff", " pad ", "ü", "\x1b[2J"]
CELL = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.floats(allow_nan=False).map(repr),
)


@st.composite
def tables(draw):
    """A table, written: its names and cells if they can be told again, the bytes, and the divider."""
    n_columns, n_rows = draw(st.integers(1, 4)), draw(st.integers(0, 12))
    names = draw(st.lists(CELL.filter(bool), min_size=n_columns, max_size=n_columns, unique=True))
    rows = [[draw(CELL) for _ in names] for _ in range(n_rows)]
    divider = draw(st.sampled_from(",;|\t"))
    quoting = draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    out = io.StringIO(newline="")
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    csv.writer(out, delimiter=divider, lineterminator=end, quoting=quoting).writerows([names, *rows])
    text = out.getvalue()
    if draw(st.booleans()) and rows:
        text = text.rstrip("\r\n") if not rows[-1][-1].endswith(("\r", "\n")) else text
    mark = "\ufeff" if draw(st.booleans()) else ""
    # An end of a line in a cell without quotes cannot be told from that of a row.
    is_faithful = quoting == csv.QUOTE_ALL or not set("\r\n") & set("".join(map("".join, [names, *rows])))
    return (names, rows) if is_faithful else None, (mark + text).encode(), divider


@MANY
@given(tables(), st.sampled_from([1, 5, 64, 1 << 20]))
def test_what_csv_writes_comes_back_cell_for_cell(table, block_bytes):
    written, content, divider = table
    try:
        expected = read(content, divider, True)
    except RefusedError:
        with pytest.raises(ValueError, match=r"t\.csv"):
            cells(opened(content, header=True, delimiter=divider, block_bytes=block_bytes))
        return
    file = opened(content, header=True, delimiter=divider, block_bytes=block_bytes)
    actual = (list(file.names), cells(file)[0])
    assert actual == expected
    if written is not None and not written[0][0].startswith("\ufeff"):  # which could be the mark of a file
        assert actual == written


@pytest.mark.parametrize(
    ("content", "place", "facts"),
    [
        (b"", "", []),
        (b"a,b\n1,2\n3\n", "row 1 (line 3)", ["1", "2"]),
        (b'a,b\n"x\ny",2\n3,4,5\n', "row 1 (line 4)", ["3", "2"]),
        (b'a,b\n1,"2\n3,4\n', "row 0 (line 2)", ["quote"]),
        (b'a,b\n1,"2"x\n', "row 0 (line 2)", ["quote"]),
        (b"a,b,a\n1,2,3\n", "", ["'a'", "1 and 3"]),
        (b"a,b\n1,2\n1,\xe9\n", "line 3", ["0xE9", "encoding="]),
        ("a,b\n1,2\n".encode("utf-16"), "", ["encoding='utf-16'"]),
    ],
)
@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
def test_what_is_no_table_is_refused_with_its_place(content, place, facts, block_bytes):
    with pytest.raises(ValueError) as caught:
        cells(opened(content, block_bytes=block_bytes))
    message = str(caught.value)
    assert message.startswith("t.csv") and "\n" not in message
    for fact in (place, *facts):
        assert fact in message


@pytest.mark.parametrize("block_bytes", [1 << 15, 1 << 20])
def test_a_cell_that_never_ends_is_refused(block_bytes):
    with pytest.raises(ValueError, match=r"t\.csv, first row.*131,072"):
        cells(opened(b'"' + b"a\n" * 200_000, block_bytes=block_bytes))


@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_before_the_header_are_skipped_and_still_counted(block_bytes, end):
    content = end.join([b'Report of "May, 2026', b"", b"a,b", b"1,2", b"3,4", b""])
    plain, whole = cells(opened(b"a,b\n1,2\n3,4\n")), opened(content, skip=2, block_bytes=block_bytes)
    rows, lines = cells(whole)
    assert rows == plain[0] and list(lines) == [4, 5] and whole.names == ("a", "b") and whole.notes == ()
    with pytest.raises(ValueError, match=r"skip=9\b.*\b5\b"):
        opened(content, skip=9, block_bytes=block_bytes)


def test_no_line_is_a_comment_and_rows_are_those_of_the_file():
    rows, lines = cells(opened(b"a,b\n#N/A,1\n# 2,2\n\n3,3\n"))
    assert rows == [["#N/A", "1"], ["# 2", "2"], ["3", "3"]] and lines == [2, 3, 5]


def test_an_empty_line_is_a_gap_where_there_is_one_column():
    file = opened(b"a\n1\n\n\n2\n\n")
    assert cells(file) == ([["1"], [""], [""], ["2"]], [2, 3, 4, 5]) and file.n_empty_lines == 1
    file = opened(b"a,b\n1,2\n\n3,4\n\n\n")
    assert cells(file)[0] == [["1", "2"], ["3", "4"]] and file.n_empty_lines == 3


@pytest.mark.parametrize(
    ("first", "names", "n_rows", "note"),
    [
        (b"a,b", ("a", "b"), 1, ""),
        (b"1,2.5", ("column1", "column2"), 2, "numbers only"),
        (b"1,NA", ("column1", "column2"), 2, "numbers only"),
        (b"a,2019", ("a", "2019"), 1, "'2019'"),
        (b",b", ("column1", "b"), 1, "'column1'"),
    ],
)
def test_no_row_of_data_becomes_names_in_silence(first, names, n_rows, note):
    file = opened(first + b"\n3,4\n")
    assert file.names == names and len(cells(file)[0]) == n_rows
    assert note in " ".join(file.notes) and bool(note) == bool(file.notes)


def test_what_is_said_of_the_first_row_holds():
    assert opened(b"1,2\n3,4\n", header=True).names == ("1", "2")
    assert cells(opened(b"a,b\n3,4\n", header=False))[0] == [["a", "b"], ["3", "4"]]
    assert opened(b"1,2\n3,4\n", header=True).notes == ()
