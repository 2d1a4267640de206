"""``isobag check``: whether a table has more odd rows, or odd groups, than it may have, as an exit status."""

from pathlib import Path

from isobag.cli.options import HOW, OUT, Typed, command, option

ODD, ERROR = 1, 2
_JUNIT = "Write the result as JUnit XML, which CI servers show: .xml."


@command(
    "files model by time every sessions sql header delimiter na format time_zone time_unit id_column baseline_by "
    "missing bad_cells min_size max_odd fdr exact jobs top out keep report junit json quiet debug",
    failed=ERROR,
    model=option(Path, ..., None, "FILE", "A file written by `isobag fit`."),
    max_odd=option(float, 0.01, HOW, "SHARE", "The largest share of odd rows, or groups, that is fine."),
    fdr=option(float, 0.1, HOW, "SHARE", "Take rows for odd so that at most this share of them is not, on average."),
    junit=option(Path | None, None, OUT, "FILE", _JUNIT),
)
def check(typed: Typed) -> None:
    """Check new rows, or new groups with --by, against those a model was fitted to.

    Exit status: 0 if the share of odd ones is at most --max-odd, 1 if it is more, 2 if that could not be found out.
    """
    from isobag.cli.checking import check_table  # noqa: PLC0415, loads scikit-learn

    check_table(typed)
