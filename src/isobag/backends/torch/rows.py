"""Rows on a device: scaled, and the nearest center of every sample, by Triton kernels or by torch alone.

Without kernels, as on a processor, scales are NumPy's, and distances are a loop over the features, in which torch
rounds every difference, product and sum.
"""

from typing import Any

import numpy as np

from isobag.backends import numpy as definition
from isobag.backends.arrays import FAR, OUTSIDE, Array, Balls, Cells, Floats, Ints, Knots
from isobag.backends.samples import Cut
from isobag.backends.threads import slices
from isobag.backends.torch.devices import tensor, torch, uses_kernels

MOST_IN_REGISTERS = 32
"""Features of a row that a thread can hold; of more, distances are written to memory first."""
_MEASURED_PAIRS, _PLAIN_PAIRS = 1 << 29, 1 << 22
_FACTORS = np.array([1 / (2 * term + 1) for term in range(definition.TERMS, 0, -1)] + [definition.LN2])
_LOOKED_UP = 1 << 26
ROWS, TOGETHER, UNROLL = 256, 16, 2
"""Rows of a program, centers that are measured at once, and slots that are compared between two tests of a loop."""
LINEAR, ASINH, KNOTS = 0, 1, 2
CELLS, SUMS, RADII = 0, 1, 2


def scale_linearly(X: torch.Tensor, shift: Floats, spread: Floats, n_jobs: int | None = None) -> torch.Tensor:
    """(x - shift) / spread, limited to +-FAR: (n, d), feature by feature in memory, as are all scaled rows."""
    if not uses_kernels(X.device):
        return torch.from_numpy(definition.scale_linearly(X.to(torch.float64).numpy(), shift, spread))
    return _scale(X, LINEAR, [shift, shift, spread, shift, shift])


def scale_by_asinh(X: torch.Tensor, shift: Floats, spread: Floats, n_jobs: int | None = None) -> torch.Tensor:
    """Asinh of (x - shift) / spread, limited to +-FAR: (n, d)."""
    if not uses_kernels(X.device):
        return torch.from_numpy(definition.scale_by_asinh(X.to(torch.float64).numpy(), shift, spread))
    return _scale(X, ASINH, [shift, shift, spread, shift, shift])


def scale_by_knots(X: torch.Tensor, knots: Knots, n_jobs: int | None = None) -> torch.Tensor:
    """Score of the knot before x + slope * (x - that knot), limited to +-FAR: (n, d)."""
    if not uses_kernels(X.device):
        return torch.from_numpy(definition.scale_by_knots(X.to(torch.float64).numpy(), knots))
    parts = [knots.starts, knots.values, knots.values, knots.scores, knots.slopes]
    return _scale(X, KNOTS, parts, int(np.diff(knots.starts).max()).bit_length())


