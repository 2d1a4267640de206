"""Lines of a stream as rows: read as they come, judged, learned, and the state kept."""

import codecs
import csv
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats
from isobag.cli.live import LiveTable, live_table
from isobag.cli.options import Typed, number_or_auto, split_names
from isobag.cli.output import note, print_json, print_line
from isobag.data.frames import feature_names
from isobag.data.params import FDR, check_params
from isobag.estimators.stream import IDKStreamDetector
from isobag.storage.streamfile import load_stream, save_stream
from isobag.tables.openers import check_encoding
from isobag.tables.reasons import number_in_words

_READ_BYTES = 1 << 16
_NAMED_LINES = 10
"""Lines that are no rows and are named one by one; further ones are counted."""
_REASONS = 3
_NO_TEXT = re.compile("[\udc00-\udcff]")
"""Bytes that do not decode, each as a sign that no text has."""


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("isobag-mark", _mark)


class Lines:
    """Lines as rows of numbers; ``n_lines`` read so far, ``n_bad`` of them no rows; the first ``n_passed`` are none.

    n_bytes : how many bytes did not decode, see ``_batches``.
    """

    def __init__(self, kind: str | None, features: list[str] | None, n_passed: int, quiet: bool) -> None:
        self.kind, self.features, self.n_passed = kind, features, n_passed
        self.n_bytes = 0
        self.header: list[str] | None = None
        self.n_lines = self.n_bad = 0
        self._quiet = quiet

    def rows(self, lines: list[str]) -> tuple[Floats, list[int]]:
        """The rows of some lines (n, d), and the number of the line of each, from 1."""
        rows, numbers = [], []
        for line in lines:
            self.n_lines += 1
            if self.n_lines <= self.n_passed or not line.strip():
                continue
            try:
                row = self._row(self._text(line, self.n_lines))
            except (ValueError, TypeError, csv.Error) as error:
                self.n_bad += 1
                if self.n_bad <= _NAMED_LINES:
                    note(f"Line {self.n_lines} is left out: {error}", self._quiet)
                continue
            if row is not None:
                rows.append(row)
                numbers.append(self.n_lines)
        return np.array(rows, dtype=np.float64), numbers

    def skip(self, lines: list[str], n_known: int) -> list[str]:
        """Some lines without those among the first ``n_known`` of all; of these only the header of CSV is read."""
        known = lines[: max(0, n_known - self.n_lines)]
        place = self.n_passed - self.n_lines  # of the header among these
        if 0 <= place < len(known) and self.kind == "csv":
            self._row(self._text(known[place], self.n_passed + 1))
        self.n_lines += len(known)
        return lines[len(known) :]

    def _text(self, line: str, number: int) -> str:
        """A line with a replacement for each byte that did not decode, which is counted, and the first one named."""
        odd = _NO_TEXT.findall(line)
        if odd and not self.n_bytes:
            byte = f"0x{ord(odd[0]) & 0xFF:02X}"
            note(f"Line {number}: byte {byte} is no text, and read as \N{REPLACEMENT CHARACTER}.", self._quiet)
        self.n_bytes += len(odd)
        return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", line) if odd else line

    def _row(self, line: str) -> list[float] | None:
        """The numbers of a line, None for the header of CSV."""
        if self.kind is None:
            self.kind = "jsonl" if line.lstrip().startswith("{") else "csv"
        if self.kind == "jsonl":
            cells = json.loads(line)
            if not isinstance(cells, dict):
                raise ValueError("it is no JSON object.")
        else:
            values = next(csv.reader([line]))
            if self.header is None:
                self.header = [name.strip() for name in values]
                return None
            if len(values) != len(self.header):
                raise ValueError(f"it has {len(values)} cells; need {len(self.header)}.")
            cells = dict(zip(self.header, values, strict=True))
        if self.features is None:
            self.features = [name for name, value in cells.items() if _is_number(value)]
            if not self.features:
                self.features = None
                raise ValueError("it has no number.")
        missing = [name for name in self.features if name not in cells]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing.")
        return [_number(name, cells[name]) for name in self.features]


def _number(name: str, value: Any) -> float:
    if not _is_number(value):
        raise ValueError(f"{name!r} is {value!r:.40}; need a finite number of at most 1e150.")
    return float(value)


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and abs(float(value)) <= FARTHEST
    except (TypeError, ValueError):
        return False


