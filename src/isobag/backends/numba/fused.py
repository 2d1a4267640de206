"""Some to many features: the verbs of a backend by certified single-precision loops over blocks of queries.

Only the rule "nearest"; ``fits`` says for which balls. The queries are rotated to the principal axes of the centers,
ordered into blocks of neighbours, and every block is compared with the centers that it cannot rule out as a whole.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.meter import report
from isobag.backends.numba.compiled import blocks, fused, tallies
from isobag.backends.numba.compiled.blocks import SUPER
from isobag.backends.numba.compiled.vectors import LANES, PADDING
from isobag.backends.numba.queries import Queries
from isobag.backends.threads import map_in_threads, shares, single_threaded_blas, slices

_ROWS = 1 << 14
_SUMMED_BLOCKS = 64
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
        map_in_threads(
            lambda rows: blocks.place_rows(X[rows], self.mean, self.axes, placed[rows], lengths[rows]),
            slices(len(X), _ROWS),
            n_jobs,
        )
        return placed, lengths


class _Placed(NamedTuple):
    """Queries in blocks, and all that ``fused.find_cells`` asks about them."""

    space: _Space
    X: Floats  # (n, d) in the order of the blocks
    order: Ints  # (n,) place -> row
    blocks: tuple[Singles, ...]
    tolerances: tuple[np.float32, Singles, Singles]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks[0])


class _Centers(NamedTuple):
    """Balls in the space of the queries; lists as those of ``fused.list_centers``, with an axis more in front."""

    balls: Balls
    lists: tuple[Cells, Ints, Singles, Singles]
    radii: Singles  # (t, L, psi)


def fits(balls: Balls, rule: str) -> bool:
    """Whether this engine can be used: cells fit into 16 bits, and scaling to ordinary numbers loses nothing."""
    if rule != "nearest" or balls.slots.shape[1] >= 1 << 15:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        some = _some(balls.points)
        return 1e-150 < _scale(some - np.median(some, axis=0)) < 1e130


def assign_cells(queries: Queries, balls: Balls, rule: str, n_jobs: int | None, cells: Cells) -> None:
    """Write the cell of every query into cells (t, n)."""
    placed, centers = _prepare(queries, balls, n_jobs)

    def work(i: int) -> None:
        found = np.empty((placed.n_blocks, 1, LANES), dtype=np.int16)
        _find(placed, centers, i, slice(0, placed.n_blocks), found)
        cells[i, placed.order] = found.reshape(-1)[: len(placed.X)]

    map_in_threads(work, range(len(balls.slots)), n_jobs)


def count_cells(queries: Queries, balls: Balls, n_jobs: int | None) -> Ints:
    """Number of queries in each cell of each level: (L, t, psi)."""
    placed, centers = _prepare(queries, balls, n_jobs)
    counts = np.zeros((len(balls.levels), *balls.slots.shape), dtype=np.int64)

    def work(i: int) -> None:
        cells = np.empty((_ROWS // LANES, len(balls.levels), LANES), dtype=np.int16)
        for part in slices(placed.n_blocks, len(cells)):
            found = cells[: part.stop - part.start]
            _find(placed, centers, i, part, found)
            tallies.count_blocks(found, len(placed.X) - part.start * LANES, counts[:, i])

    map_in_threads(work, range(len(balls.slots)), n_jobs)
    return counts


def sum_at_cells(
    queries: Queries, balls: Balls, tables: Ints, rule: str, n_jobs: int | None, limits: Ints | None = None
) -> Ints:
    """Sum over partitionings of the table at the query's cell: (n, L); one more column with ``limits``."""
    placed, centers = _prepare(queries, balls, n_jobs)
    own = tallies.padded_tables(tables)
    sums = np.zeros((placed.n_blocks, len(balls.levels), LANES), dtype=np.int64)
    far = np.zeros((placed.n_blocks, LANES), dtype=np.int64)

    def work(part: slice) -> None:
        fused.sum_blocks(
            (part.start, part.stop),
            placed.blocks,
            placed.tolerances,
            (placed.X, balls.points, balls.slots),
            centers.lists,
            (centers.radii, balls.sq_radii),
            _shift(placed, balls, limits),
            own,
            sums,
            far,
        )
        report((min(part.stop * LANES, len(placed.X)) - part.start * LANES) * len(balls.slots))

    map_in_threads(work, slices(placed.n_blocks, _SUMMED_BLOCKS), n_jobs)
    return _in_order_of_rows(sums[None], far[None], limits, placed, n_jobs)


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
    parts = list(shares(len(balls.slots), n_jobs))
    sums = np.zeros((len(parts), n_blocks, n_levels - first, LANES), dtype=np.int64)
    far = np.zeros((len(parts), n_blocks, LANES), dtype=np.int64)

    def work(number: int) -> None:
        share = parts[number]
        cells = np.empty((at_once, n_blocks, n_levels, LANES), dtype=np.int16)
        for start in range(share.start, share.stop, at_once):
            chosen = range(start, min(start + at_once, share.stop))
            for own, i in zip(cells, chosen, strict=False):
                _find(placed, centers, i, slice(0, n_blocks), own, limits, far[number])
                tallies.count_blocks(own, len(placed.X), counts[:, i])
            tallies.add_blocks(
                cells, first, tallies.padded_tables(counts[first:, chosen.start : chosen.stop]), sums[number]
            )

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
    placed: _Placed = queries.keep(balls.points, lambda: _place(queries.X, balls.points, n_jobs))
    centers = placed.space.place(balls.points, n_jobs)[0]
    with np.errstate(over="ignore"):
        radii = (balls.sq_radii.transpose(1, 0, 2) / placed.space.sq_scale).astype(np.float32, order="C")
    (t, psi), d = balls.slots.shape, balls.points.shape[1]
    lists = (
        np.empty((t, psi), dtype=np.int32),
        np.empty((t, len(balls.levels)), dtype=np.int64),
        np.empty((t, psi, d), dtype=np.float32),
        np.zeros((t, d, psi + PADDING), dtype=np.float32),
    )
    levels = np.array(balls.levels)
    map_in_threads(
        lambda i: fused.list_centers(centers, balls.slots[i], levels, *(part[i] for part in lists)), range(t), n_jobs
    )
    return placed, _Centers(balls, lists, radii)


