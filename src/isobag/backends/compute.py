"""How to compute: a backend and a number of threads, chosen once and handed down. Never what comes out."""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from isobag.backends.arrays import Floats

BACKENDS = {"numpy": "isobag.backends.numpy", "numba": "isobag.backends.numba"}
"""Module of each backend, imported when first asked for."""


@dataclass(frozen=True)
class Compute:
    """A backend by name, ``"auto"`` for the fastest on this machine's processor, and threads as in joblib."""

    backend: str = "auto"
    n_jobs: int | None = None

    @property
    def name(self) -> str:
        """Name of the backend that is meant."""
        return "numba" if self.backend == "auto" else self.backend

    @property
    def verbs(self) -> ModuleType:
        """The backend, a module with the verbs listed in ``isobag.backends``."""
        return import_module(BACKENDS[self.name])

    def prepare(self, X: Floats, like: Any = None) -> Any:
        """Queries that all verbs take: (n, d). ``like``: queries of the same rows on another scale, if there are."""
        return self.verbs.prepare(X, like)
