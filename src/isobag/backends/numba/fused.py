"""Some to many features: the verbs of a backend by certified single-precision loops over blocks of queries.

Only the rule "nearest"; ``fits`` says for which balls. The queries are rotated to the principal axes of the centers,
ordered into blocks of neighbours, and every block is compared with the centers that it cannot rule out as a whole.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.meter import report
from isobag.backends.numba.compiled import blocks, fused
from isobag.backends.numba.compiled.blocks import SUPER
from isobag.backends.numba.compiled.vectors import LANES, PADDING
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, single_threaded_blas, slices

_ROWS = 1 << 14
_KEPT_BYTES = 1 << 26
_ROUNDING = 2.0**-24

Singles = npt.NDArray[np.float32]
Shorts = npt.NDArray[np.int16]


class _Space(NamedTuple):
    """Coordinates in which distances are compared first: x' = (x - mean) axes, in float32."""

    mean: Floats  # (d,)
    axes: Floats  # (d, d), a rotation divided by a power of two
    sq_scale: float  # the square of that power

    def place(self, X: Floats, n_jobs: int | None) -> tuple[Singles, Floats]:
        """Coordinates (n, d), infinite where they overflow, and their lengths (n,)."""
        placed = np.empty(X.shape, dtype=np.float32)
        lengths = np.empty(len(X))

        def work(rows: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                exact = (X[rows] - self.mean) @ self.axes
                lengths[rows] = np.sqrt(np.einsum("ij,ij->i", exact, exact))
                placed[rows] = exact
                np.copyto(placed[rows], np.inf, where=np.isnan(placed[rows]))

        with single_threaded_blas():
            map_in_threads(work, slices(len(X), _ROWS), n_jobs)
        return placed, lengths


class _Placed(NamedTuple):
    """Queries in blocks, and all that ``fused.find_cells`` asks about them."""

    space: _Space
    X: Floats
    order: Ints  # (n,) place -> row of X
    blocks: tuple[Singles, ...]
    tolerances: tuple[np.float32, Singles, Singles]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks[0])


class _Centers(NamedTuple):
    """Balls in the space of the queries."""

    balls: Balls
    lists: list[tuple[Cells, Ints, Singles, Singles]]  # of each partitioning, as ``fused.find_cells`` asks for them
    radii: Singles  # (t, L, psi)


