"""Other detectors, for comparison: the paper's competitors with the same scikit-learn API."""

from isobag.baselines.gaussian import GaussianPointDetector
from isobag.baselines.inne import INNE
from isobag.baselines.nystroem import RecursiveNystroem
from isobag.baselines.ocsmm import OCSMM
from isobag.baselines.two_level import AveragedPointScores, TwoLevelGroupDetector

__all__ = [
    "INNE",
    "OCSMM",
    "AveragedPointScores",
    "GaussianPointDetector",
    "RecursiveNystroem",
    "TwoLevelGroupDetector",
]
