"""How to compute: a backend, a number of threads and a device, chosen once and handed down. Never what comes out."""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

BACKENDS = {
    "numpy": "isobag.backends.numpy",
    "numba": "isobag.backends.numba",
    "torch": "isobag.backends.torch",
}
"""Module of each backend, imported when first asked for."""
HOST_BACKENDS = ("numpy", "numba")
"""Those that need nothing but the processor."""


@dataclass(frozen=True)
class Compute:
    """A backend by name, ``"auto"`` for the fastest where the data are, threads as in joblib, and a device.

    device : of the torch backend; "cuda" (also "cuda:1" and so on), "cpu", "auto" for a GPU if there is one; None is
        the GPU. Naming a GPU chooses the torch backend.
    """

    backend: str = "auto"
    n_jobs: int | None = None
    device: str | None = None

    @property
    def name(self) -> str:
        """Name of the backend that is meant."""
        names_gpu = self.device is not None and self.device.startswith("cuda")
        if self.backend != "auto":
            if names_gpu and self.backend != "torch":
                raise ValueError(
                    f'device={self.device!r} with backend={self.backend!r}; use backend="torch", or device=None.'
                )
            return self.backend
        return "torch" if names_gpu else "numba"

    @property
    def verbs(self) -> Any:
        """The backend, with the verbs listed in ``isobag.backends``."""
        module = import_module(BACKENDS[self.name])
        return module.on(self.device) if self.name == "torch" else module

    def beside(self, device: str | None) -> "Compute":
        """The same for data that live on a device, where they are to be computed; None: in host memory."""
        if device is None:
            return self
        if self.backend not in ("auto", "torch"):
            raise ValueError(
                f'X is on {device} and backend={self.backend!r} works in host memory; use backend="auto", or pass '
                "X in host memory, as X.cpu() or X.get()."
            )
        if self.device not in (None, "auto", device, device.partition(":")[0]):
            raise ValueError(f"X is on {device} and device={self.device!r}; use device=None, or move X there.")
        return replace(self, backend="torch", device=device)

    def place(self, X: Any) -> Any:
        """Rows where the backend works on them: (n, d), an array or a tensor on the device."""
        return self.verbs.place(X) if self.name == "torch" else X

    def fetch(self, values: Any) -> Any:
        """What was found, as a NumPy array, wherever it is."""
        return values if isinstance(values, np.ndarray) else self.verbs.fetch(values)

    def prepare(self, X: Any, like: Any = None) -> Any:
        """Queries that all verbs take: (n, d). ``like``: queries of the same rows on another scale, if there are."""
        return self.verbs.prepare(X, like)
