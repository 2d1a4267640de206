"""Rows of many features in numbers of few bits, from which ``compiled.certified`` finds bounds of distances."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints
from isobag.backends.numba.compiled import certified
from isobag.backends.numba.compiled.rounding import pack_tiles, round_rows
from isobag.backends.numba.compiled.tiles import LANES, TILE, WIDTH
from isobag.backends.threads import map_in_threads, slices

Words = npt.NDArray[np.int32]
Singles = npt.NDArray[np.float32]


class Kind(NamedTuple):
    """Numbers of a few bits: how many make a word of 32, the largest, and what a word costs a product."""

    dtype: npt.DTypeLike
    per_word: int
    most: float
    at_once: int  # features whose products are summed before they are rounded
    cost: float  # of a feature, in multiply-adds of float32


SHORTS = Kind(np.int16, 2, 4095.0, 128, 0.5)
SINGLES = Kind(np.float32, 1, np.inf, 64, 1.0)
DISTANCE_COST = 4.0
"""What a feature of a distance in float32 costs, in multiply-adds of a product."""
LEAST_WORK = 1 << 32
"""Multiply-adds below which a trial does not pay."""
_SAMPLE, _TRIED, _TRIED_PARTITIONINGS = 256, 64, 2
_OCTAVES = 24
"""Most different steps, each twice the one before."""
_LEAST_UNIT, _MOST_UNIT = -440, 480
_GAIN = 0.25
"""Points beyond the range of steps cost so much that all others must lose far less."""
_SIGNS = 12
_DENSE, _FEW = 0.9, 1 << 10
_PARTS = 16


class Rounded(NamedTuple):
    """Rows in numbers of few bits, (n, words), and what that leaves over, (n,) in units."""

    words: Words
    singles: Singles  # (n, columns + 1 or more) in float32
    norms: Floats  # infinite where float32 is not enough
    errors: Floats  # |e|, with room for rounding
    excesses: Floats  # |o|
    sq_norms: Floats  # N


class Rounding(NamedTuple):
    """Where rows are measured from (d,), and in which steps (d,), of g groups."""

    kind: Kind
    middle: Floats
    unit: float
    steps: Floats  # in units; 0 where no centers differ
    columns: Ints  # (d,) the place of each feature
    groups: Ints  # (g + 1,) the words of each group
    weights: Singles  # (g,)

    @property
    def share(self) -> float:
        """By how much N is to be smaller: see ``compiled.certified``."""
        return (4 * len(self.weights) + (144 if self.kind is SINGLES else 16)) * 2.0**-24

    @property
    def n_varied(self) -> int:
        """Features in which centers differ."""
        return int(np.count_nonzero(self.steps))

    def round(self, X: Floats) -> Rounded:
        """Rows in numbers of few bits."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        n, d = X.shape
        n_columns = self.kind.per_word * int(self.groups[-1])
        words = np.zeros((n, n_columns), dtype=self.kind.dtype)
        singles = np.zeros((n, n_columns // WIDTH * WIDTH + WIDTH), dtype=np.float32)
        lengths = np.empty((4, n))
        inverses = 1 / np.where(self.steps > 0, self.steps, 1)  # exactly, of powers of two
        how = self.middle, 1 / self.unit, self.steps, inverses, self.columns, self.kind.most
        round_rows(X, *how, words, singles, lengths)
        errors, excesses, sq_norms, norms = lengths
        errors = errors * (1 + 1e-6) + (d + 8) * 2.0**-50 * np.sqrt(sq_norms) + 2.0**-60
        return Rounded(words.view(np.int32), singles, norms, errors, excesses * (1 + 1e-6), sq_norms)

    def round_in_threads(self, X: Floats, n_jobs: int | None) -> Rounded:
        """The same of centers, in parts."""
        parts = map_in_threads(lambda part: self.round(X[part]), slices(len(X), -(-len(X) // _PARTS)), n_jobs)
        return Rounded(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def rows(self, X: Floats, rounded: Rounded) -> certified.Rows:
        """Queries as the compiled search wants them."""
        n, n_blocks = len(X), -(-len(X) // LANES)

        def in_lanes(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            filled = np.zeros((n_blocks * LANES, values.shape[1]), dtype=values.dtype)
            filled[:n] = values
            return np.ascontiguousarray(filled.reshape(n_blocks, LANES, -1).transpose(0, 2, 1))

        lengths, slack = np.sqrt(rounded.sq_norms), 2 * self.share
        gains = rounded.errors + rounded.excesses + 4 * slack * lengths
        terms = (rounded.errors, gains, 0.3 * lengths, gains + 3 * np.sqrt(slack) * lengths)
        with np.errstate(over="ignore"):  # what is off by infinity is never certain
            own_terms = (np.column_stack(terms) * (1 + 1e-6)).astype(np.float32)
        return certified.Rows(
            np.ascontiguousarray(X, dtype=np.float64),
            rounded.singles,
            rounded.norms,
            in_lanes(rounded.words),
            in_lanes((rounded.sq_norms * (1 - self.share)).astype(np.float32)[:, None])[:, 0],
            in_lanes(own_terms),
        )

    def centers(self, points: Floats, rounded: Rounded) -> certified.Centers:
        """Centers as the compiled search wants them."""
        words = np.vstack([rounded.words, np.zeros_like(rounded.words[:1])])
        tiles = _in_tiles(rounded.words)
        n_entries, n_groups = len(tiles) * words.shape[1], len(self.weights)
        starts = np.empty((len(tiles), n_groups + 1), dtype=np.int64)
        names = np.empty(n_entries + 1, dtype=np.int32)
        packed = np.empty((n_entries + 1, TILE), dtype=np.int32)
        size = pack_tiles(words, tiles, self.groups, starts, names, packed)
        terms = np.zeros((2, len(words)))
        terms[:, :-1] = rounded.sq_norms * (1 - self.share), rounded.errors * (1 + 1e-6)
        widths = 2 * rounded.errors + rounded.excesses + 8 * self.share * np.sqrt(rounded.sq_norms)
        with np.errstate(over="ignore"):
            return certified.Centers(
                np.ascontiguousarray(points, dtype=np.float64),
                rounded.singles,
                rounded.norms,
                (widths * (1 + 1e-5)).astype(np.float32),
                self.kind.per_word,
                tiles,
                starts,
                names[:size],
                packed[:size],
                self.weights,
                np.ascontiguousarray(terms[:, tiles].transpose(1, 0, 2), dtype=np.float32),
            )


def _in_tiles(words: Words) -> Cells:
    """Centers that have zeros in common stand together, TILE at a time, filled up with one more: (tiles, TILE)."""
    used = (words != 0).astype(np.float32)
    order = np.arange(len(words))
    if len(words) > _FEW and used.mean() < _DENSE:
        used -= used.mean(axis=0)
        some = used[:: -(-len(used) // _SAMPLE)]
        axes = np.random.default_rng(0).standard_normal((used.shape[1], _SIGNS)).astype(np.float32)
        for _ in range(3):
            axes = np.linalg.qr(some.T @ (some @ axes))[0]
        along = used @ axes
        signs = np.bitwise_xor.accumulate(along > np.median(along, axis=0), axis=1)
        order = np.argsort(signs @ (1 << np.arange(signs.shape[1])[::-1]), kind="stable")
    return np.append(order, [len(order)] * (-len(order) % TILE)).reshape(-1, TILE).astype(np.int32)


def _with_widths(kind: Kind, middle: Floats, widths: Floats) -> Rounding:
    """Steps that are powers of two, so that about ``most`` of them make the width of a feature."""
    varied = widths > 0
    varied[0] |= not varied.any()
    own = np.maximum(widths[varied], 2.0**_LEAST_UNIT)
    exponents = np.ceil(np.log2(own / (1 if kind is SINGLES else kind.most + 0.5))).astype(np.int64)
    exponents = np.where(own > 2.0**-_OCTAVES * own.max(), exponents, exponents.max())
    exponents = np.maximum(exponents, exponents.max() - _OCTAVES + 1)
    unit = int(np.clip(np.median(exponents), _LEAST_UNIT, _MOST_UNIT))
    exponents = exponents * (kind is not SINGLES) + unit * (kind is SINGLES)
    columns = np.zeros(len(widths), dtype=np.int64)
    groups, weights = [0], []
    for exponent in np.unique(exponents):
        features = np.flatnonzero(varied)[exponents == exponent]
        for part in slices(len(features), kind.at_once):
            n_own = part.stop - part.start
            columns[features[part]] = kind.per_word * groups[-1] + np.arange(n_own)
            groups.append(groups[-1] + -(-n_own // kind.per_word))
            weights.append(-2 * 4.0 ** (exponent - unit))
    steps = np.zeros(len(widths))
    steps[varied] = 2.0 ** (exponents - unit)
    return Rounding(kind, middle, 2.0**unit, steps, columns, np.array(groups), np.array(weights, dtype=np.float32))


def finest(kind: Kind, points: Floats) -> Rounding:
    """Steps for the range of all points, or, if that lets most of them lose less, of all but a few of some points."""
    some = points[:: -(-len(points) // _SAMPLE)]
    middle = np.median(some, axis=0)
    is_constant = (points == points[0]).all(axis=0)
    middle[is_constant] = points[0, is_constant]
    all_widths = np.maximum(points.max(axis=0) - middle, middle - points.min(axis=0))
    deviations = np.sort(np.abs(some - middle), axis=0)
    some_widths = deviations[-1 - len(some) // 16]
    some_widths = np.where(some_widths > 0, some_widths, all_widths)
    if kind is SINGLES:
        return _with_widths(kind, middle, some_widths)

    def lost(rounding: Rounding) -> float:
        rounded = rounding.round(points[:: -(-len(points) // _TRIED)])
        return float(np.median(rounded.errors + rounded.excesses)) * rounding.unit

    whole, cut = (_with_widths(kind, middle, widths) for widths in (all_widths, some_widths))
    return cut if lost(cut) < _GAIN * lost(whole) else whole


def cheapest(balls: Balls, X: Floats) -> Rounding:
    """The kind of numbers by which the cells of queries are found at the least cost, by a trial with some."""
    if len(X) * balls.points.size < LEAST_WORK:
        return finest(SINGLES, balls.points)
    shorts = finest(SHORTS, balls.points)
    cost = cost_of(shorts, balls, X)
    if cost <= SINGLES.cost * shorts.n_varied * len(balls.points) / balls.slots.size:  # what they cost at the least
        return shorts
    singles = finest(SINGLES, balls.points)
    return singles if cost_of(singles, balls, X) < cost else shorts


def cost_of(rounding: Rounding, balls: Balls, X: Floats) -> float:
    """What a center costs for a query, in multiply-adds of float32."""
    m, (t, psi), d = len(balls.points), balls.slots.shape, rounding.n_varied
    x = rounding.round(X[:: -(-len(X) // _TRIED)])
    x_errors = x.errors + x.excesses
    n_left = 0
    for own in balls.slots[:_TRIED_PARTITIONINGS]:
        c = rounding.round(balls.points[own])
        sq_norms = x.norms[:, None] ** 2 + c.norms**2
        with np.errstate(over="ignore", invalid="ignore"):
            sq_dists = sq_norms - 2 * x.singles @ c.singles.T
            dists = np.sqrt(np.maximum(sq_dists, 0))
        dists[sq_dists <= 1e-5 * sq_norms] = np.inf  # the point itself
        widths = x_errors[:, None] + c.errors + c.excesses
        is_left = np.zeros(dists.shape, dtype=bool)
        for level in balls.levels:
            reach = (dists + widths)[:, :level].min(axis=1)
            is_left[:, :level] |= ~((dists - widths)[:, :level] > reach[:, None])
        n_left += int(np.count_nonzero(is_left))
    share = n_left / (len(x.words) * psi * min(t, _TRIED_PARTITIONINGS))
    return float(rounding.kind.cost * d * m / (t * psi) + DISTANCE_COST * d * share)
