"""Partitionings of the data, by mechanism."""

from typing import Any

import numpy as np

from isobag.arrays import Floats, Ints
from isobag.partitionings import hyperspheres, voronoi
from isobag.partitionings.base import Partitionings, distinct_points, draw_rows, nested_levels

MECHANISMS = {"hypersphere": hyperspheres.sq_radii, "voronoi": voronoi.sq_radii}

__all__ = ["MECHANISMS", "Partitionings", "draw_partitionings", "draw_rows", "nested_levels", "partition_by_centers"]


def draw_partitionings(
    X: Floats,
    n_estimators: int,
    levels: tuple[int, ...],
    mechanism: str,
    random_state: Any,
    backend: str,
    n_jobs: int | None,
) -> Partitionings:
    """Draw the centers from the rows of X and compute their radii, for all nested levels."""
    rows = draw_rows(len(X), n_estimators, levels[-1], random_state)
    chosen, where = np.unique(rows, return_inverse=True)
    return partition_by_centers(X[chosen], where.reshape(rows.shape), levels, mechanism, backend, n_jobs)


def partition_by_centers(
    centers: Floats, numbers: Ints, levels: tuple[int, ...], mechanism: str, backend: str, n_jobs: int | None
) -> Partitionings:
    """Partitionings whose centers are the given rows of ``centers`` (m, d), by their numbers: (t, psi)."""
    points, names = distinct_points(centers)
    slots = names[numbers].astype(np.int32)
    return Partitionings(points, slots, levels, MECHANISMS[mechanism](points, slots, levels, backend, n_jobs))
