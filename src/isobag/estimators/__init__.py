"""scikit-learn estimators: parameters and checks around what is learned."""

from isobag.estimators.compare import compare
from isobag.estimators.group import IDKGroupDetector
from isobag.estimators.kernels import IsolationDistributionalKernel, IsolationKernel
from isobag.estimators.point import IDKPointDetector

__all__ = ["IDKGroupDetector", "IDKPointDetector", "IsolationDistributionalKernel", "IsolationKernel", "compare"]
