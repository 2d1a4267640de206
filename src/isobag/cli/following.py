"""Lines of a stream as rows: read as they come, judged, learned, and the state kept."""

import codecs
import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from isobag.backends.arrays import Floats
from isobag.cli.lines import Lines
from isobag.cli.live import LiveTable, live_table
from isobag.cli.options import Typed, number_or_auto, split_names
from isobag.cli.output import note, print_json, print_line
from isobag.data.frames import feature_names
from isobag.data.params import FDR, check_params
from isobag.estimators.stream import IDKStreamDetector
from isobag.storage.modelfile import load_with_notes, save
from isobag.tables.openers import check_encoding
from isobag.tables.reasons import number_in_words

_READ_BYTES = 1 << 16
_REASONS = 3


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("isobag-mark", _mark)


def follow_lines(typed: Typed) -> None:
    """Read, judge and learn until the input ends; the state is written then, and on the way."""
    check_params({"fdr": typed.fdr}, {"fdr": FDR})
    if typed.format not in (None, "csv", "jsonl"):
        raise ValueError(f"--format {typed.format}: choose csv or jsonl.")
    detector, notes = _begin(typed)
    check_encoding(typed.encoding)
    features = notes.get("features", split_names(typed.features))
    source = "Standard input" if typed.source == "-" else repr(typed.source)
    kind, header = notes.get("kind", typed.format), notes.get("header")
    lines = Lines(source, kind, features, typed.skip, typed.quiet, header)
    begun = 0 if typed.source == "-" else int(notes.get("lines", 0))
    with live_table() if typed.live and sys.stdout.isatty() else nullcontext() as shown:
        state = _State(detector, lines, typed, shown, begun)
        try:
            for batch in _batches(typed.source, typed.encoding or "utf-8-sig"):
                state.take(lines.skip(batch, begun))
                state.save(once_in=typed.save_every)
        finally:
            state.save()
    if lines.n_lines < begun:
        raise ValueError(
            f"{source} has {lines.n_lines:,} lines, of which {str(typed.model)!r} has read {begun:,}: is it another "
            "file? The state is as it was; - reads rows from standard input."
        )
    lines.finish()
    if lines.n_bytes:
        n, encoding = lines.n_bytes, typed.encoding or "utf-8"
        what = "byte is" if n == 1 else "bytes are"
        note(f"{n:,} {what} not valid {encoding.upper()}; choose another --encoding.", typed.quiet)


def _begin(typed: Typed) -> tuple[IDKStreamDetector, dict[str, Any]]:
    """The detector of a state, or a new one, and what was noted beside."""
    psi = number_or_auto(typed.max_samples, "--max-samples", int)
    asked = IDKStreamDetector(
        typed.window, typed.n_estimators, psi, fdr=typed.fdr, random_state=typed.seed, n_jobs=typed.jobs
    )
    if typed.model is None or not typed.model.exists():
        return asked, {}
    detector, notes = load_with_notes(typed.model)
    file = str(typed.model)
    if not isinstance(detector, IDKStreamDetector):
        raise ValueError(f"{file!r} holds a {type(detector).__name__}; need the state of a stream.")
    note(
        f"Going on after {detector.n_seen_:,} rows, with the parameters of {file!r}: --window {detector.window} "
        f"--max-samples {detector.max_samples} --n-estimators {detector.n_estimators} --fdr {detector.online_.fdr:g}.",
        typed.quiet,
    )
    _check_options(typed, asked, detector, notes, file)
    return detector.set_params(n_jobs=typed.jobs), notes


def _check_options(
    typed: Typed, asked: IDKStreamDetector, loaded: IDKStreamDetector, notes: dict[str, Any], file: str
) -> None:
    """Refuse options that differ from those of a state and are not the command's defaults: they would do nothing."""
    usual = IDKStreamDetector(fdr=0.1, random_state=0)
    for option, name in (
        ("--window", "window"),
        ("--max-samples", "max_samples"),
        ("--n-estimators", "n_estimators"),
        ("--fdr", "fdr"),
        ("--seed", "random_state"),
    ):
        wanted = getattr(asked, name)
        if wanted not in (getattr(usual, name), getattr(loaded, name)):
            raise ValueError(
                f"{option} {wanted}: {file!r} was begun with {getattr(loaded, name)}, which cannot change; leave the "
                "option out, or begin another state."
            )
    features = split_names(typed.features)
    if features is not None and features != notes.get("features", features):
        raise ValueError(f"--features {typed.features}: {file!r} was begun with {', '.join(notes['features'])}.")


class _State:
    """A detector and what it has read, written to a file only between batches."""

    def __init__(
        self, detector: IDKStreamDetector, lines: Lines, typed: Typed, shown: LiveTable | None, begun: int
    ) -> None:
        self._detector, self._lines, self._typed, self._shown = detector, lines, typed, shown
        self._begun = begun  # lines that the detector knows already
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
            try:
                for place in np.flatnonzero(verdicts == -1):
                    self._print(rows[place], n_before + int(place), numbers[place], float(followed.p_values[place]))
                sys.stdout.flush()
            except BrokenPipeError:  # nobody reads any more: the rows are learned all the same
                self._is_whole = True
                raise
        self._is_whole = True

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
        """Write the state, if it is due, not in the middle of a batch, and not while known lines are passed over."""
        if self._typed.model is None or not self._is_whole or not hasattr(self._detector, "stream_"):
            return
        if self._lines.n_lines < self._begun:
            return
        if time.monotonic() - self._written >= once_in:
            lines = self._lines
            notes = {
                "lines": lines.n_lines,
                "features": lines.features,
                "kind": lines.kind,
                "header": lines.first_header,
            }
            save(self._detector, self._typed.model, notes)
            self._written = time.monotonic()


def _batches(source: str, encoding: str) -> Iterator[list[str]]:
    """Complete lines as they come, those that are there together; the last one may lack its end.

    A byte that does not decode is marked, for ``Lines`` to replace: where it stands in a number, the line is no row.
    """
    if os.path.isdir(source):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
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
