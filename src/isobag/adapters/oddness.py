"""Scores in the direction of other libraries: high = anomalous."""

import numpy as np

from isobag.backends.arrays import Floats

_LEAST = float(np.finfo(float).tiny)


def oddness(scores: Floats) -> Floats:
    """Minus the logarithm of scores, so that high is anomalous and ratios become differences: (n,) -> (n,)."""
    odd: Floats = -np.log(np.maximum(scores, _LEAST))
    return odd


def oddness_of_one(score: float) -> float:
    """The same of a single score, without an array."""
    return -float(np.log(max(score, _LEAST)))  # NumPy's logarithm, for the same bits
