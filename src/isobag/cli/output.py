"""From a ranking to what is printed and written: results on standard output, notes and progress on standard error."""

import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import pyarrow as pa
import typer

from isobag.cli.options import Typed
from isobag.cli.process import is_utf8
from isobag.data.spool import Tick
from isobag.storage.files import BATCH_ROWS, STDOUT, check_output, naming_stdout, write_table
from isobag.tables.ranking import Ranking
from isobag.tables.reasons import number_in_words
from isobag.tables.sentences import sentences_of
from isobag.tables.terminal import escape_for_terminal, shown

NOT_PRINTED = ("rank", "rank_share", "extrapolated", "p_shape", "p_size", "n_missing")
"""Columns of a result that --out and --json have and the terminal has not: the order of the lines is the rank."""
DEFAULT_WIDTH, MOST_WIDTH = 100, 160
LONGEST_CELL, LEAST_REASONS = 40, 20
REASONS = "reasons"
_BETWEEN_REASONS = re.compile(r"(?<=\)), ")


def check_targets(typed: Typed, files: Sequence[str], model_read: Path | None) -> None:
    """Refuse at once what could not be written in the end, or would be written over what is read."""
    tables = typed.out or []
    for table in tables:
        check_output(table)
    if [str(path) for path in tables].count(STDOUT) > 1:
        raise ValueError("--out - is given twice; standard output takes one table.")
    if typed.report is not None:
        if find_spec("jinja2") is None:
            raise ModuleNotFoundError("--report needs jinja2, which is not installed: pip install 'isobag[report]'.")
        if typed.report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"{str(typed.report)!r} has no known ending for a report; choose .html.")
    read = [*files, *([] if model_read is None else [str(model_read)])]
    taken = {Path(file).resolve(): "is read" for file in read}
    for path in (*tables, typed.report, typed.save_model):
        if path is None or str(path) == STDOUT:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{str(path)!r} cannot be written: there is no folder {str(path.absolute().parent)!r}.")
        if path.resolve() in taken:
            raise ValueError(f"{str(path)!r} cannot be written: it {taken[path.resolve()]} by the same command.")
        taken[path.resolve()] = "is written"


def write_results(ranking: Ranking, typed: Typed, source: str, tick: Tick | None) -> None:
    """Write all that was ranked, and the report."""
    if typed.out:
        write_table(typed.out, _counted(ranking, tick))
    if typed.report is not None:
        from isobag.report import write_report  # noqa: PLC0415, loads jinja2

        write_report(ranking, typed.report, source=source, command=command_line())


def show_results(ranking: Ranking, typed: Typed, verdict: Mapping[str, Any] | None = None) -> None:
    """Print the oddest and what there is to say, unless the results themselves go to standard output."""
    written = [path for path in (typed.save_model, *(typed.out or ()), typed.report) if path is not None]
    if any(str(path) == STDOUT for path in written):
        return
    verdict = verdict or {}
    top = ranking.columns(0, typed.top)
    if typed.json:
        print_json({**facts_of(ranking), **verdict, "top": rows_of(top)})
        return
    if len(top["score"]):
        print_table({name: column for name, column in top.items() if name not in NOT_PRINTED})
    for sentence in sentences_of(ranking):
        note(sentence, typed.quiet)
    if "sentence" in verdict:
        print_line(verdict["sentence"])
    if written:
        note(f"Written: {', '.join(map(str, written))}.", typed.quiet)


def facts_of(ranking: Ranking) -> dict[str, Any]:
    """What --json prints beside the oddest."""
    return {
        f"n_{ranking.unit}s": len(ranking),
        "n_rows": ranking.summary.n_rows,
        "n_flagged": ranking.n_flagged,
        "n_expected": ranking.n_expected,
        "n_left_out": len(ranking) - ranking.n_ranked,
        "features": [column.name for column in ranking.encoding.columns],
        "threshold": float(ranking.judged.threshold),
        "rule": ranking.rule,
        "notes": sentences_of(ranking),
        "table": ranking.summary.as_dict(),
    }


def _counted(ranking: Ranking, tick: Tick | None) -> Iterator[dict[str, Any]]:
    n_done = 0
    for columns in ranking.parts(BATCH_ROWS):
        yield columns
        n_done += len(columns["score"])
        if tick is not None:
            tick("writing", n_done, len(ranking))


def rows_of(top: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as a list of rows, in plain Python."""
    rows: list[dict[str, Any]] = pa.table(top).to_pylist()
    return rows


def command_line() -> str:
    """The command as it was typed, for the report."""
    return shlex.join(["isobag", *sys.argv[1:]])


def print_line(text: str) -> None:
    """One line of a result."""
    with naming_stdout():
        typer.echo(text)


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object; what is not a number comes as null."""
    print_line(json.dumps(_plain(content), ensure_ascii=not is_utf8(sys.stdout), allow_nan=False))


def print_table(columns: Mapping[str, Sequence[Any]], width: int | None = None) -> None:
    """Columns side by side, as wide as the terminal, or 100 characters where there is none: reasons are cut to fit."""
    width = width or terminal_width()
    rows = rows_of(dict(columns))
    names = list(columns)
    are_numbers = [
        all(isinstance(row[name], float | int) and not isinstance(row[name], bool) for row in rows) for name in names
    ]
    texts = {name: [shown(name, LONGEST_CELL), *(in_cell(row[name]) for row in rows)] for name in names}
    widths = {name: max(map(cell_width, own)) for name, own in texts.items() if name != REASONS}
    left = max(width - sum(widths.values()) - 2 * len(widths), LEAST_REASONS)
    if REASONS in texts:
        texts[REASONS] = [REASONS, *(shortened(row[REASONS], left) for row in rows)]
        widths[REASONS] = 0
    is_terminal = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for k in range(len(rows) + 1):
        cells = [
            _padded(texts[name][k], widths[name], is_right) for name, is_right in zip(names, are_numbers, strict=True)
        ]
        line = "  ".join(cells).rstrip()
        print_line(typer.style(line, bold=True) if is_terminal and not k else line)


def terminal_width() -> int:
    """Width of the terminal, else of a page."""
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        return DEFAULT_WIDTH
    return min(MOST_WIDTH, shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns)


def shortened(reasons: str, width: int) -> str:
    """At most two reasons, those that fit into so many characters; one that is too long is cut."""
    parts = [escape_for_terminal(part) for part in _BETWEEN_REASONS.split(reasons)]
    two = ", ".join(parts[:2])
    text = two if cell_width(two) <= width else parts[0]
    while cell_width(text) > width:
        text = text[:-2] + "…"
    return text


def cell_width(text: str) -> int:
    """Columns of the terminal that a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _padded(text: str, width: int, is_right: bool) -> str:
    gap = " " * (width - cell_width(text))
    return gap + text if is_right else text + gap


def note(text: str, quiet: bool) -> None:
    """A note on standard error, apart from results."""
    if quiet:
        return
    text = escape_for_terminal(text)
    if sys.stderr.isatty():
        text = textwrap.fill(text, terminal_width(), break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr, flush=True)  # a live table lets it through above itself


def in_cell(value: Any) -> str:
    """A value as shown in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:  # noqa: PLR0124, NaN differs from itself
        return "-"
    if isinstance(value, float):
        return number_in_words(float(f"{value:.3g}"))
    return shown(str(value).removesuffix(" 00:00:00"), LONGEST_CELL)  # a day, not its midnight


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124
    return value if value is None or isinstance(value, str | int | bool) else str(value)
