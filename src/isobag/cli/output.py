"""What a command says: results on standard output, notes and progress on standard error."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from isobag.data.spool import Tick
from isobag.tables.reasons import number_in_words
from isobag.tables.terminal import escape_for_terminal


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object; what is not a number comes as null."""
    typer.echo(json.dumps(_plain(content), ensure_ascii=False, allow_nan=False))


def print_table(columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns side by side: drawn for a person, plain and as wide as need be if piped."""
    from rich.console import Console  # noqa: PLC0415, slow to load
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, values in columns.items():
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        table.add_column(Text(escape_for_terminal(name)), justify="right" if are_numbers else "left")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(Text(_cell(value)) for value in row))
    is_piped = not sys.stdout.isatty()
    Console(file=sys.stdout, width=10_000 if is_piped else None, no_color=is_piped).print(table, soft_wrap=False)


def note(text: str, quiet: bool) -> None:
    """A remark for a person, out of the way of results."""
    if not quiet:
        typer.echo(escape_for_terminal(text), err=True)


@contextmanager
def progress(quiet: bool) -> Iterator[Tick | None]:
    """A function to tell what is going on and how far it is; None if no person is looking."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415, slow to load
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def tick(what: str, n_rows: int, of: int | None) -> None:
            bar.update(task, description=f"{what}: {n_rows:,} rows", completed=n_rows, total=of)

        yield tick


def _cell(value: Any) -> str:
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
