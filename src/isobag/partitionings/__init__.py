"""Partitionings of the data: rows of a pool, cut into samples, and the cells around them."""

from typing import Any

import numpy as np

from isobag.backends.arrays import Cells, Ints
from isobag.partitionings.balls import RowBalls, balls_around
from isobag.partitionings.base import (
    count_blocks,
    cut_pool,
    draw_pools,
    draw_rows,
    draw_seeds,
    nested_levels,
    pool_rows,
)

MECHANISMS = ("hypersphere", "voronoi", "tree")
"""How the rows of a sample become cells."""

__all__ = [
    "MECHANISMS", "RowBalls", "balls_around", "count_blocks", "cut_pool", "draw_pools", "draw_rows", "draw_samples",
    "draw_seeds", "nested_levels", "pool_rows",
]  # fmt: skip


def draw_samples(n_rows: int, n_estimators: int, psi: int, random_state: Any) -> tuple[Ints, Cells]:
    """Every sample drawn from all rows: the numbers of the rows of a pool (M,), ascending, and slots (t psi,)."""
    drawn = draw_rows(n_rows, draw_seeds(n_estimators, random_state), psi)
    rows, slots = np.unique(drawn, return_inverse=True)
    return rows, slots.ravel().astype(np.int32)
