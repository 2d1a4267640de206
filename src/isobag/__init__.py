"""isobag: anomalies without labels, odd points and odd groups, by the Isolation Distributional Kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobag import datasets, report
    from isobag.estimators import IDKGroupDetector, IDKPointDetector, IDKStreamDetector
    from isobag.estimators.compare import compare
    from isobag.estimators.kernels import IsolationKernel
    from isobag.storage.modelfile import ModelFileError, load, save
    from isobag.tables import TableModel, detect_groups, detect_points, fit_groups, fit_points, rank_frame

__version__ = "0.3.0"

_HOMES = {
    "IsolationKernel": "isobag.estimators.kernels",
    "IDKGroupDetector": "isobag.estimators",
    "IDKPointDetector": "isobag.estimators",
    "IDKStreamDetector": "isobag.estimators",
    "ModelFileError": "isobag.storage.modelfile",
    "compare": "isobag.estimators.compare",
    "detect_groups": "isobag.tables",
    "detect_points": "isobag.tables",
    "fit_groups": "isobag.tables",
    "fit_points": "isobag.tables",
    "TableModel": "isobag.tables",
    "load": "isobag.storage.modelfile",
    "rank_frame": "isobag.tables",
    "save": "isobag.storage.modelfile",
}
_MODULES = ("datasets", "report")

__all__ = [
    "IDKGroupDetector",
    "IDKPointDetector",
    "IDKStreamDetector",
    "IsolationKernel",
    "ModelFileError",
    "TableModel",
    "compare",
    "datasets",
    "detect_groups",
    "detect_points",
    "fit_groups",
    "fit_points",
    "load",
    "rank_frame",
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
