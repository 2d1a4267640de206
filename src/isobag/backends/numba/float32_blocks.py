"""Some to many features: loops in float32 over blocks of queries, certified, the doubtful decided in float64.

The rule "nearest"; ``fits`` says for which balls. The queries are rotated to the principal axes of the centers,
ordered into blocks of neighbours, and every block is compared with the centers that it cannot rule out as a whole.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Array, Balls, Cells, Floats, Ints, aligned, is_first
from isobag.backends.meter import report
from isobag.backends.numba.compiled import block_order, block_sums, float32_blocks
from isobag.backends.numba.compiled.block_order import SUPER
from isobag.backends.numba.compiled.vectors import BLOCK, PADDING
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, single_threaded_blas, slices

_ROWS = 1 << 14
_PLACED = 1 << 12
_SUMMED_BLOCKS, _COUNTED_BLOCKS = 64, 1024
_GROUPED_ROWS, _GROUPED_FEATURES = 1 << 15, 3
"""In smaller tables equal rows stay apart: the first use would wait for a compiler that saves milliseconds. Rows of
more features are seldom equal."""
_AXES_POINTS = 1024
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
                turned = (X[rows] - self.mean) @ self.axes
                lengths[rows] = np.sqrt(np.einsum("ij,ij->i", turned, turned))
                turned[np.isnan(turned)] = np.inf
                placed[rows] = turned

        with single_threaded_blas():
            map_in_threads(work, slices(len(X), _PLACED), n_jobs)
        return placed, lengths


class _Placed(NamedTuple):
    """Distinct rows in blocks, and all that ``float32_blocks.find_cells`` asks about them."""

    space: _Space
    X: Floats  # (q, d) in the order of the blocks
    places: Ints  # (n,) of each row
    weights: Ints  # (blocks, BLOCK) number of rows at each place
    blocks: tuple[Singles, Singles, Singles, Singles, Singles]
    tolerances: tuple[np.float32, Singles, Singles]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks[0])


class _Centers(NamedTuple):
    """Balls in the space of the queries, and all that ``float32_blocks.find_cells`` asks about them."""

    balls: Balls
    lists: tuple[Cells, Ints, Singles, Singles]
    radii: tuple[Singles, Floats]

    def room(self) -> tuple[Array, ...]:
        """Room for one search."""
        return float32_blocks.make_room(self.balls.slots.shape[1], len(self.balls.levels), self.balls.points.shape[1])


def fits(balls: Balls) -> bool:
    """Whether this engine can be used: cells fit into 16 bits, and scaling to ordinary numbers loses nothing."""
    if balls.slots.shape[1] >= 1 << 15:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        some = _some(balls.points)
        return 1e-150 < _scale(some - np.median(some, axis=0)) < 1e130


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query at each level into cells (L, t, n)."""
    placed, centers = _prepare(queries, balls, n_jobs)

    def work(i: int) -> None:
        own = np.empty((1, placed.n_blocks, len(cells), BLOCK), dtype=np.int16)
        _find(placed, centers, rule, range(i, i + 1), slice(0, placed.n_blocks), own, centers.room())
        for level, level_cells in enumerate(cells):
            level_cells[i] = own[0, :, level].reshape(-1)[placed.places]

    map_in_threads(work, range(len(balls.slots)), n_jobs)


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    placed, centers = _prepare(queries, balls, n_jobs)
    own, n_levels, chosen = block_sums.padded_tables(tables), len(balls.levels), range(len(balls.slots))
    sums = np.zeros((placed.n_blocks, n_levels, BLOCK), dtype=np.int64)
    far = np.zeros((placed.n_blocks, BLOCK), dtype=np.int64)

    def work(part: slice) -> None:
        cells = np.empty((1, part.stop - part.start, n_levels, BLOCK), dtype=np.int16)
        _find(placed, centers, rule, chosen, part, cells, centers.room(), limits, far, own, sums)

    map_in_threads(work, slices(placed.n_blocks, _SUMMED_BLOCKS), n_jobs)
    return _in_order_of_rows(sums[None], far[None], limits, placed, n_jobs)


