"""Rows on a device: scaled, the nearest center of every sample by Triton kernels, and terms of scores."""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from isobag.backends import numpy as definition
from isobag.backends.arrays import FAR, Balls, Cells, Cut, Floats, Ints, Knots, Term, Terms
from isobag.backends.threads import map_in_threads, slices
from isobag.backends.torch.devices import tensor, torch, uses_kernels

MOST_IN_REGISTERS = 32
"""Features of a row that a thread can hold; of more, distances are written to memory first."""
_MEASURED_PAIRS, LOOKED_UP = 1 << 29, 1 << 26
_FACTORS = np.array([1 / (2 * term + 1) for term in range(definition.TERMS, 0, -1)] + [definition.LN2])
ROWS, TOGETHER, UNROLL = 256, 16, 2
"""Rows of a program, centers that are measured at once, and slots that are compared between two tests of a loop."""
LINEAR, ASINH, KNOTS = 0, 1, 2
CELLS, SUMS = 0, 1
_tables: WeakKeyDictionary[Terms, dict[tuple[torch.device, Term], torch.Tensor]] = WeakKeyDictionary()


def scale_linearly(X: torch.Tensor, shift: Floats, spread: Floats, n_jobs: int | None = None) -> torch.Tensor:
    """(x - shift) / spread, limited to +-FAR: (n, d), feature by feature in memory, as are all scaled rows."""
    return _scale(X, LINEAR, [shift, shift, spread, shift, shift])


def scale_by_asinh(X: torch.Tensor, shift: Floats, spread: Floats, n_jobs: int | None = None) -> torch.Tensor:
    """Asinh of (x - shift) / spread, limited to +-FAR: (n, d)."""
    return _scale(X, ASINH, [shift, shift, spread, shift, shift])


def scale_by_knots(X: torch.Tensor, knots: Knots, n_jobs: int | None = None) -> torch.Tensor:
    """Score of the knot before x + slope * (x - that knot), limited to +-FAR: (n, d)."""
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
    radii = torch.zeros((len(levels), cut.n_slots), dtype=torch.float32, device=device)
    centers = pool[tensor(slots, device)]
    samples = [
        tensor(of_psi[:, None] + np.arange(psi), device) for psi, of_psi in zip(levels, cut.block.starts, strict=True)
    ]
    for block in slices(cut.n_slots, levels[-1]):
        sq_dists = sq_distances(centers[block], centers[block])
        sq_dists = torch.where(sq_dists > 0, sq_dists, torch.inf)
        for level, places in enumerate(samples):
            nearest = sq_dists[places[:, :, None], places[:, None, :]].amin(dim=2)
            radii[level, block.start + places] = torch.where(nearest < torch.inf, nearest, 0)
    return radii


