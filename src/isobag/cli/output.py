"""What a command prints and writes: results on standard output, notes on standard error, files whole or not at all."""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import pyarrow as pa
import typer

from isobag.cli.options import Typed
from isobag.cli.process import filled, terminal_width
from isobag.storage.files import STDOUT, check_output, naming_stdout
from isobag.tables.notebook import in_cell
from isobag.tables.terminal import escape_for_terminal, shown

LONGEST_CELL, LEAST_CELL = 40, 6
REASONS = "reasons"
_BETWEEN_REASONS = re.compile(r"(?<=\)), ")


def check_targets(typed: Typed) -> None:
    """Refuse at once what could not be written in the end, or would be written over what is read."""
    tables = typed.out or []
    for table in tables:
        check_output(table)
    if [str(path) for path in tables].count(STDOUT) > 1:
        raise ValueError("--out - is given twice; standard output takes one table.")
    for path, endings in ((typed.report, (".html", ".htm")), (typed.junit, (".xml",))):
        if path is not None and path.suffix.lower() not in endings:
            raise ValueError(f"{str(path)!r} has no known ending for this option; choose {endings[0]}.")
    if typed.report is not None and find_spec("jinja2") is None:
        raise ModuleNotFoundError("--report needs jinja2, which is not installed: pip install 'isobag[report]'.")
    files = [file for name in typed.files or [] for file in (glob(name, recursive=True) or [name])]
    taken = {Path(file).resolve(): "is read" for file in (*files, typed.model) if file is not None}
    for path in _written(typed):
        if str(path) == STDOUT:
            continue
        check_folder(path)
        if path.resolve() in taken:
            raise ValueError(f"{str(path)!r} cannot be written: it {taken[path.resolve()]} by the same command.")
        taken[path.resolve()] = "is written"


def check_folder(path: Path | None) -> None:
    """Refuse a file in a folder that is not there."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ValueError(f"{str(path)!r} cannot be written: there is no folder {str(path.absolute().parent)!r}.")


def show(
    typed: Typed,
    facts: Mapping[str, Any],
    lines: Iterable[str] = (),
    table: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
) -> None:
    """Print a result: as JSON, or as lines, a table and notes; of a table that went to standard output only notes."""
    written = _written(typed)
    is_piped = STDOUT in map(str, written)
    if typed.json and not is_piped:
        print_json(facts)
        return
    for line in () if is_piped else lines:
        print_line(filled(escape_for_terminal(line), sys.stdout))
    if table and not is_piped:
        print_table(table)
    for sentence in notes:
        note(sentence, typed.is_silent)
    if written and not is_piped:
        note(f"Written: {', '.join(map(str, written))}.", typed.is_silent)


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as a list of rows, in plain Python."""
    rows: list[dict[str, Any]] = pa.table(dict(columns)).to_pylist()
    return rows


def command_line() -> str:
    """The command as it was typed, for the report."""
    return shlex.join(["isobag", *sys.argv[1:]])


def print_line(text: str) -> None:
    """One line of a result."""
    with naming_stdout():
        typer.echo(text)


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object in ASCII; what is not a number comes as null."""
    print_line(json.dumps(json.loads(json.dumps(content, default=str), parse_constant=lambda _: None)))


def print_table(columns: Mapping[str, Any]) -> None:
    """Columns side by side, no wider than the terminal: texts are cut to fit."""
    rows = rows_of(columns)
    texts = {name: [shown(name), *(in_cell(row[name]) for row in rows)] for name in columns}
    if REASONS in texts:
        texts[REASONS] = [REASONS, *(", ".join(_reasons(row[REASONS])[:2]) for row in rows)]
    widths = {name: max(map(cell_width, column)) for name, column in texts.items()}
    widths |= {name: min(width, LONGEST_CELL) for name, width in widths.items() if name != REASONS}
    right = [name for name in columns if all(type(row[name]) in (int, float, type(None)) for row in rows)]
    flexible = [name for name in columns if any(isinstance(row[name], str) for row in rows)]
    too_wide = sum(widths.values()) + 2 * (len(widths) - 1) - terminal_width()
    while too_wide > 0 and flexible:
        widest = max(flexible, key=lambda name: widths[name] / (2 if name == REASONS else 1))
        if widths[widest] <= LEAST_CELL:
            break
        widths[widest] -= 1
        too_wide -= 1
    if REASONS in texts:
        shorter = (_reasons(row[REASONS])[0] for row in rows)
        whole = zip(texts[REASONS], [REASONS, *shorter], strict=True)
        texts[REASONS] = [two if cell_width(two) <= widths[REASONS] else first for two, first in whole]
    is_terminal = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for k in range(len(rows) + 1):
        cells = {name: _cut(texts[name][k], widths[name], at_end=name == REASONS) for name in columns}
        gaps = {name: " " * (widths[name] - cell_width(cell)) for name, cell in cells.items()}
        line = "  ".join(gaps[name] + cell if name in right else cell + gaps[name] for name, cell in cells.items())
        line = line.rstrip()
        print_line(typer.style(line, bold=True) if is_terminal and not k else line)


def _reasons(text: str) -> list[str]:
    return [escape_for_terminal(part) for part in _BETWEEN_REASONS.split(text)]


def cell_width(text: str) -> int:
    """Columns of the terminal that a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _cut(text: str, width: int, at_end: bool) -> str:
    """A text in so many columns: what is too long loses its end, or its middle, so that labels can be told apart."""
    if cell_width(text) <= width:
        return text
    middle = len(text) if at_end else len(text) // 2
    head, tail = text[:middle], text[middle:]
    while cell_width(head + tail) >= width:
        head, tail = (head[:-1], tail) if len(head) > len(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def note(text: str, is_silent: bool) -> None:
    """A note on standard error, apart from results."""
    if is_silent:
        return
    print(filled(escape_for_terminal(text), sys.stderr), file=sys.stderr, flush=True)


def _written(typed: Typed) -> list[Path]:
    """Files that the command writes."""
    paths = (typed.save_model, *(typed.out or ()), typed.report, typed.junit)
    return [path for path in paths if path is not None]
