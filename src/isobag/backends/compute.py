"""How to compute: a backend, a number of threads and a device, chosen once. Results never depend on it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from isobag.backends.arrays import Array
from isobag.backends.protocol import AnyBackend, Backend


def _open_numpy(device: str | None) -> AnyBackend:
    from isobag.backends import numpy  # noqa: PLC0415

    backend: AnyBackend = numpy
    return backend


@cache
def _open_numba(device: str | None) -> AnyBackend:
    import numba as compiler  # noqa: PLC0415

    if compiler.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when Numba reads its environment
        warnings.warn(
            "NUMBA_DISABLE_JIT is set: computing by NumPy, with the same results, but many times slower.",
            RuntimeWarning,
            stacklevel=2,
        )
        return _open_numpy(device)
    from isobag.backends import numba  # noqa: PLC0415

    backend: AnyBackend = numba
    return backend


def _open_torch(device: str | None) -> AnyBackend:
    from isobag.backends.torch import on  # noqa: PLC0415
    from isobag.backends.torch.counts import Counts  # noqa: PLC0415
    from isobag.backends.torch.devices import Placed  # noqa: PLC0415

    backend: Backend[Placed, Counts] = on(device)
    return cast(AnyBackend, backend)


@cache
def _has_gpu() -> bool:
    """Whether there is a GPU that works, and what it takes to use it."""
    try:
        from isobag.backends.torch.devices import problem_with_cuda  # noqa: PLC0415
    except ImportError:
        return False
    return problem_with_cuda() is None


BACKENDS: dict[str, Callable[[str | None], AnyBackend]] = {
    "numpy": _open_numpy,
    "numba": _open_numba,
    "torch": _open_torch,
}
"""How each backend is opened, on a device: imported when first asked for."""
HOST_BACKENDS = ("numpy", "numba")
"""Those that need nothing but the processor."""


@cache
def _open(backend: str, device: str | None) -> AnyBackend:
    """A backend, opened once: for single rows of a stream even looking it up takes a while."""
    return BACKENDS[Compute(backend, device=device).name](device)


@dataclass(frozen=True)
class Compute:
    """A backend by name, ``"auto"`` for the fastest where the data are, threads as in joblib, and a device.

    device : "cuda" (also "cuda:1" and so on) is the torch backend, "auto" too if there is a GPU that works; else, and
        with None, it is Numba on the processor, unless rows lie on a device themselves.
    """

    requested: str = "auto"
    n_jobs: int | None = None
    device: str | None = None

    @property
    def name(self) -> str:
        """Name of the backend that is meant."""
        names_gpu = self.device is not None and self.device.startswith("cuda")
        if self.requested != "auto":
            if names_gpu and self.requested != "torch":
                raise ValueError(
                    f'device={self.device!r} with backend={self.requested!r}; use backend="torch", or device=None.'
                )
            return self.requested
        return "torch" if names_gpu or (self.device == "auto" and _has_gpu()) else "numba"

    @property
    def backend(self) -> AnyBackend:
        """The backend itself."""
        return _open(self.requested, self.device)

    def beside(self, device: str | None) -> "Compute":
        """The same for data that live on a device, where they are to be computed; None: in host memory."""
        if device is None:
            return self
        if self.requested not in ("auto", "torch"):
            raise ValueError(
                f'X is on {device} and backend={self.requested!r} works in host memory; use backend="auto", or pass '
                "X in host memory, as X.cpu() or X.get()."
            )
        if self.device not in (None, "auto", device, device.partition(":")[0]):
            raise ValueError(f"X is on {device} and device={self.device!r}; use device=None, or move X there.")
        return replace(self, requested="torch", device=device)

    def place(self, X: Array) -> Array:
        """Rows where the backend works: (n, d), an array or a tensor on the device."""
        return self.backend.place(X)

    def fetch(self, values: Array) -> Array:
        """Values as a NumPy array, wherever they are."""
        return self.backend.fetch(values)
