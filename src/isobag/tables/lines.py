"""Lines of text as rows of numbers, one after the other, as they come."""

import codecs
import csv
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats
from isobag.tables.csvfile import DELIMITERS, outside_quotes
from isobag.tables.judge import is_named_identifier
from isobag.tables.openers import STDIN
from isobag.tables.tablefile import name_columns

_NAMED_LINES = 10
"""Lines that are no rows and are named one by one; further ones are counted."""
_NAMED_COLUMNS = 10
_UNDECODED = re.compile("[\udc00-\udcff]")
"""Bytes that do not decode, each as a sign that no text has."""


_MARK = "isobag-mark"
_READ_BYTES = 1 << 16


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARK, _mark)


def lines_as_they_come(file: str, encoding: str) -> Iterator[list[str]]:
    """Complete lines of a file or standard input, those that are there together; the last one may lack its end.

    A byte that does not decode is marked, for ``Lines`` to replace: where it stands in a number, the line is no row.
    """
    decoder, rest = codecs.getincrementaldecoder(encoding)(_MARK), ""
    with open(0 if file == STDIN else file, "rb", buffering=0, closefd=file != STDIN) as stream:
        while content := os.read(stream.fileno(), _READ_BYTES):
            *complete, rest = (rest + decoder.decode(content)).split("\n")
            if complete:
                yield complete
    if rest := rest + decoder.decode(b"", True):
        yield [rest]


class OtherInputError(ValueError):
    """The input is not what is asked for, or what a state has read: no line can be a row."""


