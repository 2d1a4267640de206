"""``isobag stream``: rows read as they come, judged, learned, and the state written."""

import sys
import time
from functools import partial
from typing import Any

import numpy as np

from isobag.backends.arrays import Floats
from isobag.cli.options import Typed, number_or_auto, split_names
from isobag.cli.output import check_folder, note, print_json, print_line
from isobag.estimators.stream import IDKStreamDetector
from isobag.storage.modelfile import load_with_notes, save
from isobag.tables.lines import Lines, lines_as_they_come
from isobag.tables.openers import STDIN, check_encoding
from isobag.tables.reasons import number_in_words

_REASONS = 2
_SETTLED = ("window", "max_samples", "n_estimators", "fdr", "random_state")
"""Parameters that a state cannot change."""


def follow_lines(typed: Typed) -> None:
    """Read, judge and learn until the input ends; the state is written then, and on the way."""
    if typed.format not in (None, "csv", "jsonl"):
        raise ValueError(f"--format {typed.format}: choose csv or jsonl.")
    detector, notes = _begin(typed)
    check_encoding(typed.encoding)
    source, n_before = "Standard input", 0
    if typed.source != STDIN:
        source, n_before = repr(typed.source), int(notes.get("lines", 0))
    features, kind = notes.get("features", split_names(typed.features)), notes.get("kind", typed.format)
    say = partial(note, is_silent=typed.quiet)
    checksum = None if typed.source == STDIN else notes.get("checksum")
    lines = Lines(source, kind, features, typed.skip, n_before, say, notes.get("header"), checksum)
    is_whole, written = True, time.monotonic()

    def save_state(once_in: float = 0.0) -> float:
        """Write the state, if it is due, not in the middle of a batch, and not while lines of before are passed."""
        is_new = is_whole and lines.n_lines >= n_before and hasattr(detector, "stream_")
        if typed.model is None or not is_new or time.monotonic() - written < once_in:
            return written
        of_lines = {name: getattr(lines, name) for name in ("features", "kind", "header", "checksum")}
        save(detector, typed.model, {"lines": lines.n_lines, **of_lines})
        return time.monotonic()

    try:
        for batch in lines_as_they_come(typed.source, typed.encoding or "utf-8-sig"):
            is_whole = False
            rows, numbers = lines.rows(batch)
            alarms = _alarms(detector, rows)
            is_whole = True  # though nobody reads what is printed
            for place, number, p_value in alarms:
                reason, line = _reason(detector, lines.features or [], rows[place]), numbers[place]
                if typed.json:
                    print_json({"row": number, "line": line, "p_value": p_value, "reason": reason})
                    continue
                words = ", ".join(f"{name} = {number_in_words(value)}" for name, value in reason.items())
                print_line(f"line {line}: p = {p_value:.3g}; {words or 'no single feature'}")
            sys.stdout.flush()
            written = save_state(typed.save_every)
    finally:
        save_state()
    if lines.n_lines < n_before:
        raise ValueError(
            f"{source} has {lines.n_lines:,} lines, of which {str(typed.model)!r} has read {n_before:,}: is it another "
            "file? The state is as it was; - reads rows from standard input."
        )
    lines.finish()
    if lines.n_bytes:
        what = "byte is" if lines.n_bytes == 1 else "bytes are"
        encoding = (typed.encoding or "utf-8").upper()
        say(f"{lines.n_bytes:,} {what} not valid {encoding}; choose another --encoding.")


def _begin(typed: Typed) -> tuple[IDKStreamDetector, dict[str, Any]]:
    """The detector of a state, or a new one, and what was noted beside."""
    psi = number_or_auto(typed.max_samples, "--max-samples", int)
    how = {"fdr": typed.fdr, "random_state": typed.seed, "n_jobs": typed.jobs}
    asked = IDKStreamDetector(typed.window, typed.n_estimators, psi, **how)
    asked.check_params()
    check_folder(typed.model)
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
    usual = IDKStreamDetector(fdr=0.1, random_state=0)
    for name in _SETTLED:
        wanted, settled = getattr(asked, name), getattr(detector, name)
        if wanted not in (getattr(usual, name), settled):
            raise ValueError(
                f"{name}={wanted}: {file!r} was begun with {settled}, which cannot change; leave the option out, or "
                "begin another state."
            )
    if split_names(typed.features) not in (None, notes.get("features")):
        raise ValueError(f"--features {typed.features}: {file!r} was begun with {', '.join(notes['features'])}.")
    return detector.set_params(n_jobs=typed.jobs), notes


def _alarms(detector: IDKStreamDetector, rows: Floats) -> list[tuple[int, int, float]]:
    """Learn some rows; those that raise an alarm by their place, their number in the stream and their p-value."""
    if not len(rows):
        return []
    n_before = detector.n_seen_ if hasattr(detector, "stream_") else 0
    followed = detector.follow(rows)
    judged = np.flatnonzero(np.isfinite(followed.scores))
    places = judged[detector.alarms(followed.p_values[judged]) == -1].tolist()
    return [(place, n_before + place, float(followed.p_values[place])) for place in places]


def _reason(detector: IDKStreamDetector, names: list[str], row: Floats) -> dict[str, float]:
    """The values of a row that contribute most."""
    parts = detector.explain(row[None])[0]
    return {names[j]: float(row[j]) for j in np.argsort(-parts, kind="stable")[:_REASONS] if parts[j] > 0}
