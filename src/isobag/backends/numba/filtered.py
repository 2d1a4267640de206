"""Hundreds of features, most of whose spread lies along a few axes: lower bounds along these spare most distances."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Balls, Cells, Floats, Ints, is_first
from isobag.backends.numba.compiled import filtered
from isobag.backends.numba.compiled.singles import WIDTH
from isobag.backends.numba.varied import Varied, find_varied

N_AXES = (32, 64, 96, 128, 192)
"""Numbers of axes to choose from."""
DISTANCE_COST = 4.0
"""What a feature of a distance costs, in multiply-adds of a matrix product."""
EXACT_COST = 50.0
"""The same of a distance in float64, feature by feature: what products need to say how far out a query is."""
LEAST_WORK = 1 << 32
"""Multiply-adds below which looking for axes does not pay."""
_SAMPLE, _TRIED, _TRIED_PARTITIONINGS = 512, 64, 8
_TRIED_ROWS, _NEARLY_ALL = 128, 0.95
_ROUNDS = 3
BLOCK, LANES = 512, 16

Singles = npt.NDArray[np.float32]


class Axes(NamedTuple):
    """Features to look at, where rows are measured from (d,), and some axes (d, k), orthonormal but for ``skew``."""

    varied: Varied
    mean: Floats
    vectors: Floats
    skew: float

    @property
    def loss(self) -> float:
        """Largest error of a lower bound, as a share of (|x'| + |c'|)^2; see ``compiled.filtered``."""
        d, k = self.vectors.shape
        rounding = (k + 9) * 2.0**-24
        return float(rounding / (1 - rounding) + 4 * np.sqrt(4 * (self.skew + np.sqrt(k) * d * 2.0**-53)))

    def of(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """X less the mean, its norms, and X along the axes with the length of the rest behind: (n, k + 1)."""
        centered = self.varied.less(X, self.mean)
        sq_norms = np.einsum("ij,ij->i", centered, centered)
        along = centered @ self.vectors
        rest = np.sqrt(np.maximum(sq_norms - np.einsum("ij,ij->i", along, along), 0))
        return centered, np.sqrt(sq_norms), np.column_stack((along, rest))

    def first(self, k: int) -> "Axes":
        """The first k axes."""
        return self._replace(vectors=self.vectors[:, :k])


def find_axes(balls: Balls, n_queries: int, limits: Ints | None = None, most: float = np.inf) -> Axes | None:
    """Axes along which lower bounds make fewer distances worth their while than they cost; None: there are none.

    limits (L,): as in ``sum_far``; about half of the queries are taken to be beyond each that counts
    most: what there is to do a center costs, if anything but products, in multiply-adds
    """
    if n_queries * balls.points.size < LEAST_WORK or (most < np.inf and not _are_few(balls.points)):
        return None
    axes = _leading_axes(balls.points)
    if axes is None:
        return None
    d = len(axes.mean)
    costs = {k: k + DISTANCE_COST * d * share for k, share in _shares_left(balls, axes).items()}
    best = min(costs, key=costs.__getitem__)
    return axes.first(best) if costs[best] < min(cost_of_products(balls, d, limits), most) else None


def cost_of_products(balls: Balls, d: int, limits: Ints | None) -> float:
    """What a center costs for a query by products of d features, in multiply-adds."""
    m, (t, psi) = len(balls.points), balls.slots.shape
    n_far = 0.0 if limits is None else 0.5 * np.count_nonzero(limits >= 0)
    return float(d * m / (t * psi) + EXACT_COST * balls.points.shape[1] * n_far / psi)


def _are_few(points: Floats) -> bool:
    """Whether a few axes may be enough: the fewest leave next to nothing of some directions."""
    some = points[:: -(-len(points) // _TRIED_ROWS)]
    some = some - some.mean(axis=0)
    norms = np.sqrt(np.einsum("ij,ij->i", some, some))
    some = some[norms > 0] / norms[norms > 0, None]
    if not np.isfinite(norms).all() or len(some) <= N_AXES[0]:
        return False
    weights = np.linalg.eigvalsh(some @ some.T)
    return bool(weights[-N_AXES[0] :].sum() > _NEARLY_ALL * weights.sum())


def _leading_axes(points: Floats) -> Axes | None:
    """Axes in the order of their weight among the directions of the points, by subspace iteration; None on overflow."""
    varied = find_varied(points)
    mean = varied.mean_of(points)
    d = len(mean)
    some = varied.less(points[:: -(-len(points) // _SAMPLE)], mean)
    norms = np.sqrt(np.einsum("ij,ij->i", some, some))
    some = some[norms > 0] / norms[norms > 0, None]  # points far out have no more say than others
    k = min(N_AXES[-1], d - 1, len(some))
    if k < N_AXES[0] or not np.isfinite(norms).all():
        return None
    vectors = np.random.default_rng(0).standard_normal((d, k))
    for _ in range(_ROUNDS):  # few enough that the columns differ by more than rounding at the end
        vectors = some.T @ (some @ vectors)
    vectors = np.linalg.qr(vectors)[0]
    skew = np.linalg.norm(vectors.T @ vectors - np.eye(k)) + k * d * 2.0**-53
    return Axes(varied, mean, vectors, float(skew)) if skew < 1e-9 else None


def _shares_left(balls: Balls, axes: Axes) -> dict[int, float]:
    """For each number of axes, the share of centers whose lower bound is not above the distance of an earlier one."""
    chosen = balls.slots[:_TRIED_PARTITIONINGS]
    tried = balls.points[:: -(-len(balls.points) // _TRIED)]
    x, x_norms, x_along = axes.of(tried)
    left = dict.fromkeys((k for k in N_AXES if k <= axes.vectors.shape[1]), 0.0)
    for own in chosen:
        c, c_norms, c_along = axes.of(balls.points[own])
        sq_norms = x_norms[:, None] ** 2 + c_norms**2
        sq_dists = sq_norms - 2 * x @ c.T
        sq_dists[sq_dists <= 1e-9 * sq_norms] = np.inf  # the point itself
        least = np.minimum.accumulate(sq_dists, axis=1)
        before = np.column_stack((np.full(len(x), np.inf), least[:, :-1]))
        for k in left:
            rests = [
                np.sqrt(np.maximum(norms**2 - np.einsum("ij,ij->i", along[:, :k], along[:, :k]), 0))
                for norms, along in ((x_norms, x_along), (c_norms, c_along))
            ]
            bounds = sq_norms - 2 * (x_along[:, :k] @ c_along[:, :k].T + np.outer(*rests))
            left[k] += float(np.mean(bounds <= before)) / len(chosen)
    return left


def _padded(centered: Floats) -> Singles:
    """Rows in float32, with zeros behind: (n, a multiple of WIDTH)."""
    n, d = centered.shape
    rows = np.zeros((n, -(-d // WIDTH) * WIDTH), dtype=np.float32)
    with np.errstate(over="ignore"):  # beyond float32 nothing is certain, so all is computed in float64
        rows[:, :d] = centered
    return rows


class Filter:
    """What is made of the centers once: lower bounds, then cells, of blocks of queries."""

    def __init__(self, axes: Axes, balls: Balls, limits: Ints | None) -> None:
        centered, self._norms, along = axes.of(balls.points)
        self._axes, self._balls = axes, balls
        self._singles = _padded(centered)
        with np.errstate(over="ignore"):
            self._weights = np.column_stack((-2 * along, self._norms**2)).astype(np.float32)
        self._kept = [np.flatnonzero(own) for own in is_first(balls.slots)]
        self._limits = np.full(len(balls.levels), -1) if limits is None else limits
        self.block_rows = BLOCK

    def scan(self, X: Floats, far: Ints) -> Iterator[Cells]:
        """Cells of a block of queries, one partitioning after the other: (L, block); octaves are added to far."""
        balls = self._balls
        centered, norms, along = self._axes.of(X)
        singles = _padded(centered)
        queries = np.zeros((along.shape[1] + 1, -(-len(X) // LANES) * LANES), dtype=np.float32)
        with np.errstate(over="ignore"):
            queries[:-1, : len(X)] = along.T
        queries[-1] = 1
        cells = np.empty((len(balls.levels), len(X)), dtype=np.int32)
        for slots, kept, radii in zip(balls.slots, self._kept, balls.sq_radii.swapaxes(0, 1), strict=True):
            chosen = slots[kept]
            with np.errstate(invalid="ignore", over="ignore"):
                bounds = self._weights[chosen] @ queries
            filtered.scan_filtered(
                bounds,
                X,
                singles,
                norms,
                balls.points,
                self._singles,
                self._norms,
                chosen,
                kept,
                np.searchsorted(kept, balls.levels),
                radii,
                self._axes.loss,
                self._limits,
                cells,
                far,
            )
            yield cells
