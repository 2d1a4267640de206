"""Cells of groups among groups: by Triton kernels on a GPU, by the Numba backend on the processor."""

import numpy as np
import torch

from isobag.backends.arrays import Cells, Floats, Ints
from isobag.backends.torch.devices import tensor
from isobag.backends.torch.host import NUMBA

MOST_BINS = 1024


def group_sq_radii(
    dots: torch.Tensor, rows: Ints, self_dots: Floats, sizes: Ints, unit: int, slots: Cells, levels: tuple[int, ...]
) -> torch.Tensor:
    """Squared distance from each center to the nearest different one; its dot products are dots[rows]: (L, t, psi)."""
    device, (t, psi) = dots.device, slots.shape
    if not uses_kernels(device):
        own = dots.numpy(), rows, self_dots, sizes
        return torch.from_numpy(NUMBA.group_sq_radii(*own, unit, slots, levels, None))
    from isobag.backends.torch import group_kernels  # noqa: PLC0415

    own_dots, own_sizes, common = (tensor(own, device) for own in (self_dots, sizes, np.gcd(sizes, unit)))
    radii = torch.zeros((len(levels), t, psi), dtype=torch.float64, device=device)
    group_kernels.nearest_other_groups[(-(-psi // 16), t)](
        dots, dots.stride(0), tensor(rows, device), own_dots, own_sizes, common, tensor(slots, device),
        torch.tensor(levels, dtype=torch.int32, device=device), radii,
        t, psi, len(levels), rows=16, columns=64, enable_fp_fusion=False,
    )  # fmt: skip
    return radii


def assign_groups(
    dots: torch.Tensor, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
    slots: Cells, levels: tuple[int, ...], sq_radii: Floats,
) -> torch.Tensor:  # fmt: skip
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    device, n, (t, psi) = dots.device, len(dots), slots.shape
    if not uses_kernels(device):
        given = dots.numpy(), self_dots, sizes, center_self_dots, center_sizes, unit
        return torch.from_numpy(NUMBA.assign_groups(*given, slots, levels, sq_radii, None))
    from isobag.backends.torch import group_kernels  # noqa: PLC0415

    common = np.gcd(sizes, unit)
    own = [tensor(each, device) for each in (self_dots, sizes, common)]
    others = [tensor(each, device) for each in (center_self_dots, center_sizes)]
    cells = torch.empty((len(levels), t, n), dtype=torch.int32, device=device)
    if n:
        group_kernels.assign_groups[(-(-n // 16), t)](
            dots, dots.stride(0), *own, *others, tensor(slots, device),
            torch.tensor(levels, dtype=torch.int32, device=device), tensor(sq_radii, device), cells,
            n, t, psi, len(levels), rows=16, columns=64,
            by_key=_have_keys(self_dots, sizes, common, center_self_dots, center_sizes), enable_fp_fusion=False,
        )  # fmt: skip
    return cells


def _have_keys(self_dots: Floats, sizes: Ints, common: Ints, center_self_dots: Floats, center_sizes: Ints) -> bool:
    """Whether int32 keys order the centers of each group as float64 distances do; see ``group_kernels``.

    All centers are of one size, keys stay below 2^31, and numerators below 2^52, so that different ones have different
    quotients.
    """
    if not len(center_sizes) or np.any(center_sizes != center_sizes[0]):
        return False
    m, other = (sizes // common).max(initial=1), int(center_sizes[0]) // common.min(initial=1)
    largest = max(self_dots.max(initial=0.0), center_self_dots.max())  # no dot product is larger
    return bool((m + 2 * other) * largest < 2**31 and (m + other) ** 2 * largest < 2**52)


def self_dots(dense: torch.Tensor) -> torch.Tensor:
    """Dot product of each row of counts with itself: (g, columns) -> (g,) float64."""
    from isobag.backends.torch import group_kernels  # noqa: PLC0415

    n, width = dense.shape
    squares = torch.empty(n, dtype=torch.float64, device=dense.device)
    if n:
        group_kernels.self_dots[(n,)](dense, squares, dense.stride(0), width, block=2048)
    return squares


def count_cells(cells: torch.Tensor, starts: torch.Tensor, n_cells: int, n_columns: int, dense: torch.Tensor) -> None:
    """Number of each group's points in each cell, written to dense (g, t * n_columns): cells (t, n)."""
    from isobag.backends.torch import group_kernels  # noqa: PLC0415

    t, n = cells.shape
    group_kernels.count_cells[(len(dense), t)](
        cells, starts, dense, n, t, n_cells, n_columns,
        block=128, bins=1 << max(1, (n_columns - 1).bit_length()), num_warps=1,
    )  # fmt: skip


def uses_kernels(device: torch.device) -> bool:
    """Whether Triton kernels do the work."""
    return bool(device.type == "cuda")
