"""What a command says: results on standard output, notes and progress on standard error."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from isobag.cli.process import speaks_utf8
from isobag.storage.files import naming_stdout
from isobag.tables.reasons import number_in_words
from isobag.tables.terminal import escape_for_terminal


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
        typer.echo(escape_for_terminal(text), err=True)


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
