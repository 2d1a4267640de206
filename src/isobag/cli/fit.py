"""``isobag fit``: learn what is normal, and keep it in a file."""

from pathlib import Path
from typing import Annotated, Any

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
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Learn what rows are like, or groups of rows with --by, for `isobag score`."""
    from isobag.cli.detect import Wishes, learn  # noqa: PLC0415, loads scikit-learn
    from isobag.estimators import IDKGroupDetector, IDKPointDetector  # noqa: PLC0415

    detector: Any = IDKPointDetector() if by is None else IDKGroupDetector()
    if by is not None:
        detector.set_params(group_max_samples=o.number_or_auto(group_max_samples, "--group-max-samples", int))
    detector.set_params(
        n_estimators=n_estimators,
        max_samples=o.number_or_auto(max_samples, "--max-samples", int),
        contamination=o.number_or_auto(contamination, "--contamination", float),
        random_state=seed,
    )
    reading = Wishes(files, sql, header, decimal, format, features, None, by, missing, bad_cells, None)
    learn(detector, reading, min_size, jobs, model, json, quiet)