def fits(balls: Balls, rule: str) -> bool:
    """Whether this engine can be used: cells fit into 16 bits, and scaling to ordinary numbers loses nothing."""
    if rule != "nearest" or balls.slots.shape[1] >= 1 << 15:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return 1e-150 < _scale(balls.points - np.median(balls.points, axis=0)) < 1e130


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""
    placed, centers = _prepare(queries, balls, n_jobs)

    def work(i: int) -> None:
        found, _ = _find(placed, centers, i, slice(0, placed.n_blocks))
        cells[i, placed.order] = found.reshape(-1)[: len(placed.X)]

    map_in_threads(work, range(len(balls.slots)), n_jobs)


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    placed, centers = _prepare(queries, balls, n_jobs)
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)

    def work(i: int) -> None:
        for part in slices(placed.n_blocks, _ROWS // LANES):
            found, _ = _find(placed, centers, i, part)
            fused.count_blocks(found, len(placed.X) - part.start * LANES, counts[:, i])

    map_in_threads(work, range(len(balls.slots)), n_jobs)
    return counts


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    placed, centers = _prepare(queries, balls, n_jobs)
    own = _padded(tables)
    sums = np.zeros((placed.n_blocks, len(balls.levels), LANES), dtype=np.int64)
    far = np.zeros((placed.n_blocks, LANES), dtype=np.int64)

    def work(part: slice) -> None:
        for i in range(len(balls.slots)):
            found, logs = _find(placed, centers, i, part, limits)
            fused.add_blocks(found[None], 0, own[i : i + 1], sums[part])
            if limits is not None:
                fused.add_far(found, logs, limits, far[part])

    map_in_threads(work, slices(placed.n_blocks, _ROWS // LANES), n_jobs)
    return _in_order_of_rows(sums, far, limits, placed)


def fits_one_pass(n: int, balls: Balls, only_last: bool) -> bool:
    """Whether count_and_sum can be had: always, since a partitioning is done before the next begins."""
    return True


def count_and_sum(
    queries: Queries, balls: Balls, only_last: bool, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of them, from one search, some partitionings at a time."""
    placed, centers = _prepare(queries, balls, n_jobs)
    n_levels, n_blocks = len(balls.levels), placed.n_blocks
    first = n_levels - 1 if only_last else 0
    counts = np.zeros((n_levels, *balls.slots.shape), dtype=np.int64)
    at_once = int(np.clip(_KEPT_BYTES // (2 * n_blocks * n_levels * LANES), 1, 16))

    def work(share: slice) -> tuple[Ints, Ints]:
        sums = np.zeros((n_blocks, n_levels - first, LANES), dtype=np.int64)
        far = np.zeros((n_blocks, LANES), dtype=np.int64)
        cells = np.empty((at_once, n_blocks, n_levels, LANES), dtype=np.int16)
        for start in range(share.start, share.stop, at_once):
            chosen = range(start, min(start + at_once, share.stop))
            for own, i in zip(cells, chosen, strict=False):
                _, logs = _find(placed, centers, i, slice(0, n_blocks), limits, own)
                fused.count_blocks(own, len(placed.X), counts[:, i])
                if limits is not None:
                    fused.add_far(own, logs, limits, far)
            fused.add_blocks(cells, first, _padded(counts[first:, chosen.start : chosen.stop]), sums)
        return sums, far

    found = map_in_threads(work, shares(len(balls.slots), n_jobs), n_jobs)
    sums, far = (np.add.reduce(parts) for parts in zip(*found, strict=True))
    return counts, _in_order_of_rows(sums, far, limits, placed)


def _scale(centered: Floats) -> float:
    """A power of two, about the typical length."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", centered, centered))
    positive = lengths[lengths > 0]
    middle = float(np.median(positive)) if len(positive) else 1.0
    return 2.0 ** int(np.round(np.log2(middle))) if np.isfinite(middle) else np.inf


def _space(points: Floats) -> _Space:
    """Principal axes of the points, from their medians."""
    mean = np.median(points, axis=0)
    centered = points - mean
    scale = _scale(centered)
    some = np.clip(centered[:: max(1, len(points) // 4096)] / scale, -100, 100)
    axes = np.linalg.eigh(some.T @ some)[1][:, ::-1]
    return _Space(mean, axes / scale, scale * scale)


def _prepare(queries: Queries, balls: Balls, n_jobs: int | None) -> tuple[_Placed, _Centers]:
    """The queries, placed once for all balls around the same points, and the balls in their space."""
    placed: _Placed = queries.keep(balls.points, lambda: _place(queries.X, balls.points, n_jobs))
    centers = placed.space.place(balls.points, n_jobs)[0]
    with np.errstate(over="ignore"):
        radii = (balls.sq_radii.transpose(1, 0, 2) / placed.space.sq_scale).astype(np.float32, order="C")
    return placed, _Centers(balls, [_list_centers(centers, slots, balls.levels) for slots in balls.slots], radii)


def _place(X: Floats, points: Floats, n_jobs: int | None) -> _Placed:
    """Queries in blocks of neighbours, in a space in which the points lie along their principal axes."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    space = _space(points)
    d = X.shape[1]
    placed, lengths = space.place(X, n_jobs)
    order = _ordered(placed, n_jobs)
    n_blocks = -(-len(X) // LANES)
    n_wholes = -(-n_blocks // SUPER)
    lanes = np.empty((n_blocks, d, LANES), dtype=np.float32)
    boxes = np.empty((2, n_blocks, d), dtype=np.float32)
    wholes = np.empty((2, n_wholes, d), dtype=np.float32)
    map_in_threads(
        lambda own: blocks.fill_blocks(placed, order, own.start, own.stop, lanes, *boxes, *wholes),
        slices(n_blocks, max(SUPER, -(-n_wholes // 8) * SUPER)),
        n_jobs,
    )
    lengths = np.where(lengths < 1e15, lengths, np.inf)
    ordered = np.full(n_wholes * SUPER * LANES, lengths[order[-1]])
    ordered[: len(X)] = lengths[order]
    longest = ordered.reshape(n_wholes * SUPER, LANES).max(axis=1)
    margins = fused.margins(boxes[1], longest), fused.margins(wholes[1], longest.reshape(-1, SUPER).max(axis=1))
    return _Placed(space, X, order, (lanes, *boxes, margins[0], *wholes, margins[1]), _tolerances(ordered, d, space))


def _ordered(placed: Singles, n_jobs: int | None) -> Ints:
    """Rows in an order in which neighbours stand together: halved a few times, then part by part in threads."""
    order = np.arange(len(placed))
    parts = [(0, len(placed))]
    for _ in range(2):
        parts = [half for a, b in parts for half in _halves(placed, order, a, b)]
    map_in_threads(lambda part: blocks.order_rows(placed, order, *part), parts, n_jobs)
    return order


def _halves(placed: Singles, order: Ints, a: int, b: int) -> list[tuple[int, int]]:
    if b - a <= LANES * SUPER:
        return [(a, b)]
    middle = blocks.split_rows(placed, order, a, b)
    return [(a, middle), (middle, b)] if middle < b else [(a, b)]


def _list_centers(placed: Singles, slots: Cells, levels: tuple[int, ...]) -> tuple[Cells, Ints, Singles, Singles]:
    """Distinct centers of a partitioning, how many of each level, coordinates of all centers, those of the distinct."""
    names = np.sort(np.unique(slots, return_index=True)[1])  # a later equal center never wins a tie
    coordinates = placed[slots]
    columns = np.zeros((placed.shape[1], len(names) + PADDING), dtype=np.float32)
    columns[:, : len(names)] = coordinates[names].T
    return names.astype(np.int32), np.searchsorted(names, levels), coordinates, columns


def _tolerances(lengths: Floats, d: int, space: _Space) -> tuple[np.float32, Singles, Singles]:
    """A, B and C of ``fused``, each a little more than needed."""
    e = 2 * _ROUNDING * lengths * 1.001 + 2.0**-130
    with np.errstate(over="ignore"):
        slopes = (2.4 * e).astype(np.float32)
        offsets = (2.6 * e * e + (d + 8) * (2.0**-120 + 2.0**-1074 / space.sq_scale)).astype(np.float32)
    return np.float32((d + 16) * _ROUNDING), slopes, offsets


def _find(
    placed: _Placed,
    centers: _Centers,
    i: int,
    part: slice,
    limits: Ints | None = None,
    cells: Shorts | None = None,
) -> tuple[Shorts, Cells]:
    """Cells of some blocks in partitioning i, and octaves of distances if there are limits: (blocks, L, LANES)."""
    balls = centers.balls
    n_levels = len(balls.levels)
    if cells is None:
        cells = np.empty((part.stop - part.start, n_levels, LANES), dtype=np.int16)
    logs = np.zeros((1 if limits is None else part.stop - part.start, n_levels, LANES), dtype=np.int32)
    room = np.empty((2, LANES))
    report(min(part.stop * LANES, len(placed.X)) - part.start * LANES)
    fused.find_cells(
        (part.start, part.stop),
        placed.blocks,
        placed.tolerances,
        (placed.X, placed.order, balls.points, balls.slots[i]),
        centers.lists[i],
        (centers.radii[i], balls.sq_radii[:, i]),
        cells,
        logs,
        (np.full(n_levels, -1) if limits is None else limits, placed.space.sq_scale, room, room.view(np.int64)),
    )
    return cells, logs


def _padded(tables: Ints) -> Ints:
    """Tables (L, t, psi) as (t, L, psi + 1), with a zero for OUTSIDE at the end."""
    padded = np.zeros((tables.shape[1], tables.shape[0], tables.shape[2] + 1), dtype=np.int64)
    padded[:, :, :-1] = tables.transpose(1, 0, 2)
    return padded


def _in_order_of_rows(sums: Ints, far: Ints, limits: Ints | None, placed: _Placed) -> Ints:
    """Sums of blocks (blocks, L, LANES), and (blocks, LANES) if there are limits, put back: (n, L) or (n, L + 1)."""
    parts = sums if limits is None else np.concatenate([sums, far[:, None]], axis=1)
    n_columns, n = parts.shape[1], len(placed.order)
    ordered = np.empty((n, n_columns), dtype=np.int64)
    ordered[placed.order] = parts.transpose(0, 2, 1).reshape(-1, n_columns)[:n]
    return ordered
