"""Several scales of the same rows, one after the other."""

from typing import Any

from isobag.backends.arrays import ASINH, BY_KNOTS, Scales


def scale_each(verbs: Any, X: Any, scales: Scales, n_jobs: int | None) -> list[Any]:
    """X on the scale of each view, by the verbs of any backend: V times (n, d)."""
    scaled = []
    for view, kind in enumerate(scales.kinds):
        if kind == BY_KNOTS:
            scaled.append(verbs.scale_by_knots(X, scales.knots(view), n_jobs))
        else:
            scale = verbs.scale_by_asinh if kind == ASINH else verbs.scale_linearly
            scaled.append(scale(X, scales.shifts[view], scales.spreads[view], n_jobs))
    return scaled
