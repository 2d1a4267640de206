"""isobag: anomalies without labels, odd points and odd groups, by the Isolation Distributional Kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobag import datasets, report
    from isobag.estimators import EntityMonitor, IDKGroupDetector, IDKPointDetector, IDKStreamDetector
    from isobag.estimators.compare import compare
    from isobag.estimators.kernels import IsolationDistributionalKernel, IsolationKernel
    from isobag.storage.modelfile import ModelFileError, load, save
    from isobag.tables import TableModel, detect_groups, detect_points, fit_groups, fit_points, rank_frame
    from isobag.tables.watch import watch

__version__ = "0.3.0"

_HOMES = {
    "EntityMonitor": "isobag.estimators",
    "IsolationKernel": "isobag.estimators.kernels",
    "IsolationDistributionalKernel": "isobag.estimators.kernels",
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
    "watch": "isobag.tables.watch",
}
_MODULES = ("datasets", "report")

__all__ = [
    "EntityMonitor",
    "IDKGroupDetector",
    "IDKPointDetector",
    "IDKStreamDetector",
    "IsolationDistributionalKernel",
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
    "watch",
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
