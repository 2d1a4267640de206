"""The backend for GPUs, by torch and Triton: the integers of the NumPy backend, computed where the rows lie.

Rows in host memory are sent to the device block by block; see docs/gpu.md for when a GPU pays. On a processor, kernels
run only where Triton interprets them; else NumPy does their work.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from isobag.backends import numpy as definition
from isobag.backends.arrays import Array
from isobag.backends.torch import counts, rows
from isobag.backends.torch.counts import Counts
from isobag.backends.torch.devices import Placed, explained, resolve, tensor, to_host, torch, uses_kernels

__all__ = ["TorchBackend", "on", "torch"]


def on(device: str | None) -> "TorchBackend":
    """The backend on a device: "cuda" (or None), "cuda:1", "cpu", or "auto" for a GPU if there is one."""
    return TorchBackend(resolve(device))


def _method(function: Callable[..., Any], fetched: bool = False, by_kernels: bool = False) -> Callable[..., Any]:
    """A method that calls a function of tensors, of which the first, or a list of them, is sent to the device.

    by_kernels : NumPy's function of that name does the work where there are no kernels.
    """

    @wraps(function)
    def method(self: "TorchBackend", first: Placed | Sequence[Placed], *args: Any, **options: Any) -> Any:
        with explained(self.device):
            is_list = isinstance(first, Sequence)
            there: Any = [tensor(each, self.device) for each in first] if is_list else tensor(first, self.device)
            if by_kernels and not uses_kernels(self.device):
                values = torch.from_numpy(getattr(definition, function.__name__)(there.numpy(), *args, **options))
            else:
                values = function(there, *args, **options)
            return to_host(values) if fetched else values

    return method


class TorchBackend:
    """The functions of ``isobag.backends.protocol`` on one device; ``n_jobs`` is for what runs on the processor."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def fetch(self, values: Placed) -> Array:
        """Values as a NumPy array."""
        return to_host(values) if isinstance(values, torch.Tensor) else values

    scale_linearly, scale_by_asinh, scale_by_knots, sum_at_cells = (
        _method(function, by_kernels=True)
        for function in (rows.scale_linearly, rows.scale_by_asinh, rows.scale_by_knots, rows.sum_at_cells)
    )
    sq_radii = _method(rows.sq_radii, fetched=True, by_kernels=True)
    place, add_terms, assign_cells, sum_cells, count_groups = (
        _method(function)
        for function in (definition.place, rows.add_terms, rows.assign_cells, rows.sum_cells, counts.count_groups)
    )
    count_at_cells, count_cells, near_and_far, assign_groups = (
        _method(function, fetched=True)
        for function in (counts.count_at_cells, counts.count_cells, counts.near_and_far, counts.assign_groups)
    )

    def dot_counts(self, of_groups: Counts, centers: Counts, n_jobs: int | None = None) -> torch.Tensor:
        """Dot products of all rows of counts with all centers, integers: (n, centers)."""
        with explained(self.device):
            return counts.dot_products(*(counts.as_device_counts(each, self.device) for each in (of_groups, centers)))
