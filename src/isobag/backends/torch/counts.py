"""Groups on a device: their points counted in cells, dense, and what level 2 computes of the counts."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from isobag.backends import numpy as definition
from isobag.backends.arrays import OUTSIDE, Balls, Cells, Cut, Deviations, Floats, Ints
from isobag.backends.threads import slices
from isobag.backends.torch.devices import explained, tensor, to_host, torch, uses_kernels
from isobag.backends.torch.rows import LOOKED_UP, assign_cells

_BLOCK_COUNTS, _MOST_BINS = 1 << 26, 1024


class DeviceCounts:
    """Counts (g, columns), integers as narrow as the largest group allows; leaves the device as a CSR array."""

    def __init__(self, dense: torch.Tensor) -> None:
        self.dense, self.device, self.shape = dense, dense.device, (dense.shape[0], dense.shape[1])

    def __getitem__(self, rows: slice | Ints) -> "DeviceCounts":
        with explained(self.device):
            return DeviceCounts(self.dense[rows if isinstance(rows, slice) else tensor(np.asarray(rows), self.device)])

    def __reduce__(self) -> tuple[type[csr_array], tuple[csr_array]]:
        return csr_array, (self.tocsr(),)

    def blocks(self) -> list[slice]:
        """Rows that can be widened at once; there is always a block."""
        return list(slices(max(1, self.shape[0]), max(1, _BLOCK_COUNTS // max(1, self.shape[1]))))

    def _of_blocks(self, function: Callable[[torch.Tensor, slice], torch.Tensor]) -> list[torch.Tensor]:
        with explained(self.device):
            return [function(self.dense[rows], rows) for rows in self.blocks()]

    def tocsr(self) -> csr_array:
        """The counts in host memory: CSR, sorted, int32."""
        with explained(self.device):
            rows, columns = torch.nonzero(self.dense, as_tuple=True)
            starts = torch.nn.functional.pad(torch.bincount(rows, minlength=self.shape[0]).cumsum(0), (1, 0))
            narrow = torch.int32 if len(rows) < 2**31 else torch.int64
            parts = self.dense[rows, columns].to(torch.int32), columns.to(narrow), starts.to(narrow)
            return csr_array(tuple(part.cpu().numpy() for part in parts), shape=self.shape)

    @cached_property
    def self_dots(self) -> Floats:
        """Dot product of each row with itself: (g,)."""
        parts = self._of_blocks(lambda dense, _: dense.to(torch.int64).square_().sum(dim=1))
        return to_host(torch.cat(parts).to(torch.float64))

    def total(self, weights: Ints) -> Ints:
        """Sum over the rows of counts times whole weights: (g,) -> (columns,)."""
        factors = tensor(weights, self.device)[:, None]
        parts = self._of_blocks(lambda dense, rows: (dense * factors[rows]).sum(dim=0))
        return to_host(torch.stack(parts).sum(dim=0))

    def dot(self, vector: Ints) -> Ints:
        """Dot product of each row with a vector of whole numbers: (columns,) -> (g,)."""
        factors = tensor(vector, self.device)
        return to_host(torch.cat(self._of_blocks(lambda dense, _: (dense * factors).sum(dim=1))))

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
    return DeviceCounts(tensor(counts.toarray(), device, _narrowest(int(counts.data.max(initial=0)))))


def _narrowest(largest: int) -> torch.dtype:
    """The narrowest type that holds counts up to ``largest``."""
    return torch.int8 if largest < 1 << 7 else torch.int16 if largest < 1 << 15 else torch.int32


def count_groups(cells: torch.Tensor, cut: Cut, starts: Ints, n_jobs: int | None = None) -> DeviceCounts:
    """Number of each group's rows in each cell: cells (T, n), the rows of a group side by side -> (g, L S)."""
    device, sizes = cells.device, np.diff(starts)
    if not uses_kernels(device):
        return as_device_counts(definition.count_groups(cells.numpy(), cut, starts), device)
    from isobag.backends.torch import row_kernels  # noqa: PLC0415, Triton need not be there

    dense = torch.zeros((len(sizes), cut.n_cells), dtype=_narrowest(int(sizes.max(initial=0))), device=device)
    bounds = tensor(starts, device)
    for level, (psi, firsts) in enumerate(zip(cut.levels, cut.starts, strict=True) if len(sizes) else ()):
        bins = min(_MOST_BINS, 1 << max(1, (psi - 1).bit_length()))
        row_kernels.count_cells[(len(sizes), len(firsts), -(-psi // bins))](
            cells[cut.ends[level] :], bounds, tensor(firsts, device, torch.int32), dense,
            cells.shape[1], cut.n_cells, level * cut.n_slots, psi, block=128, bins=bins, num_warps=1,
        )  # fmt: skip
    return DeviceCounts(dense)


def count_at_cells(X: torch.Tensor, balls: Balls, n_jobs: int | None = None) -> torch.Tensor:
    """Number of rows in each cell: (n, d) -> (L, S)."""
    return count_cells(assign_cells(X, balls)[0], balls.cut)


def count_cells(cells: torch.Tensor, cut: Cut, n_jobs: int | None = None) -> torch.Tensor:
    """Number of rows in each cell: (T, n) -> (L, S)."""
    counts = torch.zeros((len(cut.levels), cut.n_slots), dtype=torch.int64, device=cells.device)
    for rows in slices(cells.shape[1], LOOKED_UP // len(cells)):
        for level, of_level in enumerate(torch.tensor_split(cells[:, rows], cut.ends[1:-1].tolist())):
            slots = of_level.flatten().to(torch.int64) + 1  # OUTSIDE is -1
            counts[level] += torch.bincount(slots, minlength=1 + cut.n_slots)[1:]
    return counts


def dot_products(counts: DeviceCounts, centers: DeviceCounts) -> torch.Tensor:
    """Dot products of all rows with all centers, exact integers: (n, centers) int32 or int64.

    int8 on the tensor cores of a GPU, added up in int32: exact below 2^31. Otherwise float64: exact below 2^53.
    """
    a, b = counts.dense, centers.dense
    if a.is_cuda and a.dtype == b.dtype == torch.int8 and a.shape[1] * 127 * 127 < 2**31:
        return _int8_products(a, b)
    dots = torch.empty((len(a), len(b)), dtype=torch.int64, device=a.device)
    for columns in slices(len(b), max(1, _BLOCK_COUNTS // max(1, b.shape[1]))):
        other = b[columns].to(torch.float64).t()
        for rows in counts.blocks():
            dots[rows, columns] = (a[rows].to(torch.float64) @ other).to(dots.dtype)
    return dots


def _int8_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of int8 matrices with the shapes that cuBLAS takes: more than 16 rows, multiples of 8."""
    n, m, width = len(a), len(b), a.shape[1]
    a = torch.nn.functional.pad(a, (0, -width % 16, 0, max(0, 32 - n)))
    b = torch.nn.functional.pad(b, (0, -width % 16, 0, -m % 16))
    return torch._int_mm(a, b.t())[:n, :m]  # noqa: SLF001, the only product of integers


def assign_groups(
    dots: torch.Tensor, self_dots: Floats, sizes: Ints, center_self_dots: Floats, center_sizes: Ints, unit: int,
    slots: Cells, levels: tuple[int, ...], sq_radii: Floats, n_jobs: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Cell of every group in every partitioning of groups, for each level: (L, t, n)."""
    device, n, (t, psi) = dots.device, len(dots), slots.shape
    radii, columns, every = tensor(sq_radii, device), tensor(slots.ravel(), device), torch.arange(t, device=device)
    *of_groups, others_dots, others_sizes = (
        tensor(values, device, torch.float64)
        for values in (self_dots, sizes, np.gcd(sizes, unit), center_self_dots, center_sizes)
    )
    cells = torch.empty((len(levels), t, n), dtype=torch.int32, device=device)
    for groups in slices(n, max(1, _BLOCK_COUNTS // (t * psi))):
        own_dots, own_sizes, common = (values[groups] for values in of_groups)
        measured = dots[groups], own_dots, own_sizes, others_dots, others_sizes, common
        sq_dists: torch.Tensor = definition.group_sq_distances(*measured)
        sq_dists = sq_dists[:, columns].view(-1, t, psi)
        for level, size in enumerate(levels):
            least, place = sq_dists[:, :, :size].min(dim=2)  # the first of several
            chosen = torch.where(least <= radii[level][every, place], place, OUTSIDE)
            cells[level, :, groups] = chosen.t().to(torch.int32)
    return cells


def near_and_far(
    dots: torch.Tensor, groups: Deviations, others: Deviations, sq_norm: float, ranks: tuple[int, ...],
    n_jobs: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Mean distance to the nearest references, and to those of other ranks: (g, references) -> (g, len(ranks)).

    The operations of ``isobag.backends.numpy.near_and_far`` in their order, each rounded once. Tensors are divided by
    tensors: by a plain number, CUDA would multiply by its inverse.
    """
    groups, others = (Deviations(*(tensor(values, dots.device) for values in each)) for each in (groups, others))
    sq_dists: torch.Tensor = definition.sq_deviations(dots, groups, others, sq_norm)
    sq_dists.clamp_min_(0)
    is_same = (dots == groups.self_dots[:, None]) & (dots == others.self_dots)
    is_same &= groups.sizes[:, None] == others.sizes
    first = torch.zeros_like(is_same).scatter_(1, is_same.to(torch.uint8).argmax(dim=1, keepdim=True), True)
    sq_dists.masked_fill_(is_same & first, float("inf"))
    ordered = sq_dists.topk(max(ranks), dim=1, largest=False, sorted=True).values
    ordered = torch.where(torch.isfinite(ordered), ordered, 0.0)
    # torch's own root is not correctly rounded on all processors
    ordered = ordered.sqrt() if ordered.is_cuda else torch.from_numpy(np.sqrt(ordered.numpy()))
    total = ordered[:, 0].clone()
    for each in ordered.t()[1 : ranks[0]]:
        total += each
    near = total / torch.full_like(total, ranks[0])
    return torch.stack([near, *(ordered[:, rank - 1] for rank in ranks[1:])], dim=1)
