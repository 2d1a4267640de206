"""Which device is meant, and one sentence for everything that can be wrong with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    raise ImportError(
        'backend="torch" needs PyTorch, which is not installed: pip install "isobag[gpu]", or use backend="auto".'
    ) from None

__all__ = ["explained", "problem_with_cuda", "resolve", "square_root", "tensor", "torch"]

DEVICES = ("auto", "cpu", "cuda")


def resolve(name: str | None) -> torch.device:
    """The device of a name: None is "cuda"; "auto" is the GPU if there is one that works, else the processor."""
    if name == "auto":
        return torch.device("cpu") if problem_with_cuda() else _indexed("cuda")
    if name == "cpu":
        return torch.device("cpu")
    problem = problem_with_cuda()
    if problem:
        raise RuntimeError(f"device={name or 'cuda'!r}: {problem}")
    return _indexed(name or "cuda")


def _indexed(name: str) -> torch.device:
    device = torch.device(name)
    return torch.device("cuda", torch.cuda.current_device()) if device.index is None else device


@cache
def problem_with_cuda() -> str | None:
    """Why no GPU can be used, and what to do; None if one can."""
    otherwise = 'or use device="cpu" or backend="auto".'
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


@contextmanager
def explained(device: torch.device) -> Iterator[None]:
    """Say in one sentence what to do where the GPU is too small or a kernel does not compile."""
    try:
        with torch.cuda.device(device) if device.type == "cuda" else _nothing():
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


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def square_root(values: torch.Tensor) -> torch.Tensor:
    """Square roots, correctly rounded; torch's own are not on all processors."""
    return values.sqrt() if values.is_cuda else torch.from_numpy(np.sqrt(values.numpy()))


def tensor(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A NumPy array or a tensor on the device; read-only and oddly strided arrays are copied first."""
    if isinstance(values, torch.Tensor):
        return values.to(device=device, dtype=dtype)
    array = np.ascontiguousarray(values)
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array).to(device=device, dtype=dtype)
