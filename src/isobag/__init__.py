"""isobag: anomalies without labels, odd rows and odd groups of rows, by the Isolation Distributional Kernel."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isobag import datasets
    from isobag.estimators import IDKGroupDetector, IDKPointDetector, IDKStreamDetector
    from isobag.estimators.compare import compare
    from isobag.estimators.kernels import IsolationKernel
    from isobag.storage.modelfile import ModelFileError, load, save
    from isobag.tables.detect import detect
    from isobag.tables.model import Model, fit
    from isobag.tables.watch import Watch, watch

__version__ = "0.4.0"

_HOMES = {
    "IDKGroupDetector": "isobag.estimators",
    "IDKPointDetector": "isobag.estimators",
    "IDKStreamDetector": "isobag.estimators",
    "IsolationKernel": "isobag.estimators.kernels",
    "Model": "isobag.tables.model",
    "ModelFileError": "isobag.storage.modelfile",
    "Watch": "isobag.tables.watch",
    "compare": "isobag.estimators.compare",
    "detect": "isobag.tables.detect",
    "fit": "isobag.tables.model",
    "load": "isobag.storage.modelfile",
    "save": "isobag.storage.modelfile",
    "watch": "isobag.tables.watch",
}
"""Where each public name comes from; datasets is a module."""

__all__ = [
    "IDKGroupDetector",
    "IDKPointDetector",
    "IDKStreamDetector",
    "IsolationKernel",
    "Model",
    "ModelFileError",
    "Watch",
    "compare",
    "datasets",
    "detect",
    "fit",
    "load",
    "save",
    "watch",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that ``import isobag`` itself is quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "datasets":
        return import_module("isobag.datasets")
    raise AttributeError(f"module 'isobag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
