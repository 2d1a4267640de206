"""The fast backend: compiled loops in threads, the same integers as the NumPy backend."""

from isobag.backends.numba.dots import dot_counts
from isobag.backends.numba.groups import assign_groups, count_groups
from isobag.backends.numba.scales import scale_by_asinh, scale_by_knots, scale_linearly
from isobag.backends.numba.search import assign_cells, count_at_cells, count_cells, sq_radii, sum_at_cells, sum_cells
from isobag.backends.numpy import add_terms, fetch, near_and_far, place

__all__ = [
    "add_terms", "assign_cells", "assign_groups", "count_at_cells", "count_cells", "count_groups", "dot_counts",
    "fetch", "near_and_far", "place", "scale_by_asinh", "scale_by_knots", "scale_linearly", "sq_radii", "sum_at_cells",
    "sum_cells",
]  # fmt: skip
