"""Hyperspheres: the ball of a center reaches to the nearest different center of its partitioning."""

from isobag.arrays import Cells, Floats
from isobag.backends import get_backend


def sq_radii(points: Floats, slots: Cells, levels: tuple[int, ...], backend: str, n_jobs: int | None) -> Floats:
    """Squared radii of all balls, 0 where all centers are equal: (L, t, psi)."""
    found: Floats = get_backend(backend).sq_radii(points, slots, levels, n_jobs)
    return found
