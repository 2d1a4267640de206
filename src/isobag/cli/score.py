"""``isobag score``: new rows, or new groups, against a model."""

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def score(
    model: o.Model,
    file: o.File = None,
    by: o.By = None,
    sql: o.Sql = None,
    id_column: o.IdColumn = None,
    missing: o.OnMissing = o.Missing.ERROR,
    top: o.Top = 10,
    out: o.Out = None,
    report: o.Report = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Rank new rows, or new groups with --by, against those a model was fitted to.

    P-values are valid here: the model has not seen these rows.
    """
    from isobag.cli.inputs import labels_of_groups, open_model, read_source  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.output import progress  # noqa: PLC0415
    from isobag.cli.results import check_targets, finish_groups, finish_points  # noqa: PLC0415
    from isobag.tables.groups import find_groups  # noqa: PLC0415
    from isobag.tables.points import score_points  # noqa: PLC0415

    check_targets(out, report, None)
    detector = open_model(model, by)
    has_p_values = detector.calibration_ is not None
    with progress(quiet or json) as tick:
        source = read_source(
            file,
            sql,
            missing=missing.value,
            label_column=by or id_column,
            model=detector,
            in_memory=by is not None,
            tick=tick,
        )
        if by is None:
            rows = score_points(source.table, detector, has_p_values)
            finish_points(rows, source, id_column, top, out, report, json, quiet)
        else:
            groups = find_groups(source.table, labels_of_groups(source), detector, has_p_values, is_fitted=True)
            finish_groups(groups, source, by, top, out, report, json, quiet)
