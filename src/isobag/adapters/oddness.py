"""Scores in the direction of other libraries: high = anomalous."""

import numpy as np

from isobag.backends.arrays import Floats


def oddness(scores: Floats) -> Floats:
    """Minus the logarithm of scores, so that high is anomalous and ratios become differences: (n,) -> (n,)."""
    odd: Floats = -np.log(np.maximum(scores, np.finfo(float).tiny))
    return odd