def count_and_sum(
    queries: Queries, balls: Balls, first: int, n_jobs: int | None, limits: Ints | None = None
) -> tuple[Ints, Ints]:
    """Counts of all queries, and what ``sum_at_cells`` makes of those from a level on, some partitionings at a time."""
    placed, centers = _prepare(queries, balls, n_jobs)
    n_levels, n_blocks = len(balls.levels), placed.n_blocks
    counts = np.zeros((n_levels, *balls.slots.shape), dtype=np.int64)
    at_once = int(np.clip(_KEPT_BYTES // (2 * n_blocks * n_levels * BLOCK), 1, 16))
    parts = list(shares(len(balls.slots), n_jobs))
    sums = np.zeros((len(parts), n_blocks, n_levels - first, BLOCK), dtype=np.int64)
    far = np.zeros((len(parts), n_blocks, BLOCK), dtype=np.int64)

    def work(number: int) -> None:
        share = parts[number]
        cells = np.empty((at_once, n_blocks, n_levels, BLOCK), dtype=np.int16)
        room = centers.room()
        for start in range(share.start, share.stop, at_once):
            chosen = range(start, min(start + at_once, share.stop))
            for k, i in enumerate(chosen):
                tally = block_sums.make_tally(n_levels, balls.slots.shape[1])
                for part in slices(n_blocks, _COUNTED_BLOCKS):
                    own = cells[k : k + 1, part]
                    _find(placed, centers, "nearest", range(i, i + 1), part, own, room, limits, far[number])
                    block_sums.count_blocks(own[0], placed.weights[part], tally)
                counts[:, i] = block_sums.counted(tally)
            tables = block_sums.padded_tables(counts[first:, chosen.start : chosen.stop])
            block_sums.add_blocks(cells, first, tables, sums[number])

    map_in_threads(work, range(len(parts)), n_jobs)
    return counts, _in_order_of_rows(sums, far, limits, placed, n_jobs)


def _scale(centered: Floats) -> float:
    """A power of two, about the typical length."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", centered, centered))
    positive = lengths[lengths > 0]
    middle = float(np.median(positive)) if len(positive) else 1.0
    return 2.0 ** int(np.round(np.log2(middle))) if np.isfinite(middle) else np.inf


def _some(points: Floats) -> Floats:
    """Points that stand for all where only speed depends on them: (m, d)."""
    return points[:: max(1, len(points) // _AXES_POINTS)]


def _space(points: Floats) -> _Space:
    """Principal axes of some of the points, from their medians."""
    some = _some(points)
    mean = np.median(some, axis=0)
    scale = _scale(some - mean)
    cut = np.clip((some - mean) / scale, -100, 100)
    with single_threaded_blas():  # other threads would take longer to start than the work lasts
        axes = np.linalg.eigh(cut.T @ cut)[1][:, ::-1]
    return _Space(mean, np.ascontiguousarray(axes / scale), scale * scale)


def _prepare(queries: Queries, balls: Balls, n_jobs: int | None) -> tuple[_Placed, _Centers]:
    """The queries, placed once for all balls around the same points, and the balls in their space."""
    placed = queries.keep(balls.points, lambda: _place(queries.X, balls.points, n_jobs))
    centers = placed.space.place(balls.points, n_jobs)[0]
    with np.errstate(over="ignore"):
        radii = (balls.sq_radii.transpose(1, 0, 2) / placed.space.sq_scale).astype(np.float32, order="C")
    return placed, _Centers(balls, _lists(balls, centers), (radii, np.ascontiguousarray(balls.sq_radii)))


def _lists(balls: Balls, centers: Singles) -> tuple[Cells, Ints, Singles, Singles]:
    """Names and ends of the distinct centers of each partitioning, coordinates of all and of the distinct ones."""
    t, psi = balls.slots.shape
    coordinates = centers[balls.slots]
    columns = aligned((t, centers.shape[1], psi + PADDING), np.float32)
    columns[:, :, :psi] = coordinates.transpose(0, 2, 1)
    names = np.tile(np.arange(psi, dtype=np.int32), (t, 1))
    ends = np.tile(np.array(balls.levels), (t, 1))
    is_distinct = is_first(balls.slots)  # a later equal center never wins a tie
    for i in np.flatnonzero(~is_distinct.all(axis=1)):
        kept = np.flatnonzero(is_distinct[i])
        names[i, : len(kept)] = kept
        ends[i] = np.searchsorted(kept, balls.levels)
        columns[i, :, : len(kept)] = coordinates[i, kept].T
    return names, ends, coordinates, columns


def _place(X: Floats, points: Floats, n_jobs: int | None) -> _Placed:
    """Queries in blocks of neighbours, in a space in which the points lie along their principal axes."""
    X, names = _distinct(np.ascontiguousarray(X, dtype=np.float64))
    space = _space(points)
    d = X.shape[1]
    placed, lengths = space.place(X, n_jobs)
    order = _ordered(placed, n_jobs)
    n_blocks = -(-len(X) // BLOCK)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    places = places[names]
    weights = np.bincount(places, minlength=n_blocks * BLOCK).reshape(n_blocks, BLOCK)
    n_wholes = -(-n_blocks // SUPER)
    exact = np.empty_like(X)
    lanes = aligned((n_blocks, d, BLOCK), np.float32)
    boxes = np.empty((2, n_blocks, d), dtype=np.float32)
    wholes = np.empty((2, n_wholes, d), dtype=np.float32)

    def fill(whole: slice) -> None:
        own = slice(whole.start * SUPER, min(whole.stop * SUPER, n_blocks))
        rows = order[own.start * BLOCK : own.stop * BLOCK]
        np.take(X, rows, axis=0, out=exact[own.start * BLOCK : own.stop * BLOCK])
        singles = placed[rows]
        if len(rows) % BLOCK:  # the last row fills the rest of the last block
            singles = np.concatenate([singles, np.repeat(singles[-1:], -len(rows) % BLOCK, axis=0)])
        lanes[own] = singles.reshape(-1, BLOCK, d).transpose(0, 2, 1)
        low, high = lanes[own].min(axis=2), lanes[own].max(axis=2)
        _set_boxes(low, high, boxes[:, own])
        firsts = np.arange(0, len(low), SUPER)
        _set_boxes(np.minimum.reduceat(low, firsts), np.maximum.reduceat(high, firsts), wholes[:, whole])

    map_in_threads(fill, slices(n_wholes, max(1, -(-n_wholes // 8))), n_jobs)
    lengths = np.where(lengths < 1e15, lengths, np.inf)
    ordered = np.full(n_wholes * SUPER * BLOCK, lengths[order[-1]])
    ordered[: len(X)] = lengths[order]
    longest = ordered.reshape(n_wholes * SUPER, BLOCK).max(axis=1)
    margins = _margins(boxes[1], longest[:n_blocks]), _margins(wholes[1], longest.reshape(-1, SUPER).max(axis=1))
    in_blocks = (lanes, boxes, margins[0], wholes, margins[1])
    return _Placed(space, exact, places, weights, in_blocks, _tolerances(ordered, d, space))


def _distinct(X: Floats) -> tuple[Floats, Ints]:
    """Distinct rows of a large table of few features (q, d), and the number of each row among them (n,)."""
    names = np.arange(len(X))
    if len(X) < _GROUPED_ROWS or X.shape[1] > _GROUPED_FEATURES:
        return X, names
    rows = np.empty_like(names)
    table = np.full(1 << (2 * len(X) - 1).bit_length(), -1, dtype=np.int32)
    n_distinct = block_order.name_rows(X.view(np.uint64), table, names, rows)
    return X[rows[:n_distinct]], names


def _set_boxes(low: Singles, high: Singles, boxes: Singles) -> None:
    """Middles of boxes and their half widths, rounded up: (2, boxes, d)."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = np.float32(0.5) * low + np.float32(0.5) * high
        boxes[0] = middle
        boxes[1] = np.maximum(high - middle, middle - low) * np.float32(1 + 2.0**-20)


def _margins(halves: Singles, longest: Floats) -> Singles:
    """G of each box (see ``compiled.float32_blocks``): half widths (boxes, d), the largest |x'| in it (boxes,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        sq_diagonal = np.square(halves, dtype=np.float64).sum(axis=1)
        e = 2.0**-23 * longest
        margin: Floats = 20 * 2.0**-24 * sq_diagonal + 4.4 * e * np.sqrt(sq_diagonal) + 5 * 2.0**15 * e * e + 2.0**-110
        return margin.astype(np.float32)


def _ordered(placed: Singles, n_jobs: int | None) -> Ints:
    """Rows in an order in which neighbours stand together: halved a few times, then part by part in threads."""
    order = np.arange(len(placed))
    parts = [(0, len(placed))]
    for _ in range(2):
        parts = [half for a, b in parts for half in _halves(placed, order, a, b)]
    map_in_threads(lambda part: _order(placed, order, *part, False), parts, n_jobs)
    return order


def _halves(placed: Singles, order: Ints, a: int, b: int) -> list[tuple[int, int]]:
    if b - a <= BLOCK * SUPER:
        return [(a, b)]
    middle = _order(placed, order, a, b, True)
    return [(a, middle), (middle, b)] if middle < b else [(a, b)]


def _order(placed: Singles, order: Ints, a: int, b: int, once: bool) -> int:
    """``block_order.order_rows``, with room for it: halves of halves are no deeper than the bits of an integer."""
    todo, (means, deviations) = np.empty((128, 2), dtype=np.int64), np.empty((2, placed.shape[1]), dtype=np.float32)
    return int(
        block_order.order_rows(placed, order, a, b, once, todo, np.empty(b - a, dtype=np.float32), means, deviations)
    )


def _tolerances(lengths: Floats, d: int, space: _Space) -> tuple[np.float32, Singles, Singles]:
    """A, B and C of ``compiled.float32_blocks``, each a little more than needed."""
    e = 2 * _ROUNDING * lengths * 1.001 + 2.0**-130
    with np.errstate(over="ignore"):
        slopes = (2.4 * e).astype(np.float32)
        offsets = (2.6 * e * e + (d + 8) * (2.0**-120 + 2.0**-1074 / space.sq_scale)).astype(np.float32)
    return np.float32((d + 16) * _ROUNDING), slopes.reshape(-1, BLOCK), offsets.reshape(-1, BLOCK)


def _find(
    placed: _Placed,
    centers: _Centers,
    rule: str,
    chosen: range,
    part: slice,
    cells: Shorts,
    room: tuple[Array, ...],
    limits: Ints | None = None,
    far: Ints | None = None,
    tables: Ints | None = None,
    sums: Ints | None = None,
) -> None:
    """Write the cells of some blocks in some partitionings: (some, blocks, L, BLOCK).

    With limits, add to far (all, BLOCK); with tables, to sums (all, L, BLOCK)
    """
    balls = centers.balls
    nothing = np.empty((0, 0, 0), dtype=np.int64)
    report(int(placed.weights[part].sum()) * len(chosen))
    if rule != "nearest":
        X = placed.X[part.start * BLOCK : part.stop * BLOCK]
        boxes = [least.reduceat(X, np.arange(0, len(X), BLOCK)) for least in (np.minimum, np.maximum)]
        for i in chosen:
            names, radii = centers.lists[0][i, : centers.lists[1][i, 0]], centers.radii[1][0, i]
            covering = balls.points, balls.slots[i], names, radii, rule == "smallest"
            float32_blocks.find_covering(X, *boxes, *covering, cells[0])
            if tables is not None and sums is not None:
                block_sums.add_blocks(cells, 0, tables[i : i + 1], sums[part])
        return
    float32_blocks.find_cells(
        (part.start, part.stop),
        (chosen.start, chosen.stop),
        placed.blocks,
        placed.tolerances,
        (placed.X, balls.points, balls.slots),
        centers.lists,
        centers.radii,
        np.full(len(balls.levels), -1) if limits is None else limits,
        float32_blocks.octave_shift(placed.space.sq_scale),
        room,
        cells,
        np.empty((0, BLOCK), dtype=np.int64) if far is None else far,
        nothing if tables is None else tables,
        nothing if sums is None else sums,
    )


def _in_order_of_rows(sums: Ints, far: Ints, limits: Ints | None, placed: _Placed, n_jobs: int | None) -> Ints:
    """Sums of threads and blocks (threads, blocks, L, BLOCK), and (threads, blocks, BLOCK) if there are limits: (n, L).

    With limits there is one more column.
    """
    n_levels = sums.shape[2]
    rows = np.empty((len(placed.places), n_levels + (limits is not None)), dtype=np.int64)

    def work(part: slice) -> None:
        block_sums.put_back(placed.places[part], sums, rows[part, :n_levels])
        if limits is not None:
            block_sums.put_back(placed.places[part], far[:, :, None], rows[part, n_levels:])

    map_in_threads(work, slices(len(rows), _ROWS), n_jobs)
    return rows
