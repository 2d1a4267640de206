"""Rows that live on a GPU, and stay there: torch tensors, CuPy arrays, whatever speaks DLPack."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Array, Floats, Ints
from isobag.backends.threads import slices
from isobag.data.rows import ArrayRows, GroupedBlock, Rows, whole_groups

if TYPE_CHECKING:
    import torch

BLOCK_NUMBERS = 1 << 27
"""Most numbers of a block: a GPU wants large ones."""
MAPPED_ROWS = 1 << 21
"""Most rows of a block of which something is made in host memory."""
SMALL_NUMBERS = 1 << 18
ROOM_FOR_ONE = 128
"""Bytes of a GPU to have for each number: itself, copies of it on several scales, and what is found."""
_GPUS = (2, 3, 10, 13)  # DLPack: CUDA, its pinned host memory, ROCm, CUDA's managed memory


def lives_on_gpu(X: Any) -> bool:
    """Whether an array is in the memory of a GPU."""
    if hasattr(X, "__cuda_array_interface__"):
        return True
    if not hasattr(X, "__dlpack_device__") or isinstance(X, np.ndarray):
        return False
    return int(X.__dlpack_device__()[0]) in _GPUS


def is_tensor(X: Any) -> bool:
    """Whether an array is a torch tensor, wherever it is."""
    return "torch" in sys.modules and isinstance(X, sys.modules["torch"].Tensor)


def as_tensor(X: Any) -> Any:
    """The array as a torch tensor over the same memory."""
    from isobag.backends.torch import torch  # noqa: PLC0415, and only where it is asked for

    return X.detach() if isinstance(X, torch.Tensor) else torch.utils.dlpack.from_dlpack(X)


def explained_on(X: "torch.Tensor") -> AbstractContextManager[None]:
    """A context that says what to do where the device of a tensor is too small."""
    from isobag.backends.torch.devices import explained  # noqa: PLC0415

    return explained(X.device)


def rows_for_gpu(estimator: Any, X: Any) -> "Rows | torch.Tensor | None":
    """A large array in host memory, for the GPU that is asked for: a tensor there, or StreamedRows if there is no room.

    None where no GPU is asked for, or the array is small.
    """
    backend, device = getattr(estimator, "backend", None), getattr(estimator, "device", None)
    asked = device != "cpu" if backend == "torch" else backend == "auto" and str(device).startswith("cuda")
    if not asked or not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype not in (np.float32, np.float64):
        return None
    if X.size < SMALL_NUMBERS:
        return None
    from isobag.backends.torch.devices import explained, free_memory, resolve, tensor  # noqa: PLC0415

    place = resolve(device)
    if place.type != "cuda":
        return None
    room = free_memory(place)
    if ROOM_FOR_ONE * X.size <= room:
        with explained(place):
            return tensor(X, place)
    return StreamedRows(X, place, max(1, room // (4 * ROOM_FOR_ONE * X.shape[1])))


class DeviceRows(Rows):
    """The rows of a tensor (n, d) on a device; blocks are float64 tensors there."""

    def __init__(self, X: "torch.Tensor", like: Any = None, names: Sequence[str] | None = None) -> None:
        super().__init__(X.shape[0], X.shape[1], names)
        self.X, self._like = X, X if like is None else like

    @property
    def device(self) -> str | None:
        """The name of the device."""
        return str(self.X.device)

    @property
    def _block_rows(self) -> int:
        return max(1, BLOCK_NUMBERS // self.n_features)

    def blocks(self) -> Iterator[Any]:
        """Parts of the tensor, as float64."""
        return (self.X[rows].double() for rows in slices(len(self), self._block_rows))

    def map(self, function: Callable[[Any], Array]) -> Array:
        """What a function makes of each row, in two threads: (m, d) -> (m, ...) makes (n, ...).

        What it does in host memory with one block overlaps the work of the GPU on the next.
        """
        if not self.X.is_cuda or len(self) <= MAPPED_ROWS:
            return super().map(function)
        chosen = list(slices(len(self), MAPPED_ROWS))
        with ThreadPoolExecutor(2) as workers:
            parts = workers.map(lambda rows: function(self.X[rows].double()), chosen)
            first = next(parts)
            values = np.empty((len(self), *first.shape[1:]), first.dtype)
            values[chosen[0]] = first
            for rows, part in zip(chosen[1:], parts, strict=True):
                values[rows] = part
        return values

    def take(self, numbers: Ints) -> Floats:
        """Some rows, in host memory: (k, d)."""
        rows: Floats = self._picked(numbers).double().cpu().numpy()
        return rows

    def part(self, numbers: Ints) -> Rows:
        """Some rows, on the device."""
        return DeviceRows(self._picked(numbers), self._like, self.names)

    def _picked(self, numbers: Ints) -> "torch.Tensor":
        torch = sys.modules["torch"]
        with explained_on(self.X):
            return self.X[torch.from_numpy(np.ascontiguousarray(numbers)).to(self.X.device)]

    @property
    def whole(self) -> Any:
        """The tensor, unless it is larger than a block."""
        with explained_on(self.X):
            return self.X.double() if len(self) <= self._block_rows else None

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature: (d,), (d,)."""
        low, high = sys.modules["torch"].aminmax(self.X, dim=0)
        return low.double().cpu().numpy(), high.double().cpu().numpy()

    @property
    def on_host(self) -> Rows:
        """The rows in host memory."""
        return ArrayRows(self.X.double().cpu().numpy(), self.names)

    def give(self, values: Array) -> Any:
        """Values as the kind of array that the rows came as, on their device."""
        if isinstance(self._like, np.ndarray):
            return values
        torch = sys.modules["torch"]
        tensor = torch.from_numpy(np.ascontiguousarray(values)).to(self.X.device)
        if isinstance(self._like, torch.Tensor):
            return tensor
        return sys.modules[type(self._like).__module__.partition(".")[0]].from_dlpack(tensor)

    def grouped_blocks(self, ids: "Ints | torch.Tensor", stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group, on the device; no group is cut, however large. ids: an array or a tensor."""
        numbers = sys.modules["torch"].as_tensor(ids, device=self.X.device)
        ends = numbers.bincount().cumsum(0).cpu().numpy()
        is_sorted = bool((numbers[1:] >= numbers[:-1]).all())
        X: Any = self.X if is_sorted else self.X[numbers.argsort(stable=True)]
        for rows, starts, groups in whole_groups(ends, self._block_rows, stops):
            yield GroupedBlock(X[rows].double(), starts, groups)


class StreamedRows(Rows):
    """The rows of an array (n, d) in host memory, which go through a device: blocks are float64 tensors there.

    While one block is worked on, the next is copied to one of two buffers of pinned memory, and on to the device on a
    stream of its own.
    """

    def __init__(self, X: Array, device: "torch.device", block_rows: int, names: Sequence[str] | None = None) -> None:
        super().__init__(X.shape[0], X.shape[1], names)
        self.X, self._device, self._block_rows = X, device, block_rows

    @property
    def device(self) -> str | None:
        """The name of the device."""
        return str(self._device)

    def blocks(self) -> Iterator[Any]:
        """Parts of the array, as float64 on the device."""
        return self._stream(list(slices(len(self), self._block_rows)))

    def take(self, numbers: Ints) -> Floats:
        """Some rows, in host memory: (k, d)."""
        return self.X[numbers].astype(np.float64)

    def part(self, numbers: Ints) -> Rows:
        """Some rows, in host memory still."""
        return StreamedRows(self.X[numbers], self._device, self._block_rows, self.names)

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature: (d,), (d,)."""
        return self.X.min(axis=0).astype(np.float64), self.X.max(axis=0).astype(np.float64)

    @property
    def on_host(self) -> Rows:
        """The rows as an array."""
        return ArrayRows(self.X.astype(np.float64), self.names)

    def grouped_blocks(self, ids: Ints, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group, on the device; no group is cut, however large."""
        order = np.argsort(ids, kind="stable")
        spans = list(whole_groups(np.cumsum(np.bincount(ids)), self._block_rows, stops))
        for X, (_, starts, groups) in zip(self._stream([order[rows] for rows, _, _ in spans]), spans, strict=True):
            yield GroupedBlock(X, starts, groups)

    def _stream(self, chosen: "Sequence[slice] | Sequence[Ints]") -> Iterator[Any]:
        """The rows of each choice, one after the other, each sent while the one before is worked on."""
        from isobag.backends.torch.devices import Sender  # noqa: PLC0415

        sender = Sender(self._device)

        def send(rows: "slice | Ints") -> tuple["torch.Tensor", Any]:
            return sender.send(self.X[rows])

        with ThreadPoolExecutor(1) as worker:
            sent: list[Future[tuple[torch.Tensor, Any]]] = []
            for rows in chosen:
                sent.append(worker.submit(send, rows))
                if len(sent) == 2:
                    yield sender.receive(sent.pop(0).result())
            for last in sent:
                yield sender.receive(last.result())


def first_bad_row(X: "torch.Tensor") -> int | None:
    """The first row of a tensor with NaN, infinity or a number too large to square; None if there is none."""
    with explained_on(X):
        good = (X.abs() <= FARTHEST).all(dim=1)  # false for NaN
        return None if bool(good.all()) else int((~good).int().argmax())
