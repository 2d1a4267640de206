"""Voronoi cells: the hypersphere mechanism with balls that reach everywhere, so that no point is OUTSIDE."""

import numpy as np

from isobag.arrays import Cells, Floats


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], backend: str, n_jobs: int | None) -> Floats:
    """Infinite squared radii: (L, t, psi)."""
    return np.full((len(levels), *slots.shape), np.inf)
