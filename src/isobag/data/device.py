"""Rows that live on a GPU, and stay there: torch tensors, CuPy arrays, anything with DLPack.

Rows in host memory need nothing here: their blocks are sent to a GPU one after the other, where one is asked for.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from isobag.backends.arrays import FARTHEST, Array, Floats, Ints
from isobag.backends.threads import slices
from isobag.data.rows import ArrayRows, GroupedBlock, Rows, whole_groups

if TYPE_CHECKING:
    import torch

BLOCK_NUMBERS, BLOCK_ROWS = 1 << 27, 1 << 21
"""Most numbers and rows of a block: a GPU wants large ones, but the cells of each row need room."""
_GPUS = (2, 3, 10, 13)  # DLPack: CUDA, its pinned host memory, ROCm, CUDA's managed memory


def lives_on_gpu(X: Any) -> bool:
    """Whether an array is in the memory of a GPU."""
    if hasattr(X, "__cuda_array_interface__"):
        return True
    if not hasattr(X, "__dlpack_device__") or isinstance(X, np.ndarray):
        return False
    return int(X.__dlpack_device__()[0]) in _GPUS


def as_tensor(X: Any) -> Any:
    """The array as a torch tensor over the same memory."""
    from isobag.backends.torch import torch  # noqa: PLC0415, and only where it is asked for

    return X.detach() if isinstance(X, torch.Tensor) else torch.utils.dlpack.from_dlpack(X)


class DeviceRows(Rows):
    """The rows of a tensor (n, d), on its device; results come back as the kind of array ``like`` is."""

    def __init__(self, X: "torch.Tensor", like: Any = None, names: Sequence[str] | None = None) -> None:
        super().__init__(X.shape[0], X.shape[1], names)
        self.X, self._like = X, X if like is None else like
        self._block_rows = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // self.n_features))

    @property
    def device(self) -> str | None:
        """The name of the device."""
        return str(self.X.device)

    def blocks(self) -> Iterator[Any]:
        """Parts of the tensor."""
        return (self.X[rows] for rows in slices(len(self), self._block_rows))

    def take(self, numbers: slice | Ints) -> Floats:
        """Some rows, in host memory: (k, d)."""
        rows: Floats = self._picked(numbers).double().cpu().numpy()
        return rows

    def part(self, numbers: Ints) -> Rows:
        """Some rows, on the device."""
        return DeviceRows(self._picked(numbers), self._like, self.names)

    def _picked(self, numbers: slice | Ints) -> "torch.Tensor":
        if isinstance(numbers, slice):
            return self.X[numbers]
        return self.X[sys.modules["torch"].as_tensor(np.ascontiguousarray(numbers), device=self.X.device)]

    @property
    def whole(self) -> Any:
        """The tensor, unless it is larger than a block."""
        return self.X if len(self) <= self._block_rows else None

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and largest value of each feature, NaN where there is one: (d,), (d,)."""
        return self._extremes

    @cached_property
    def _extremes(self) -> tuple[Floats, Floats]:
        low, high = sys.modules["torch"].aminmax(self.X, dim=0)
        return low.double().cpu().numpy(), high.double().cpu().numpy()

    @property
    def first_bad(self) -> int | None:
        """The first row with NaN, infinity or a number too large to square; None if there is none."""
        if not len(self) or np.all(np.abs(self._extremes) <= FARTHEST):  # false for NaN
            return None
        return int((~(self.X.abs() <= FARTHEST)).any(dim=1).int().argmax())

    @property
    def on_host(self) -> Rows:
        """The rows in host memory."""
        return ArrayRows(self.X.double().cpu().numpy(), self.names)

    def give(self, values: Array) -> Any:
        """Values as the kind of array that the rows came as, on their device."""
        tensor = sys.modules["torch"].from_numpy(np.ascontiguousarray(values)).to(self.X.device)
        if isinstance(self._like, sys.modules["torch"].Tensor):
            return tensor
        return sys.modules[type(self._like).__module__.partition(".")[0]].from_dlpack(tensor)

    def grouped_blocks(self, ids: Ints, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All rows sorted by group, on the device; no group is cut, however large."""
        numbers = sys.modules["torch"].as_tensor(ids, device=self.X.device)
        ends = numbers.bincount().cumsum(0).cpu().numpy()
        is_sorted = bool((numbers[1:] >= numbers[:-1]).all())
        X: Any = self.X if is_sorted else self.X[numbers.argsort(stable=True)]
        for rows, starts, groups in whole_groups(ends, self._block_rows, stops):
            yield GroupedBlock(X[rows], starts, groups)
