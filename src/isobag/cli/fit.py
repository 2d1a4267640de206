"""``isobag fit``: learn what is normal, and keep it in a file."""

from pathlib import Path

from isobag.cli.options import NOTATION, WRITTEN, Typed, command, option


@command(
    f"model files by time every sessions sql {WRITTEN} {NOTATION} format time_zone "
    "time_unit features exclude baseline_by missing bad_cells min_size max_samples group_max_samples n_estimators "
    "contamination seed jobs json quiet debug",
    model=option(Path, ..., None, "FILE", "File to write the fitted model to."),
)
def fit(typed: Typed) -> None:
    """Learn what rows are like, or groups of rows with --by, for `isobag score`."""
    from isobag.cli.run import learn  # noqa: PLC0415, loads scikit-learn

    learn(typed)
