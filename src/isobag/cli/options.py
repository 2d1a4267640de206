"""Options that commands share: one place for their names and their help."""

import csv
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from isobag.tables.choose import ReadOptions


class BadCells(StrEnum):
    """What to do with cells that are not numbers in a column of numbers."""

    ERROR = "error"
    MISSING = "missing"
    TEXT = "text"


class Numbers(StrEnum):
    """What is taken for a number in text."""

    STRICT = "strict"
    RELAXED = "relaxed"


class Missing(StrEnum):
    """What to do with rows in which values are missing."""

    ERROR = "error"
    DROP = "drop"
    MEDIAN = "median"


IN, WHAT, HOW, OUT = "Input", "What to look at", "How", "Output"

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE", help="CSV, TSV, JSON Lines (also .gz, .bz2, .xz, .zst), Parquet or Arrow; globs; - for stdin."
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `isobag fit`.")]
Sql = Annotated[
    str | None,
    typer.Option(
        metavar="QUERY",
        help="A query instead of the whole file, which it calls data: SELECT a, b FROM data.",
        rich_help_panel=IN,
    ),
]
By = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Column with the label of each row's group, or several.", rich_help_panel=IN),
]
BaselineBy = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Column with the label of the group whose rows each row is compared with first, such as an account.",
        rich_help_panel=WHAT,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line of CSV names the columns.", rich_help_panel=IN),
]
Decimal = Annotated[str | None, typer.Option(metavar="SIGN", help="Decimal sign of text: . or ,", rich_help_panel=IN)]
Thousands = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="Sign between thousands in text: , . ' or a space.", rich_help_panel=IN),
]
OnNumbers = Annotated[
    Numbers,
    typer.Option(
        help="What is a number in text: digits alone, or also with currency, percent, units, thousands.",
        rich_help_panel=IN,
    ),
]
Format = Annotated[
    str | None, typer.Option(metavar="ENDING", help="Of standard input: csv, tsv or jsonl.", rich_help_panel=IN)
]
OnBadCells = Annotated[BadCells, typer.Option(help="Cells in a column of numbers that are not.", rich_help_panel=WHAT)]
MinSize = Annotated[
    int, typer.Option(min=1, metavar="N", help="Leave out groups with fewer rows.", rich_help_panel=WHAT)
]
Fdr = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Flag so that at most this share is false, on average.", rich_help_panel=HOW),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="No p-values below 1 / (1 + rows or groups to compare with).", rich_help_panel=HOW),
]
Keep = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Columns to carry into --out, or all.", rich_help_panel=OUT),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Columns to look at; default: all of numbers that are no identifiers.",
        rich_help_panel=WHAT,
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Columns to leave out, or patterns: temp_*.", rich_help_panel=WHAT),
]
Delimiter = Annotated[
    str | None, typer.Option(metavar="SIGN", help="What divides the cells of CSV; tab for one.", rich_help_panel=IN)
]
Na = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...", help="More texts of CSV or JSON that stand for a missing value: -,?,n/a.", rich_help_panel=IN
    ),
]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", metavar="COLUMN", help="Column to name rows by.", rich_help_panel=WHAT)
]
OnMissing = Annotated[
    Missing, typer.Option(help="Rows with missing values: stop, leave out, or fill.", rich_help_panel=WHAT)
]
MaxSamples = Annotated[
    str,
    typer.Option("--max-samples", "--psi", metavar="N", help="psi, or auto: needs no choice.", rich_help_panel=HOW),
]
GroupMaxSamples = Annotated[str, typer.Option(metavar="N", help="psi of groups, or auto.", rich_help_panel=HOW)]
NEstimators = Annotated[
    int, typer.Option("--n-estimators", "-t", metavar="N", help="Partitionings.", rich_help_panel=HOW)
]
Contamination = Annotated[
    str, typer.Option(metavar="SHARE", help="Share to flag, or auto: no guess needed.", rich_help_panel=HOW)
]
PValues = Annotated[
    bool,
    typer.Option("--p-values/--no-p-values", help="How rare a score is; see the docs.", rich_help_panel=HOW),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same result.", rich_help_panel=HOW)]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Threads, as in joblib; default: all, but one for few rows.", rich_help_panel=HOW),
]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Where to work: `local` (this process), `dask://HOST:PORT` (the Dask cluster of this scheduler) or "
        "`dask://local` (--jobs processes of this machine). Dask reads Parquet files or folders of them; --out is one "
        "file all the same, with rows in the order of the table, without rank and rank_share.",
        rich_help_panel=HOW,
    ),
]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="The same as --engine dask://ADDRESS.", rich_help_panel=HOW)
]
Top = Annotated[int, typer.Option(min=0, metavar="N", help="How many of the oddest to print.", rich_help_panel=OUT)]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write all, ranked: .parquet, .csv, .csv.gz, .jsonl, .arrow; - for stdout.",
        rich_help_panel=OUT,
    ),
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a page to look at: .html.", rich_help_panel=OUT)
]
SaveModel = Annotated[
    Path | None, typer.Option("--model", metavar="FILE", help="Write the fitted model.", rich_help_panel=OUT)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.", rich_help_panel=OUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress.", rich_help_panel=OUT)]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.", rich_help_panel=OUT)]


def engine_address(engine: str | None, dask: str | None) -> str | None:
    """The address of the engine, which --dask gives in short."""
    if engine is not None and dask is not None:
        raise typer.BadParameter("--engine and --dask are both given; give one of them.")
    return engine if dask is None else f"dask://{dask}"


def reading(
    *,
    features: str | None = None,
    by: str | None = None,
    id: str | None = None,
    missing: Missing = Missing.ERROR,
    bad_cells: BadCells = BadCells.ERROR,
    decimal: str | None = None,
    thousands: str | None = None,
    numbers: Numbers = Numbers.STRICT,
    keep: str | None = None,
    exclude: str | None = None,
    baseline_by: str | None = None,
) -> "ReadOptions":
    """How a table is to be read, from options as they are typed."""
    from isobag.tables.choose import ReadOptions  # noqa: PLC0415, loads NumPy

    return ReadOptions.of(
        features=names_of(features),
        exclude=names_of(exclude),
        by=names_of(by),
        id=id,
        baseline=names_of(baseline_by),
        missing=missing.value,
        bad_cells=bad_cells.value,
        decimal=decimal or ".",
        thousands=thousands or "",
        numbers=numbers.value,
        carry=None if keep == "all" else names_of(keep) or (),
    )


def names_of(text: str | None) -> list[str] | None:
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