def _scale(X: torch.Tensor, kind: int, parts: list[Any], steps: int = 0) -> torch.Tensor:
    from isobag.backends.torch import row_kernels  # noqa: PLC0415, Triton need not be there

    n, d = X.shape
    scaled = torch.empty((d, n), dtype=torch.float32, device=X.device)
    if n:
        row_kernels.scale[(-(-n // 128), -(-d // 8))](
            X, *X.stride(), scaled, n, d, *(tensor(part, X.device) for part in (*parts, _FACTORS)), float(FAR),
            kind=kind, terms=definition.TERMS, steps=steps, rows=128, columns=8, enable_fp_fusion=False,
        )  # fmt: skip
    return scaled.t()


def sq_radii(pool: torch.Tensor, slots: Cells, levels: tuple[int, ...], n_jobs: int | None = None) -> torch.Tensor:
    """Squared distance from each center to the nearest different one of its sample, 0 if there is none: (L, S)."""
    cut, device = Cut(levels, len(slots)), pool.device
    radii = torch.zeros((len(cut.levels), cut.n_slots), dtype=torch.float32, device=device)
    centers = pool[tensor(slots, device)]
    if uses_kernels(device):
        for part in slices(cut.n_slots, cut.n_slots if pool.shape[1] <= MOST_IN_REGISTERS else cut.levels[-1]):
            numbers = np.arange(part.stop - part.start)
            _search(centers[part], centers[part], numbers, cut, RADII, radii, None, radii[:, part], radii)
        return radii
    for level, starts in enumerate(cut.starts):
        for start in starts:
            sample = slice(start, start + cut.levels[level])
            sq_dists = sq_distances(centers[sample], centers[sample])
            nearest = torch.where(sq_dists > 0, sq_dists, torch.inf).amin(dim=1)
            radii[level, sample] = torch.where(nearest < torch.inf, nearest, 0)
    return radii


def assign_cells(
    X: torch.Tensor, balls: Balls, limits: Ints | None = None, n_jobs: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The slot whose ball each row is in for every sample, OUTSIDE for none (T, n); how far out rows are (n,)."""
    device, cut, n = X.device, balls.cut, len(X)
    narrow = torch.int16 if cut.n_slots <= np.iinfo(np.int16).max else torch.int32
    cells = torch.empty((int(cut.ends[-1]), n), dtype=narrow, device=device)
    far = torch.zeros(n, dtype=torch.int64, device=device)
    pool, sq_radii = tensor(balls.pool, device), tensor(balls.sq_radii, device)
    if uses_kernels(device):
        _search(X, pool, balls.slots, cut, CELLS, sq_radii, limits, cells, far)
        return cells, far
    centers, weights = pool[tensor(balls.slots, device)], _far_weights(cut, limits)
    for rows in slices(n, max(1, _PLAIN_PAIRS // cut.n_slots)):
        sq_dists, number = sq_distances(X[rows], centers), 0
        for level, starts in enumerate(cut.starts):
            for start in starts.tolist():
                least, place = sq_dists[:, start : start + cut.levels[level]].min(dim=1)  # the first of several
                is_outside = least > sq_radii[level, start + place]
                cells[number, rows] = torch.where(is_outside, OUTSIDE, start + place).to(narrow)
                if limits is not None and weights[level]:
                    beyond = (least.view(torch.int32) >> 11).to(torch.int64) - int(limits[level])
                    far[rows] += weights[level] * torch.where(is_outside, beyond.clamp_min(0), 0)
                number += 1
    return cells, far


def sum_at_cells(
    X: torch.Tensor, balls: Balls, tables: Ints, limits: Ints | None = None, n_jobs: int | None = None
) -> torch.Tensor:
    """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""
    device, cut = X.device, balls.cut
    if tables.min(initial=0) < 0 or tables.max(initial=0) >= 1 << 32:
        raise ValueError("tables: need whole numbers from 0 to 2^32 - 1")
    if not uses_kernels(device):
        cells, far = assign_cells(X, balls, limits)
        return torch.column_stack([sum_cells(cells, cut, tables), far])
    sums = torch.empty((len(X), len(cut.levels) + 1), dtype=torch.int64, device=device)
    joined = tensor((balls.sq_radii.view(np.int32).astype(np.int64) << 32) | tables, device)
    _search(X, tensor(balls.pool, device), balls.slots, cut, SUMS, joined, limits, sums, sums, int(tables.max()))
    return sums


def sum_cells(cells: torch.Tensor, cut: Cut, tables: Ints, n_jobs: int | None = None) -> torch.Tensor:
    """Sum over samples of the table (L, S) at each row's cell, OUTSIDE adding nothing: (T, n) -> (n, L)."""
    sums = torch.empty((cells.shape[1], len(cut.levels)), dtype=torch.int64, device=cells.device)
    padded = tensor(np.pad(tables, ((0, 0), (1, 0))), cells.device)  # OUTSIDE is -1
    for rows in slices(len(sums), _LOOKED_UP // len(cells)):
        for level, cells_of_level in enumerate(torch.tensor_split(cells[:, rows], cut.ends[1:-1].tolist())):
            sums[rows, level] = padded[level][cells_of_level.to(torch.int64) + 1].sum(dim=0)
    return sums


def sq_distances(X: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Squared distances, features summed in order, nothing fused: (n, d), (m, d) -> (n, m)."""
    sq_dists = X.new_zeros((len(X), len(centers)))
    for x, c in zip(X.t(), centers.t(), strict=True):
        gaps = x[:, None] - c
        sq_dists += gaps * gaps
    return sq_dists


def _far_weights(cut: Cut, limits: Ints | None) -> list[int]:
    """What a sample of each psi counts in how far out rows are, 0 where it does not: (L,)."""
    return (cut.far_weights * (limits >= 0)).tolist() if limits is not None else [0] * len(cut.levels)


def _search(
    X: torch.Tensor, pool: torch.Tensor, slots: Array, cut: Cut, kind: int, table: torch.Tensor, limits: Ints | None,
    out: torch.Tensor, far: torch.Tensor, largest: int = 0,
) -> None:  # fmt: skip
    """Have the kernel write what is wanted of the nearest centers; see ``row_kernels.find_nearest``.

    largest : number of the table.
    """
    from isobag.backends.torch import row_kernels  # noqa: PLC0415, Triton need not be there

    (n, d), n_slots, weights = X.shape, len(slots), _far_weights(cut, limits)
    # An octave has 20 bits at most; sums that fit 32 bits need half of the registers.
    most = int(cut.counts[0]) * max(largest, sum(weight > 0 for weight in weights) << 20)
    on_device = table if limits is None else tensor(limits, X.device, torch.int32)
    numbers, fits = tensor(slots, X.device, torch.int32), d <= MOST_IN_REGISTERS
    m = -(-len(pool) // TOGETHER) * TOGETHER
    by_feature = None if fits else torch.nn.functional.pad(pool.t(), (0, m - len(pool))).contiguous()
    centers = pool[numbers] if fits else numbers
    for rows in slices(n, n if fits else max(ROWS, _MEASURED_PAIRS // m)):
        part, n_part = X[rows], min(rows.stop, n) - rows.start
        if by_feature is not None:
            sq_dists = torch.empty((m, n_part), dtype=torch.float32, device=X.device)
            row_kernels.measure[(-(-n_part // ROWS), m // TOGETHER)](
                part, *part.stride(), by_feature, sq_dists, n_part, m, d,
                rows=ROWS, together=TOGETHER, enable_fp_fusion=False,
            )  # fmt: skip
            part = sq_dists.t()
        here = out[:, rows] if kind == CELLS else out[rows] if kind == SUMS else out
        n_here, n_blocks = (cut.levels[-1], n_slots // cut.levels[-1]) if kind == RADII else (n_part, 1)
        row_kernels.find_nearest[(-(-n_here // ROWS), n_blocks)](
            part, *part.stride(), centers, table, on_device, here, here.stride(0), far[rows], n_part, n_slots,
            levels=cut.levels, begins=(0, *cut.levels[:-1]), firsts=tuple(cut.ends[:-1].tolist()),
            weights=tuple(weights), run=cut.run, d=d if fits else 0, kind=kind, wide=most >= 1 << 31,
            unroll=UNROLL, rows=ROWS, enable_fp_fusion=False,
        )  # fmt: skip
