"""Backends: the same functions of arrays, readable (``numpy``) and fast (``numba``, ``torch``).

Every backend returns identical integers; only the time differs. ``protocol`` lists what one must implement.
"""

from isobag.backends.compute import BACKENDS, HOST_BACKENDS, Compute

RULES = ("nearest", "covering", "smallest")
"""Which ball when several cover a point: that of the nearest center of all, if it covers the point; the nearest among
those that cover it; the smallest that covers it."""

__all__ = ["BACKENDS", "HOST_BACKENDS", "RULES", "Compute"]
