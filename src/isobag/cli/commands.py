"""All commands: what each takes, and what its help says. What it does is in the module that it runs."""

from collections.abc import Callable
from importlib import import_module
from inspect import Signature
from pathlib import Path
from typing import Any

from isobag.cli.options import (
    BY,
    ENDINGS,
    HOW,
    IN,
    MODEL,
    MODEL_OPTION,
    NOTATION,
    OPTIONS,
    OUT,
    REFUSED_FDR,
    WHAT,
    WRITTEN,
    Typed,
    argument,
    option,
    text,
)
from isobag.cli.process import FAILED, guarded

ODD, ERROR = 1, 2
"""Exit codes of ``isobag check``."""


def command(work: str, names: str, failed: int = FAILED, **own: Any) -> Callable[[Callable[[], None]], Any]:
    """A command that takes these options, in this order; ``own``: descriptions of those that OPTIONS lacks.

    work : module and name of the function that gets what is typed; loaded when the command runs, as most load
        scikit-learn, which no help needs.
    failed : its exit code if something goes wrong.
    """
    described = [(own.get(name) or OPTIONS[name]).replace(name=name) for name in names.split()]
    module, _, name = work.partition(".")

    def make(about: Callable[[], None]) -> Callable[..., None]:
        def run(**typed: Any) -> None:
            getattr(import_module(f"isobag.cli.{module}"), name)(Typed(**typed))

        run.__name__, run.__doc__ = about.__name__, about.__doc__
        run.__signature__ = Signature(described)  # type: ignore[attr-defined]  # what typer makes options of
        return guarded(run, failed)

    return make


@command(
    "run.detect",
    f"files sql {WRITTEN} {NOTATION} format features exclude id_column baseline_by missing "
    "bad_cells max_samples n_estimators contamination p_values fdr seed jobs top out keep report model "
    "json quiet debug",
    fdr=REFUSED_FDR,
)
def points() -> None:
    """Find the odd rows of a table.

    Rows are ranked by how similar they are to all others, or with --baseline-by to others of their own group. The file
    may be larger than memory.
    """


@command(
    "run.detect",
    f"by files time every sessions sql {WRITTEN} {NOTATION} format time_zone time_unit "
    "features exclude missing bad_cells min_size max_samples group_max_samples n_estimators contamination "
    "p_values fdr seed jobs top out report model json quiet debug",
    by=option(str, ..., None, "A,B,...", BY),
    fdr=REFUSED_FDR,
)
def groups() -> None:
    """Find the odd groups of the rows of a table: accounts, days, machines.

    A group can be odd although each of its rows is ordinary. The file may be larger than memory.
    """


_STATE = (
    "The state: what was learned of all entities. The first run writes it; later runs score new periods by it, and "
    "then add them. It also keeps --by, --time, --every and how columns are read."
)
_CONFIRM = "An alarm was right: this period never becomes part of the entity's past. May be given several times."
_DISMISS = "An alarm was false: this period becomes part of the entity's past. May be given several times."
_PEERS = (
    "Column of cohorts: entities are compared within theirs. auto: cohorts of entities that are alike are found. "
    "Default: all are compared."
)


@command(
    "watch.watch_files",
    f"files by time every model sql {WRITTEN} {NOTATION} format time_zone time_unit features "
    "exclude missing bad_cells since peers fdr keep late learn confirm dismiss seed jobs top out report "
    "json quiet debug",
    by=text(None, "A,B,...", "Column with the entity of each row, or several: account, machine, shop."),
    time=text(None, "COLUMN", "Column with the time of each row."),
    every=text(None, "LENGTH", "Length of a period: 15m, 1h, 1d, 1w; default: 1d."),
    model=option(Path | None, None, None, "FILE", _STATE),
    since=text(WHAT, "TIME", "Periods before this time are past only, and not judged."),
    peers=text(WHAT, "COLUMN|auto", _PEERS),
    keep=text(HOW, "LENGTH", "How much of the past is kept: 90d, or a number of periods; default: all."),
    late=option(int | None, None, HOW, "N", "Late rows are added to so many periods before the newest; default: 2."),
    fdr=option(float | None, None, HOW, "SHARE", "Share of alarms that may be false; default: 0.1."),
    learn=option(bool, True, HOW, None, "Whether to add the new periods to the state.", "--learn/--no-learn"),
    confirm=option(list[str] | None, None, HOW, "ENTITY@PERIOD", _CONFIRM),
    dismiss=option(list[str] | None, None, HOW, "ENTITY@PERIOD", _DISMISS),
    out=option(list[Path] | None, None, OUT, "FILE", f"Write all lines: {ENDINGS}"),
    top=option(int, 20, OUT, "N", "How many findings to print.", min=0),
)
def watch() -> None:
    """Find accounts, machines or shops that are unlike their own past, unlike their peers, or silent.

    Rows are put together by entity and period. Each period is judged by what was known before it; with --model it then
    becomes part of what is known, unless it is flagged: flagged periods stay out until --dismiss. Rows may come in any
    order; rows that an earlier run has seen change nothing, so the same file may be given again.
    """


