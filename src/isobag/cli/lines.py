"""Lines of text as rows of numbers, one after the other, as they come."""

import csv
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats
from isobag.cli.output import note
from isobag.tables.csvfile import DELIMITERS, outside_quotes
from isobag.tables.tablefile import name_columns

_NAMED_LINES = 10
"""Lines that are no rows and are named one by one; further ones are counted."""
_NAMED_COLUMNS = 10
_UNDECODED = re.compile("[\udc00-\udcff]")
"""Bytes that do not decode, each as a sign that no text has."""


class WrongColumnsError(ValueError):
    """The columns of the input are not those that are asked for: no line can be a row."""


class Lines:
    """Lines as rows of numbers; ``n_lines`` read so far, ``n_bad`` of them no rows; the first ``n_passed`` are none.

    source : what the input is called in notes.
    features : columns that are used; None: those that have a number in the first row.
    header : names of the columns of CSV, if a state knows them: a first line of numbers is then data.
    n_bytes : how many bytes did not decode.
    """

    def __init__(
        self,
        source: str,
        kind: str | None,
        features: list[str] | None,
        n_passed: int,
        quiet: bool,
        header: Sequence[str] | None = None,
    ) -> None:
        self.kind, self.features, self.n_passed = kind, features, n_passed
        self.n_bytes = self.n_lines = self.n_bad = self.n_rows = self._n_skipped = 0
        self.header: list[str] | None = None
        self._first_header = None if header is None else list(header)
        self._source, self._quiet = source, quiet
        self._delimiter = ","
        self._named: set[str] = set()  # columns that are used, or were named as not used

    @property
    def first_header(self) -> list[str] | None:
        """Names of the columns of CSV, from the input or, if that has no line yet, from a state."""
        return self._first_header if self.header is None else self.header

    def rows(self, lines: list[str]) -> tuple[Floats, list[int]]:
        """The rows of some lines (n, d), and the number of the line of each, from 1."""
        rows, numbers = [], []
        for line in lines:
            self.n_lines += 1
            if self.n_lines <= self.n_passed or not line.strip():
                continue
            try:
                row = self._row(self._text(line, self.n_lines))
            except WrongColumnsError:
                raise
            except (ValueError, TypeError, csv.Error) as error:
                self.n_bad += 1
                if self.n_bad <= _NAMED_LINES:
                    self._note(f"Line {self.n_lines} is left out: {error}")
                continue
            if row is not None:
                rows.append(row)
                numbers.append(self.n_lines)
        self.n_rows += len(rows)
        return np.array(rows, dtype=np.float64), numbers

    def skip(self, lines: list[str], n_known: int) -> list[str]:
        """Some lines without those among the first ``n_known`` of all; of these only the header of CSV is read."""
        passed = lines[: max(0, n_known - self.n_lines)]
        place = self.n_passed - self.n_lines  # of the header among these
        if 0 <= place < len(passed) and self.kind == "csv":
            self._row(self._text(passed[place], self.n_passed + 1))
        self.n_lines += len(passed)
        self._n_skipped += len(passed)
        return lines[len(passed) :]

    def finish(self) -> None:
        """Say what was left out; refuse an input of which no line was a row."""
        if self.n_bad and not self.n_rows:
            raise ValueError(f"{self._source}: none of {self.n_bad:,} lines is a row.")
        if self.n_bad:
            were = "line was" if self.n_bad == 1 else "lines were"
            self._note(f"{self.n_bad:,} {were} left out: no rows.")
        elif not self.n_rows and not self._n_skipped:
            self._note(f"{self._source} has no rows.")

    def _note(self, sentence: str) -> None:
        note(sentence, self._quiet)

    def _text(self, line: str, number: int) -> str:
        """A line with a replacement for each byte that did not decode, which is counted, and the first one named."""
        odd = _UNDECODED.findall(line)
        if odd and not self.n_bytes:
            byte = f"0x{ord(odd[0]) & 0xFF:02X}"
            self._note(f"Line {number}: byte {byte} does not decode and is read as \N{REPLACEMENT CHARACTER}.")
        self.n_bytes += len(odd)
        return _UNDECODED.sub("\N{REPLACEMENT CHARACTER}", line) if odd else line

    def _row(self, line: str) -> list[float] | None:
        """The numbers of a line, None for the header of CSV."""
        if self.kind is None:
            self.kind = "jsonl" if line.lstrip().startswith("{") else "csv"
        cells = self._json_cells(line) if self.kind == "jsonl" else self._csv_cells(line)
        if cells is None:
            return None
        if self.features is None:
            self._choose(cells)
        assert self.features is not None
        missing = [name for name in self.features if name not in cells]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing.")
        if self._named:
            self._name_unused(cells)
        return [_number(name, cells[name]) for name in self.features]

    def _json_cells(self, line: str) -> dict[str, Any]:
        try:
            cells = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"it is no JSON: {error.msg}, character {error.pos + 1}.") from None
        if not isinstance(cells, dict):
            raise ValueError("it is no JSON object.")
        return cells

    def _csv_cells(self, line: str) -> dict[str, Any] | None:
        if self.header is None:
            self._delimiter = max(DELIMITERS, key=outside_quotes(line).count)
            if not self._begins_with_data(
                [cell.strip() for cell in next(csv.reader([line], delimiter=self._delimiter))]
            ):
                return None
        assert self.header is not None
        values = next(csv.reader([line], delimiter=self._delimiter))
        if len(values) != len(self.header):
            raise ValueError(f"it has {len(values)} cells; need {len(self.header)}.")
        return dict(zip(self.header, values, strict=True))

    def _begins_with_data(self, first: list[str]) -> bool:
        """Take the names of the columns from the first line of CSV, or from a state; whether that line is a row."""
        features, header = self.features or (), self._first_header
        if header is not None and len(first) == len(header):
            cells = dict(zip(header, first, strict=True))
            if all(_is_number(cells[name]) for name in features):
                self.header = header
                return True
        names, is_data, notes = name_columns(first, None, self._source)
        for sentence in notes:
            self._note(sentence)
        self.header = list(names)
        missing = [name for name in features if name not in names]
        if missing:
            raise WrongColumnsError(f"{self._source} has no column {missing[0]!r}; its columns are {_listed(names)}.")
        return is_data

    def _choose(self, cells: dict[str, Any]) -> None:
        """Use the columns that have a number in the first row, and say which these are."""
        used = [name for name, value in cells.items() if _is_number(value)]
        if not used:
            raise ValueError("it has no number.")
        self.features, self._named = used, set(used)
        others = [name for name in cells if name not in self._named]
        left_out = f" Not used, as the first row has no number there: {_listed(others)}; see --features."
        self._note(f"Columns: {_listed(used)}.{left_out if others else ''}")

    def _name_unused(self, cells: dict[str, Any]) -> None:
        """Say of each column that is not used, once, that it has a number after all."""
        for name in cells.keys() - self._named:
            if _is_number(cells[name]):
                self._note(f"Line {self.n_lines}: {name!r} is a number, but the first row has none: it is not used.")
                self._named.add(name)


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
