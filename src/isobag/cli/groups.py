"""``isobag groups``: the odd groups of the rows of a table."""

from isobag.cli.options import BY, NOTATION, REFUSED_FDR, WRITTEN, Typed, command, option


@command(
    f"by files time every sessions sql {WRITTEN} {NOTATION} format time_zone time_unit "
    "features exclude missing bad_cells min_size max_samples group_max_samples n_estimators contamination "
    "p_values fdr seed jobs engine dask top out report model json quiet debug",
    by=option(str, ..., None, "A,B,...", BY),
    fdr=REFUSED_FDR,
)
def groups(typed: Typed) -> None:
    """Find the odd groups of the rows of a table: accounts, days, machines.

    A group can be odd although each of its rows is ordinary. The file may be larger than memory.
    """
    from isobag.cli.run import detect  # noqa: PLC0415, loads scikit-learn

    detect(typed)
