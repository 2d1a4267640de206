"""``isobag compare``: whether two tables differ, and where."""

from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded

_Table = Annotated[
    str | None, typer.Argument(metavar="FILE", help="A table, as for `isobag points`; a glob in quotes.")
]
_Query = Annotated[
    str | None,
    typer.Option(metavar="QUERY", help="A query in its place, which calls the file data.", rich_help_panel=o.IN),
]


@guarded
def compare(
    a: _Table = None,
    b: _Table = None,
    sql_a: _Query = None,
    sql_b: _Query = None,
    sql: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="One query for both files, which it calls data.", rich_help_panel=o.IN),
    ] = None,
    header: o.Header = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.OnNumbers = o.Numbers.STRICT,
    features: o.Features = None,
    exclude: o.Exclude = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    n_permutations: Annotated[
        int, typer.Option(metavar="N", help="The p-value is a multiple of 1 / (1 + this).", rich_help_panel=o.HOW)
    ] = 499,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Test whether the rows of two tables come from one distribution. Both are read into memory."""
    import numpy as np  # noqa: PLC0415

    from isobag.cli.engines import threads_for  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.inputs import Input  # noqa: PLC0415
    from isobag.cli.output import note, print_json, print_line, print_table  # noqa: PLC0415
    from isobag.cli.progress import progress  # noqa: PLC0415
    from isobag.cli.work import work_to_compare  # noqa: PLC0415
    from isobag.estimators.compare import compare as compare_samples  # noqa: PLC0415

    with progress(quiet or json) as bar:
        reading = o.reading(
            features=features,
            exclude=exclude,
            missing=missing,
            bad_cells=bad_cells,
            decimal=decimal,
            thousands=thousands,
            numbers=numbers,
        )
        one = Input(files=None if a is None else [a], sql=sql_a or sql, header=header, options=reading)
        two = Input(files=None if b is None else [b], sql=sql_b or sql, header=header, options=reading)
        table = one.read(bar.tick)
        other = two.read(bar.tick, encoding=table.encoding)
        first, second = (own.rows.take(np.arange(len(own.rows))) for own in (table, other))
        n_jobs = threads_for(jobs, len(first) + len(second))
        with bar.stage("comparing", work_to_compare(len(first) + len(second), n_permutations)):
            comparison = compare_samples(first, second, n_permutations=n_permutations, random_state=seed, n_jobs=n_jobs)
    names = table.encoding.names
    order = np.argsort(-np.abs(comparison.features), kind="stable") if json else comparison.differing
    apart = {
        "feature": [names[j] for j in order],
        "separation": comparison.features[order].tolist(),
        "p_value": comparison.feature_p_values[order].tolist(),
    }
    if json:
        listed = [dict(zip(apart, values, strict=True)) for values in zip(*apart.values(), strict=True)]
        rows = {"n_a": len(first), "n_b": len(second)}
        tables = {"table_a": table.summary.as_dict(), "table_b": other.summary.as_dict()}
        print_json(
            {"statistic": comparison.statistic, "p_value": comparison.p_value, **rows, "features": listed, **tables}
        )
        return
    print_line(f"statistic {comparison.statistic:.4g}, p-value {comparison.p_value:.4g}")
    if len(order):
        print_table(apart)
    n_same = len(names) - len(order)
    said = f"{len(first):,} rows and {len(second):,} rows. "
    if not len(order):
        said += "No single feature differs beyond chance."
    else:
        said += "Below 0, the first table has the lower values."
        said += f" Not beyond chance in {n_same:,} other feature{'s' * (n_same > 1)}." if n_same else ""
    note(said, quiet)
    for sentence in dict.fromkeys([*table.summary.sentences(), *other.summary.sentences()]):
        note(sentence, quiet)
