"""``isobag points``: the odd rows of a table."""

from isobag.cli.options import NOTATION, REFUSED_FDR, WRITTEN, Typed, command


@command(
    f"files sql {WRITTEN} {NOTATION} format features exclude id_column baseline_by missing "
    "bad_cells max_samples n_estimators contamination p_values fdr seed jobs engine dask top out keep report model "
    "json quiet debug",
    fdr=REFUSED_FDR,
)
def points(typed: Typed) -> None:
    """Find the odd rows of a table.

    Rows are ranked by how similar they are to all others, or with --baseline-by to others of their own group. The file
    may be larger than memory.
    """
    from isobag.cli.run import detect  # noqa: PLC0415, loads scikit-learn

    detect(typed)