def _place(X: Floats, points: Floats, n_jobs: int | None) -> _Placed:
    """Queries in blocks of neighbours, in a space in which the points lie along their principal axes."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    space = _space(points)
    d = X.shape[1]
    placed, lengths = space.place(X, n_jobs)
    order = _ordered(placed, n_jobs)
    n_blocks = -(-len(X) // LANES)
    n_wholes = -(-n_blocks // SUPER)
    exact = np.empty_like(X)
    lanes = np.empty((n_blocks, d, LANES), dtype=np.float32)
    boxes = np.empty((2, n_blocks, d), dtype=np.float32)
    wholes = np.empty((2, n_wholes, d), dtype=np.float32)
    map_in_threads(
        lambda own: blocks.fill_blocks(X, placed, order, own.start, own.stop, exact, lanes, *boxes, *wholes),
        slices(n_blocks, max(SUPER, -(-n_wholes // 8) * SUPER)),
        n_jobs,
    )
    lengths = np.where(lengths < 1e15, lengths, np.inf)
    ordered = np.full(n_wholes * SUPER * LANES, lengths[order[-1]])
    ordered[: len(X)] = lengths[order]
    longest = ordered.reshape(n_wholes * SUPER, LANES).max(axis=1)
    margins = fused.margins(boxes[1], longest), fused.margins(wholes[1], longest.reshape(-1, SUPER).max(axis=1))
    in_blocks = (lanes, *boxes, margins[0], *wholes, margins[1])
    return _Placed(space, exact, order, in_blocks, _tolerances(ordered, d, space))


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


def _tolerances(lengths: Floats, d: int, space: _Space) -> tuple[np.float32, Singles, Singles]:
    """A, B and C of ``fused``, each a little more than needed."""
    e = 2 * _ROUNDING * lengths * 1.001 + 2.0**-130
    with np.errstate(over="ignore"):
        slopes = (2.4 * e).astype(np.float32)
        offsets = (2.6 * e * e + (d + 8) * (2.0**-120 + 2.0**-1074 / space.sq_scale)).astype(np.float32)
    return np.float32((d + 16) * _ROUNDING), slopes, offsets


def _shift(placed: _Placed, balls: Balls, limits: Ints | None) -> tuple[Ints, int]:
    """Limits of octaves, and how to read octaves off float32 numbers, as ``fused.find_cells`` asks for them."""
    return (np.full(len(balls.levels), -1) if limits is None else limits), fused.octave_shift(placed.space.sq_scale)


def _find(
    placed: _Placed,
    centers: _Centers,
    i: int,
    part: slice,
    cells: Shorts,
    limits: Ints | None = None,
    far: Ints | None = None,
) -> None:
    """Write the cells of some blocks in partitioning i: (blocks, L, LANES); with limits, add to far: (all, LANES)."""
    balls = centers.balls
    fused.find_cells(
        (part.start, part.stop),
        placed.blocks,
        placed.tolerances,
        (placed.X, balls.points, balls.slots[i]),
        tuple(own[i] for own in centers.lists),
        (centers.radii[i], balls.sq_radii[:, i]),
        _shift(placed, balls, limits),
        cells,
        np.empty((0, LANES), dtype=np.int64) if far is None else far,
    )
    report(min(part.stop * LANES, len(placed.X)) - part.start * LANES)


def _in_order_of_rows(sums: Ints, far: Ints, limits: Ints | None, placed: _Placed, n_jobs: int | None) -> Ints:
    """Sums of threads and blocks (threads, blocks, L, LANES), and (threads, blocks, LANES) if there are limits: (n, L).

    With limits there is one more column.
    """
    rows = np.empty((len(placed.order), sums.shape[2] + (limits is not None)), dtype=np.int64)
    map_in_threads(
        lambda part: tallies.put_back(placed.order, sums, far, limits is not None, part.start, part.stop, rows),
        slices(len(rows), _ROWS),
        n_jobs,
    )
    return rows
