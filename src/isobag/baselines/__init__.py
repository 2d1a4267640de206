"""Other detectors, for comparison: the paper's competitors with the same scikit-learn API."""

from isobag.baselines.inne import INNE

__all__ = ["INNE"]
