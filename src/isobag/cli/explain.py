"""``isobag explain``: why a row or a group is odd."""

from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def explain(
    model: o.Model,
    id: Annotated[
        str,
        typer.Option(
            "--id", metavar="NAME", help="Number of the row, from 0; its name with --id-column; a group's label."
        ),
    ],
    files: o.Files = None,
    by: o.By = None,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    format: o.Format = None,
    id_column: o.IdColumn = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Say why a row, or a group with --by, is odd or not: feature by feature."""
    from isobag.cli.inputs import Input, open_model  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.output import in_cell, print_json, print_line, print_table  # noqa: PLC0415
    from isobag.cli.progress import progress  # noqa: PLC0415
    from isobag.cli.reasons import facts_of_group, facts_of_row  # noqa: PLC0415

    detector = open_model(model, by)
    reading = o.reading(by=by, id=id_column, missing=missing, bad_cells=bad_cells)
    given = Input(
        files=files, sql=sql, header=header, delimiter=delimiter, na=na, format=format, options=reading
    ).following(detector)
    with progress(quiet or json) as bar:
        facts, table = (facts_of_row if by is None else facts_of_group)(detector, given, id, bar.tick)
    if json:
        listed = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        print_json({"id": id, **facts, "features": listed})
        return
    print_table(table)
    reasons = facts.pop("reasons")
    print_line(", ".join(f"{name} {in_cell(value)}" for name, value in facts.items()))
    print_line(in_cell(reasons))
