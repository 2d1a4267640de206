"""The backend for GPUs, by torch and Triton; tensors in host memory go to the Numba backend.

Rows and tables in host memory go to the device, in blocks, and cells, counts and sums come back as NumPy arrays. Rows
that are tensors on the device already stay there. Same integers as the NumPy backend: see ``kernels.py`` for the
certificates, and docs/gpu.md for when a GPU pays.
"""

from functools import cache

from isobag.backends.torch.devices import resolve, torch
from isobag.backends.torch.verbs import TorchBackend

__all__ = ["TorchBackend", "on", "torch"]


def on(device: str | None) -> TorchBackend:
    """The backend on a device: "cuda" (or None), "cuda:1", "cpu", or "auto" for a GPU if there is one."""
    return _backend(str(resolve(device)))


@cache
def _backend(name: str) -> TorchBackend:
    return TorchBackend(resolve(name))
