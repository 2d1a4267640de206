"""Hundreds of features: distances to all distinct centers from bytes, which leave few to be measured."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import OCTAVE_BITS, Balls, Cells, Floats, Ints, is_first
from isobag.backends.numba.compiled import coarse, vectors
from isobag.backends.numba.compiled.coarse import MOST
from isobag.backends.numba.compiled.quads import LANES, TILE
from isobag.backends.numba.compiled.singles import WIDTH
from isobag.backends.numba.filtered import DISTANCE_COST, LEAST_WORK, cost_of_products
from isobag.backends.numba.varied import Varied, find_varied
from isobag.backends.threads import map_in_threads, slices

BYTE_COST = 0.25
"""What a feature of a distance found from bytes costs, in multiply-adds of a matrix product."""
_MOST_FEATURES = 1 << 16
_LEAST_WIDTH, _MOST_WIDTH = 1e-12, 1e12
_SAMPLE, _TRIED, _TRIED_PARTITIONINGS = 256, 64, 2
_GROUPS = 24
"""Most different steps, each twice the one before."""
_GAIN = 0.25
"""Points beyond the range of steps cost so much that all others must lose far less."""
_WIDE = 4.0
"""Bounds that many times as wide as is typical are made less so by measuring a few distances beforehand."""
_SIGNS = 12
_PARTS = 16
BLOCK = 512
_CELLS = 1 << 22
"""Most cells of a block of queries."""
_PAIRS = 1 << 17
"""Room for distances that are measured together, center by center."""

Words = npt.NDArray[np.int32]
Singles = npt.NDArray[np.float32]


class Rounded(NamedTuple):
    """Rows in whole steps, (n, quads) with four features each, and what that leaves over, (n,) in units."""

    words: Words
    singles: Singles  # (n, d or more) rows less the middle
    norms: Floats  # of these
    errors: Floats  # |e|, with room for rounding
    excesses: Floats  # |o|
    sq_norms: Floats  # N


class Steps(NamedTuple):
    """Features to look at, where they are measured from (d,), and in which steps (d,), of g groups."""

    varied: Varied
    middle: Floats
    unit: float
    steps: Floats  # in units
    columns: Ints  # (d,) the byte of each feature
    starts: Ints  # (g + 1,) the quads of each group
    weights: Singles  # (g,)
    cost: float = np.inf

    @property
    def share(self) -> float:
        """By how much N is to be smaller: see ``compiled.coarse``."""
        return (4 * len(self.weights) + 16) * 2.0**-24

    def round(self, X: Floats, bias: int) -> Rounded:
        """Rows in whole steps, bytes more by ``bias``."""
        centered = self.varied.less(X, self.middle)
        n, d = centered.shape
        words = np.full((n, 4 * self.starts[-1]), bias, dtype=np.uint8)
        singles = np.zeros((n, -(-d // WIDTH) * WIDTH), dtype=np.float32)
        lengths = np.empty((4, n))
        coarse.round_rows(
            centered, 1 / self.unit, 1 / self.steps, self.steps, self.columns, bias, words, singles, lengths
        )
        errors, excesses, sq_norms, sq_lengths = lengths
        lengths = np.sqrt(sq_lengths)
        errors = errors * (1 + 1e-6) + (d + 8) * 2.0**-50 * lengths + 2.0**-60
        return Rounded(words.view(np.int32), singles, lengths * self.unit, errors, excesses * (1 + 1e-6), sq_norms)


def _steps_of(varied: Varied, middle: Floats, widths: Floats) -> Steps:
    """Steps that are powers of two, so that about 127 of them make the width of a feature."""
    positive = widths > 2.0**-_GROUPS * widths.max()
    exponents = np.zeros(len(widths), dtype=np.int64)
    exponents[positive] = np.ceil(np.log2(widths[positive] / (MOST + 0.5))).astype(np.int64)
    largest = exponents[positive].max()
    exponents[~positive] = largest
    exponents = np.maximum(exponents, largest - _GROUPS + 1)
    unit = int(np.median(exponents))
    kinds, groups, sizes = np.unique(exponents, return_inverse=True, return_counts=True)
    starts = np.cumsum([0, *(-(-sizes // 4))])
    columns = np.empty(len(widths), dtype=np.int64)
    for group, start in enumerate(starts[:-1]):
        own = np.flatnonzero(groups == group)
        columns[own] = 4 * start + np.arange(len(own))
    steps = 2.0 ** (exponents - unit)
    weights = (-2 * 4.0 ** (kinds - unit)).astype(np.float32)
    return Steps(varied, middle, 2.0**unit, steps, columns, starts, weights)


def find_steps(balls: Balls, X: Floats, limits: Ints | None = None) -> Steps | None:
    """Steps by which rows are rounded to bytes, if that is cheaper than products: the processor must do it fast."""
    points, d = balls.points, balls.points.shape[1]
    if not vectors.HAS_QUADS or len(X) * points.size < LEAST_WORK or d > _MOST_FEATURES:
        return None
    steps = _finest_steps(points)
    if steps is None:
        return None
    cost = _cost(steps, balls, X)
    return steps._replace(cost=cost) if cost < cost_of_products(balls, len(steps.middle), limits) else None


def _finest_steps(points: Floats) -> Steps | None:
    """Steps for the range of all points, or, if that lets most of them lose less, of all but a few of some points."""
    varied = find_varied(points)
    some = varied.less(points[:: -(-len(points) // _SAMPLE)], np.zeros(len(varied.features)))
    middle = np.median(some, axis=0)
    ends = varied.less(np.stack((points.min(axis=0), points.max(axis=0))), middle)
    all_widths = np.abs(ends).max(axis=0)
    if len(varied.others):
        all_widths[-1] = 0
    some = np.sort(np.abs(some - middle), axis=0)
    some_widths = some[-1 - len(some) // 16]
    found, typical = None, np.inf
    for widths in (all_widths, np.where(some_widths > 0, some_widths, all_widths)):
        if not _LEAST_WIDTH < widths.max() < _MOST_WIDTH:
            continue
        steps = _steps_of(varied, middle, widths)
        rounded = steps.round(points[:: -(-len(points) // _TRIED)], 0)
        lost = float(np.median(rounded.errors + rounded.excesses)) * steps.unit
        if lost < _GAIN * typical:
            found, typical = steps, lost
    return found


def _cost(steps: Steps, balls: Balls, X: Floats) -> float:
    """What a center costs for a query, in multiply-adds of a matrix product, by a trial with some queries."""
    m, (t, psi), d = len(balls.points), balls.slots.shape, len(steps.middle)
    x = steps.round(X[:: -(-len(X) // _TRIED)], 0)
    x_errors = x.errors + x.excesses
    n_left = 0
    for own in balls.slots[:_TRIED_PARTITIONINGS]:
        c = steps.round(balls.points[own], 0)
        sq_norms = x.norms[:, None] ** 2 + c.norms**2
        with np.errstate(over="ignore", invalid="ignore"):
            sq_dists = sq_norms - 2 * x.singles @ c.singles.T
            dists = np.sqrt(np.maximum(sq_dists, 0)) / steps.unit
        dists[sq_dists <= 1e-5 * sq_norms] = np.inf  # the point itself
        widths = x_errors[:, None] + c.errors + c.excesses
        is_left = np.zeros(dists.shape, dtype=bool)
        for level in balls.levels:
            reach = (dists + widths)[:, :level].min(axis=1)
            is_left[:, :level] |= ~((dists - widths)[:, :level] > reach[:, None])
        n_left += int(np.count_nonzero(is_left))
    share = n_left / (len(x.words) * psi * min(t, _TRIED_PARTITIONINGS))
    return float(BYTE_COST * d * m / (t * psi) + DISTANCE_COST * d * share)


def _in_tiles(words: Words) -> Cells:
    """Centers that have zeros in common stand together, TILE at a time, filled up with one more: (tiles, TILE)."""
    used = (words != 0).astype(np.float32)
    used -= used.mean(axis=0)
    some = used[:: -(-len(used) // _SAMPLE)]
    axes = np.random.default_rng(0).standard_normal((used.shape[1], _SIGNS)).astype(np.float32)
    for _ in range(3):
        axes = np.linalg.qr(some.T @ (some @ axes))[0]
    along = used @ axes
    signs = np.bitwise_xor.accumulate(along > np.median(along, axis=0), axis=1)
    order = np.argsort(signs @ (1 << np.arange(signs.shape[1])[::-1]), kind="stable")
    return np.append(order, [len(order)] * (-len(order) % TILE)).reshape(-1, TILE).astype(np.int32)


def _pack(rounded: Rounded, steps: Steps) -> tuple[npt.NDArray[Any], ...]:
    """Centers as ``compiled.coarse`` measures them: see there."""
    words = np.vstack([rounded.words, np.zeros_like(rounded.words[:1])])
    tiles = _in_tiles(rounded.words)
    n_entries, n_groups = len(tiles) * words.shape[1], len(steps.weights)
    starts = np.empty((len(tiles), n_groups + 1), dtype=np.int64)
    names = np.empty(n_entries + 1, dtype=np.int32)
    packed = np.empty((n_entries + 1, TILE), dtype=np.int32)
    sums = np.zeros((len(tiles), n_groups, TILE), dtype=np.int32)
    size = coarse.pack_tiles(words, tiles, steps.starts, starts, names, packed, sums)
    terms = np.zeros((2, len(words)))
    terms[:, :-1] = rounded.sq_norms * (1 - steps.share), rounded.errors * (1 + 1e-6)
    with np.errstate(over="ignore"):
        own_terms = np.ascontiguousarray(terms[:, tiles].transpose(1, 0, 2), dtype=np.float32)
    return tiles, starts, names[:size], packed[:size], sums, steps.weights, own_terms


class Coarse:
    """What is made of the centers once: bytes, then cells, of blocks of queries."""

    def __init__(self, steps: Steps, balls: Balls, limits: Ints | None, n_jobs: int | None) -> None:
        self._steps, self._balls = steps, balls
        m, n_levels = len(balls.points), len(balls.levels)
        parts = map_in_threads(lambda part: steps.round(balls.points[part], 0), slices(m, -(-m // _PARTS)), n_jobs)
        rounded = Rounded(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        self._slack = 2 * steps.share
        widths = 2 * rounded.errors + rounded.excesses + 4 * self._slack * np.sqrt(rounded.sq_norms)
        with np.errstate(over="ignore"):
            own_widths = (widths * (1 + 1e-5)).astype(np.float32)
        self._centers = (
            *_pack(rounded, steps),
            own_widths,
            balls.points,
            rounded.singles,
            rounded.norms,
        )
        t, psi = balls.slots.shape
        chosen, kept = np.zeros((2, t, psi), dtype=np.int32)
        ends = np.empty((t, n_levels), dtype=np.int64)
        for i, (slots, is_distinct) in enumerate(zip(balls.slots, is_first(balls.slots), strict=True)):
            own = np.flatnonzero(is_distinct)
            kept[i, : len(own)] = own
            chosen[i, : len(own)] = slots[own]
            ends[i] = np.searchsorted(own, balls.levels)
        with np.errstate(over="ignore"):
            roots = np.sqrt(balls.sq_radii.transpose(1, 0, 2)) / steps.unit
            roots = np.take_along_axis(roots, kept[:, None].astype(np.int64), axis=2).astype(np.float32)
        self._lists = chosen, kept, ends, balls.sq_radii, roots
        own_limits = np.full(n_levels, -1) if limits is None else limits
        beyond = ((own_limits + 1) << OCTAVE_BITS).view(np.float64)
        far_roots = np.where(own_limits < 0, np.inf, np.sqrt(beyond) / steps.unit).astype(np.float32)
        self._limits = own_limits, far_roots, np.float32(1 + 2.1 * np.sqrt(self._slack)), steps.unit
        self._wide = _WIDE * float(np.median(rounded.errors + rounded.excesses))
        self.block_rows = int(np.clip(_CELLS // (t * n_levels) // LANES * LANES, LANES, BLOCK))

    def scan(self, X: Floats, far: Ints) -> Iterator[Cells]:
        """Cells of a block of queries, one partitioning after the other: (L, block); octaves are added to far."""
        rounded = self._steps.round(X, 128)
        n = len(X)
        n_blocks = -(-n // LANES)

        def in_lanes(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            filled = np.zeros((n_blocks * LANES, values.shape[1]), dtype=values.dtype)
            filled[:n] = values
            return np.ascontiguousarray(filled.reshape(n_blocks, LANES, -1).transpose(0, 2, 1))

        lengths = np.sqrt(rounded.sq_norms)
        gains = rounded.errors + rounded.excesses + 4 * self._slack * lengths
        is_wide = rounded.errors + rounded.excesses > self._wide
        terms = (rounded.errors, gains, 0.3 * lengths, gains + 3 * np.sqrt(self._slack) * lengths)
        with np.errstate(over="ignore"):  # what is off by infinity is never certain
            own_terms = (np.column_stack(terms) * (1 + 1e-6)).astype(np.float32)
        queries = (
            in_lanes(rounded.words),
            in_lanes((rounded.sq_norms * (1 - self._steps.share)).astype(np.float32)[:, None])[:, 0],
            in_lanes(own_terms),
            X,
            rounded.singles,
            rounded.norms,
            (in_lanes(is_wide[:, None])[:, 0].astype(np.int64) << np.arange(LANES)).sum(axis=1),
        )
        t, n_levels = self._lists[2].shape
        cells = np.empty((t, n_levels, n_blocks * LANES), dtype=np.int32)
        coarse.find_cells(queries, self._centers, self._lists, self._limits, self._room(), cells, far)
        yield from cells[:, :, :n]

    def _room(self) -> tuple[Any, ...]:
        """Where the compiled search keeps what it needs."""
        m = len(self._balls.points)
        t, n_levels = self._lists[2].shape
        n_pairs = max(_PAIRS, 2 * LANES * (self._lists[0].shape[1] + n_levels))
        state = (
            np.empty((n_levels, LANES), dtype=np.int32),
            *np.empty((2, n_levels, LANES), dtype=np.float32),
            np.empty(n_levels, dtype=np.int64),
            np.empty((3, LANES), dtype=np.float32),
            np.empty(LANES, dtype=np.int32),
            np.empty(LANES, dtype=np.float32),
            np.empty(LANES, dtype=np.int32),
        )
        questions = np.empty((BLOCK // LANES * t + 1, 3), dtype=np.int64), *np.empty((4, n_pairs), dtype=np.int32)
        pairs = (
            *np.empty((2, n_pairs), dtype=np.int32),
            np.empty(n_pairs, dtype=np.float32),
            np.empty(n_pairs, dtype=np.int32),
            np.empty(m + 1, dtype=np.int64),
        )
        return np.empty((m + 1, LANES), dtype=np.float32), state, questions, pairs
