"""``isobag explain``: why a row or a group is odd."""

from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def explain(
    model: o.Model,
    id: Annotated[
        str, typer.Option("--id", help="Number of the row, from 0; its name with --id-column; a group's label.")
    ],
    file: o.File = None,
    by: o.By = None,
    sql: o.Sql = None,
    id_column: o.IdColumn = None,
    missing: o.OnMissing = o.Missing.ERROR,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Say why a row, or a group with --by, is odd or not: feature by feature."""
    from isobag.cli.inputs import find_label, open_model, read_source  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.output import print_json, print_table, progress  # noqa: PLC0415
    from isobag.cli.reasons import facts_of_group, facts_of_row  # noqa: PLC0415
    from isobag.tables.reasons import shown  # noqa: PLC0415

    detector = open_model(model, by)
    with progress(quiet or json) as tick:
        source = read_source(
            file,
            sql,
            missing=missing.value,
            label_column=by or id_column,
            model=detector,
            in_memory=by is not None,
            tick=tick,
        )
        rows = find_label(source, id)
        facts, table = facts_of_row(detector, source, rows) if by is None else facts_of_group(detector, source, rows)
    if json:
        listed = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        print_json({"id": id, **facts, "features": listed})
        return
    print_table(table)
    typer.echo(", ".join(f"{name} {shown(value)}" for name, value in facts.items()))
