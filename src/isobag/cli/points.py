"""``isobag points``: the odd rows of a table."""

from typing import Any

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def points(
    file: o.File = None,
    sql: o.Sql = None,
    features: o.Features = None,
    id_column: o.IdColumn = None,
    missing: o.OnMissing = o.Missing.ERROR,
    max_samples: o.MaxSamples = "auto",
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
    """Find the odd rows of a table.

    Rows are ranked by how similar they are to all others. The file may be larger than memory.
    """
    from isobag.cli.inputs import read_source  # noqa: PLC0415, loads DuckDB and scikit-learn
    from isobag.cli.output import progress  # noqa: PLC0415
    from isobag.cli.results import check_targets, show_points, write_points  # noqa: PLC0415
    from isobag.estimators import IDKPointDetector  # noqa: PLC0415
    from isobag.storage.modelfile import save  # noqa: PLC0415
    from isobag.tables.points import find_points  # noqa: PLC0415

    check_targets(out, report, model, [file])
    detector: Any = IDKPointDetector(
        n_estimators,
        o.number_or_auto(max_samples, "--max-samples", int),
        contamination=o.number_or_auto(contamination, "--contamination", float),
        calibrate=model is not None,
        random_state=seed,
    )
    with progress(quiet or json) as tick:
        source = read_source(
            file, sql, features=o.names_of(features), missing=missing.value, label_column=id_column, tick=tick
        )
        detector.set_params(n_jobs=o.threads(jobs, source.table.n_rows))
        found = find_points(source.table, detector, p_values)
        if model is not None:
            save(detector, model)
        write_points(found, source, id_column, out, report, tick)
    show_points(found, source, id_column, top, (model, out, report), json, quiet)
