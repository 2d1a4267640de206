"""Where two mean maps differ: the witness function, its exact decomposition, and the features that separate.

The witness of G against D is f(x) = (1/t) <Phi(x), Phi_hat(G) - Phi_hat(D)>: positive where G has too many points,
negative where it has too few. The mean of f over G minus its mean over D is |Phi_hat(G) - Phi_hat(D)|^2 / t, the
difference of the two, so every point of G carries f(x) / |G| of it and every point y of D carries -f(y) / |D|.
"""

from collections.abc import Sequence

import numpy as np

from isobag.arrays import OUTSIDE, Cells, Floats, Ints
from isobag.views import Views


def columns_of_cells(views: Views, cells: Sequence[Cells], outside: bool) -> Ints:
    """Column of each row's cells in mean maps of all views side by side: (n, t) a view -> (n, all t).

    ``outside``: OUTSIDE counts as the last cell of its partitioning. Where it does not, a point OUTSIDE is sent to one
    column behind all others.
    """
    found, first = [], 0
    for view, own in zip(views, cells, strict=True):
        t, psi = view.partitionings.slots.shape
        starts = first + np.arange(t) * (psi + outside)
        found.append(np.where(own == OUTSIDE, starts + psi if outside else -1, starts + own))
        first += t * (psi + outside)
    columns = np.concatenate(found, axis=1)
    # In one layout, whichever backend found the cells: sums over a row are then taken in one order.
    return np.ascontiguousarray(np.where(columns < 0, first, columns))


def witness(columns: Ints, difference: Floats) -> Floats:
    """Witness at each row, the mean over its cells of the difference of two mean maps: (n, t), (columns,) -> (n,)."""
    # The last column, OUTSIDE, adds nothing.
    values: Floats = np.append(difference, 0.0)[columns].sum(axis=1) / columns.shape[1]
    return values


def centers_in_columns(views: Views, outside: bool) -> Ints:
    """The center of each column of the mean maps, by its number among the points of all views: (all columns,).

    If OUTSIDE counts, its columns have the number behind the last point.
    """
    n_points = sum(len(view.partitionings.points) for view in views)
    numbers, first = [], 0
    for view in views:
        slots = view.partitionings.slots
        own = np.full((len(slots), slots.shape[1] + outside), n_points)
        own[:, : slots.shape[1]] = first + slots
        numbers.append(own.ravel())
        first += len(view.partitionings.points)
    return np.concatenate(numbers)


def separation(A: Floats, a: Floats, B: Floats, b: Floats) -> Floats:
    """How far each feature sets A (n, d), weighted by a (n,), apart from B (m, d), weighted by b (m,): (d,) in [-1, 1].

    The largest difference of the two distribution functions (Kolmogorov and Smirnov's), with the sign of the difference
    of means; 0 if either has no weight.
    """
    if not a.sum() > 0 or not b.sum() > 0:
        return np.zeros(A.shape[1])
    a, b = a / a.sum(), b / b.sum()
    values = np.concatenate([A, B])
    order = np.argsort(values, axis=0, kind="stable")
    steps = np.cumsum(np.concatenate([a, -b])[order], axis=0)
    ranked = np.take_along_axis(values, order, axis=0)
    is_end = np.ones(values.shape, dtype=bool)  # of a run of equal values: within one nothing separates
    is_end[:-1] = ranked[1:] != ranked[:-1]
    distances = np.where(is_end, np.abs(steps), 0.0).max(axis=0)
    found: Floats = distances * np.where(a @ A >= b @ B, 1.0, -1.0)
    return found
