"""The readable definition: float64, one partitioning after the other, nothing clever.

The squared distance of x and c is the sum of (x_k - c_k)^2 in the order of the features, each operation rounded once.
Every other backend decides as if it had computed exactly that.
"""

from isobag.backends.numpy.balls import (
    assign_cells,
    choose_cells,
    count_and_sum,
    count_cells,
    fetch,
    place,
    prepare,
    sq_distances,
    sq_radii,
    sum_at_cells,
    sum_far,
)
from isobag.backends.numpy.groups import (
    assign_groups,
    count_assigned,
    count_group_cells,
    dot_counts,
    group_sq_distances,
    group_sq_radii,
    join_cells,
    mean_of_nearest,
    sum_assigned,
)
from isobag.backends.numpy.scales import scale_by_asinh, scale_by_knots, scale_linearly
from isobag.backends.numpy.trees import descend, grow_tree

__all__ = [
    "assign_cells",
    "assign_groups",
    "choose_cells",
    "count_and_sum",
    "count_assigned",
    "count_cells",
    "count_group_cells",
    "descend",
    "dot_counts",
    "fetch",
    "group_sq_distances",
    "group_sq_radii",
    "grow_tree",
    "join_cells",
    "mean_of_nearest",
    "place",
    "prepare",
    "scale_by_asinh",
    "scale_by_knots",
    "scale_linearly",
    "sq_distances",
    "sq_radii",
    "sum_assigned",
    "sum_at_cells",
    "sum_far",
]
