"""Sentences about a ranking, for the command and the report."""

from math import ceil
from typing import Any

import numpy as np

from isobag.models.calibration import Calibration
from isobag.models.thresholds import OWN_LEVEL
from isobag.tables.ranking import Ranking
from isobag.tables.terminal import escape_for_terminal

MOST_NAMES = 20


def sentences_of(ranking: Ranking) -> list[str]:
    """All of it: what is flagged and what that means, the columns used, what was left out."""
    names = [column.name for column in ranking.encoding.columns]
    more = len(names) - MOST_NAMES
    columns = ", ".join(names) if more <= 1 else f"{', '.join(names[:MOST_NAMES])} and {more:,} more columns"
    return [sentence_of_flags(ranking), f"Columns used: {escape_for_terminal(columns)}.", *remarks_of(ranking)]


def sentence_of_flags(ranking: Ranking) -> str:
    """How many are flagged, and how many would be if nothing were wrong."""
    n, unit = ranking.n_flagged, ranking.unit
    flagged = f"{n:,} of {ranking.n_ranked:,} {unit}s flagged."
    if ranking.detector.contamination != "auto" and not ranking.judged.is_new:
        return f"{flagged} That is the share asked for, odd or not."
    if not ranking.judged.is_new:
        if ranking.judged.n_beyond is None:
            return f"{flagged} Too few {unit}s score differently to set a threshold."
        return f"{flagged} Of {1 / OWN_LEVEL:.0f} tables without anomalies, about one would have any."
    if "p_value" not in ranking.evidence:
        return f"{flagged} How many of them are false is not known: the model has no p-values."
    if ranking.budget is not None:
        return f"{flagged} If all were like the training data, about {ranking.budget:.3g} would be."
    return f"{flagged} {_about_discoveries(ranking, OWN_LEVEL if ranking.fdr is None else ranking.fdr)}"


def _about_discoveries(ranking: Ranking, fdr: float) -> str:
    """What a false discovery rate promises, and what could not have been flagged."""
    n_extrapolated = int(np.count_nonzero(ranking.evidence["extrapolated"][ranking.flagged]))
    n, unit = ranking.n_flagged, ranking.unit
    sentence = f"On average over tables like this, at most {100 * fdr:g} % of the flags are false."
    if n_extrapolated:
        sentence += f" {n_extrapolated:,} p-value{' is' if n_extrapolated == 1 else 's are'} extrapolated."
    calibration = ranking.judged.model.calibration
    n_aside = min(calibration.sizes)
    least = least_flagged(n_aside, ranking.n_ranked, fdr)
    if not n and least > 1 and ranking.n_ranked:
        is_exact = ranking.detector.exact or None in calibration.tails
        needs = f"a batch of {ranking.n_ranked:,} needs at least {least:,} anomalies to flag any"
        what = needs if least <= ranking.n_ranked else "nothing can be flagged"
        unless = "" if is_exact else ", unless they lie far beyond all of these"
        sentence += f" With {n_aside:,} calibration {unit}s, {what} at FDR {fdr:g}{unless}."
    return sentence


def least_flagged(n_aside: int, batch: int, fdr: float) -> int:
    """The smallest number of anomalies that ranks can flag: the least k with 1 / (1 + n) <= fdr k / batch.

    >>> least_flagged(9_999, 10_000, 0.1)
    10
    """
    least = max(1, ceil(batch / ((n_aside + 1) * fdr)))
    while least > 1 and batch / (n_aside + 1) / (least - 1) <= fdr:  # rounding may have gone up
        least -= 1
    return least


def sentences_of_calibration(detector: Any) -> list[str]:
    """Whether neighbours in the training data score alike, so that p-values are too small."""
    calibration: Calibration | None = detector.model_.calibration
    correlation = 0.0 if calibration is None else calibration.autocorrelation
    if calibration is None or correlation <= max(0.1, 4 / max(sum(calibration.sizes), 1) ** 0.5):
        return []
    return [
        f"Scores are autocorrelated ({correlation:.2f}): the rows look time-ordered, and p-values will be too small."
    ]


def remarks_of(ranking: Ranking) -> list[str]:
    """What is not plain about the order, and about the table."""
    remarks = []
    n_out = len(ranking) - ranking.n_ranked
    if n_out and ranking.unit == "group":
        remarks.append(f"{n_out:,} groups have too few rows and are not ranked.")
    if ranking.n_tied > 1:
        remarks.append(f"The {ranking.n_tied:,} oddest have equal scores, so their order is arbitrary.")
    if "p_value" in ranking.evidence:
        remarks += sentences_of_calibration(ranking.detector)
    return [*remarks, *ranking.summary.sentences()]
