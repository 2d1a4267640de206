"""Options that several commands share: name, type, help. A command's own stand in its signature."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import typer

IN, WHAT, HOW, OUT = "Input", "What to look at", "How", "Output"


class Typed(SimpleNamespace):
    """Options of a command by name, as they were typed; None for those that the command does not have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def is_silent(self) -> bool:
        """Whether nothing but results is printed."""
        return bool(self.quiet or self.json)


def option(help: str, panel: str | None, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option: its help, the section that it stands in, and its names if not that of the parameter."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


_TABLE = "CSV, TSV, JSON Lines (also .gz, .bz2, .xz, .zst), Parquet, Arrow or .xlsx; globs; - for stdin."
_ENDINGS = ".parquet, .csv, .csv.gz, .jsonl, .arrow; - for stdout. May be given several times."
_NUMBERS = "What is a number in text: digits alone, or also with currency, percent, units, thousands."
_MISSING = "Missing values: take part as such, stop, or leave such rows out."
_WITHIN = "Column of the group, such as an account, whose rows a row is compared with first."

Files = Annotated[list[str] | None, typer.Argument(metavar="FILE", help=_TABLE)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `isobag fit`.")]
Sql = Annotated[str | None, option("A query instead of the whole file, which it calls data.", IN, "QUERY")]
Header = Annotated[
    bool | None, option("Whether the first line of CSV names the columns.", IN, None, "--header/--no-header")
]
Delimiter = Annotated[str | None, option("What divides the cells of CSV; tab for one.", IN, "SIGN")]
Na = Annotated[str | None, option("More texts of CSV or JSON that stand for a missing value: -,?,n/a.", IN, "A,B,...")]
Skip = Annotated[int, option("Lines before the header of CSV, or rows of a sheet, to pass over.", IN, "N", min=0)]
Encoding = Annotated[str | None, option("Of text: latin-1, cp1252, utf-16; default: utf-8.", IN, "NAME")]
Sheet = Annotated[str | None, option("Sheet of a workbook; default: the first.", IN, "NAME")]
Decimal = Annotated[str | None, option("Decimal sign of text: . or ,", IN, "SIGN")]
Thousands = Annotated[str | None, option("Sign between thousands in text: , . ' or a space.", IN, "SIGN")]
Numbers = Annotated[Literal["strict", "relaxed"], option(_NUMBERS, IN)]
Dates = Annotated[str | None, option("How text writes dates beside ISO 8601: %d.%m.%Y, %m/%d/%Y %H:%M.", IN, "FORMAT")]
Format = Annotated[
    str | None, option("Of standard input: csv, jsonl, parquet, arrow, xlsx; default: by its bytes.", IN, "ENDING")
]
TimeZone = Annotated[
    str | None, option("Zone of days, and of times that name none: Europe/Berlin; default: UTC.", IN, "NAME")
]
TimeUnit = Annotated[str | None, option("What numbers as times count since 1970: s, ms, us or ns.", IN, "UNIT")]
By = Annotated[str | None, option("Judge groups of rows: column of their labels, or several.", WHAT, "A,B,...")]
Within = Annotated[str | None, option(_WITHIN, WHAT, "A,B,...")]
Time = Annotated[str | None, option("Column of times, which divide groups by --every or --sessions.", WHAT, "COLUMN")]
Every = Annotated[str | None, option("Groups of one label and period: 15m, 1h, 1d, 1w.", WHAT, "LENGTH")]
Sessions = Annotated[str | None, option("Groups of one label and session, which a longer gap ends: 30m.", WHAT, "GAP")]
Features = Annotated[str | None, option("Columns to look at; default: all but identifiers.", WHAT, "A,B,...")]
Exclude = Annotated[str | None, option("Columns to leave out, or patterns: temp_*.", WHAT, "A,B,...")]
IdColumn = Annotated[str | None, option("Column to name rows by.", WHAT, "COLUMN")]
Missing = Annotated[Literal["auto", "error", "drop"], option(_MISSING, WHAT)]
BadCells = Annotated[
    Literal["error", "missing", "text"], option("Cells in a column of numbers that are not numbers.", WHAT)
]
MinSize = Annotated[int, option("Leave out groups with fewer rows.", WHAT, "N", min=1)]
MaxSamples = Annotated[str, option("Rows in a sample, a power of two; auto: 2 to 512 together.", HOW, "N")]
Estimators = Annotated[int, option("Number of samples.", HOW, "N", "--n-estimators", "-t")]
Contamination = Annotated[str, option("Share to flag; auto: what the tail of scores does not explain.", HOW, "SHARE")]
Fdr = Annotated[float | None, option("Flag so that at most this share is false, on average.", HOW, "SHARE")]
Seed = Annotated[int, option("Same seed, same result.", HOW, "N", min=0)]
Jobs = Annotated[int | None, option("Threads, as in joblib; default: all, but one for few rows.", HOW, "N")]
Top = Annotated[int, option("How many of the oddest to print.", OUT, "N", min=0)]
Out = Annotated[list[Path] | None, option(f"Write all, ranked: {_ENDINGS}", OUT, "FILE")]
Keep = Annotated[str | None, option("Columns to carry into --out and --report, or all.", OUT, "A,B,...")]
Report = Annotated[Path | None, option("Write a page to look at: .html.", OUT, "FILE")]
Json = Annotated[bool, option("Print JSON, for machines.", OUT, None, "--json")]
Quiet = Annotated[bool, option("No notes and no progress.", OUT, None, "--quiet", "-q")]
Debug = Annotated[bool, option("Show where an error comes from.", OUT, None, "--debug")]


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
        raise typer.BadParameter(f"{text!r}; need a number or auto.", param_hint=name) from None
