"""How far the window of a stream is from a reference, whether by chance, and where the difference began.

Steps and formulas: study/FORMULAS.md, "Drift of a stream".
"""

from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.data.rows import ArrayRows
from isobag.models.views import Draw, Plan, draw_views

N_BLOCKS = 32
"""Blocks that the smaller of the two samples is cut into."""
N_ESTIMATORS = 100
N_PERMUTATIONS = 999
PSI = 16
SCALINGS = ("absolute", "asinh")


class Drift(NamedTuple):
    """Distance of the window from the reference, and a change within it.

    statistic : squared distance of the mean maps, between 0 and 2.
    p_value : probability of a distance as large where nothing has changed.
    began : place in the window from which on rows differ, 0 if all of them do.
    change_p_value : probability of a change as large anywhere, where nothing has changed.
    """

    statistic: float
    p_value: float
    began: int
    change_p_value: float


def measure_drift(reference: Floats, window: Floats, random_state: int, compute: Compute) -> Drift:
    """Compare a window (n, d), the oldest row first, with a reference (m, d); both need 2 rows or more."""
    size = max(1, min(len(reference), len(window)) // N_BLOCKS)
    # The newest rows of the window are compared, and the remainder of each is left out.
    first_row = len(window) % size
    n, m = len(reference) // size, len(window) // size
    points = np.concatenate([reference[: n * size], window[first_row:]])
    psi = min(PSI, max(2, len(points) // 2))
    plans = [Plan(scaling, (psi,)) for scaling in SCALINGS]
    draw = Draw(N_ESTIMATORS // len(plans), None, "hypersphere", random_state)
    views, _ = draw_views(ArrayRows(points), plans, draw, compute, averages=False)
    columns = views.columns(points, compute)
    counts = np.zeros((n + m, views.n_columns + 1))
    np.add.at(counts, (np.repeat(np.arange(n + m), size)[:, None], columns), 1.0)
    counts = counts[:, :-1]  # the last column is of rows that are OUTSIDE
    gram = counts @ counts.T / (size**2 * views.n_samples)  # of whole numbers, exact
    rng = np.random.default_rng(random_state)
    orders = np.stack([np.arange(n + m), *(rng.permutation(n + m) for _ in range(N_PERMUTATIONS))])
    distances = _sq_distances(gram, orders, n)
    gains = np.stack([_sq_distances(gram, orders, k) * (k * (n + m - k)) for k in range(n, n + m)], axis=1)
    place = int(gains[0].argmax())
    largest = gains.max(axis=1)
    began = _refined(columns, counts, n + place, size) - n * size if place else 0
    return Drift(float(distances[0]), _share(distances), first_row + began if began > 0 else 0, _share(largest))


def _sq_distances(gram: Floats, orders: Ints, k: int) -> Floats:
    """Squared distance of the means of the first k blocks and of the others, for each order: (orders,)."""
    total = len(gram)
    weights = np.full(orders.shape, -1.0 / (total - k))
    np.put_along_axis(weights, orders[:, :k], 1.0 / k, axis=1)
    sq_dists: Floats = np.maximum(((weights @ gram) * weights).sum(axis=1), 0.0)
    return sq_dists


def _share(values: Floats) -> float:
    """Share of the values that are as large as the first, but for rounding."""
    return float(np.mean(values >= values[0] * (1 - 1e-9)))


def _refined(columns: Ints, counts: Floats, block: int, size: int) -> int:
    """The row at which the change before a block begins, at most a block before or after."""
    apart = counts[:block].mean(axis=0) - counts[block:].mean(axis=0)
    leaning = np.append(apart, 0.0)[columns].sum(axis=1)  # OUTSIDE leans nowhere
    middle = (leaning[: block * size].mean() + leaning[block * size :].mean()) / 2
    first, last = (block - 1) * size, min((block + 1) * size, len(columns))
    sums = np.concatenate([[0.0], np.cumsum(leaning[first:last] - middle)])
    return first + int(sums.argmax())
