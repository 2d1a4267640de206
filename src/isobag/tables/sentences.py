"""What there is to say about a ranking, in sentences: for the command and the report."""

from typing import Any

import numpy as np

from isobag.models.group import GroupModel
from isobag.models.reach import alarms_sentence, dependence_sentence, reach_of, reach_sentence
from isobag.models.thresholds import OWN_LEVEL
from isobag.tables.distributed import AnyRanking
from isobag.tables.judgement import LEAST_FOR_RATE
from isobag.tables.ranking import Ranking

MOST_NAMES = 20
USUAL_LEVEL = 0.05
"""The level at which a fitted model says whether it can flag anything."""


def sentences_of(ranking: AnyRanking) -> list[str]:
    """All of it."""
    names = [column.name for column in ranking.encoding.columns]
    more = len(names) - MOST_NAMES
    columns = ", ".join(names) if more <= 1 else f"{', '.join(names[:MOST_NAMES])} and {more:,} more columns"
    first = f"{len(ranking):,} {ranking.unit}s, {ranking.n_flagged:,} flagged ({ranking.rule}); looked at {columns}."
    return [first, sentence_of_alarms(ranking), *remarks_of(ranking)]


def sentence_of_alarms(ranking: AnyRanking) -> str:
    """How many of those flagged would be false alarms, or why that is not known."""
    if not (isinstance(ranking, Ranking) and ranking.judged.is_new):
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


def _sentence_of_own(ranking: AnyRanking) -> str:
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
    flagged = ranking.flagged
    n_extrapolated = int(np.count_nonzero(ranking.evidence["extrapolated"][flagged]))
    said = alarms_sentence(ranking.n_flagged, n_extrapolated, fdr, ranking.unit)
    if not ranking.n_ranked:
        return said
    reach = reach_of(ranking.judged.model.calibration, ranking.n_ranked, fdr)
    limit = reach_sentence(reach, ranking.detector.tail, ranking.unit) if ranking.n_flagged < reach.least else ""
    return f"{said} {limit}".rstrip()


def sentences_of_calibration(detector: Any) -> list[str]:
    """What p-values of a fitted detector cannot do: of one new row or group, and of those that hang together."""
    calibration = detector.model_.calibration
    if calibration is None:
        return []
    unit = "group" if isinstance(detector.model_, GroupModel) else "row"
    limit = reach_sentence(reach_of(calibration, 1, USUAL_LEVEL), detector.tail, unit)
    return [one for one in (limit, dependence_sentence(calibration, unit)) if one]


def remarks_of(ranking: AnyRanking) -> list[str]:
    """What is not plain about the order, and about the table."""
    remarks = []
    n_out = len(ranking) - ranking.n_ranked
    if n_out and ranking.unit == "group":
        remarks.append(f"{n_out:,} groups are not ranked: too few rows.")
    if ranking.n_tied > 1:
        remarks.append(f"The {ranking.n_tied:,} oddest score alike; among them the order means nothing.")
    if isinstance(ranking, Ranking) and "p_value" in ranking.evidence:
        dependence = dependence_sentence(ranking.judged.model.calibration, ranking.unit)
        remarks += [dependence] if dependence else []
    return [*remarks, *ranking.summary.sentences()]
