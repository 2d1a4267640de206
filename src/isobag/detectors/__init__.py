"""Detectors of odd points and odd groups."""

from isobag.detectors.point import IDKPointDetector

__all__ = ["IDKPointDetector"]
