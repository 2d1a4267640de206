"""``isobag fit``: learn what is normal, and keep it in a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def fit(
    model: Annotated[Path, typer.Option(help="File to write the fitted model to.")],
    file: o.File = None,
    by: o.By = None,
    sql: o.Sql = None,
    features: o.Features = None,
    missing: o.OnMissing = o.Missing.ERROR,
    max_samples: o.MaxSamples = "auto",
    group_max_samples: o.GroupMaxSamples = "auto",
    n_estimators: o.NEstimators = 100,
    contamination: o.Contamination = "auto",
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Learn what rows are like, or groups of rows with --by, for `isobag score`."""
    from isobag.cli.inputs import labels_of_groups, read_source  # noqa: PLC0415, loads DuckDB and scikit-learn
    from isobag.cli.output import note, print_json, progress  # noqa: PLC0415
    from isobag.cli.results import check_targets  # noqa: PLC0415
    from isobag.estimators import IDKGroupDetector, IDKPointDetector  # noqa: PLC0415
    from isobag.estimators.checked import fit_to_groups, fit_to_rows  # noqa: PLC0415
    from isobag.storage.modelfile import save  # noqa: PLC0415
    from isobag.tables.groups import bags_of  # noqa: PLC0415

    check_targets(None, None, model, [file])
    detector: Any = IDKPointDetector() if by is None else IDKGroupDetector()
    if by is not None:
        detector.set_params(group_max_samples=o.number_or_auto(group_max_samples, "--group-max-samples", int))
    detector.set_params(
        n_estimators=n_estimators,
        max_samples=o.number_or_auto(max_samples, "--max-samples", int),
        contamination=o.number_or_auto(contamination, "--contamination", float),
        random_state=seed,
    )
    with progress(quiet or json) as tick:
        source = read_source(
            file,
            sql,
            features=o.names_of(features),
            missing=missing.value,
            label_column=by,
            in_memory=by is not None,
            tick=tick,
        )
        detector.set_params(n_jobs=o.threads(jobs, source.table.n_rows))
        names = source.table.encoding.names
        if by is None:
            fit_to_rows(detector, source.table.rows, names)
        else:
            fit_to_groups(detector, bags_of(source.table, labels_of_groups(source)).bags, names)
        save(detector, model)
    n_rows, threshold = len(source.table.rows), float(detector.offset_)
    if json:
        print_json({"model": str(model), "n_rows": n_rows, "features": names, "threshold": threshold})
    note(f"{n_rows:,} rows learned from ({', '.join(names)}). Written: {model}.", quiet or json)
