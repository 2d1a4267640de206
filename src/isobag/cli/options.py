"""Options of the commands: one table of names, types, defaults and help."""

import csv
from dataclasses import replace
from functools import partial
from inspect import Parameter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from isobag.tables.reading import ReadOptions

IN, WHAT, HOW, OUT = "Input", "What to look at", "How", "Output"

Typed = SimpleNamespace
"""Options of a command by name, as they were typed."""


def option(kind: Any, default: Any, panel: str | None, metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """An option: its type, default (... if it must be given), section of the help, and names if not its own."""
    return _parameter(kind, default, typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more))


def argument(kind: Any, default: Any, metavar: str, help: str) -> Any:
    """An argument; a default of ... means that it must be given."""
    return _parameter(kind, default, typer.Argument(metavar=metavar, help=help))


def _parameter(kind: Any, default: Any, described: Any) -> Parameter:
    own = Parameter.empty if default is ... else default
    return Parameter("_", Parameter.KEYWORD_ONLY, default=own, annotation=Annotated[kind, described])


WRITTEN = "header delimiter na skip encoding sheet"
NOTATION = "decimal thousands numbers dates"
"""Options that say how files, and how numbers and dates in text, are written."""
text = partial(option, str | None, None)
ENDINGS = ".parquet, .csv, .csv.gz, .jsonl, .arrow; - for stdout. May be given several times."
REFUSED_FDR = option(
    float | None, None, HOW, "SHARE", "Refused: new data and `isobag score` are needed for it.", hidden=True
)
BY = "Column with the label of each row's group, or several."
_MODEL = "A file written by `isobag fit`."
MODEL, MODEL_OPTION = argument(Path, ..., "MODEL", _MODEL), option(Path, ..., None, "FILE", _MODEL)
_A_TABLE = "CSV, TSV, JSON Lines (also .gz, .bz2, .xz, .zst), Parquet, Arrow or .xlsx; globs; - for stdin."
_NUMBERS = "What is a number in text: digits alone, or also with currency, percent, units, thousands."
_MISSING = "Missing values: fill where there are any and say so, stop, leave such rows out, or learn medians of all."
_KINDS: dict[str, Any] = {
    "numbers": Literal["strict", "relaxed"],
    "missing": Literal["auto", "error", "drop", "median"],
    "bad_cells": Literal["error", "missing", "text"],
}
OPTIONS: dict[str, Any] = {
    "files": argument(list[str] | None, None, "FILE", _A_TABLE),
    "sql": text(IN, "QUERY", "A query instead of the whole file, which it calls data: SELECT a, b FROM data."),
    "by": text(IN, "A,B,...", BY),
    "header": option(
        bool | None, None, IN, None, "Whether the first line of CSV names the columns.", "--header/--no-header"
    ),
    "delimiter": text(IN, "SIGN", "What divides the cells of CSV; tab for one."),
    "na": text(IN, "A,B,...", "More texts of CSV or JSON that stand for a missing value: -,?,n/a."),
    "skip": option(int, 0, IN, "N", "Lines before the header of CSV, or rows of a sheet, to pass over.", min=0),
    "encoding": text(IN, "NAME", "What text is written in: latin-1, cp1252, utf-16; default: utf-8."),
    "sheet": text(IN, "NAME", "Sheet of a workbook; default: the first."),
    "decimal": text(IN, "SIGN", "Decimal sign of text: . or ,"),
    "thousands": text(IN, "SIGN", "Sign between thousands in text: , . ' or a space."),
    "numbers": option(_KINDS["numbers"], "strict", IN, None, _NUMBERS),
    "dates": text(IN, "FORMAT", "How text writes dates beside ISO 8601: %d.%m.%Y, %m/%d/%Y %H:%M."),
    "format": text(IN, "ENDING", "Of standard input: csv, jsonl, parquet, arrow, xlsx; default: by its first bytes."),
    "time": text(WHAT, "COLUMN", "Column of times, which divide groups by --every or --sessions."),
    "every": text(WHAT, "LENGTH", "Groups of one label and period: 15m, 1h, 1d, 1w."),
    "sessions": text(WHAT, "GAP", "Groups of one label and session, which a longer gap ends: 30m."),
    "time_zone": text(IN, "NAME", "Zone of days, and of times that name none: Europe/Berlin; default: UTC."),
    "time_unit": text(IN, "UNIT", "What numbers in the column of times count since 1970: s, ms, us or ns."),
    "features": text(WHAT, "A,B,...", "Columns to look at; default: all of numbers that are no identifiers."),
    "exclude": text(WHAT, "A,B,...", "Columns to leave out, or patterns: temp_*."),
    "id_column": text(WHAT, "COLUMN", "Column to name rows by."),
    "baseline_by": text(WHAT, "A,B,...", "Column with the label of the group whose rows a row is compared with first."),
    "missing": option(_KINDS["missing"], "auto", WHAT, None, _MISSING),
    "bad_cells": option(_KINDS["bad_cells"], "error", WHAT, None, "Cells in a column of numbers that are not."),
    "min_size": option(int, 1, WHAT, "N", "Leave out groups with fewer rows.", min=1),
    "max_samples": option(str, "auto", HOW, "N", "psi, or auto: needs no choice.", "--max-samples", "--psi"),
    "group_max_samples": option(str, "auto", HOW, "N", "psi of groups, or auto."),
    "n_estimators": option(int, 100, HOW, "N", "Partitionings.", "--n-estimators", "-t"),
    "contamination": option(str, "auto", HOW, "SHARE", "Share to flag, or auto: no guess needed."),
    "p_values": option(bool, True, HOW, None, "How rare a score is; see the docs.", "--p-values/--no-p-values"),
    "fdr": option(float | None, None, HOW, "SHARE", "Flag so that at most this share is false, on average."),
    "per_day": option(
        float | None, None, HOW, "N", "Flag so that this many alarms a day are false, on average.", min=0
    ),
    "days": option(float, 1.0, HOW, "N", "Days that the table spans, for --per-day.", min=0),
    "exact": option(bool, False, HOW, None, "No p-values below 1 / (1 + rows or groups to compare with).", "--exact"),
    "seed": option(int, 0, HOW, "N", "Same seed, same result.", min=0),
    "jobs": option(int | None, None, HOW, "N", "Threads, as in joblib; default: all, but one for few rows."),
    "top": option(int, 10, OUT, "N", "How many of the oddest to print.", min=0),
    "out": option(list[Path] | None, None, OUT, "FILE", f"Write all, ranked: {ENDINGS}"),
    "keep": text(OUT, "A,B,...", "Columns to carry into --out and --report, or all."),
    "report": option(Path | None, None, OUT, "FILE", "Write a page to look at: .html."),
    "model": option(Path | None, None, OUT, "FILE", "Write the fitted model."),
    "json": option(bool, False, OUT, None, "Print JSON, for machines.", "--json"),
    "quiet": option(bool, False, OUT, None, "No notes and no progress.", "--quiet", "-q"),
    "debug": option(bool, False, OUT, None, "Show where an error comes from.", "--debug"),
}


