"""Counts of the cells of groups, dense and on the device."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from isobag.backends.arrays import Balls, Floats, Ints
from isobag.backends.samples import Cut
from isobag.backends.threads import slices
from isobag.backends.torch.devices import explained, tensor, torch, uses_kernels
from isobag.backends.torch.rows import assign_cells

_BLOCK_COUNTS = 1 << 26
_COUNTED_ROWS, _MOST_BINS = 1 << 12, 1024


class DeviceCounts:
    """Counts (g, columns), integers as narrow as the largest group allows; leaves the device as a CSR array."""

    def __init__(self, dense: torch.Tensor) -> None:
        self.dense = dense

    @property
    def shape(self) -> tuple[int, int]:
        """Number of groups and of columns."""
        return self.dense.shape[0], self.dense.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the counts are."""
        return self.dense.device

    def __getitem__(self, rows: slice | Ints) -> "DeviceCounts":
        if isinstance(rows, slice):
            return DeviceCounts(self.dense[rows])
        with explained(self.device):
            return DeviceCounts(self.dense[tensor(np.asarray(rows), self.device)])

    def __reduce__(self) -> tuple[type[csr_array], tuple[csr_array]]:
        return csr_array, (self.tocsr(),)

    def blocks(self) -> list[slice]:
        """Rows that can be widened at once."""
        return list(slices(self.shape[0], max(1, _BLOCK_COUNTS // max(1, self.shape[1]))))

    def tocsr(self) -> csr_array:
        """The counts in host memory: CSR, sorted, int32."""
        with explained(self.device):
            places = torch.nonzero(self.dense)
            values = self.dense[places[:, 0], places[:, 1]].to(torch.int32).cpu().numpy()
            lengths = torch.bincount(places[:, 0], minlength=self.shape[0]).cpu().numpy()
        starts = np.concatenate([[0], lengths.cumsum()])
        narrow = np.int32 if starts[-1] < 2**31 else np.int64
        columns = places[:, 1].cpu().numpy().astype(narrow)
        return csr_array((values, columns, starts.astype(narrow)), shape=self.shape)

    def multiply(self, weights: Floats) -> csr_array:
        """Each row times its weight, in host memory: (g, 1) -> CSR float64."""
        return csr_array(self.tocsr().multiply(weights))

    @cached_property
    def self_dots(self) -> Floats:
        """Dot product of each row with itself: (g,)."""
        with explained(self.device):
            parts = [self.dense[own].to(torch.int64).square_().sum(dim=1) for own in self.blocks()]
            return torch.cat(parts).to(torch.float64).cpu().numpy() if parts else np.empty(0)

    def total(self, weights: Ints) -> Ints:
        """Sum over the rows of counts times whole weights: (g,) -> (columns,)."""
        with explained(self.device):
            total = torch.zeros(self.shape[1], dtype=torch.int64, device=self.device)
            factors = tensor(weights, self.device)[:, None]
            for block in self.blocks():
                total += (self.dense[block] * factors[block]).sum(dim=0)
            sums: Ints = total.cpu().numpy()
            return sums

    def dot(self, vector: Ints) -> Ints:
        """Dot product of each row with a vector of whole numbers: (columns,) -> (g,)."""
        with explained(self.device):
            factors = tensor(vector, self.device)
            parts = [(self.dense[own] * factors).sum(dim=1) for own in self.blocks()]
            return torch.cat(parts).cpu().numpy() if parts else np.empty(0, dtype=np.int64)

    @classmethod
    def merged(cls, parts: Sequence["DeviceCounts"], numbers: Ints, n_groups: int) -> "DeviceCounts":
        """Counts of all groups; row k of all parts together is of group numbers[k], a group may be in several."""
        with explained(parts[0].device):
            whole = parts[0].dense if len(parts) == 1 else torch.cat([part.dense for part in parts])
            if np.array_equal(numbers, np.arange(n_groups)):
                return cls(whole)
            wide = torch.zeros((n_groups, whole.shape[1]), dtype=torch.int32, device=whole.device)
            wide.index_add_(0, tensor(numbers, whole.device), whole.to(torch.int32))
            return cls(wide)


Counts = csr_array | DeviceCounts


def as_device_counts(counts: Counts, device: torch.device) -> DeviceCounts:
    """Counts on the device, whether they came as such or as a CSR array."""
    if isinstance(counts, DeviceCounts):
        return counts if counts.device == device else DeviceCounts(counts.dense.to(device))
    largest = int(counts.data.max(initial=0))
    dense = torch.zeros(counts.shape, dtype=narrowest(largest), device=device)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    places = tensor(rows * counts.shape[1] + counts.indices, device)
    dense.view(-1)[places] = tensor(counts.data, device).to(dense.dtype)
    return DeviceCounts(dense)


def narrowest(largest: int) -> torch.dtype:
    """The narrowest type that holds counts up to ``largest``."""
    return torch.int8 if largest < 1 << 7 else torch.int16 if largest < 1 << 15 else torch.int32


def count_groups(cells: torch.Tensor, cut: Cut, starts: Ints, n_jobs: int | None = None) -> DeviceCounts:
    """Number of each group's rows in each cell: cells (T, n), the rows of a group side by side -> (g, L S)."""
    device, sizes, width = cells.device, np.diff(starts), cut.n_cells
    dense = torch.zeros((len(sizes), width), dtype=narrowest(int(sizes.max(initial=0))), device=device)
    if uses_kernels(device) and cut.levels[-1] <= _MOST_BINS and len(sizes):
        from isobag.backends.torch import row_kernels  # noqa: PLC0415, Triton need not be there

        bounds, of_levels = tensor(starts, device), enumerate(zip(cut.levels, cut.starts, strict=True))
        for level, (psi, firsts) in of_levels:
            row_kernels.count_cells[(len(sizes), len(firsts))](
                cells[cut.ends[level] :], bounds, tensor(firsts, device, torch.int32), dense,
                cells.shape[1], width, level * cut.n_slots, psi,
                block=128, bins=1 << max(1, (psi - 1).bit_length()), num_warps=1,
            )  # fmt: skip
        return DeviceCounts(dense)
    before = tensor(np.repeat(np.arange(len(cut.levels)) * cut.n_slots, cut.counts), device)[:, None]
    for groups in slices(len(sizes), max(1, (_BLOCK_COUNTS << 2) // max(1, width))):
        part = cells[:, int(starts[groups.start]) : int(starts[groups.stop])].to(torch.int64)
        owners = torch.repeat_interleave(tensor(sizes[groups], device)) * width
        wide = torch.zeros((groups.stop - groups.start) * width + 1, dtype=torch.int32, device=device)
        places = torch.where(part < 0, len(wide) - 1, part + before + owners).flatten()  # the last is not kept
        wide.scatter_add_(0, places, torch.ones(1, dtype=torch.int32, device=device).expand(len(places)))
        dense[groups] = wide[:-1].view(-1, width).to(dense.dtype)
    return DeviceCounts(dense)


def count_at_cells(X: torch.Tensor, balls: Balls, n_jobs: int | None = None) -> torch.Tensor:
    """Number of rows in each cell: (n, d) -> (L, S)."""
    counts = torch.zeros(balls.sq_radii.shape, dtype=torch.int64, device=X.device)
    for rows in slices(len(X), _COUNTED_ROWS << 9):
        counts += count_cells(assign_cells(X[rows], balls)[0], balls.cut)
    return counts


def count_cells(cells: torch.Tensor, cut: Cut, n_jobs: int | None = None) -> torch.Tensor:
    """Number of rows in each cell, those of groups of rows added up: (T, n) -> (L, S)."""
    n = cells.shape[1]
    counts = torch.zeros((len(cut.levels), cut.n_slots), dtype=torch.int64, device=cells.device)
    for rows in slices(n, _COUNTED_ROWS << 6):
        starts = np.append(np.arange(rows.start, rows.stop, _COUNTED_ROWS), rows.stop)
        counts += count_groups(cells, cut, starts).dense.sum(dim=0, dtype=torch.int64).view(counts.shape)
    return counts


def dot_products(counts: DeviceCounts, centers: DeviceCounts) -> torch.Tensor:
    """Dot products of all rows with all centers, exact integers: (n, centers) int32 or int64.

    int8 on the tensor cores of a GPU, added up in int32: exact below 2^31. Otherwise float64: exact below 2^53.
    """
    a, b = counts.dense, centers.dense
    narrow = a.dtype == b.dtype == torch.int8 and a.shape[1] * 127 * 127 < 2**31
    if narrow and a.is_cuda:
        return _int8_products(a, b)
    fits = a.shape[1] * _limit(a) * _limit(b) < 2**31 or _largest_norm(counts) * _largest_norm(centers) < 2**31
    dots = torch.empty((len(a), len(b)), dtype=torch.int32 if fits else torch.int64, device=a.device)
    for columns in slices(len(b), max(1, _BLOCK_COUNTS // max(1, b.shape[1]))):
        other = b[columns].to(torch.float64).t()
        for rows in counts.blocks():
            dots[rows, columns] = (a[rows].to(torch.float64) @ other).to(dots.dtype)
    return dots


def _limit(dense: torch.Tensor) -> int:
    return int(torch.iinfo(dense.dtype).max)


def _largest_norm(counts: DeviceCounts) -> float:
    return float(np.sqrt(counts.self_dots.max(initial=0.0)))  # Cauchy and Schwarz


def _int8_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of int8 matrices with the shapes that cuBLAS takes: more than 16 rows, multiples of 8."""
    n, m, width = len(a), len(b), a.shape[1]
    a = torch.nn.functional.pad(a, (0, -width % 16, 0, max(0, 32 - n)))
    b = torch.nn.functional.pad(b, (0, -width % 16, 0, -m % 16))
    return torch._int_mm(a, b.t())[:n, :m]  # noqa: SLF001, the only product of integers
