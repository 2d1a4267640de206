"""What there is to say about a ranking, in sentences: for the command and the report."""

from math import ceil
from typing import Any

import numpy as np

from isobag.models.calibration import Calibration
from isobag.models.thresholds import OWN_LEVEL
from isobag.tables.judgement import LEAST_FOR_RATE
from isobag.tables.ranking import Ranking

MOST_NAMES = 20


def sentences_of(ranking: Ranking) -> list[str]:
    """All of it."""
    names = [column.name for column in ranking.encoding.columns]
    more = len(names) - MOST_NAMES
    columns = ", ".join(names) if more <= 1 else f"{', '.join(names[:MOST_NAMES])} and {more:,} more columns"
    first = f"{len(ranking):,} {ranking.unit}s, {ranking.n_flagged:,} flagged ({ranking.rule}); looked at {columns}."
    return [first, sentence_of_alarms(ranking), *remarks_of(ranking)]


def sentence_of_alarms(ranking: Ranking) -> str:
    """How many of those flagged would be false alarms, or why that is not known."""
    if not ranking.judged.is_new:
        return _sentence_of_own(ranking)
    if "p_value" not in ranking.evidence:
        return "How many alarms are false is not known: there are no p-values."
    if ranking.fdr is not None:
        return _sentence_of_discoveries(ranking, ranking.fdr)
    n_flagged, n_expected = ranking.n_flagged, ranking.n_expected
    if n_expected is None:
        n_aside = len(ranking.judged.model.calibration.scores)
        return (
            f"How many alarms are false is not known: the model compares with {n_aside:,} {ranking.unit}s of its "
            f"training data, which is fewer than {LEAST_FOR_RATE}."
        )
    sentence = f"About {n_expected:.3g} of them would be flagged if all were like the training data"
    is_more = n_flagged > n_expected + 2 * np.sqrt(n_expected)
    return f"{sentence}." if is_more or not n_flagged else f"{sentence}: all {n_flagged:,} alarms may be false."


def _sentence_of_own(ranking: Ranking) -> str:
    """About rows or groups that the model has learned from."""
    n, unit = ranking.judged.n_beyond, ranking.unit
    if ranking.detector.contamination != "auto":
        said = "The oddest are flagged, as many as were asked for, whether or not anything is wrong with them"
    elif n is None:
        said = f"Too few {unit}s score differently to know what is beyond the tail of the bulk; the oddest are listed"
    elif not n:
        said = "Nothing here is beyond what the tail of the bulk explains; the oddest are listed"
    else:
        said = (
            f"{n:,} {unit}{' is' if n == 1 else 's are'} beyond what the tail of the bulk explains, which happens in "
            f"about one of {1 / OWN_LEVEL:.0f} tables without anomalies"
        )
    return f"{said}. To know how many alarms are false, fit a model to data known to be normal and use isobag score."


def _sentence_of_discoveries(ranking: Ranking, fdr: float) -> str:
    """What was flagged at a false discovery rate, how far to trust it, and what could not have been flagged."""
    n_extrapolated = int(np.count_nonzero(ranking.evidence["extrapolated"][ranking.flagged]))
    n, unit = ranking.n_flagged, ranking.unit
    if not n:
        said = f"No {unit} stands out at a false discovery rate of {fdr:g}."
    else:
        false = f"about {fdr * n:.0f}" if fdr * n >= 1 else f"{fdr * n:.1f}"
        flagged = f"{n:,} {unit}{'' if n == 1 else 's'} flagged"
        said = f"{flagged}; expect {false} or fewer of them to be false alarms in a batch like this."
    if n_extrapolated:
        said += f" {n_extrapolated:,} p-value{' is' if n_extrapolated == 1 else 's are'} extrapolated."
    calibration = ranking.judged.model.calibration
    n_aside = min(calibration.sizes)
    least = least_flagged(n_aside, ranking.n_ranked, fdr)
    if n < least and ranking.n_ranked:
        is_exact = ranking.detector.exact or None in calibration.tails
        beyond = "" if is_exact else ", unless they lie far beyond all of these"
        said += (
            f" With {n_aside:,} calibration {unit}s, a batch of {ranking.n_ranked:,} needs at least {least:,} "
            f"anomalies to flag any at FDR {fdr:g}{beyond}."
        )
    return said


def least_flagged(n_aside: int, batch: int, fdr: float) -> int:
    """The smallest number of anomalies that ranks can flag: the least k with 1 / (1 + n) <= fdr k / batch.

    >>> least_flagged(9_999, 10_000, 0.1)
    10
    """
    least = max(1, ceil(batch / ((n_aside + 1) * fdr)))
    while least > 1 and batch / (n_aside + 1) / (least - 1) <= fdr:  # rounding may have gone up
        least -= 1
    return least


def sentence_of_dependence(calibration: Calibration) -> str:
    """Whether neighbours in the training data score alike, so that p-values are too small; "" if not."""
    correlation = calibration.autocorrelation
    if correlation <= max(0.1, 4 / max(sum(calibration.sizes), 1) ** 0.5):
        return ""
    return f"Scores are autocorrelated ({correlation:.2f}): the rows look time-ordered, and p-values will be too small."


def sentences_of_calibration(detector: Any) -> list[str]:
    """What is wrong with p-values of a fitted detector."""
    calibration = detector.model_.calibration
    dependence = "" if calibration is None else sentence_of_dependence(calibration)
    return [dependence] if dependence else []


def remarks_of(ranking: Ranking) -> list[str]:
    """What is not plain about the order, and about the table."""
    remarks = []
    n_out = len(ranking) - ranking.n_ranked
    if n_out and ranking.unit == "group":
        remarks.append(f"{n_out:,} groups are not ranked: too few rows.")
    if ranking.n_tied > 1:
        remarks.append(f"The {ranking.n_tied:,} oddest score alike; among them the order means nothing.")
    if "p_value" in ranking.evidence:
        remarks += sentences_of_calibration(ranking.detector)
    return [*remarks, *ranking.summary.sentences()]
