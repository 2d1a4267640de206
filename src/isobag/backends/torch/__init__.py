"""The backend for GPUs, by torch and Triton: the integers of the NumPy backend, computed where the rows lie.

Rows in host memory are sent to the device block by block; see docs/gpu.md for when a GPU pays.
"""

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

from isobag.backends.arrays import Array, Terms
from isobag.backends.torch import counts, groups, rows, terms
from isobag.backends.torch.counts import Counts
from isobag.backends.torch.devices import Placed, explained, resolve, tensor, to_host, torch

__all__ = ["TorchBackend", "on", "torch"]


def on(device: str | None) -> "TorchBackend":
    """The backend on a device: "cuda" (or None), "cuda:1", "cpu", or "auto" for a GPU if there is one."""
    return _backend(str(resolve(device)))


@cache
def _backend(name: str) -> "TorchBackend":
    return TorchBackend(resolve(name))


def _method(function: Callable[..., Any], fetched: bool = False) -> Callable[..., Any]:
    """A method that calls a function of tensors, the first of which is sent to the device if it is not there."""

    @wraps(function)
    def method(self: "TorchBackend", first: Placed, *args: Any, **options: Any) -> Any:
        with explained(self.device):
            values = function(tensor(first, self.device), *args, **options)
            return to_host(values) if fetched else values

    return method


class TorchBackend:
    """The functions of ``isobag.backends.protocol`` on one device; ``n_jobs`` is for what runs on the processor."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def place(self, X: Placed) -> torch.Tensor:
        """Rows on the device: (n, d)."""
        with explained(self.device):
            return tensor(X, self.device)

    def fetch(self, values: Placed) -> Array:
        """Values as a NumPy array."""
        return to_host(values) if isinstance(values, torch.Tensor) else values

    scale_linearly, scale_by_asinh = _method(rows.scale_linearly), _method(rows.scale_by_asinh)
    scale_by_knots = _method(rows.scale_by_knots)
    sq_radii, assign_cells = _method(rows.sq_radii, fetched=True), _method(rows.assign_cells)
    sum_at_cells, sum_cells = _method(rows.sum_at_cells), _method(rows.sum_cells)
    count_at_cells, count_cells = (
        _method(counts.count_at_cells, fetched=True),
        _method(counts.count_cells, fetched=True),
    )
    count_groups = _method(counts.count_groups)
    near_and_far, assign_groups = (_method(each, fetched=True) for each in (groups.near_and_far, groups.assign_groups))

    def add_terms(
        self, sums: Sequence[Placed], of_score: Terms, n_jobs: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sum of all terms of each row, and of the first, one after the other: (n, L + 1) a view -> (n,), (n,)."""
        with explained(self.device):
            return terms.add_terms([tensor(each, self.device) for each in sums], of_score, n_jobs)

    def dot_counts(self, of_groups: Counts, centers: Counts, n_jobs: int | None = None) -> torch.Tensor:
        """Dot products of all rows of counts with all centers, integers: (n, centers)."""
        with explained(self.device):
            there = [counts.as_device_counts(each, self.device) for each in (of_groups, centers)]
            return counts.dot_products(*there)
