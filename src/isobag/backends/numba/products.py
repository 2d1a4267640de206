"""Many features: the verbs of a backend by certified matrix products."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints, with_nearest
from isobag.backends.meter import report
from isobag.backends.numba.compiled import lanes, products
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, single_threaded_blas, slices

_BLOCK_PRODUCTS = 1 << 21
_KEPT_CELLS = 1 << 26

Singles = npt.NDArray[np.float32]


class _Factors(NamedTuple):
    """One side of the product |c'|^2 - 2 x'.c', in float32, and the norms |c'|."""

    mean: Floats  # (d,)
    weights: Singles  # (m, d + 1) rows -2 c', |c'|^2
    norms: Floats  # (m,)

    def of(self, X: Floats) -> tuple[Singles, Floats]:
        """The other side, rows x', 1: (n, d + 1), and the norms |x'|: (n,)."""
        centered = X - self.mean
        norms = np.sqrt(np.einsum("ij,ij->i", centered, centered))
        with np.errstate(over="ignore"):  # beyond float32 nothing is certain, so all is computed in float64
            return np.column_stack((centered, np.ones(len(X)))).astype(np.float32), norms


def _factors(points: Floats) -> _Factors:
    mean = points.mean(axis=0)
    centered = points - mean
    sq_norms = np.einsum("ij,ij->i", centered, centered)
    with np.errstate(over="ignore"):
        weights = np.column_stack((-2 * centered, sq_norms)).astype(np.float32)
    return _Factors(mean, weights, np.sqrt(sq_norms))


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


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""

    def keep(block: slice, i: int, found: Cells) -> None:
        cells[i, block] = found[-1]

    _scan(queries.X, balls, rule, n_jobs, lambda: keep)


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    return _count(queries.X, balls, list(range(len(balls.levels))), n_jobs, None)


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    wider, places, nearest = with_nearest(balls, limits)
    sums = np.zeros((len(places) + bool(nearest), len(queries.X)), dtype=np.int64)
    add_far = _far_adder(queries.X, balls, limits, nearest, sums[-1])

    def add(block: slice, i: int, found: Cells) -> None:
        for level, place in enumerate(places):
            products.add_at_cells(found[place], tables[level, i], sums[level, block])
        add_far(block, i, found)

    _scan(queries.X, wider, rule, n_jobs, lambda: add)
    return sums.T


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether the cells can be kept until all are counted."""
    return n * len(balls.slots) * (1 if only_last else len(balls.levels)) <= _KEPT_CELLS


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of them, from one scan."""
    n, n_kept = len(queries.X), 1 if only_last else len(balls.levels)
    wider, places, nearest = with_nearest(balls, limits)
    cells = np.empty((n_kept, len(balls.slots), n), dtype=np.min_scalar_type(-balls.slots.shape[1] - 1))
    sums = np.zeros((n_kept + bool(nearest), n), dtype=np.int64)
    counts = _count(queries.X, wider, places, n_jobs, cells, _far_adder(queries.X, balls, limits, nearest, sums[-1]))

    def add(block: slice) -> None:
        for level, tables in enumerate(counts[-n_kept:]):
            for i, table in enumerate(tables):
                products.add_at_cells(cells[level, i, block], table, sums[level, block])

    map_in_threads(add, shares(n, n_jobs), n_jobs)
    return counts, sums.T


def _far_adder(
    X: Floats, balls: Balls, limits: Ints | None, nearest: list[int], total: Ints
) -> Callable[[slice, int, Cells], None]:
    """Adds up how far out the queries of a block are, from the nearest centers at the levels that count."""
    levels = [] if limits is None else np.flatnonzero(limits >= 0).tolist()

    def add(block: slice, i: int, found: Cells) -> None:
        for level, place in zip(levels, nearest, strict=True):
            own = (balls.points, balls.slots[i], balls.sq_radii[level, i])
            # Where there are no limits there are no levels, and the loop does not run.
            lanes.add_octaves(X[block], *own, found[place], limits[level], total[block])  # type: ignore[index]

    return add


def _count(
    X: Floats,
    balls: Balls,
    places: list[int],
    n_jobs: int | None,
    cells: npt.NDArray[np.signedinteger] | None,
    add_far: Callable[[slice, int, Cells], None] | None = None,
) -> Ints:
    """Counts of the levels at ``places``; the cells of the last of them are kept in cells (levels, t, n) if given."""
    all_counts: list[Ints] = []

    def start_counting() -> Callable[[slice, int, Cells], None]:
        counts = np.zeros((len(places), *balls.slots.shape), dtype=np.int64)
        all_counts.append(counts)

        def count(block: slice, i: int, found: Cells) -> None:
            own = found if len(found) == len(places) else np.ascontiguousarray(found[places])
            products.count_block(own, counts[:, i])
            if cells is not None:
                cells[:, i, block] = own[-len(cells) :]
            if add_far is not None:
                add_far(block, i, found)

        return count

    _scan(X, balls, "nearest", n_jobs, start_counting)
    total: Ints = np.add.reduce(all_counts)
    return total


def _scan(
    X: Floats,
    balls: Balls,
    rule: str,
    n_jobs: int | None,
    start: Callable[[], Callable[[slice, int, Cells], None]],
) -> None:
    """Find the cells of all queries, block by block; each thread starts a visitor of (block, partitioning, cells)."""
    factors = _factors(balls.points)
    n_rows = _block_rows(balls.points)
    sizes = np.array(balls.levels)

    def work(share: slice) -> None:
        visit = start()
        for part in slices(share.stop - share.start, n_rows):
            block = slice(share.start + part.start, share.start + part.stop)
            queries, norms = factors.of(X[block])
            with np.errstate(invalid="ignore", over="ignore"):
                found = factors.weights @ queries.T
            cells = np.empty((len(balls.levels), len(queries)), dtype=np.int32)
            for i, chosen in enumerate(balls.slots):
                common = found, X[block], norms, balls.points, factors.norms, chosen
                if rule == "nearest":
                    products.scan_nearest(*common, sizes, balls.sq_radii[:, i], cells)
                else:
                    products.scan_covering(*common, balls.sq_radii[0, i], rule == "smallest", cells[0])
                visit(block, i, cells)
            report(len(queries) * len(balls.slots))

    with single_threaded_blas():
        map_in_threads(work, shares(len(X), n_jobs), n_jobs)
