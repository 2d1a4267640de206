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
    format: o.Format = None,
    id_column: o.IdColumn = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    min_size: o.MinSize = 1,
    fdr: o.Fdr = None,
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

    P-values are valid here: the model has not seen these rows.
    """
    from isobag.cli.detect import Wishes, detect  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.inputs import open_model  # noqa: PLC0415

    detector = open_model(model, by)
    reading = Wishes(files, sql, header, None, format, None, id_column, by, missing, bad_cells, keep)
    detect(
        detector, reading, True, fdr, min_size, jobs, top, out, report, None, json, quiet, is_fitted=True, read=model
    )
