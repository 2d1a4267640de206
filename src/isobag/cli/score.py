"""``isobag score``: new rows, or new groups, against a model."""

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def score(
    model: o.Model,
    files: o.Files = None,
    by: o.By = None,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    format: o.Format = None,
    id_column: o.IdColumn = None,
    baseline_by: o.BaselineBy = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    min_size: o.MinSize = 1,
    fdr: o.Fdr = None,
    exact: o.Exact = False,
    jobs: o.Jobs = None,
    top: o.Top = 10,
    out: o.Out = None,
    keep: o.Keep = None,
    report: o.Report = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Rank new rows, or new groups with --by, against those a model was fitted to.

    P-values are valid here: the model has not seen these rows. Those of what is odder than all it compares with are
    extrapolated, and said to be; --exact leaves them at their floor.
    """
    from isobag.cli.inputs import Input, open_model  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.results import Output  # noqa: PLC0415
    from isobag.cli.run import detect  # noqa: PLC0415

    detector = open_model(model, by)
    if exact:
        detector.set_params(tail="exact")
    reading = o.reading(by=by, id=id_column, baseline_by=baseline_by, missing=missing, bad_cells=bad_cells, keep=keep)
    detect(
        detector,
        Input(files=files, sql=sql, header=header, delimiter=delimiter, na=na, format=format, options=reading),
        Output(top=top, out=out, report=report, json=json, quiet=quiet),
        fdr=fdr,
        min_size=min_size,
        jobs=jobs,
        fitted_in=model,
    )
