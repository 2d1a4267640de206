"""Detectors of odd points and odd groups."""

from isobag.detectors.group import IDKGroupDetector
from isobag.detectors.point import IDKPointDetector

__all__ = ["IDKGroupDetector", "IDKPointDetector"]
