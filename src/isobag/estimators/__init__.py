"""scikit-learn estimators: parameters and checks around what is learned."""

from isobag.estimators.base import Storable
from isobag.estimators.compare import compare
from isobag.estimators.group import IDKGroupDetector
from isobag.estimators.kernels import IsolationKernel
from isobag.estimators.point import IDKPointDetector
from isobag.estimators.stream import IDKStreamDetector

DETECTORS: dict[str, type[IDKPointDetector] | type[IDKGroupDetector]] = {
    "points": IDKPointDetector,
    "groups": IDKGroupDetector,
}
"""The detector for each thing that can be odd."""
STORABLE: dict[str, type[Storable]] = {one.__name__: one for one in (*DETECTORS.values(), IsolationKernel)}
"""Estimators that learn from rows or groups and that a model file can hold, by name."""
IN_FILES: dict[str, type[Storable]] = {**STORABLE, "IDKStreamDetector": IDKStreamDetector}
"""All that a model file can hold, by name."""

__all__ = [
    "DETECTORS",
    "IN_FILES",
    "STORABLE",
    "IDKGroupDetector",
    "IDKPointDetector",
    "IDKStreamDetector",
    "IsolationKernel",
    "compare",
]
