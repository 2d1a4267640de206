"""``isobag fit``: learn what is normal, and keep it in a file."""

from pathlib import Path
from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def fit(
    model: Annotated[Path, typer.Option(metavar="FILE", help="File to write the fitted model to.")],
    files: o.Files = None,
    by: o.By = None,
    sql: o.Sql = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    na: o.Na = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    numbers: o.OnNumbers = o.Numbers.STRICT,
    format: o.Format = None,
    baseline_by: o.BaselineBy = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    missing: o.OnMissing = o.Missing.ERROR,
    bad_cells: o.OnBadCells = o.BadCells.ERROR,
    min_size: o.MinSize = 1,
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
    from isobag.cli.inputs import Input, new_detector  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.results import Output  # noqa: PLC0415
    from isobag.cli.run import learn  # noqa: PLC0415

    detector = new_detector(
        by,
        n_estimators=n_estimators,
        max_samples=max_samples,
        group_max_samples=group_max_samples,
        contamination=contamination,
        random_state=seed,
    )
    reading = o.reading(
        features=features,
        exclude=exclude,
        by=by,
        baseline_by=baseline_by,
        missing=missing,
        bad_cells=bad_cells,
        decimal=decimal,
        thousands=thousands,
        numbers=numbers,
    )
    given = Input(files=files, sql=sql, header=header, delimiter=delimiter, na=na, format=format, options=reading)
    learn(detector, given, Output(model=model, json=json, quiet=quiet), min_size=min_size, jobs=jobs)
