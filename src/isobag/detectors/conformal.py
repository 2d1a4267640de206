"""Conformal p-values: how rare a score is among rows or groups that the detector did not learn from.

Half of the training data is set aside. A second detector learns from the other half, and

p(x) = (1 + number of scores set aside that are not above the score of x) / (1 + number set aside).

If x and the data set aside are drawn alike, P(p(x) <= alpha) <= alpha for every alpha, whatever the detector does.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import false_discovery_control
from sklearn.utils import check_random_state

from isobag.arrays import Floats, Ints
from isobag.validation import check_fdr


class Halves(NamedTuple):
    """Positions of what the second detector learns from, and of what is set aside; the seed of that detector."""

    learned: Ints
    aside: Ints
    seed: int


def draw_halves(n: int, most: int, random_state: Any) -> Halves:
    """Two parts of n rows or groups, the second never the larger, each with at most ``most``."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    drawn = np.random.default_rng(seed).choice(n, min(n, 2 * most), replace=False)
    n_learned = max(len(drawn) - len(drawn) // 2, min(n, 2))
    return Halves(np.sort(drawn[:n_learned]), np.sort(drawn[n_learned:]), seed)


class Calibration(NamedTuple):
    """A detector and, in rising order, its scores of data it has not seen."""

    detector: Any
    scores: Floats

    def p_values(self, scores: Floats) -> Floats:
        """Share of the scores set aside that are not above each score, itself counted among them: (n,) -> (n,)."""
        return (1 + np.searchsorted(self.scores, scores, side="right")) / (1 + len(self.scores))


def calibrated(calibration: Calibration | None) -> Calibration:
    """The calibration, if there is one."""
    if calibration is None:
        raise ValueError("calibrate=False, so nothing was set aside for p-values; fit with calibrate=True.")
    return calibration


def discoveries(p_values: Floats, fdr: float) -> npt.NDArray[np.int64]:
    """-1 where Benjamini and Hochberg's procedure at level ``fdr`` rejects, else +1: (n,) -> (n,)."""
    check_fdr(fdr)
    if not len(p_values):
        return np.ones(0, dtype=np.int64)
    return np.where(false_discovery_control(p_values) <= fdr, -1, 1)
