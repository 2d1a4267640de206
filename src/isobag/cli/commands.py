"""All commands: their options and their help. The module that does the work is imported when a command runs."""

from pathlib import Path
from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.options import HOW, IN, OUT, WHAT, Typed, option

_STATE = "The state: the first run writes it, later runs judge new periods by it and add them. It keeps all settings."
_Entities = list[str] | None
_EXAMPLES = """\
isobag detect cards.csv                     the odd rows of a table
isobag detect cards.csv --within account    rows that are odd for their account
isobag detect cards.csv --by account        odd groups of rows: whole accounts
'isobag detect --help' shows all options."""


def detect(
    files: o.Files = None,
    by: o.By = None,
    within: o.Within = None,
    time: o.Time = None,
    every: o.Every = None,
    sessions: o.Sessions = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    id_column: o.IdColumn = None,
    missing: o.Missing = "auto",
    bad_cells: o.BadCells = "error",
    min_size: o.MinSize = 1,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    sheet: o.Sheet = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.Numbers = "strict",
    dates: o.Dates = None,
    format: o.Format = None,
    time_zone: o.TimeZone = None,
    time_unit: o.TimeUnit = None,
    contamination: o.Contamination = "auto",
    n_estimators: o.Estimators = 100,
    max_samples: o.MaxSamples = "auto",
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    top: o.Top = 10,
    out: o.Out = None,
    keep: o.Keep = None,
    report: o.Report = None,
    save_model: Annotated[Path | None, option("Write what was learned, for `isobag score`.", OUT, "FILE")] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find odd rows of a table, or with --by odd groups of rows.

    A group, such as an account, a day or a machine, can be odd although each of its rows is ordinary. The file may be
    larger than memory.
    """
    typed = Typed(**locals())
    if not files and sql is None:
        typer.echo(_EXAMPLES, err=True)
        raise typer.Exit(2)
    from isobag.cli import run  # noqa: PLC0415, loads scikit-learn

    run.detect(typed)


def fit(
    files: o.Files = None,
    *,
    save_model: Annotated[Path, option("File to write the fitted model to.", OUT, "FILE")],
    by: o.By = None,
    within: o.Within = None,
    time: o.Time = None,
    every: o.Every = None,
    sessions: o.Sessions = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    missing: o.Missing = "auto",
    bad_cells: o.BadCells = "error",
    min_size: o.MinSize = 1,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    sheet: o.Sheet = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.Numbers = "strict",
    dates: o.Dates = None,
    format: o.Format = None,
    time_zone: o.TimeZone = None,
    time_unit: o.TimeUnit = None,
    contamination: o.Contamination = "auto",
    n_estimators: o.Estimators = 100,
    max_samples: o.MaxSamples = "auto",
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Learn what rows are like, or with --by groups, to score others."""
    typed = Typed(**locals())
    from isobag.cli import run  # noqa: PLC0415, loads scikit-learn

    run.fit(typed)


def score(
    model: o.ModelFile,
    files: o.Files = None,
    fdr: o.Fdr = None,
    per_day: Annotated[
        float | None, option("Flag so that this many flags a day are false, on average.", HOW, "N", min=0)
    ] = None,
    days: Annotated[float, option("Days that the table spans, for --per-day.", HOW, "N", min=0)] = 1.0,
    exact: Annotated[
        bool, option("No p-values below 1 / (1 + rows or groups to compare with).", HOW, None, "--exact")
    ] = False,
    max_odd: Annotated[
        float | None, option("Exit status 1 if a larger share is flagged; --fdr is then .1.", HOW, "SHARE")
    ] = None,
    by: o.By = None,
    id_column: o.IdColumn = None,
    missing: o.Missing = "auto",
    bad_cells: o.BadCells = "error",
    min_size: o.MinSize = 1,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    sheet: o.Sheet = None,
    format: o.Format = None,
    jobs: o.Jobs = None,
    top: o.Top = 10,
    out: o.Out = None,
    keep: o.Keep = None,
    report: o.Report = None,
    junit: Annotated[Path | None, option("Write the result as JUnit XML, which CI servers show.", OUT, "FILE")] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Rank new rows, or groups, against those of a model, by p-values.

    --fdr is about this table: at most so large a share of its flags is false, on average over tables like it. Of daily
    tables in most of which nothing is wrong, most flags are false all the same: --per-day limits the false ones of a
    day. With --max-odd the exit status is 0 if at most this share is flagged, 1 if more, and 2 if it cannot be told.
    """
    typed = Typed(**locals())
    from isobag.cli import run  # noqa: PLC0415, loads scikit-learn

    run.score(typed)


def explain(
    model: o.ModelFile,
    files: o.Files = None,
    *,
    id: Annotated[str, option("Number of the row, from 0; its name with --id-column; a group's label.", None, "NAME")],
    by: o.By = None,
    id_column: o.IdColumn = None,
    missing: o.Missing = "auto",
    bad_cells: o.BadCells = "error",
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    sheet: o.Sheet = None,
    format: o.Format = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Say why a row or a group is odd or not: feature by feature."""
    typed = Typed(**locals())
    from isobag.cli.explain import explain_one  # noqa: PLC0415, loads scikit-learn

    explain_one(typed)


_A = Annotated[str | None, typer.Argument(metavar="A", help="A table, as for `isobag detect`.")]
_B = Annotated[str | None, typer.Argument(metavar="B", help="Another.")]
_Query = Annotated[str | None, option("A query in its place, which calls the file data.", IN, "QUERY")]


def compare(
    a: _A = None,
    b: _B = None,
    sql_a: _Query = None,
    sql_b: _Query = None,
    sql: Annotated[str | None, option("One query for both files, which it calls data.", IN, "QUERY")] = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    missing: o.Missing = "auto",
    bad_cells: o.BadCells = "error",
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    sheet: o.Sheet = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.Numbers = "strict",
    dates: o.Dates = None,
    n_permutations: Annotated[int, option("The p-value is a multiple of 1 / (1 + this).", HOW, "N")] = 499,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Test whether the rows of two tables come from one distribution. Both are read into memory."""
    typed = Typed(**locals())
    from isobag.cli.compare import compare_tables  # noqa: PLC0415, loads scikit-learn

    compare_tables(typed)


def watch(
    files: o.Files = None,
    by: Annotated[str | None, option("Column with the entity of each row: account, shop.", WHAT, "A,B,...")] = None,
    time: Annotated[str | None, option("Column with the time of each row.", WHAT, "COLUMN")] = None,
    every: Annotated[str | None, option("Length of a period: 15m, 1h, 1d, 1w; default: 1d.", WHAT, "LENGTH")] = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    since: Annotated[str | None, option("List incidents from this time on.", WHAT, "TIME")] = None,
    model: Annotated[Path | None, option(_STATE, HOW, "FILE")] = None,
    accept: Annotated[_Entities, option("Treat what an entity does now as its new normal.", HOW, "ENTITY")] = None,
    dismiss: Annotated[
        _Entities, option("Dismiss its incident; a silence until rows come.", HOW, "ENTITY[@PERIOD]")
    ] = None,
    retire: Annotated[_Entities, option("Stop watching an entity until rows of it come.", HOW, "ENTITY")] = None,
    forget: Annotated[_Entities, option("Remove the rows of an open period.", HOW, "PERIOD")] = None,
    replace: Annotated[
        bool, option("Replace periods added before by those of the file.", HOW, None, "--replace")
    ] = False,
    fdr: Annotated[float | None, option("Share of alarms that may be false; default: 0.1.", HOW, "SHARE")] = None,
    late: Annotated[int | None, option("Periods before the newest that stay open; default: 2.", HOW, "N")] = None,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    sheet: o.Sheet = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.Numbers = "strict",
    dates: o.Dates = None,
    format: o.Format = None,
    time_zone: o.TimeZone = None,
    time_unit: o.TimeUnit = None,
    top: o.Top = 20,
    out: o.Out = None,
    report: o.Report = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find accounts, machines or shops that are unlike their own past.

    Silent ones, and those with fewer or more rows, or other values. Rows are grouped by entity and period, and each
    period is compared with those before it. A lasting deviation is one incident: it stays open until the entity is
    back to normal, or until --accept, --dismiss or --retire. Rows may come in any order; those added before are
    skipped. --out has a line for every judged entity and period.
    """
    typed = Typed(**locals())
    from isobag.cli.watch import watch_files  # noqa: PLC0415, loads scikit-learn

    watch_files(typed)


def stream(
    source: Annotated[str, typer.Argument(metavar="FILE", help="CSV or JSON lines; - for stdin.")] = "-",
    window: Annotated[int, option("Rows that are remembered.", HOW, "N", min=4)] = 10_000,
    format: Annotated[
        str | None, option("csv or jsonl; default: jsonl if the first line begins with {.", IN, "ENDING")
    ] = None,
    skip: o.Skip = 0,
    encoding: o.Encoding = None,
    features: o.Features = None,
    max_samples: o.MaxSamples = "auto",
    n_estimators: o.Estimators = 100,
    fdr: Annotated[float, option("Share of all alarms ever raised that may be false, on average.", HOW, "SHARE")] = 0.1,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    model: Annotated[
        Path | None, option("State to go on from, if the file is there, and to write on exit.", OUT, "FILE")
    ] = None,
    save_every: Annotated[float, option("How often the state is written.", OUT, "SECONDS", min=0)] = 60.0,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Print odd rows of a stream as they come, each with a reason.

    Each row is compared with the --window rows before it, and learned. Of all alarms, at most the share --fdr is false
    on average (LORD++), if p-values of normal rows are independent. A line that is no row is named, counted and left
    out. With --model, a FILE that was read in part is read on from there; rows whose alarms were printed after the
    state was last written are then judged once more.
    """
    typed = Typed(**locals())
    from isobag.cli.stream import follow_lines  # noqa: PLC0415, loads scikit-learn

    follow_lines(typed)


def mcp(
    root: Annotated[Path, option("Files are read below this folder, and nowhere else.", None, "FOLDER")],
    debug: o.Debug = False,
) -> None:
    """Serve detect, score, explain and compare as tools of agents.

    They speak the Model Context Protocol on standard input and output. No tool writes a file or runs a query.
    """
    from isobag.adapters.mcp import server_of  # noqa: PLC0415, loads the protocol

    server_of(root, (detect, score, explain, compare)).run("stdio")


def demo(debug: o.Debug = False) -> None:
    """Find odd card accounts in made-up transactions, in three ways.

    By row, by averages, and by account.
    """
    from isobag.cli.demo import show_accounts  # noqa: PLC0415, loads scikit-learn

    show_accounts()
