"""Tables in, ranked tables out: ``detect_points`` and ``detect_groups``."""

from isobag.tables.groups import detect_groups
from isobag.tables.points import detect_points

__all__ = ["detect_groups", "detect_points"]
