"""Which device is meant, and one sentence for everything that can be wrong with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from isobag.backends.arrays import Array

try:
    import torch
except ImportError:
    raise ImportError(
        'backend="torch" needs PyTorch, which is not installed: pip install "isobag[gpu]", or use backend="auto".'
    ) from None

__all__ = [
    "Placed",
    "Sender",
    "explained",
    "free_memory",
    "problem_with_cuda",
    "resolve",
    "square_root",
    "tensor",
    "torch",
]

Placed: TypeAlias = Array | torch.Tensor
"""An array of the backend: a tensor, or a NumPy array that need not be sent to the device."""


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


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had of a GPU, of what this process may use of it."""
    free, total = torch.cuda.mem_get_info(device)
    allowed = torch.cuda.get_per_process_memory_fraction(device) * total
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(max(0, min(free + unused, allowed - torch.cuda.memory_allocated(device))))


class Sender:
    """Sends arrays from host memory to a device; to a GPU through two buffers of pinned memory, on its own stream.

    ``send`` may be called from another thread than ``receive``, which makes the caller's stream wait for the copy.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._device = torch.device(device)
        self._is_gpu = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if self._is_gpu else None
        self._buffers: list[torch.Tensor | None] = [None, None]
        self._copied: list[Any] = [None, None]
        self._turn = 0

    def send(self, values: Array) -> tuple[torch.Tensor, Any]:
        """Begin to send an array: the tensor, and what says that all of it is there."""
        array = torch.from_numpy(np.ascontiguousarray(values))
        if not self._is_gpu:
            return array, None
        turn, self._turn = self._turn, 1 - self._turn
        if self._copied[turn] is not None:
            self._copied[turn].synchronize()  # or the buffer would change under the copy before the last
        buffer = self._buffers[turn]
        if buffer is None or buffer.numel() < array.numel() or buffer.dtype != array.dtype:
            buffer = self._buffers[turn] = torch.empty(array.numel(), dtype=array.dtype, pin_memory=True)
        pinned = buffer[: array.numel()].view(array.shape).copy_(array)
        with explained(self._device), torch.cuda.stream(self._stream):
            sent = pinned.to(self._device, non_blocking=True)
            self._copied[turn] = torch.cuda.Event()
            self._copied[turn].record(self._stream)
        return sent, self._copied[turn]

    def receive(self, sent: tuple[torch.Tensor, Any]) -> torch.Tensor:
        """What was sent, as float64, for the stream that works on it."""
        values, copied = sent
        with explained(self._device):
            if copied is not None:
                current = torch.cuda.current_stream(self._device)
                current.wait_event(copied)
                values.record_stream(current)
            return values.double()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def square_root(values: torch.Tensor) -> torch.Tensor:
    """Square roots, correctly rounded; torch's own are not on all processors."""
    return values.sqrt() if values.is_cuda else torch.from_numpy(np.sqrt(values.numpy()))


def tensor(values: Placed, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A NumPy array or a tensor on the device; read-only and oddly strided arrays are copied first."""
    if isinstance(values, torch.Tensor):
        return values.to(device=device, dtype=dtype)
    array: Array = np.ascontiguousarray(values)
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array).to(device=device, dtype=dtype)
