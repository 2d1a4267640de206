"""``isobag points``: the odd rows of a table."""

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def points(
    files: o.Files = None,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.OnNumbers = o.Numbers.STRICT,
    format: o.Format = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    id_column: o.IdColumn = None,
    baseline_by: o.BaselineBy = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    max_samples: o.MaxSamples = "auto",
    n_estimators: o.NEstimators = 100,
    contamination: o.Contamination = "auto",
    p_values: o.PValues = True,
    fdr: o.Fdr = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    engine: o.Engine = None,
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

    Rows are ranked by how similar they are to all others, or with --baseline-by to others of their own group. The file
    may be larger than memory.
    """
    from isobag.cli.inputs import Input, new_detector  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.results import Output  # noqa: PLC0415
    from isobag.cli.run import detect  # noqa: PLC0415

    detector = new_detector(
        None,
        n_estimators=n_estimators,
        max_samples=max_samples,
        contamination=contamination,
        calibrate=model is not None,
        random_state=seed,
    )
    reading = o.reading(
        features=features,
        exclude=exclude,
        id=id_column,
        baseline_by=baseline_by,
        missing=missing,
        bad_cells=bad_cells,
        decimal=decimal,
        thousands=thousands,
        numbers=numbers,
        keep=keep,
    )
    detect(
        detector,
        Input(files=files, sql=sql, header=header, delimiter=delimiter, na=na, format=format, options=reading),
        Output(top=top, out=out, report=report, model=model, json=json, quiet=quiet),
        p_values=p_values,
        fdr=fdr,
        jobs=jobs,
        engine=o.engine_address(engine, dask),
    )