@command(
    "run.learn",
    f"model files by time every sessions sql {WRITTEN} {NOTATION} format time_zone "
    "time_unit features exclude baseline_by missing bad_cells min_size max_samples group_max_samples n_estimators "
    "contamination seed jobs json quiet debug",
    model=option(Path, ..., None, "FILE", "File to write the fitted model to."),
)
def fit() -> None:
    """Learn what rows are like, or groups of rows with --by, for `isobag score`."""


@command(
    "run.score",
    f"model files by time every sessions sql {WRITTEN} format time_zone time_unit id_column baseline_by "
    "missing bad_cells min_size fdr per_day days exact jobs top out keep report json quiet debug",
    model=MODEL,
)
def score() -> None:
    """Rank new rows, or new groups with --by, against those a model was fitted to.

    P-values are valid here: the model has not seen these rows. Those of what is odder than all it compares with are
    extrapolated, and said to be; --exact leaves them at their floor.

    --fdr is about this table: so many of its alarms are false, on average over tables like it. Of daily tables in most
    of which nothing is wrong, most alarms are false all the same: --per-day limits the false ones of a day.
    """


@command(
    "check.check_table",
    "files model by time every sessions sql header delimiter na format time_zone time_unit id_column baseline_by "
    "missing bad_cells min_size max_odd fdr exact jobs top out keep report junit json quiet debug",
    failed=ERROR,
    model=MODEL_OPTION,
    max_odd=option(float, 0.01, HOW, "SHARE", "The largest share of odd rows, or groups, that is fine."),
    fdr=option(float, 0.1, HOW, "SHARE", "Take rows for odd so that at most this share of them is not, on average."),
    junit=option(Path | None, None, OUT, "FILE", "Write the result as JUnit XML, which CI servers show: .xml."),
)
def check() -> None:
    """Check new rows, or new groups with --by, against those a model was fitted to.

    Exit status: 0 if the share of odd ones is at most --max-odd, 1 if it is more, 2 if that could not be found out.
    """


@command(
    "explain.explain_one",
    f"model id files by sql {WRITTEN} format id_column missing bad_cells json quiet debug",
    model=MODEL,
    id=option(str, ..., None, "NAME", "Number of the row, from 0; its name with --id-column; a group's label."),
)
def explain() -> None:
    """Say why a row, or a group with --by, is odd or not: feature by feature."""


_TABLE = argument(str | None, None, "FILE", "A table, as for `isobag points`; a glob in quotes.")
_QUERY = text(IN, "QUERY", "A query in its place, which calls the file data.")


@command(
    "compare.compare_tables",
    f"a b sql_a sql_b sql {WRITTEN} {NOTATION} features exclude missing bad_cells n_permutations seed jobs "
    "json quiet debug",
    a=_TABLE,
    b=_TABLE,
    sql_a=_QUERY,
    sql_b=_QUERY,
    sql=text(IN, "QUERY", "One query for both files, which it calls data."),
    n_permutations=option(int, 499, HOW, "N", "The p-value is a multiple of 1 / (1 + this)."),
)
def compare() -> None:
    """Test whether the rows of two tables come from one distribution. Both are read into memory."""


@command(
    "following.follow_lines",
    "source window format skip encoding features max_samples n_estimators fdr seed jobs model save_every live json "
    "quiet debug",
    source=argument(str, "-", "FILE", "CSV or JSON lines; - for stdin."),
    window=option(int, 10_000, "How", "N", "Rows that are remembered.", min=4),
    format=option(str | None, None, IN, "ENDING", "csv or jsonl; default: jsonl if the first line begins with {."),
    fdr=option(float, 0.1, "How", "SHARE", "Share of all alarms ever raised that may be false, on average."),
    model=option(Path | None, None, OUT, "FILE", "State to go on from, if the file is there, and to write on exit."),
    live=option(bool, False, OUT, None, "A table that changes, on a terminal; elsewhere as --json.", "--live"),
    save_every=option(float, 60.0, OUT, "SECONDS", "How often the state is written.", min=0),
)
def stream() -> None:
    """Print odd rows of a stream as they come, with a p-value and a reason.

    Each row is compared with the --window rows before it, and learned. Of all alarms, at most the share --fdr is false
    on average (LORD++), if p-values of normal rows are independent. A line that is no row is named, counted and left
    out. With --model, a FILE that was read in part is read on from there; rows whose alarms were printed after the
    state was last written are then judged once more. With --live, a terminal shows the latest odd rows, how odd the
    oddest row of each second was, and rows a second.
    """


@command(
    "serving.serve",
    "root debug",
    root=option(Path, ..., None, "FOLDER", "Files are read below this folder, and nowhere else."),
)
def mcp() -> None:
    """Serve points, groups, score, check, explain and compare as tools, on standard input and output.

    For programs that speak the Model Context Protocol. No tool writes a file or runs a query.
    """


@command("demo.show_accounts", "debug")
def demo() -> None:
    """Look for odd card accounts in made-up transactions, three ways: by row, by averages, and by account."""


COMMANDS = (points, groups, watch, fit, score, check, explain, compare, stream, mcp, demo)