class Lines:
    """Lines as rows of numbers; ``n_lines`` read so far, ``n_bad`` of them no rows, ``n_bytes`` that did not decode.

    source : what the input is called in notes, which ``say`` prints.
    features : columns that are used; None: those that have a number in the first row.
    n_passed : how many lines before the first are none.
    n_known : of how many lines at the start a state has the rows: only their header is read, and that they are the
        same, by their ``checksum``.
    header : names of the columns of CSV, if a state knows them: a first line of numbers is then data.
    """

    def __init__(
        self,
        source: str,
        kind: str | None,
        features: list[str] | None,
        n_passed: int,
        n_known: int,
        say: Callable[[str], None],
        header: list[str] | None = None,
        checksum: int | None = None,
    ) -> None:
        self.kind, self.features, self.header = kind, features, header
        self.n_bytes = self.n_lines = self.n_bad = self.n_rows = 0
        self._source, self._n_passed, self._n_known, self._say = source, n_passed, n_known, say
        self.checksum, self._known_checksum = 0, checksum
        self._delimiter: str | None = None  # until the first line of CSV was read
        self._named: set[str] = set()  # columns that are used, or were named as not used

    @property
    def knows_all(self) -> bool:
        """Whether a state has all lines so far."""
        return self.n_lines <= self._n_known

    def rows(self, lines: list[str]) -> tuple[Floats, list[int]]:
        """The rows of some lines (n, d), and the number of the line of each, from 1."""
        rows, numbers = [], []
        for line in lines:
            self.n_lines += 1
            self.checksum = zlib.crc32(line.encode("utf-8", "surrogatepass"), self.checksum)
            if self.n_lines == self._n_known and self._known_checksum not in (None, self.checksum):
                raise OtherInputError(
                    f"{self._source}: its first {self._n_known:,} lines are not those that the state has read; is it "
                    "another file? - reads rows from standard input."
                )
            is_header = self.kind == "csv" and self.n_lines == self._n_passed + 1
            if self.n_lines <= self._n_passed or (self.knows_all and not is_header) or not line.strip():
                continue
            try:
                row = self._row(self._text(line))
            except OtherInputError:
                raise
            except (ValueError, TypeError, csv.Error) as error:
                self.n_bad += 1
                if self.n_bad <= _NAMED_LINES:
                    self._say(f"Line {self.n_lines} is left out: {error}")
                continue
            if row is not None and not self.knows_all:
                rows.append(row)
                numbers.append(self.n_lines)
        self.n_rows += len(rows)
        return np.array(rows, dtype=np.float64), numbers

    def finish(self) -> None:
        """Say what was left out; refuse an input of which no line was a row."""
        if self.n_bad and not self.n_rows:
            raise ValueError(f"{self._source}: none of {self.n_bad:,} lines is a row.")
        if self.n_bad:
            self._say(f"{self.n_bad:,} {'line was' if self.n_bad == 1 else 'lines were'} left out, being no rows.")
        elif not self.n_rows and not self._n_known:
            self._say(f"{self._source} has no rows.")

    def _text(self, line: str) -> str:
        """A line with a replacement for each byte that did not decode, which is counted, and the first one named."""
        odd = _UNDECODED.findall(line)
        if odd and not self.n_bytes:
            byte = f"0x{ord(odd[0]) & 0xFF:02X}"
            self._say(f"Line {self.n_lines}: byte {byte} does not decode and is read as \N{REPLACEMENT CHARACTER}.")
        self.n_bytes += len(odd)
        return _UNDECODED.sub("\N{REPLACEMENT CHARACTER}", line) if odd else line

    def _row(self, line: str) -> list[float] | None:
        """The numbers of a line, None for the header of CSV."""
        if self.kind is None:
            self.kind = "jsonl" if line.lstrip().startswith("{") else "csv"
        cells = _json_cells(line) if self.kind == "jsonl" else self._csv_cells(line)
        if cells is None:
            return None
        features = self._choose(cells) if self.features is None else self.features
        for name in features:
            if name not in cells:
                raise ValueError(f"{name!r} is missing.")
        for name in cells.keys() - self._named if self._named else ():
            if _is_number(cells[name]):
                self._say(f"Line {self.n_lines}: {name!r} is a number, but the first row has none: it is not used.")
                self._named.add(name)
        return [_number(name, cells[name]) for name in features]

    def _csv_cells(self, line: str) -> dict[str, Any] | None:
        if self._delimiter is None and not self._begins_with_data(line):
            return None
        assert self.header is not None
        assert self._delimiter is not None
        values = next(csv.reader([line], delimiter=self._delimiter))
        if len(values) != len(self.header):
            raise ValueError(f"it has {len(values)} cells; need {len(self.header)}.")
        return dict(zip(self.header, values, strict=True))

    def _begins_with_data(self, line: str) -> bool:
        """Take the names of the columns from the first line of CSV, or from a state; whether that line is a row."""
        delimiter, features = max(DELIMITERS, key=outside_quotes(line).count), self.features or ()
        first = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
        cells = dict(zip(self.header or (), first, strict=False))
        is_data = len(cells) == len(first) and all(_is_number(cells.get(name)) for name in features)
        if not is_data:
            try:
                names, is_data, notes = name_columns(first, None, self._source)
            except ValueError as error:
                raise OtherInputError(str(error)) from None
            for sentence in notes:
                self._say(sentence)
            for name in features:
                if name not in names:
                    raise OtherInputError(f"{self._source} has no column {name!r}; its columns are {_listed(names)}.")
            self.header = list(names)
        self._delimiter = delimiter
        return is_data

    def _choose(self, cells: dict[str, Any]) -> list[str]:
        """Use the columns that have a number in the first row, and are no identifiers; say which these are."""
        numbers = [name for name, value in cells.items() if _is_number(value)]
        ids = [name for name in numbers if is_named_identifier(name) and float(cells[name]).is_integer()]
        used = [name for name in numbers if name not in ids]
        if not used:
            raise ValueError("it has no number.")
        self.features, self._named = used, set(numbers)
        others = [name for name in cells if name not in self._named]
        left_out = f" Not used, as the first row has no number there: {_listed(others)}; see --features."
        self._say(f"Columns: {_listed(used)}.{left_out if others else ''}")
        if ids:
            self._say(f"Left out: {_listed(ids)} (an identifier by its name).")
        return used


def _json_cells(line: str) -> dict[str, Any]:
    try:
        cells = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg}, character {error.pos + 1}.") from None
    if not isinstance(cells, dict):
        raise ValueError("it is no JSON object.")
    return cells


def _listed(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _NAMED_COLUMNS} more"] if len(names) > _NAMED_COLUMNS else []
    return ", ".join([*map(str, names[:_NAMED_COLUMNS]), *more])


def _number(name: str, value: Any) -> float:
    if not _is_number(value):
        raise ValueError(f"{name!r} is {value!r:.40}; need a finite number of at most 1e150.")
    return float(value)


def _is_number(value: Any) -> bool:
    try:
        return abs(float(value)) <= FARTHEST
    except (TypeError, ValueError, OverflowError):
        return False
