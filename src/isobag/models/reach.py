"""What p-values can find before any are computed: how many anomalies a batch must have, and how odd one must be."""

from math import ceil, exp
from typing import NamedTuple

from isobag.models.calibration import EXACT, Calibration


class Reach(NamedTuple):
    """What can be flagged in a batch at a false discovery rate.

    n_aside : rows or groups to compare with, in the smallest class of size.
    floor : the smallest p-value that ranks can tell.
    least : as many anomalies as there must be if each has that p-value; more than the batch: nothing can be flagged.
    lowest_score : the lowest score set aside.
    score_of_one : a lone anomaly is flagged if it scores below, by the tail; None where there is none.
    """

    n_aside: int
    floor: float
    batch: int
    fdr: float
    least: int
    lowest_score: float | None
    score_of_one: float | None


def least_detectable(n_aside: int, batch: int, fdr: float) -> int:
    """The smallest number of anomalies that exact p-values can flag: the least k with 1 / (1 + n) <= fdr k / batch.

    >>> least_detectable(9_999, 10_000, 0.1)
    10
    """
    least = max(1, ceil(batch / ((n_aside + 1) * fdr)))
    while least > 1 and batch / (n_aside + 1) / (least - 1) <= fdr:  # rounding may have gone up
        least -= 1
    return least


def needed_for_one(batch: int, fdr: float) -> int:
    """How many rows or groups must be set aside so that a lone anomaly can be flagged with an exact p-value."""
    return ceil(batch / fdr) - 1


def reach_of(calibration: Calibration, batch: int, fdr: float) -> Reach:
    """What p-values of this calibration can flag."""
    n_aside, tail, folds = min(zip(calibration.sizes, calibration.tails, calibration.classes, strict=True), key=_size)
    lowest = score = None
    if n_aside:
        lowest = float(min(part[0] for part in folds if len(part)))
    if tail is not None:
        score = exp(-(float(tail.thresholds.mean()) + tail.excess_at(min(fdr / batch, 1 / (1 + n_aside)))))
    return Reach(n_aside, 1 / (1 + n_aside), batch, fdr, least_detectable(n_aside, batch, fdr), lowest, score)


def _size(one: tuple[int, object, object]) -> int:
    return one[0]


def reach_sentence(reach: Reach, tail: str, unit: str = "row") -> str:
    """What cannot be flagged, and the way out; "" if a lone anomaly can be.

    >>> print(reach_sentence(Reach(9_999, 1e-4, 10_000, 0.1, 10, None, None), "exact"))
    With 9,999 rows to compare with, fewer than 10 anomalies among 10,000 rows cannot be flagged at 0.1; learn from \
99,999 rows or more, or let p-values be extrapolated.
    """
    if reach.least == 1:
        return ""
    many = f"With {_number(reach.n_aside, unit)} to compare with, "
    needed = f"learn from {_number(needed_for_one(reach.batch, reach.fdr), unit)} or more"
    extrapolates = tail != EXACT and reach.score_of_one is not None
    if extrapolates:
        return (
            f"{many}fewer than {reach.least:,} anomalies among {_number(reach.batch, unit)} are flagged at "
            f"{reach.fdr:g} only by extrapolated p-values, and only if far odder than all that was learned from."
        )
    also = ", or let p-values be extrapolated" if reach.score_of_one is not None or tail == EXACT else ""
    if reach.least > reach.batch:
        return f"{many}nothing can be flagged at {reach.fdr:g}; {needed}{also}."
    return (
        f"{many}fewer than {reach.least:,} anomalies among {_number(reach.batch, unit)} cannot be flagged at "
        f"{reach.fdr:g}; {needed}{also}."
    )


def alarms_sentence(n_flagged: int, n_extrapolated: int, fdr: float, unit: str = "row") -> str:
    """What was flagged and how far to trust it.

    >>> alarms_sentence(0, 0, 0.1)
    'No row stands out at a false discovery rate of 0.1.'
    """
    if n_flagged == 0:
        return f"No {unit} stands out at a false discovery rate of {fdr:g}."
    false = fdr * n_flagged
    expected = f"about {false:.0f}" if false >= 1 else f"{false:.1f}"
    flagged = f"{_number(n_flagged, unit)} flagged"
    sentence = f"{flagged}; expect {expected} or fewer of them to be false alarms in a batch like this."
    if n_extrapolated:
        extrapolated = "1 p-value is" if n_extrapolated == 1 else f"{n_extrapolated:,} p-values are"
        sentence += f" {extrapolated} extrapolated."
    return sentence


def dependence_sentence(calibration: Calibration, unit: str = "row") -> str:
    """Whether neighbours in the training data score alike, so that p-values are too small; "" if not."""
    n = sum(calibration.sizes)
    if calibration.autocorrelation <= max(0.1, 4 / max(n, 1) ** 0.5):
        return ""
    return (
        f"Neighbouring {unit}s score alike (rank correlation {calibration.autocorrelation:.2f}): they hang together, "
        "in time perhaps, and p-values of later ones are too small; fit with calibrate='blocks', or with groups=."
    )


def _number(n: int, unit: str) -> str:
    return f"{n:,} {unit}{'' if n == 1 else 's'}"
