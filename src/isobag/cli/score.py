"""``isobag score``: new rows, or new groups, against a model."""

from isobag.cli.options import MODEL, WRITTEN, Typed, command


@command(
    f"model files by time every sessions sql {WRITTEN} format time_zone time_unit id_column baseline_by "
    "missing bad_cells min_size fdr per_day days exact jobs top out keep report json quiet debug",
    model=MODEL,
)
def score(typed: Typed) -> None:
    """Rank new rows, or new groups with --by, against those a model was fitted to.

    P-values are valid here: the model has not seen these rows. Those of what is odder than all it compares with are
    extrapolated, and said to be; --exact leaves them at their floor.

    --fdr is about this table: so many of its alarms are false, on average over tables like it. Of daily tables in most
    of which nothing is wrong, most alarms are false all the same: --per-day limits the false ones of a day.
    """
    from isobag.cli.run import score as score_table  # noqa: PLC0415, loads scikit-learn

    score_table(typed)
