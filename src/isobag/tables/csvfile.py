"""CSV and its relatives, cell for cell: every cell is the text that Python's ``csv`` finds, or an error says where.

The file is cut into blocks at ends of lines. A block with a quote, an empty line, a lone carriage return or a null
character goes through Python's ``csv`` itself, strictly. Any other block needs no more than a cut at every divider and
every end of line; Arrow does that, and counts are compared: as many rows as lines, as many cells as columns. Where
Arrow refuses, ``csv`` reads the block and says why.

Rows are counted from 0, the first after the names, as everywhere in isobag; lines from 1, as editors count. There are
no comment lines. Empty lines are no rows and are counted, but in a file of one column an empty line that a row follows
is a row without a value.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from isobag.backends.arrays import Ints
from isobag.tables.batch import Batch, Place
from isobag.tables.tablefile import BOM, FileFormat, TableFile, name_columns, not_utf8

BLOCK_BYTES = 1 << 23
DELIMITERS = ",;|\t"
_NO_LINES = np.empty(0, dtype=np.int64)
_FOREIGN_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip"}


class CsvFile(TableFile):
    """One file of text."""

    names: tuple[str, ...]

    def __init__(self, opened: Callable[[], Any], file: str, how: FileFormat, block_bytes: int = BLOCK_BYTES) -> None:
        super().__init__(opened, file, how)
        self._block_bytes = block_bytes
        self._read_header(how.header, how.delimiter, how.skip)

    def batches(self) -> Iterator[Batch]:
        """The rows in order: columns of text, about a block at a time."""
        self.n_empty_lines = 0
        row, line, gaps = 0, self._n_lines + 1, _NO_LINES
        with self._opened() as stream:
            stream.read(self._n_bytes)
            blocks = _blocks(stream, self._block_bytes)
            for content in blocks:
                part = self._read_block(content, blocks, row + len(gaps), line)
                line += part.n_lines
                if len(self.names) > 1:
                    self.n_empty_lines += len(part.empty_lines)
                else:
                    part, gaps = _with_gaps(part, gaps)
                if len(part.lines):
                    columns = dict(zip(self.names, part.columns, strict=True))
                    yield Batch(self._file, row, part.lines, columns, len(part.lines))
                row += len(part.lines)
        self.n_empty_lines += len(gaps)

    def _read_block(self, content: bytes, more: Iterator[bytes], row: int, line: int) -> "_CsvPart":
        """The rows of a block, and of as many more as it takes to close a quote."""
        plain = _plain_lines(content)
        columns = None if plain is None else _split(plain, len(self.names), self._delimiter)
        if columns is None:
            return self._read_carefully(content, more, row, line)
        lines = np.arange(line, line + len(columns[0]))
        return _CsvPart(columns, lines, _NO_LINES, len(lines))

    def _read_carefully(self, content: bytes, more: Iterator[bytes], first_row: int, first_line: int) -> "_CsvPart":
        """The same by Python's csv."""
        while True:
            text = self._decode(content, first_line)
            rows: list[list[str]] = []
            starts: list[int] = []
            empty: list[int] = []
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
            line = first_line
            try:
                for row in reader:
                    if row:
                        rows.append(row)
                        starts.append(line)
                    else:
                        empty.append(line)
                    line = first_line + reader.line_num
            except csv.Error as error:
                if _is_open(error) and (rest := next(more, b"")):
                    content += rest
                    continue
                raise ValueError(self._why(error, Place(self._file, first_row + len(rows), line))) from None
            break
        n_columns = len(self.names)
        for number, row in enumerate(rows):
            if len(row) != n_columns:
                place = Place(self._file, first_row + number, starts[number])
                cells = "1 cell" if len(row) == 1 else f"{len(row):,} cells"
                raise ValueError(f"{place}: {cells}, but the table has {n_columns:,} columns.")
        by_column = zip(*rows, strict=True) if rows else [()] * n_columns
        columns = [pa.array(column, pa.string()) for column in by_column]
        return _CsvPart(columns, np.array(starts, np.int64), np.array(empty, np.int64), line - first_line)

    def _read_header(self, header: bool | None, delimiter: str | None, skip: int) -> None:
        """Names of the columns, what divides cells, and where rows begin."""
        with self._opened() as stream:
            mark = stream.read(4)
        for start, what in _FOREIGN_MARKS.items():
            if mark.startswith(start):
                how = "pass encoding='utf-16'" if what == "UTF-16" else "convert it first"
                raise ValueError(f"{self._file} is {what}, not text in UTF-8; {how}.")
        n_marked = 3 if mark.startswith(BOM) else 0
        with self._opened() as stream:
            stream.read(n_marked)
            blocks = _blocks(stream, self._block_bytes)
            content = next(blocks, b"")
            while True:
                lines = list(io.StringIO(self._decode(content, 1), newline=""))
                begin = next((i for i, line in enumerate(lines) if i >= skip and line.strip("\r\n")), len(lines))
                if begin == len(lines):
                    if more := next(blocks, b""):
                        content += more
                        continue
                    if skip and lines:
                        raise ValueError(f"skip={skip}: nothing follows in the {len(lines):,} lines of {self._file}.")
                    raise ValueError(f"{self._file} is empty; need a first row with the names of the columns.")
                delimiter = delimiter or max(DELIMITERS, key=outside_quotes(lines[begin]).count)
                reader = csv.reader(lines[begin:], delimiter=delimiter, strict=True)
                try:
                    first = next(reader)
                except csv.Error as error:
                    if _is_open(error) and (more := next(blocks, b"")):
                        content += more
                        continue
                    raise ValueError(self._why(error, None)) from None
                break
        self.names, is_data, notes = name_columns(first, header, self._file)
        n_empty = begin - skip
        empty = (f"{self._file} begins with {n_empty:,} empty lines, which are skipped.",) if n_empty else ()
        self.notes, self._delimiter = (*notes, *empty), delimiter
        self._n_lines = begin + (0 if is_data else reader.line_num)
        self._n_bytes = n_marked + sum(len(line.encode()) for line in lines[: self._n_lines])

    def _decode(self, content: bytes, first_line: int) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            before = content[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            line = first_line + before.count(b"\n")
            odd = content[error.start]
            raise not_utf8(f"{self._file}, line {line}", odd) from None

    def _why(self, error: csv.Error, place: Place | None) -> str:
        reason = str(error)
        if _is_open(error):
            reason = "a quote is opened and never closed"
        elif "field larger" in reason:
            reason = f"a cell has more than {csv.field_size_limit():,} characters; perhaps a quote is never closed"
        elif "expected after" in reason:
            reason = "a cell goes on after its closing quote"
        return f"{self._file}, first row: {reason}." if place is None else f"{place}: {reason}."


class _CsvPart(NamedTuple):
    """Rows of a block: cells by column, the line that each row begins on, empty lines, and how many lines in all."""

    columns: Sequence[pa.Array]
    lines: Ints
    empty_lines: Ints
    n_lines: int


def _blocks(stream: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    """The bytes of a stream in pieces of about a size, each up to the end of a line."""
    rest = b""
    while more := stream.read(max(n_bytes, len(rest))):
        content = rest + more
        # A carriage return at the very end may be the first half of a longer end of a line.
        end = max(content.rfind(b"\n"), content.rfind(b"\r", 0, len(content) - 1)) + 1
        if end:
            yield content[:end]
        rest = content[end:]
    if rest:
        yield rest


def _plain_lines(content: bytes) -> bytes | None:
    """The content with uniform line ends, if delimiters and line ends alone separate its cells; else None."""
    if b'"' in content or b"\0" in content or content.startswith(BOM):  # Arrow would skip the mark
        return None
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
        if b"\r" in content:
            return None
    if content.startswith(b"\n") or b"\n\n" in content:
        return None
    return content if content.endswith(b"\n") else content + b"\n"


def _split(content: bytes, n_columns: int, delimiter: str) -> list[pa.Array] | None:
    """Cells of plain lines by column; None if a line has more or fewer, or a byte is not UTF-8."""
    names = [str(j) for j in range(n_columns)]
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(content),
            pa_csv.ReadOptions(column_names=names, block_size=max(1 << 20, content.find(b"\n") + 1)),
            pa_csv.ParseOptions(
                delimiter=delimiter, quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=True
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    if table.num_rows != content.count(b"\n"):
        return None
    return [column.combine_chunks() for column in table.columns]


def _with_gaps(part: _CsvPart, gaps: Ints) -> tuple[_CsvPart, Ints]:
    """In a file of one column, empty lines that a row follows as rows without a value; and those none follows yet."""
    empty = np.concatenate([gaps, part.empty_lines])
    if not len(empty) or not len(part.lines):
        return part, empty
    inside = empty[empty < part.lines[-1]]
    lines = np.concatenate([inside, part.lines])
    order = np.argsort(lines, kind="stable")
    cells = pa.concat_arrays([pa.array([""] * len(inside), pa.string()), part.columns[0]]).take(pa.array(order))
    return part._replace(columns=[cells], lines=lines[order]), empty[len(inside) :]


def outside_quotes(line: str) -> str:
    """What of a line of CSV is not in quotes."""
    return "".join(line.split('"')[::2])


def _is_open(error: csv.Error) -> bool:
    return "unexpected end" in str(error)
