"""Scores of rows or groups, and what follows from them: p-values of new data, shares of rank of a table's own."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Bools, Floats
from isobag.data.groups import Grouped
from isobag.models.calibration import Calibration, own_p_values
from isobag.models.group import GroupModel
from isobag.models.tails import LEAST_BEYOND, TAIL_SHARE
from isobag.models.thresholds import ScoreCounts, counts_of, threshold_beyond_bulk

OWN_LEVEL = 0.1
"""How often a table without anomalies has rows that the tail of its bulk does not explain."""
LEAST_FOR_TAIL = round(2 * LEAST_BEYOND / TAIL_SHARE)
"""Rows that a table must have so that the tail of its bulk is known."""
LEAST_FOR_RATE = 100
"""Rows or groups set aside, without which nobody knows how many normal ones are flagged."""


@dataclass(frozen=True)
class Judged:
    """Scores of what takes part, and what follows from them.

    is_new : whether the model has not learned from the data.
    threshold : below which scores are flagged.
    n_expected : how many would be flagged if all were like the data that the model was fitted to; None if unknown.
    n_beyond : how many of a table's own rows are odder than the tail of their bulk explains; None if unknown.
    p_values, is_extrapolated : (n,), of new data; p_shape and p_size, of groups if size is evidence.
    rank_share : (n,), of a table's own data: the share of the scores that are not above.
    """

    model: Any
    scores: Floats
    is_new: bool
    threshold: float
    n_expected: float | None = None
    n_beyond: int | None = None
    p_values: Floats | None = None
    is_extrapolated: Bools | None = None
    p_shape: Floats | None = None
    p_size: Floats | None = None
    rank_share: Floats | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of a result: (n,) each; None for what is not known."""
        return {
            "rank_share": self.rank_share,
            "p_value": self.p_values,
            "extrapolated": self.is_extrapolated,
            "p_shape": self.p_shape,
            "p_size": self.p_size,
        }


def judge_own(detector: Any, scores: Floats, shares: bool) -> Judged:
    """Scores of the data that the detector learned from, and what follows from them."""
    own = own_p_values(scores) if shares else None
    n_beyond = count_beyond(detector, counts_of(scores))
    return Judged(detector.model_, scores, False, float(detector.offset_), n_beyond=n_beyond, rank_share=own)


def count_beyond(detector: Any, counts: ScoreCounts) -> int | None:
    """How many of a table's own rows are odder than the tail of their bulk explains.

    None where a share to flag is asked for, where the table is too small to know its tail, and of groups: the tail of
    some hundred groups is so uncertain that it explains all of them.
    """
    if detector.contamination != "auto" or counts.n < LEAST_FOR_TAIL or isinstance(detector.model_, GroupModel):
        return None
    return int(counts.counts[counts.values < threshold_beyond_bulk(counts, OWN_LEVEL)].sum())


def judge_new(detector: Any, data: Any, p_values: bool = True) -> Judged:
    """Scores by the models that p-values rest on, if there are any, so that both have nearly one order."""
    model, calibration = detector.model_, detector.model_.calibration
    if calibration is None or not p_values:
        scores = detector.score_samples(data) if len(data) else np.empty(0)
        return Judged(model, scores, True, detector.offset_)
    threshold, expected = detector.offset_, None
    if len(calibration.scores):
        threshold = detector.threshold(calibration.scores)
    if len(calibration.scores) >= LEAST_FOR_RATE:
        n_below = np.count_nonzero(calibration.scores < threshold)
        expected = float((1 + n_below) / (1 + len(calibration.scores))) * len(data)
    judged = Judged(model, np.empty(0), True, threshold, expected)
    if isinstance(model, GroupModel) and model.size is not None and len(data):
        return _judge_sizes(judged, calibration, data, detector.compute, detector.tail)
    judgement = calibration.judge(data, detector.compute, detector.tail)
    return replace(
        judged, scores=judgement.scores, p_values=judgement.p_values, is_extrapolated=judgement.is_extrapolated
    )


def _judge_sizes(judged: Judged, calibration: Calibration, groups: Grouped, compute: Compute, tail: str) -> Judged:
    """New groups, judged with and without their sizes from one pass over their points."""
    models = calibration.models
    blind = np.stack([replace(one, size=None).scores(groups, compute) for one in models], axis=1)
    seeing = np.stack([one.with_size(own, groups.sizes) for one, own in zip(models, blind.T, strict=True)], axis=1)
    judgement = calibration.compare(seeing, groups, tail)
    return replace(
        judged,
        scores=judgement.scores,
        p_values=judgement.p_values,
        is_extrapolated=judgement.is_extrapolated,
        p_shape=calibration.compare(blind, groups, tail).p_values,
        p_size=judged.model.p_size(groups.sizes),
    )