def reading(typed: Typed) -> "ReadOptions":
    """How a table is to be read, from the options that a command has."""
    from isobag.tables.reading import ReadOptions  # noqa: PLC0415
    from isobag.tables.times import bags_of  # noqa: PLC0415, loads NumPy

    own = vars(typed)
    given: dict[str, Any] = {name: split_names(own.get(name)) for name in ("features", "exclude", "by")}
    given["carry"] = None if own.get("keep") == "all" else split_names(own.get("keep")) or ()
    given |= {name: own[name] for name in (*NOTATION.split(), *_KINDS) if own.get(name)}
    options = ReadOptions.of(**given, baseline=split_names(own.get("baseline_by")), id=own.get("id_column"))
    if "sessions" not in own:
        return options
    times: dict[str, Any] = {name: own.get(name) for name in ("time", "every", "sessions", "time_zone", "time_unit")}
    return replace(options, bags=bags_of(**times, by=options.by))


def split_names(text: str | None) -> list[str] | None:
    """Column names divided by commas; one with a comma stands in double quotes, as in CSV."""
    if text is None:
        return None
    row = next(csv.reader([text], skipinitialspace=True), [])
    return [one.strip() for one in row if one.strip()]


def number_or_auto(text: str, name: str, kind: type[int] | type[float]) -> Any:
    """A number, or "auto"; the detector says which it takes."""
    if text == "auto":
        return text
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(f"{name} {text}: need a number or auto.") from None
