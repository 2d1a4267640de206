"""Why a point is odd: its lack of similarity, shared out among the features."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE, Bools, Cells, Floats, Ints, octaves
from isobag.backends.threads import slices
from isobag.models.averaging import Average
from isobag.models.tally import Tables
from isobag.models.views import Limits, Views
from isobag.partitionings import Partitionings

_KEPT_NUMBERS = 1 << 22


class Shares(NamedTuple):
    """Of each row, shared out among the features: (n, d).

    lacks : minus the logarithm of the score, to which they sum.
    far : shares in how far out the row is, by their part in the squared distances; they sum to 1, or are all 0.
    """

    lacks: Floats
    far: Floats


def share_out(
    views: Views,
    tables: Tables,
    largest: int,
    average: Average,
    path: Floats,
    limits: Limits | None,
    X: Floats,
    compute: Compute,
    rule: str,
) -> Shares:
    """What makes rows odd, shared out among the features: X (n, d), whose scores at every psi are ``path`` (n, L).

    ``tables`` and ``largest``: of the model, the number of rows in each cell and in all.

    In one partitioning a point lacks what its cell lacks of the whole: 1 minus the share of the data in it, all of it
    if the point is OUTSIDE. The lack goes to the features by their part in the squared distance to the nearest anchor,
    sum_j (x_j - c_j)^2; evenly, if the point is an anchor or there is none. The shares of all partitionings are added
    up at each psi and those of all psi weighted as in the score.
    """
    total, far = np.zeros(X.shape), np.zeros(X.shape)
    lacks = -average.logarithms(path)
    scaled = [view.scaling.apply(X) for view in views.members]
    for level, weight in enumerate(average.weights):
        is_limited = limits is not None and limits[0][level] >= 0
        if weight == 0 and not is_limited:
            continue
        shares = np.zeros(X.shape)
        for number, view in enumerate(views.at(level).members):
            located = _locate(view.partitionings, scaled[number], compute, rule)
            if weight != 0:
                shares += _shares_of_lack(located, tables[number][level], largest)
            if limits is not None and is_limited:
                amounts = partial(_octaves_beyond, located.cells == OUTSIDE, int(limits[number][level]))
                far += _shared_by_steps(located, amounts)
        if weight != 0:
            total += weight * lacks[:, level, None] * _normalised(shares, 1 / X.shape[1])
    return Shares(total, _normalised(far, 0.0))


def _normalised(shares: Floats, otherwise: float) -> Floats:
    """Shares (n, d) divided by their sums; ``otherwise`` where these are 0."""
    sums = shares.sum(axis=1, keepdims=True)
    found: Floats = np.divide(shares, sums, out=np.full(shares.shape, otherwise), where=sums > 0)
    return found


class _Located(NamedTuple):
    """Scaled rows (n, d), their cells and nearest anchors (n, t), and the anchors; None where cells have none."""

    scaled: Floats
    cells: Cells
    nearest: Cells
    anchors: Any


def _locate(drawn: Partitionings, scaled: Floats, compute: Compute, rule: str) -> _Located:
    queries = drawn.prepare(scaled, compute)
    cells, anchors = drawn.assign(queries, compute, rule), drawn.anchors()
    # The cell of a point that is not OUTSIDE is that of its nearest anchor, if cells are chosen by this rule.
    is_known = anchors is None or (rule == "nearest" and not (cells == OUTSIDE).any())
    nearest = cells if is_known else drawn.nearest_anchors(queries, compute)
    return _Located(scaled, cells, nearest, anchors)


def _shares_of_lack(located: _Located, counts: Ints, largest: int) -> Floats:
    """Lack of each row shared out among the features, summed over the partitionings of one psi: (n, d)."""
    cells, n_features = located.cells, located.scaled.shape[1]
    lacks = 1 - np.where(cells == OUTSIDE, 0.0, counts[np.arange(cells.shape[1]), cells] / largest)
    if located.anchors is None:
        return np.repeat(lacks.sum(axis=1, keepdims=True) / n_features, n_features, axis=1)
    return _shared_by_steps(located, lambda rows, sq_dists: lacks[rows])


def _octaves_beyond(is_outside: Bools, limit: int, rows: slice, sq_dists: Floats) -> Floats:
    """Octaves of the squared distances beyond the limit, where OUTSIDE: (m, t)."""
    return np.where(is_outside[rows], np.maximum(octaves(sq_dists) - limit, 0), 0).astype(np.float64)


def _shared_by_steps(located: _Located, amounts: Callable[[slice, Floats], Floats]) -> Floats:
    """Amounts (n, t) shared out by the parts of features in the squared distance to anchors, summed: (n, d)."""
    scaled, _, nearest, (points, slots) = located
    n_features, t = scaled.shape[1], np.arange(len(slots))
    found = np.empty(scaled.shape)
    for rows in slices(len(scaled), max(1, _KEPT_NUMBERS // (len(t) * n_features))):
        steps = (scaled[rows, None] - points[slots[t, nearest[rows]]]) ** 2
        lengths = steps.sum(axis=2, keepdims=True)
        parts = np.divide(steps, lengths, out=np.full(steps.shape, 1 / n_features), where=lengths > 0)
        found[rows] = np.einsum("it,itj->ij", amounts(rows, lengths[:, :, 0]), parts)
    return found
