"""``isobag points``: the odd rows of a table."""

from isobag.cli.options import Typed, command


@command(
    "files sql header delimiter na decimal thousands numbers format features exclude id_column missing bad_cells "
    "max_samples n_estimators contamination p_values fdr seed jobs engine dask top out keep report model "
    "json quiet debug"
)
def points(typed: Typed) -> None:
    """Find the odd rows of a table.

    Rows are ranked by how similar they are to all others. The file may be larger than memory.
    """
    from isobag.cli.run import detect  # noqa: PLC0415, loads scikit-learn

    detect(typed)
