"""``isobag points``: the odd rows of a table."""

from typing import Any

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def points(
    files: o.Files = None,
    sql: o.Sql = None,
    header: o.Header = None,
    decimal: o.Decimal = None,
    format: o.Format = None,
    features: o.Features = None,
    id_column: o.IdColumn = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    max_samples: o.MaxSamples = "auto",
    n_estimators: o.NEstimators = 100,
    contamination: o.Contamination = "auto",
    p_values: o.PValues = True,
    fdr: o.Fdr = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    dask: o.Dask = None,
    top: o.Top = 10,
    out: o.Out = None,
    keep: o.Keep = None,
    report: o.Report = None,
    model: o.SaveModel = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find the odd rows of a table.

    Rows are ranked by how similar they are to all others. The file may be larger than memory.
    """
    from isobag.cli.detect import Wishes, detect  # noqa: PLC0415, loads scikit-learn
    from isobag.estimators import IDKPointDetector  # noqa: PLC0415

    detector: Any = IDKPointDetector(
        n_estimators,
        o.number_or_auto(max_samples, "--max-samples", int),
        contamination=o.number_or_auto(contamination, "--contamination", float),
        calibrate=model is not None,
        random_state=seed,
    )
    reading = Wishes(files, sql, header, decimal, format, features, id_column, None, missing, bad_cells, keep)
    if dask is not None:
        from isobag.cli.cluster import detect_on_dask  # noqa: PLC0415, seldom needed

        detect_on_dask(dask, detector, reading, p_values, fdr, 1, jobs, top, out, report, model, json, quiet)
        return
    detect(detector, reading, p_values, fdr, 1, jobs, top, out, report, model, json, quiet)
