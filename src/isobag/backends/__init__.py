"""Backends: the same few verbs over arrays, from readable to fast.

Every backend returns identical integers; only the time differs. A backend is a module with these functions, for a block
of n queries, prepared once, and the Balls of t partitionings, psi centers each, L nested levels:

==================  =======================================================================================
``prepare``         X (n, d) -> queries, which the backend owns: what it makes of them for speed serves all verbs,
                    and other scales of the same rows, which name them as ``like``
``sq_radii``        points, slots, levels -> (L, t, psi): squared distance to the nearest different center
``assign_cells``    queries, balls, rule -> (n, t): cell indices of the last level, OUTSIDE if uncovered
``count_cells``     queries, balls -> (L, t, psi): queries in each cell
``sum_at_cells``    queries, balls, tables (L, t, psi) -> (n, L): sum over t of the table at the query's cell
``sum_far``         queries, balls, limits (L,) -> (n,): octaves beyond the limits to the nearest center, where OUTSIDE
``count_and_sum``   queries, balls -> counts, and the sums of the counts at the queries' own cells, in one pass
==================  =======================================================================================

and for groups, whose mean maps are sparse counts divided by sizes: ``count_group_cells``, ``dot_counts``,
``group_sq_radii`` and ``assign_groups``, documented in ``numpy.py``. The torch backend has them for each device, as
methods of what its function ``on`` returns, and hands on counts and dot products of groups where they are.

Counts and sums are integers, so no order of summation, number of threads or size of a block can change them.
"""

from isobag.backends.compute import BACKENDS, HOST_BACKENDS, Compute

RULES = ("nearest", "covering", "smallest")
"""Which ball when several cover a point: that of the nearest center of all, if it covers the point; the nearest among
those that cover it; the smallest that covers it."""

__all__ = ["BACKENDS", "HOST_BACKENDS", "RULES", "Compute"]