def follow_lines(typed: Typed) -> None:
    """Read, judge and learn until the input ends; the state is written then, and on the way."""
    check_params({"fdr": typed.fdr}, {"fdr": FDR})
    if typed.format not in (None, "csv", "jsonl"):
        raise ValueError(f"--format {typed.format}: choose csv or jsonl.")
    detector, notes = _begin(typed)
    check_encoding(typed.encoding)
    features = notes.get("features", split_names(typed.features))
    lines = Lines(notes.get("kind", typed.format), features, typed.skip, typed.quiet)
    begun = 0 if typed.source == "-" else int(notes.get("lines", 0))
    with live_table() if typed.live and sys.stdout.isatty() else nullcontext() as shown:
        state = _State(detector, lines, typed, shown)
        try:
            for batch in _batches(typed.source, typed.encoding or "utf-8"):
                state.take(lines.skip(batch, begun))
                state.save(once_in=typed.save_every)
        finally:
            state.save()
    if lines.n_bad:
        n, rows = lines.n_bad, "line was" if lines.n_bad == 1 else "lines were"
        note(f"{n:,} {rows} left out: no rows.", typed.quiet)
    if lines.n_bytes:
        n, encoding = lines.n_bytes, typed.encoding or "utf-8"
        what = "byte was no text" if n == 1 else "bytes were no text"
        note(f"{n:,} {what} in {encoding}; choose another --encoding.", typed.quiet)


def _begin(typed: Typed) -> tuple[IDKStreamDetector, dict[str, Any]]:
    """The detector of a state, or a new one, and what was noted beside."""
    if typed.model is not None and typed.model.exists():
        detector, notes = load_stream(typed.model)
        note(f"Going on after {detector.n_seen_:,} rows, with the parameters of {str(typed.model)!r}.", typed.quiet)
        return detector.set_params(n_jobs=typed.jobs), notes
    psi = number_or_auto(typed.max_samples, "--max-samples", int)
    return (
        IDKStreamDetector(
            typed.window, typed.n_estimators, psi, fdr=typed.fdr, random_state=typed.seed, n_jobs=typed.jobs
        ),
        {},
    )


class _State:
    """A detector and what it has read, written to a file only between batches."""

    def __init__(self, detector: IDKStreamDetector, lines: Lines, typed: Typed, shown: LiveTable | None) -> None:
        self._detector, self._lines, self._typed, self._shown = detector, lines, typed, shown
        self._is_whole = True
        self._written = time.monotonic()

    def take(self, batch: list[str]) -> None:
        """Judge and learn some lines, and print the alarms."""
        self._is_whole = False
        detector = self._detector
        first = getattr(detector, "stream_", None)
        n_before = 0 if first is None else first.n_seen
        rows, numbers = self._lines.rows(batch)
        if len(rows):
            followed = detector.follow(rows)
            if self._shown is not None:
                self._shown.add(followed.scores)
            is_judged = np.isfinite(followed.scores)
            verdicts = np.ones(len(rows), dtype=np.int64)
            verdicts[is_judged] = detector.alarms(followed.p_values[is_judged])
            for place in np.flatnonzero(verdicts == -1):
                self._print(rows[place], n_before + int(place), numbers[place], float(followed.p_values[place]))
        self._is_whole = True
        sys.stdout.flush()

    def _print(self, row: Floats, number: int, line: int, p_value: float) -> None:
        names = self._lines.features or feature_names(self._detector)
        parts = self._detector.explain(row[None])[0]
        main = [j for j in np.argsort(-parts, kind="stable")[:_REASONS] if parts[j] > 0]
        values = {names[j]: float(row[j]) for j in main}
        if self._shown is not None:
            self._shown.find(line, p_value, values)
            return
        if self._typed.json or self._typed.live:
            print_json({"row": number, "line": line, "p_value": p_value, "reason": values})
            return
        reason = ", ".join(f"{name} = {number_in_words(value)}" for name, value in values.items())
        print_line(f"line {line}: p = {p_value:.2g}; {reason or 'no single feature'}")

    def save(self, once_in: float = 0.0) -> None:
        """Write the state, if it is due and not in the middle of a batch."""
        if self._typed.model is None or not self._is_whole or not hasattr(self._detector, "stream_"):
            return
        if time.monotonic() - self._written >= once_in:
            lines = self._lines
            notes = {"lines": lines.n_lines, "features": lines.features, "kind": lines.kind}
            save_stream(self._detector, self._typed.model, notes)
            self._written = time.monotonic()


def _batches(source: str, encoding: str) -> Iterator[list[str]]:
    """Complete lines as they come, those that are there together; the last one may lack its end.

    A byte that is no text is marked, for ``Lines`` to replace: where it stands in a number, the line is no row.
    """
    file = 0 if source == "-" else os.open(source, os.O_RDONLY)
    decoder, rest = codecs.getincrementaldecoder(encoding)("isobag-mark"), ""
    try:
        while content := os.read(file, _READ_BYTES):
            *complete, rest = (rest + decoder.decode(content)).split("\n")
            if complete:
                yield complete
        if rest := rest + decoder.decode(b"", True):
            yield [rest]
    finally:
        if source != "-":
            os.close(file)
