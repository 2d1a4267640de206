"""From a ranking to what is printed and written: results on standard output, notes and progress on standard error."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from isobag.cli.options import Typed
from isobag.cli.process import speaks_utf8
from isobag.data.spool import Tick
from isobag.storage.files import BATCH_ROWS, STDOUT, check_output, naming_stdout, write_table
from isobag.tables.ranking import Ranking
from isobag.tables.reasons import number_in_words
from isobag.tables.sentences import sentences_of
from isobag.tables.terminal import escape_for_terminal


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a command prints and writes.

    top : how many of the oddest are printed.
    out : files to write all that was ranked to.
    report, model : files to write.
    """

    top: int = 10
    out: tuple[Path, ...] = ()
    report: Path | None = None
    model: Path | None = None
    json: bool = False
    quiet: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether nothing but results is printed."""
        return self.quiet or self.json


def output_of(typed: Typed, **own: Any) -> Output:
    """The output that the options of a command describe; ``own``: what stands in their place."""
    names = [one.name for one in fields(Output) if one.name in vars(typed)]
    given = {**{name: vars(typed)[name] for name in names}, **own}
    return Output(**{**given, "out": tuple(given.get("out") or ())})


def check_targets(output: Output, files: Sequence[str], model_read: Path | None) -> None:
    """Refuse at once what could not be written in the end, or would be written over what is read."""
    for table in output.out:
        check_output(table)
    if [str(path) for path in output.out].count(STDOUT) > 1:
        raise ValueError("--out - is given twice; standard output takes one table.")
    report = output.report
    if report is not None:
        if find_spec("jinja2") is None:
            raise ModuleNotFoundError("--report needs jinja2, which is not installed: pip install 'isobag[report]'.")
        if report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"{str(report)!r} has no known ending for a report; choose .html.")
    read = [*files, *([] if model_read is None else [str(model_read)])]
    taken = {Path(file).resolve(): "is read" for file in read}
    for path in (*output.out, report, output.model):
        if path is None or str(path) == STDOUT:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{str(path)!r} cannot be written: there is no folder {str(path.absolute().parent)!r}.")
        if path.resolve() in taken:
            raise ValueError(f"{str(path)!r} cannot be written: it {taken[path.resolve()]} by the same command.")
        taken[path.resolve()] = "is written"


def write_results(ranking: Ranking, output: Output, source: str, tick: Tick | None) -> None:
    """Write all that was ranked, and the report."""
    if output.out:
        write_table(output.out, _counted(ranking, tick))
    if output.report is not None:
        from isobag.report import write_report  # noqa: PLC0415, loads jinja2

        write_report(ranking, output.report, source=source, command=command_line())


def show_results(ranking: Ranking, top: dict[str, Any], output: Output) -> None:
    """Print the oddest and what there is to say, unless the results themselves go to standard output."""
    written = [path for path in (output.model, *output.out, output.report) if path is not None]
    if any(str(path) == STDOUT for path in written):
        return
    rows = rows_of(top)
    if output.json:
        facts: dict[str, Any] = {
            f"n_{ranking.unit}s": len(ranking),
            "n_rows": ranking.summary.n_rows,
            "n_flagged": ranking.n_flagged,
            "n_expected": ranking.n_expected,
            "n_left_out": len(ranking) - ranking.n_ranked,
            "features": [column.name for column in ranking.encoding.columns],
            "threshold": float(ranking.judged.threshold),
            "rule": ranking.rule,
            "table": ranking.summary.as_dict(),
            "top": rows,
        }
        print_json(facts)
        return
    if rows:
        print_table({name: [row[name] for row in rows] for name in top})
    for sentence in sentences_of(ranking):
        note(sentence, output.quiet)
    if written:
        note(f"Written: {', '.join(map(str, written))}.", output.quiet)


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
    print_line(json.dumps(_plain(content), ensure_ascii=not speaks_utf8(sys.stdout), allow_nan=False))


def print_table(columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns side by side: drawn for a person, plain and as wide as need be if piped."""
    names = [escape_for_terminal(name) for name in columns]
    are_numbers = [
        all(isinstance(one, int | float) and not isinstance(one, bool) for one in own) for own in columns.values()
    ]
    rows = [[in_cell(value) for value in row] for row in zip(*columns.values(), strict=True)]
    if sys.stdout.isatty():
        _draw_table(names, are_numbers, rows)
        return
    widths = [max(len(row[j]) for row in [names, *rows]) for j in range(len(names))]
    for row in [names, *rows]:
        cells = zip(row, widths, are_numbers, strict=True)
        line = "  ".join(cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in cells)
        print_line(line.rstrip())


def _draw_table(names: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415, slow to load
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, is_right in zip(names, are_numbers, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    with naming_stdout():
        Console(file=sys.stdout).print(table, soft_wrap=False)


def note(text: str, quiet: bool) -> None:
    """A remark for a person, out of the way of results."""
    if not quiet:
        print(escape_for_terminal(text), file=sys.stderr, flush=True)  # a live table lets it through above itself


def in_cell(value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:  # noqa: PLR0124, NaN differs from itself
        return "-"
    return number_in_words(value) if isinstance(value, float) else escape_for_terminal(str(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124
    return value if value is None or isinstance(value, str | int | bool) else str(value)
