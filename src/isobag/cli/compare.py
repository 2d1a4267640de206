"""``isobag compare``: whether two tables differ, and where."""

from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded

_Table = Annotated[str, typer.Argument(help="A table, as for `isobag points`.")]


@guarded
def compare(
    a: _Table,
    b: _Table,
    features: o.Features = None,
    missing: o.OnMissing = o.Missing.ERROR,
    n_permutations: Annotated[int, typer.Option(help="The p-value is a multiple of 1 / (1 + this).")] = 499,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Test whether the rows of two tables come from one distribution. Both are read into memory."""
    import numpy as np  # noqa: PLC0415

    from isobag.cli.inputs import read_pair  # noqa: PLC0415, loads DuckDB and scikit-learn
    from isobag.cli.output import note, print_json, print_table, progress  # noqa: PLC0415
    from isobag.estimators.compare import compare as compare_samples  # noqa: PLC0415

    with progress(quiet or json) as tick:
        first, second, names = read_pair(a, b, o.names_of(features), missing.value, tick)
        n_jobs = o.threads(jobs, len(first) + len(second))
        found = compare_samples(first, second, n_permutations=n_permutations, random_state=seed, n_jobs=n_jobs)
    order = np.argsort(-np.abs(found.features), kind="stable")
    apart = {"feature": [names[j] for j in order], "sets_apart": found.features[order].tolist()}
    if json:
        listed = [{"feature": name, "sets_apart": value} for name, value in zip(*apart.values(), strict=True)]
        rows = {"n_a": len(first), "n_b": len(second)}
        print_json({"statistic": found.statistic, "p_value": found.p_value, **rows, "features": listed})
        return
    typer.echo(f"statistic {found.statistic:.4g}, p-value {found.p_value:.4g}")
    print_table(apart)
    note(f"{len(first):,} rows and {len(second):,} rows. Below 0, the first table has the lower values.", quiet)
