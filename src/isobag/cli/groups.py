"""``isobag groups``: the odd groups of the rows of a table."""

from typing import Annotated, Any

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def groups(
    by: Annotated[str, typer.Option(metavar="A,B,...", help="Column with the label of each row's group, or several.")],
    files: o.Files = None,
    sql: o.Sql = None,
    header: o.Header = None,
    decimal: o.Decimal = None,
    format: o.Format = None,
    features: o.Features = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    min_size: o.MinSize = 1,
    max_samples: o.MaxSamples = "auto",
    group_max_samples: o.GroupMaxSamples = "auto",
    n_estimators: o.NEstimators = 100,
    contamination: o.Contamination = "auto",
    p_values: o.PValues = True,
    fdr: o.Fdr = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    dask: o.Dask = None,
    top: o.Top = 10,
    out: o.Out = None,
    report: o.Report = None,
    model: o.SaveModel = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find the odd groups of the rows of a table: accounts, days, machines.

    A group can be odd although each of its rows is ordinary. The file may be larger than memory.
    """
    from isobag.cli.detect import Wishes, detect  # noqa: PLC0415, loads scikit-learn
    from isobag.estimators import IDKGroupDetector  # noqa: PLC0415

    detector: Any = IDKGroupDetector(
        n_estimators,
        o.number_or_auto(max_samples, "--max-samples", int),
        o.number_or_auto(group_max_samples, "--group-max-samples", int),
        contamination=o.number_or_auto(contamination, "--contamination", float),
        calibrate=model is not None,
        random_state=seed,
    )
    reading = Wishes(files, sql, header, decimal, format, features, None, by, missing, bad_cells, None)
    if dask is not None:
        from isobag.cli.cluster import detect_on_dask  # noqa: PLC0415, seldom needed

        detect_on_dask(dask, detector, reading, p_values, fdr, min_size, jobs, top, out, report, model, json, quiet)
        return
    detect(detector, reading, p_values, fdr, min_size, jobs, top, out, report, model, json, quiet)
