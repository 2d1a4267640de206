"""Which device is meant, and one sentence for everything that can be wrong with it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TypeAlias

import numpy as np

from isobag.backends.arrays import Array

try:
    import torch
except ImportError:
    raise ImportError(
        'device="cuda" needs PyTorch, which is not installed: pip install "isobag[gpu]", or use device="cpu".'
    ) from None

__all__ = ["Placed", "explained", "problem_with_cuda", "resolve", "tensor", "to_host", "torch", "uses_kernels"]

Placed: TypeAlias = Array | torch.Tensor
"""An array of the backend: a tensor, or a NumPy array that is still to be sent to the device."""


def resolve(name: str | None) -> torch.device:
    """The device of a name: None is "cuda"; "auto" is the GPU if there is one that works, else the processor."""
    if name == "cpu" or (name == "auto" and problem_with_cuda()):
        return torch.device("cpu")
    problem = problem_with_cuda()
    if problem:
        raise RuntimeError(f"device={name or 'cuda'!r}: {problem}")
    device = torch.device("cuda" if name in (None, "auto") else name)
    return torch.device("cuda", torch.cuda.current_device()) if device.index is None else device


@cache
def problem_with_cuda() -> str | None:
    """Why no GPU can be used, and what to do; None if one can."""
    otherwise = 'or use device="cpu".'
    if torch.version.cuda is None:
        return (
            f"this PyTorch ({torch.__version__}) is built without CUDA; install one with it (pytorch.org), {otherwise}"
        )
    try:
        torch.cuda.init()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "driver" in reason.lower():
            return f"no working NVIDIA driver ({reason}); install or update it, {otherwise}"
        return f"CUDA does not start ({reason}); see that nvidia-smi works, {otherwise}"
    if not torch.cuda.device_count():
        return f"the driver shows no GPU; see CUDA_VISIBLE_DEVICES and nvidia-smi, {otherwise}"
    try:
        import triton  # noqa: F401, PLC0415
    except ImportError:
        return f"Triton, which compiles the kernels, is missing: pip install triton, {otherwise}"
    return None


def uses_kernels(device: torch.device) -> bool:
    """Whether Triton kernels do the work: on a GPU, or where Triton interprets them."""
    return bool(device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1")


@contextmanager
def explained(device: torch.device) -> Iterator[None]:
    """Work on a device; say in one sentence what to do where it is too small or a kernel does not compile."""
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    except torch.cuda.OutOfMemoryError as error:
        total = torch.cuda.get_device_properties(device).total_memory / 2**30
        raise MemoryError(
            f"the GPU ({total:.0f} GiB) has too little free memory; free some, pass fewer rows at a time, or use "
            f'device="cpu" ({str(error).splitlines()[0]})'
        ) from None
    except Exception as error:
        if not type(error).__module__.startswith("triton"):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[-1]
        raise RuntimeError(
            f"Triton could not compile a kernel for this GPU ({reason[:200]}); install the Triton that came with your "
            'PyTorch and a C compiler, or use device="cpu".'
        ) from error


def tensor(values: Placed, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A NumPy array or a tensor on the device; read-only and oddly strided arrays are copied first."""
    if isinstance(values, torch.Tensor):
        return values.to(device=device, dtype=dtype)
    array: Array = np.ascontiguousarray(values)
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device=device, dtype=dtype)


def to_host(values: torch.Tensor) -> Array:
    """The values as a NumPy array; from a GPU through pinned memory, which is kept for the next time."""
    if values.is_cuda:
        values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values)
    array: Array = values.numpy()
    return array
