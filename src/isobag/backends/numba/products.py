"""Many features: the verbs of a backend by certified matrix products."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.meter import report
from isobag.backends.numba.coarse import Coarse, find_steps
from isobag.backends.numba.compiled import products
from isobag.backends.numba.filtered import Filter, find_axes
from isobag.backends.numba.queries import Queries
from isobag.backends.numba.varied import Varied, find_varied
from isobag.backends.threads import map_in_threads, shares, single_threaded_blas, slices

_BLOCK_PRODUCTS = 1 << 21
_KEPT_CELLS = 1 << 26

Singles = npt.NDArray[np.float32]


class _Factors(NamedTuple):
    """One side of the product |c'|^2 - 2 x'.c', in float32, and the norms |c'|, of k features."""

    varied: Varied
    mean: Floats  # (k,)
    weights: Singles  # (m, k + 1) rows -2 c', |c'|^2
    norms: Floats  # (m,)

    def of(self, X: Floats) -> tuple[Singles, Floats]:
        """The other side, rows x', 1: (n, k + 1), and the norms |x'|: (n,)."""
        centered = self.varied.less(X, self.mean)
        norms = np.sqrt(np.einsum("ij,ij->i", centered, centered))
        with np.errstate(over="ignore"):  # beyond float32 nothing is certain, so all is computed in float64
            return np.column_stack((centered, np.ones(len(X)))).astype(np.float32), norms


def _factors(points: Floats) -> _Factors:
    varied = find_varied(points)
    mean = varied.mean_of(points)
    centered = varied.less(points, mean)
    sq_norms = np.einsum("ij,ij->i", centered, centered)
    with np.errstate(over="ignore"):
        weights = np.column_stack((-2 * centered, sq_norms)).astype(np.float32)
    return _Factors(varied, mean, weights, np.sqrt(sq_norms))


def _block_rows(points: Floats) -> int:
    """Queries in a block: its products with all points should stay in the cache."""
    return int(np.clip(_BLOCK_PRODUCTS // len(points) // 16 * 16, 32, 512))


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None) -> Floats:
    """Squared distance from each center to the nearest different center: (L, t, psi)."""
    radii = np.zeros((len(levels), *slots.shape))
    factors = _factors(points)

    def work(block: slice) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            found = factors.of(points[block])[0] @ factors.weights.T
        products.nearest_other(found, factors.norms, (block.start, block.stop), points, slots, np.array(levels), radii)

    with single_threaded_blas():
        map_in_threads(work, slices(len(points), _block_rows(points)), n_jobs)
    return radii


def sq_radii_apart(points: Floats, slots: Cells, levels: tuple[int, ...], n_jobs: int | None) -> Floats:
    """As ``sq_radii``, one partitioning after the other: for those that share few of their centers."""
    radii = np.empty((len(levels), *slots.shape))

    def work(i: int) -> None:
        own, numbers = np.unique(slots[i], return_inverse=True)
        radii[:, i] = sq_radii(points[own], numbers[None].astype(np.int32), levels, 1)[:, 0]

    with single_threaded_blas():
        map_in_threads(work, range(len(slots)), n_jobs)
    return radii


class _Products:
    """Cells of blocks of queries by products with all distinct centers."""

    def __init__(self, balls: Balls, rule: str, limits: Ints | None) -> None:
        self._balls, self._rule = balls, rule
        self._factors = _factors(balls.points)
        self._limits = np.full(len(balls.levels), -1) if limits is None else limits
        self.block_rows = _block_rows(balls.points)

    def scan(self, X: Floats, far: Ints) -> Iterator[Cells]:
        """Cells of a block of queries, one partitioning after the other: (L, block); octaves are added to far."""
        balls, factors, sizes = self._balls, self._factors, np.array(self._balls.levels)
        queries, norms = factors.of(X)
        with np.errstate(invalid="ignore", over="ignore"):
            found = factors.weights @ queries.T
        cells = np.empty((len(balls.levels), len(X)), dtype=np.int32)
        for i, chosen in enumerate(balls.slots):
            common = found, X, norms, balls.points, factors.norms, chosen
            if self._rule == "nearest":
                products.scan_nearest(*common, sizes, balls.sq_radii[:, i], self._limits, cells, far)
            else:
                products.scan_covering(*common, balls.sq_radii[0, i], self._rule == "smallest", cells[0])
            yield cells


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""

    def keep(block: slice, i: int, found: Cells) -> None:
        cells[i, block] = found[-1]

    _scan(queries.X, balls, rule, n_jobs, lambda: keep)


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    return _count(queries.X, balls, n_jobs, None, None, None)


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    n_levels = len(balls.levels)
    sums = np.zeros((n_levels + (limits is not None), len(queries.X)), dtype=np.int64)

    def add(block: slice, i: int, found: Cells) -> None:
        for level in range(n_levels):
            products.add_at_cells(found[level], tables[level, i], sums[level, block])

    _scan(queries.X, balls, rule, n_jobs, lambda: add, limits, sums[-1])
    return sums.T


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether the cells can be kept until all are counted."""
    return n * len(balls.slots) * (1 if only_last else len(balls.levels)) <= _KEPT_CELLS


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of them, from one scan."""
    n, n_kept = len(queries.X), 1 if only_last else len(balls.levels)
    cells = np.empty((n_kept, len(balls.slots), n), dtype=np.min_scalar_type(-balls.slots.shape[1] - 1))
    sums = np.zeros((n_kept + (limits is not None), n), dtype=np.int64)
    counts = _count(queries.X, balls, n_jobs, cells, limits, sums[-1])

    def add(block: slice) -> None:
        for level, tables in enumerate(counts[-n_kept:]):
            for i, table in enumerate(tables):
                products.add_at_cells(cells[level, i, block], table, sums[level, block])

    map_in_threads(add, shares(n, n_jobs), n_jobs)
    return counts, sums.T


def _count(
    X: Floats,
    balls: Balls,
    n_jobs: int | None,
    cells: npt.NDArray[np.signedinteger] | None,
    limits: Ints | None,
    far: Ints | None,
) -> Ints:
    """Counts of all levels; the cells of the last of them are kept in cells (levels, t, n) if given."""
    all_counts: list[Ints] = []

    def start_counting() -> Callable[[slice, int, Cells], None]:
        counts = np.zeros(balls.sq_radii.shape, dtype=np.int64)
        all_counts.append(counts)

        def count(block: slice, i: int, found: Cells) -> None:
            products.count_block(found, counts[:, i])
            if cells is not None:
                cells[:, i, block] = found[-len(cells) :]

        return count

    _scan(X, balls, "nearest", n_jobs, start_counting, limits, far)
    total: Ints = np.add.reduce(all_counts)
    return total


def _scan(
    X: Floats,
    balls: Balls,
    rule: str,
    n_jobs: int | None,
    start: Callable[[], Callable[[slice, int, Cells], None]],
    limits: Ints | None = None,
    far: Ints | None = None,
) -> None:
    """Find the cells of all queries, block by block; each thread starts a visitor of (block, partitioning, cells).

    With ``limits``, octaves beyond them are added to far (n,)
    """
    total = np.zeros(len(X), dtype=np.int64) if limits is None or far is None else far

    def work(share: slice) -> None:
        visit = start()
        for part in slices(share.stop - share.start, scanner.block_rows):
            block = slice(share.start + part.start, share.start + part.stop)
            for i, cells in enumerate(scanner.scan(X[block], total[block])):
                visit(block, i, cells)
            report((block.stop - block.start) * len(balls.slots))

    with single_threaded_blas():
        scanner = _scanner(X, balls, rule, n_jobs, limits)
        map_in_threads(work, shares(len(X), n_jobs), n_jobs)


def _scanner(
    X: Floats, balls: Balls, rule: str, n_jobs: int | None, limits: Ints | None
) -> "_Products | Filter | Coarse":
    """What finds the cells of queries at the least cost."""
    if rule != "nearest":
        return _Products(balls, rule, limits)
    steps = find_steps(balls, X, limits)
    axes = find_axes(balls, len(X), limits, np.inf if steps is None else steps.cost)
    if axes is not None:
        return Filter(axes, balls, limits)
    return _Products(balls, rule, limits) if steps is None else Coarse(steps, balls, limits, n_jobs)
