"""``isobag power``: what a model can flag in a batch, before there is one."""

from typing import Annotated

import typer

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def power(
    model: o.Model,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Rows or groups that are scored together.")] = 1000,
    fdr: Annotated[float, typer.Option("--fdr", min=1e-9, max=0.999, help="False discovery rate.")] = 0.1,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Say how many anomalies a batch must have, or how odd a lone one must be, to be flagged."""
    from isobag.cli.output import print_json, print_line  # noqa: PLC0415, loads scikit-learn
    from isobag.estimators import IDKGroupDetector  # noqa: PLC0415
    from isobag.models.reach import dependence_sentence, reach_of, reach_sentence  # noqa: PLC0415
    from isobag.storage.modelfile import load  # noqa: PLC0415

    detector = load(model)
    calibration, unit = detector.calibrated.calibration, "group" if isinstance(detector, IDKGroupDetector) else "row"
    reach = reach_of(calibration, batch, fdr)
    if json:
        print_json(reach._asdict())
        return
    said = reach_sentence(reach, detector.tail, unit)
    print_line(said or f"A lone anomaly among {batch:,} {unit}s can be flagged at {fdr:g}.")
    if reach.score_of_one is not None and detector.tail != "exact":
        print_line(
            f"A lone one is flagged if it scores below {reach.score_of_one:.3g}; the lowest score of the "
            f"{reach.n_aside:,} {unit}s set aside is {reach.lowest_score:.3g}."
        )
    if dependence_sentence(calibration, unit):
        print_line(dependence_sentence(calibration, unit))
