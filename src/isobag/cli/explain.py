"""``isobag explain``: why a row or a group is odd."""

from isobag.cli.options import MODEL, WRITTEN, Typed, command, option

_ID = "Number of the row, from 0; its name with --id-column; a group's label."


@command(
    f"model id files by sql {WRITTEN} format id_column missing bad_cells json quiet debug",
    model=MODEL,
    id=option(str, ..., None, "NAME", _ID),
)
def explain(typed: Typed) -> None:
    """Say why a row, or a group with --by, is odd or not: feature by feature."""
    from isobag.cli.explaining import explain_one  # noqa: PLC0415, loads scikit-learn

    explain_one(typed)