def assign_cells(
    X: torch.Tensor, balls: Balls, limits: Ints | None = None, n_jobs: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The slot whose ball each row is in for every sample, OUTSIDE for none (T, n); how far out rows are (n,)."""
    device, cut, n = X.device, balls.cut, len(X)
    if not uses_kernels(device):
        cells, far = map(torch.from_numpy, definition.assign_cells(X.numpy(), balls, limits))
        return cells, far
    narrow = torch.int16 if cut.n_slots <= np.iinfo(np.int16).max else torch.int32
    cells = torch.empty((int(cut.ends[-1]), n), dtype=narrow, device=device)
    far = torch.zeros(n, dtype=torch.int64, device=device)
    _search(X, balls, CELLS, tensor(balls.sq_radii, device), limits, cells, far)
    return cells, far


def sum_at_cells(
    X: torch.Tensor, balls: Balls, tables: Ints, limits: Ints | None = None, n_jobs: int | None = None
) -> torch.Tensor:
    """Sum over samples of the table (L, S) at each row's cell, and last how far out rows are: (n, L + 1)."""
    sums = torch.empty((len(X), len(balls.levels) + 1), dtype=torch.int64, device=X.device)
    _search(X, balls, SUMS, tensor(balls.joined(tables), X.device), limits, sums, sums, int(tables.max()))
    return sums


def sum_cells(cells: torch.Tensor, cut: Cut, tables: Ints, n_jobs: int | None = None) -> torch.Tensor:
    """Sum over samples of the table (L, S) at each row's cell, OUTSIDE adding nothing: (T, n) -> (n, L)."""
    sums = torch.empty((cells.shape[1], len(cut.levels)), dtype=torch.int64, device=cells.device)
    padded = tensor(np.pad(tables, ((0, 0), (1, 0))), cells.device)  # OUTSIDE is -1
    for rows in slices(len(sums), LOOKED_UP // len(cells)):
        for level, cells_of_level in enumerate(torch.tensor_split(cells[:, rows], cut.ends[1:-1].tolist())):
            sums[rows, level] = padded[level][cells_of_level.to(torch.int64) + 1].sum(dim=0)
    return sums


def sq_distances(X: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
    """Squared distances, features summed in order, nothing fused: (n, d), (m, d) -> (n, m)."""
    from isobag.backends.torch import row_kernels  # noqa: PLC0415, Triton need not be there

    (n, d), m = X.shape, -(-len(pool) // TOGETHER) * TOGETHER
    by_feature = torch.nn.functional.pad(pool.t(), (0, m - len(pool))).contiguous()
    sq_dists = torch.empty((m, n), dtype=torch.float32, device=X.device)
    row_kernels.measure[(-(-n // ROWS), m // TOGETHER)](
        X, *X.stride(), by_feature, sq_dists, n, m, d, rows=ROWS, together=TOGETHER, enable_fp_fusion=False,
    )  # fmt: skip
    return sq_dists[: len(pool)].t()


def add_terms(sums: list[torch.Tensor], terms: Terms, n_jobs: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of all terms of each row, and of the first, one after the other: (n, L + 1) a view -> (n,), (n,).

    Logarithms differ in their last bits from one library to another, so NumPy's are taken: of every whole number up to
    the largest sum where rows are more than these, else of the sums themselves.
    """
    n, device, tables = len(sums[0]), sums[0].device, _tables.setdefault(terms, {})
    total = torch.zeros(n, dtype=torch.float64, device=device)
    first = torch.zeros_like(total)
    if not n:
        return total, first
    largest = [each.amax(dim=0).tolist() for each in sums]

    def in_host_memory(term: Term) -> Floats | None:
        """What is still to be computed on the processor."""
        most, table = largest[term.view][term.column], tables.get((device, term))
        if term.floor is None or (table is not None and len(table) > most):
            return None
        whole_numbers = np.arange(most + 1) if most < n else sums[term.view][:, term.column].cpu().numpy()
        return definition.value_of_term(whole_numbers, term)

    made = map_in_threads(in_host_memory, terms.terms, n_jobs)
    for number, (term, values) in enumerate(zip(terms.terms, made, strict=True)):
        column = sums[term.view][:, term.column]
        if term.floor is None:
            shares = column.to(torch.float64)
            total += shares.div_(torch.full_like(shares, term.divisor)).mul_(-term.weight)
        elif values is not None and largest[term.view][term.column] >= n:
            total += tensor(values, device)
        else:
            if values is not None:
                tables[device, term] = tensor(values, device)
            total += tables[device, term][column]
        if number == terms.n_first - 1:
            first = total.clone()
    return total, first


def _search(
    X: torch.Tensor, balls: Balls, kind: int, table: torch.Tensor, limits: Ints | None, out: torch.Tensor,
    far: torch.Tensor, largest: int = 0,
) -> None:  # fmt: skip
    """Have the kernel write what is wanted of the nearest centers; see ``row_kernels.find_nearest``.

    largest : number of the table.
    """
    from isobag.backends.torch import row_kernels  # noqa: PLC0415, Triton need not be there

    (n, d), cut, fits = X.shape, balls.cut, X.shape[1] <= MOST_IN_REGISTERS
    # What a sample of each psi counts in how far out rows are, 0 where it does not.
    weights = (cut.far_weights * (limits >= 0)).tolist() if limits is not None else [0] * len(cut.levels)
    # An octave has 20 bits at most; sums that fit 32 bits need half of the registers.
    most = int(cut.counts[0]) * max(largest, sum(weight > 0 for weight in weights) << 20)
    on_device = table if limits is None else tensor(limits, X.device, torch.int32)
    pool, numbers = tensor(balls.pool, X.device), tensor(balls.slots, X.device, torch.int32)
    for rows in slices(n, n if fits else max(ROWS, _MEASURED_PAIRS // len(pool))):
        part = X[rows] if fits else sq_distances(X[rows], pool)
        here = out[:, rows] if kind == CELLS else out[rows]
        row_kernels.find_nearest[(-(-len(part) // ROWS),)](
            part, *part.stride(), pool[numbers] if fits else numbers, table, on_device, here, here.stride(0), far[rows],
            len(part), cut.n_slots, levels=cut.levels, begins=(0, *cut.levels[:-1]),
            firsts=tuple(cut.ends[:-1].tolist()), weights=tuple(weights), run=cut.run, d=d if fits else 0, kind=kind,
            wide=most >= 1 << 31, unroll=UNROLL, rows=ROWS, enable_fp_fusion=False,
        )  # fmt: skip
