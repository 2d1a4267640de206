"""isobag: anomalies without labels, odd points and odd groups, by the Isolation Distributional Kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobag import baselines, datasets, report
    from isobag.detectors import IDKGroupDetector, IDKPointDetector
    from isobag.kernels import IsolationDistributionalKernel, IsolationKernel
    from isobag.modelfile import ModelFileError, load, save
    from isobag.two_sample import compare

__version__ = "0.1.0"

_HOMES = {
    "IsolationKernel": "isobag.kernels",
    "IsolationDistributionalKernel": "isobag.kernels",
    "IDKGroupDetector": "isobag.detectors",
    "IDKPointDetector": "isobag.detectors",
    "ModelFileError": "isobag.modelfile",
    "compare": "isobag.two_sample",
    "load": "isobag.modelfile",
    "save": "isobag.modelfile",
}
_MODULES = ("baselines", "datasets", "report")

__all__ = [
    "IDKGroupDetector",
    "IDKPointDetector",
    "IsolationDistributionalKernel",
    "IsolationKernel",
    "ModelFileError",
    "baselines",
    "compare",
    "datasets",
    "load",
    "report",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``import isobag`` itself is quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"isobag.{name}")
    raise AttributeError(f"module 'isobag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
