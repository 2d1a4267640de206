"""``isobag groups``: the odd groups of the rows of a table."""

from typing import Annotated, Any

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def groups(
    by: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the label of each row's group.")],
    file: o.File = None,
    sql: o.Sql = None,
    features: o.Features = None,
    missing: o.OnMissing = o.Missing.ERROR,
    max_samples: o.MaxSamples = "auto",
    group_max_samples: o.GroupMaxSamples = "auto",
    n_estimators: o.NEstimators = 100,
    contamination: o.Contamination = "auto",
    p_values: o.PValues = True,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    top: o.Top = 10,
    out: o.Out = None,
    report: o.Report = None,
    model: o.SaveModel = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find the odd groups of the rows of a table: accounts, days, machines.

    A group can be odd although each of its rows is ordinary. The table is read into memory.
    """
    from isobag.cli.inputs import labels_of_groups, read_source  # noqa: PLC0415, loads DuckDB and scikit-learn
    from isobag.cli.output import progress  # noqa: PLC0415
    from isobag.cli.results import check_targets, show_groups, write_groups  # noqa: PLC0415
    from isobag.estimators import IDKGroupDetector  # noqa: PLC0415
    from isobag.storage.modelfile import save  # noqa: PLC0415
    from isobag.tables.groups import find_groups  # noqa: PLC0415

    check_targets(out, report, model, [file])
    detector: Any = IDKGroupDetector(
        n_estimators,
        o.number_or_auto(max_samples, "--max-samples", int),
        o.number_or_auto(group_max_samples, "--group-max-samples", int),
        contamination=o.number_or_auto(contamination, "--contamination", float),
        calibrate=model is not None,
        random_state=seed,
    )
    with progress(quiet or json) as tick:
        source = read_source(
            file,
            sql,
            features=o.names_of(features),
            missing=missing.value,
            label_column=by,
            in_memory=True,
            tick=tick,
        )
        detector.set_params(n_jobs=o.threads(jobs, source.table.n_rows))
        found = find_groups(source.table, labels_of_groups(source), detector, p_values)
        if model is not None:
            save(detector, model)
        write_groups(found, source, by, out, report)
    show_groups(found, source, by, top, (model, out, report), json, quiet)
