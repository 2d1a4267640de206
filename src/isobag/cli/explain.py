"""``isobag explain``: why a row or a group is odd."""

from isobag.cli.options import MODEL, WRITTEN, Typed, command, option

MOST_LISTED = 10
_ID = "Number of the row, from 0; its name with --id-column; a group's label."


@command(
    f"model id files by sql {WRITTEN} format id_column missing bad_cells json quiet debug",
    model=MODEL,
    id=option(str, ..., None, "NAME", _ID),
)
def explain(typed: Typed) -> None:
    """Say why a row, or a group with --by, is odd or not: feature by feature."""
    from isobag.cli.inputs import input_of, open_model  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.output import in_cell, note, print_json, print_line, print_table  # noqa: PLC0415
    from isobag.cli.progress import progress  # noqa: PLC0415
    from isobag.cli.reasons import facts_of_group, facts_of_row  # noqa: PLC0415

    detector = open_model(typed)
    given = input_of(typed).following(detector)
    with progress(typed.quiet or typed.json) as bar:
        facts, table = (facts_of_row if typed.by is None else facts_of_group)(detector, given, typed.id, bar.tick)
    if typed.json:
        listed = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        print_json({"id": typed.id, **facts, "features": listed})
        return
    print_table(table)
    reasons, rows = facts.pop("reasons"), facts.pop("rows", [])
    print_line(", ".join(f"{name} {in_cell(value)}" for name, value in facts.items()))
    print_line(in_cell(reasons))
    if rows:
        numbers = ", ".join(map(str, rows[:MOST_LISTED])) + (", ..." if len(rows) > MOST_LISTED else "")
        note(f"{len(rows):,} rows are called {in_cell(typed.id)}: {numbers}. This is the oddest of them.", typed.quiet)
