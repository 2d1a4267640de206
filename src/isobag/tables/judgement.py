"""Scores of rows or groups, and what follows from them: p-values of new data, shares of rank of a table's own."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isobag.backends.arrays import Floats
from isobag.models.calibration import EXACT, EXTRAPOLATE, discoveries
from isobag.models.group import GroupModel
from isobag.models.thresholds import OWN_LEVEL, ScoreCounts, counts_of

LEAST_FOR_RATE = 100
"""Rows or groups that must be set aside to estimate how many normal ones are flagged."""


@dataclass(frozen=True)
class Judged:
    """Scores of what takes part, and what follows from them.

    is_new : whether the model has not learned from the data.
    threshold : below which scores are flagged; 0 where none is.
    n_expected : how many would be flagged if all were like the data that the model was fitted to; None if unknown.
    n_beyond : how many of a table's own rows or groups are odder than the tail of their bulk explains: those flagged;
        None where too few scores differ to know a tail, and where a share to flag was asked for.
    evidence : columns of a result that say how rare a score is, (n,) each: p_value and extrapolated of new data, also
        p_shape and p_size of groups if size is evidence.
    """

    model: Any
    scores: Floats
    is_new: bool
    threshold: float
    n_expected: float | None = None
    n_beyond: int | None = None
    evidence: dict[str, Any] = field(default_factory=dict)


def judge_own(detector: Any, scores: Floats, counts: ScoreCounts | None = None) -> Judged:
    """Scores of the data that the detector learned from, and what follows from them.

    ``counts``: of the scores, where these are not here. Those that the tail of the bulk does not explain are flagged,
    so that a table in which nothing is wrong has none most of the time; or the share that is asked for.
    """
    if detector.contamination != "auto":
        return Judged(detector.model_, scores, False, float(detector.offset_))
    counts = counts_of(scores) if counts is None else counts
    threshold = detector.threshold(counts)
    n_beyond = int(counts.counts[counts.values < threshold].sum()) if threshold else None
    return Judged(detector.model_, scores, False, threshold, n_beyond=n_beyond)


def judge_new(detector: Any, data: Any, threshold: float | None = None) -> Judged:
    """Scores by the models that p-values rest on, if there are any, so that both have nearly one order.

    ``threshold``: where the data are a part of more; else what stands out from the bulk of the data of ``fit`` at the
    level of OWN_LEVEL, for as many as there are.
    """
    model, calibration = detector.model_, detector.model_.calibration
    if calibration is None:
        scores = detector.score_samples(data) if len(data) else np.empty(0)
        return Judged(model, scores, True, detector.offset_)
    tail, more = EXACT if detector.exact else EXTRAPOLATE, {}
    if isinstance(model, GroupModel) and model.size is not None and len(data):
        # Judged with and without their sizes, from one pass over their points.
        models, sizes = calibration.models, data.sizes
        by_shape = np.stack([replace(one, size=None).scores(data, detector.compute) for one in models], axis=1)
        by_both = np.stack([one.with_size(own, sizes) for one, own in zip(models, by_shape.T, strict=True)], axis=1)
        judgement = calibration.compare(by_both, data, tail)
        more = {"p_shape": calibration.compare(by_shape, data, tail).p_values, "p_size": model.p_size(sizes)}
    else:
        judgement = calibration.judge(model, data, detector.compute, tail)
    evidence = {"p_value": judgement.p_values, "extrapolated": judgement.is_extrapolated, **more}
    if threshold is None:
        beyond = judgement.p_values
        if len(calibration.apart):  # what stands out from the bulk, as in the table of ``fit``
            beyond = calibration.compare(judgement.scores[:, None], data, tail).p_values
        odd = judgement.scores[discoveries(beyond, OWN_LEVEL) < 0]
        threshold = float(np.nextafter(odd.max(), 1)) if len(odd) else 0.0
    n_flagged = int(np.count_nonzero(judgement.scores < threshold))
    expected = OWN_LEVEL * max(1, n_flagged) if len(calibration.scores) >= LEAST_FOR_RATE else None
    return Judged(model, judgement.scores, True, threshold, expected, evidence=evidence)
