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
    jobs: o.Jobs = None,
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
    from isobag.cli.inputs import labels_of_groups, open_model, read_source, set_threads  # noqa: PLC0415, slow to load
    from isobag.cli.output import progress  # noqa: PLC0415
    from isobag.cli.results import (  # noqa: PLC0415
        check_targets,
        show_groups,
        show_points,
        write_groups,
        write_points,
    )
    from isobag.tables.groups import find_groups  # noqa: PLC0415
    from isobag.tables.points import score_points  # noqa: PLC0415

    check_targets(out, report, None, [str(model), file])
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
        set_threads(detector, o.threads(jobs, source.table.n_rows))
        if by is None:
            rows = score_points(source.table, detector, has_p_values)
            write_points(rows, source, id_column, out, report, tick)
        else:
            groups = find_groups(source.table, labels_of_groups(source), detector, has_p_values, is_fitted=True)
            write_groups(groups, source, by, out, report)
    if by is None:
        show_points(rows, source, id_column, top, (out, report), json, quiet)
    else:
        show_groups(groups, source, by, top, (out, report), json, quiet)
