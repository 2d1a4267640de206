"""Backends: the same few verbs over arrays, from readable to fast.

Every backend returns identical integers; only the time differs. A backend is a module with these functions, for n
queries X and the Balls of t partitionings, psi centers each, L nested levels:

==================  =======================================================================================
``sq_radii``        points, slots, levels -> (L, t, psi): squared distance to the nearest different center
``assign_cells``    X, balls, rule -> (n, t): cell indices of the last level, OUTSIDE if uncovered
``count_cells``     X, balls -> (L, t, psi): queries in each cell
``sum_at_cells``    X, balls, tables (L, t, psi) -> (n, L): sum over t of the table at the query's cell
``count_and_sum``   X, balls -> counts and (n,) sums of the last level's, in one pass where memory allows
==================  =======================================================================================

and for groups, whose mean maps are sparse counts divided by sizes: ``count_group_cells``, ``dot_counts``,
``group_sq_radii`` and ``assign_groups``, documented in ``_numpy.py``.

Counts and sums are integers, so no order of summation, number of threads or size of a block can change them.
"""

from importlib import import_module
from types import ModuleType

from isobag.backends.rules import RULES

BACKENDS = {"numpy": "isobag.backends._numpy", "numba": "isobag.backends._numba"}
"""Module of each backend, imported when first asked for."""

__all__ = ["BACKENDS", "RULES", "get_backend"]


def get_backend(name: str) -> ModuleType:
    """Module of the backend called ``name``; ``"auto"`` is the fastest that runs on this machine's processor."""
    return import_module(BACKENDS["numba" if name == "auto" else name])
