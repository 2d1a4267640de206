"""What a model can flag in a batch, before there is one."""

from isobag.cli.options import Typed
from isobag.cli.output import note, print_json, print_line
from isobag.data.params import FDR, check_params
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.models.reach import dependence_sentence, needed_for_one, reach_of, reach_sentence
from isobag.storage.modelfile import load


def say_power(typed: Typed) -> None:
    """Print how many anomalies a batch must have so that they can be flagged."""
    model, batch, fdr = typed.model, typed.batch, typed.fdr
    check_params({"fdr": fdr}, {"fdr": FDR})
    detector = load(model)
    if not isinstance(detector, IDKPointDetector | IDKGroupDetector) or detector.model_.calibration is None:
        raise ValueError(f"{str(model)!r} has no p-values; need a detector of points or groups that has.")
    unit = "group" if isinstance(detector, IDKGroupDetector) else "row"
    calibration, tail = detector.model_.calibration, "exact" if typed.exact else detector.tail
    reach = reach_of(calibration, batch, fdr)
    extrapolates = tail != "exact" and reach.score_of_one is not None
    if typed.json:
        facts = {"unit": unit, **reach._asdict(), "needed_for_one": needed_for_one(batch, fdr), "tail": tail}
        print_json(facts)
        return
    smaller = "and smaller ones by extrapolation" if extrapolates else "and no smaller ones"
    print_line(f"{reach.n_aside:,} {unit}s to compare with: p-values of {reach.floor:.3g} or more, {smaller}.")
    print_line(
        reach_sentence(reach, tail, unit) or f"A lone anomaly among {batch:,} {unit}s can be flagged at {fdr:g}."
    )
    if extrapolates:
        print_line(
            f"A lone anomaly has to score below {reach.score_of_one:.3g}; the lowest of all these is "
            f"{reach.lowest_score:.3g}."
        )
    dependence = dependence_sentence(calibration, unit)
    if dependence:
        note(dependence, typed.quiet)
