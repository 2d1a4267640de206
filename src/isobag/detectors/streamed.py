"""A point detector and rows that need not be in memory: the same numbers as ``fit`` and ``score_samples`` give."""

from collections.abc import Sequence

import numpy as np

from isobag.arrays import Floats
from isobag.detectors.conformal import calibrated
from isobag.detectors.point import IDKPointDetector
from isobag.rows import Rows, map_rows


def fit_to_rows(detector: IDKPointDetector, rows: Rows, names: Sequence[str]) -> Floats:
    """``fit`` on rows that are checked already, with the names of their features; their scores: (n,)."""
    detector.feature_names_in_ = np.array(names, dtype=object)
    scores = detector._fit_rows(rows)
    detector._set_offset(scores)
    return scores


def score_rows(detector: IDKPointDetector, rows: Rows) -> Floats:
    """``score_samples`` of rows that are checked already: (n,)."""
    return map_rows(rows, detector._scores)


def p_values_of_rows(detector: IDKPointDetector, rows: Rows) -> Floats:
    """``p_values`` of new rows that are checked already: (n,)."""
    calibration = calibrated(detector.calibration_)
    return map_rows(rows, lambda chunk: calibration.p_values(calibration.detector._scores(chunk)))


def explain_rows(detector: IDKPointDetector, points: Floats) -> Floats:
    """``explain`` of points that are checked already: (n, d)."""
    return detector._explain(points)


def typical_rows(detector: IDKPointDetector) -> Floats:
    """Some rows of the training data, evenly spread over it: (m, d)."""
    return detector._reference
