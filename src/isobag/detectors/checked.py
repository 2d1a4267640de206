"""Detectors and data checked already, rows that need not be in memory: the numbers of ``fit`` and its like."""

from collections.abc import Sequence

import numpy as np

from isobag.arrays import Floats
from isobag.detectors.group import GroupExplanation, IDKGroupDetector
from isobag.detectors.point import IDKPointDetector
from isobag.groups import Bags
from isobag.rows import Rows, map_rows


def fit_to_rows(detector: IDKPointDetector, rows: Rows, names: Sequence[str]) -> Floats:
    """``fit`` on rows that are checked already, with the names of their features; their scores: (n,)."""
    detector.n_features_in_ = len(names)
    detector.feature_names_in_ = np.array(names, dtype=object)
    scores = detector._fit_rows(rows)
    detector._set_offset(scores)
    return scores


def score_rows(detector: IDKPointDetector, rows: Rows) -> Floats:
    """``score_samples`` of rows that are checked already: (n,)."""
    return map_rows(rows, detector._scores)


def p_values_of_rows(detector: IDKPointDetector, rows: Rows) -> Floats:
    """``p_values`` of new rows that are checked already: (n,)."""
    return map_rows(rows, detector._p_values)


def explain_rows(detector: IDKPointDetector, points: Floats) -> Floats:
    """``explain`` of points that are checked already: (n, d)."""
    return detector._explain(points)


def typical_rows(detector: IDKPointDetector) -> Floats:
    """Some rows of the training data, evenly spread over it: (m, d)."""
    return detector._reference


def fit_to_groups(detector: IDKGroupDetector, bags: Bags, names: list[str]) -> Floats:
    """``fit`` on groups that are checked already, with the names of their features; their scores: (g,)."""
    detector.n_features_in_ = len(names)
    detector.feature_names_in_ = np.array(names, dtype=object)
    detector.labels_ = bags.labels
    detector.scores_ = detector._fit_groups(bags)
    detector._set_offset(detector.scores_)
    return detector.scores_


def p_values_of_groups(detector: IDKGroupDetector, bags: Bags) -> Floats:
    """``p_values`` of new groups that are checked already: (g,)."""
    return detector._p_values(bags)


def explain_groups(detector: IDKGroupDetector, bags: Bags) -> GroupExplanation:
    """``explain`` of groups that are checked already."""
    return detector._explain(bags)
